/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of the process: log level, destination of the log and the like. Read once, at the first call that needs
 * them, with the prefix UCX_ only; a malformed value is reported and the default used. All functions are thread safe
 * and do not block except for reading ucx.conf the first time.
 */
#ifndef CW_CONFIG_GLOBAL_H
#define CW_CONFIG_GLOBAL_H

#include "config/table.h"

#define CW_GLOBAL(member, ctype, name, type, words, text, group, flags, description) CW_GLOBAL_##member,
#define CW_GLOBAL_NAME(name, text, flags) CW_GLOBAL_##name,
enum cw_global_id {
#include "config/config.def"
    CW_GLOBAL_COUNT
};

#define CW_GLOBAL_NAME(name, text, flags) CW_GLOBAL_NAME_##name,
enum cw_global_name_id {
#include "config/config.def"
    CW_GLOBAL_NAME_COUNT
};

#define CW_GLOBAL(member, ctype, name, type, words, text, group, flags, description) ctype member;
struct cw_global_config {
#include "config/config.def"
    char *retained[CW_GLOBAL_NAME_COUNT]; /* texts of names without effect */
};

/* Reads them at the first call, and configures the log. UCS_ERR_NO_MEMORY: try again later; defaults apply until
 * then. */
ucs_status_t cw_config_global_init(void);

/* Sets one, effective at once. UCS_ERR_INVALID_PARAM: malformed; UCS_ERR_NO_MEMORY. */
ucs_status_t cw_config_global_set(const struct cw_setting *setting, const char *value);

/* The canonical text, and whether it was set by anything. */
void cw_config_global_print(const struct cw_setting *setting, struct cw_text *text, int *is_set_p);

/* WARN_UNUSED_ENV_VARS. */
int cw_config_global_warns_unused(void);

#endif
