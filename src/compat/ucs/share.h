/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libucs for libucp that are not public: the handlers that programs pushed, and the options that they set.
 *
 * libucp calls these through weak references (base/log_join.c, config/global.c): UCX's libucs has none of them, and
 * receives records by ucs_log_dispatch(). libucs never calls libucp, so that either may be unloaded while the other
 * stays. Not part of the interface: programs must not call them. Every function is thread safe.
 */
#ifndef CW_COMPAT_UCS_SHARE_H
#define CW_COMPAT_UCS_SHARE_H

#include <stdarg.h>
#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/*
 * Passes a record that passed libucp's level and filter to the pushed handlers, the newest first. Non-zero: do not
 * print it, because a handler consumed it or the printer was popped. errno may change.
 */
int ucs_cw_log_offer(const char *file, unsigned line, const char *function, int level, const char *format,
                     va_list args);

/* How libucp logs, for the lines that programs pass to ucs_log_dispatch(), and for ucs_global_opts. */
void ucs_cw_log_tell(int level, const char *filter);
void ucs_cw_log_tell_file(const char *pattern, uint64_t max_size, unsigned rotate);

/* Number of changes by ucs_global_opts_set_value() so far. */
unsigned ucs_cw_options_changes(void);

/* The text of an option (named without UCX_) if it was set after the change number `since`; the caller frees it. NULL:
 * it was not set, or out of memory. */
char *ucs_cw_option_since(const char *name, unsigned since);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
