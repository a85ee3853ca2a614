/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of this library and the one that libucs offers to programs (compat/ucs/share.h): one stack of handlers
 * receives the records of both, and both write to the same destination. Beside UCX's libucs records go through that
 * one's handlers and its printer; settings are not passed on. All functions are thread safe.
 */
#ifndef CW_BASE_LOG_JOIN_H
#define CW_BASE_LOG_JOIN_H

#include <stdint.h>

/* From then on every record passes the handlers that programs pushed. Idempotent. */
void cw_log_join(void);

/* Passes settings to libucs. */
void cw_log_join_level(int level, const char *filter);
void cw_log_join_file(const char *pattern, uint64_t max_size, unsigned rotate);

/* Options that programs set by ucs_global_opts_set_value(): the number of changes, and the text of an option that was
 * set after change `since`, which the caller frees; NULL: it was not set. */
unsigned cw_log_join_changes(void);
char *cw_log_join_option(const char *name, unsigned since);

#endif
