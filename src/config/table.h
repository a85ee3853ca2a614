/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables generated from config.def, and searching them by name. For the files of this directory and their tests.
 */
#ifndef CW_CONFIG_TABLE_H
#define CW_CONFIG_TABLE_H

#include <stdbool.h>

#include "config/config.h"

enum cw_setting_flags {
    CW_SETTING_READ_ONLY = 1, /* of the process, not changed by ucp_config_modify */
    CW_SETTING_MM = 2, /* also known by MM_ in place of the group's prefix */
    CW_SETTING_PROTECTS = 4  /* its default disables protection, which no line of a file may do */
};

struct cw_setting {
    const char *name;
    struct cw_value_spec spec;
    size_t offset; /* in struct cw_config, or struct cw_global_config with CW_GROUP_GLOBAL */
    enum cw_config_group group;
    unsigned flags;
    const char *description; /* NULL: it has no effect here */
};

/* Another name of a setting. */
struct cw_setting_alias {
    const char *name;
    const char *target;
};

/* A deprecated name without effect. */
struct cw_setting_retired {
    const char *name;
    enum cw_config_group group;
};

/* A name, or with a * at its end all names with that prefix, which is known and without effect. */
struct cw_setting_known {
    const char *name;
    const char *reason;
};

extern const struct cw_setting cw_settings[CW_SETTING_COUNT];
extern const struct cw_setting cw_global_settings[]; /* CW_GLOBAL_COUNT, see config/global.h */
/* NULL names at the end. */
extern const struct cw_setting_alias cw_setting_aliases[];
extern const struct cw_setting_retired cw_setting_retired_names[];
extern const struct cw_setting_known cw_setting_known_names[];
extern const struct cw_setting_known cw_setting_known_keys[];

/* "TCP_" and so on; "" for the context and the process. */
const char *cw_config_group_prefix(enum cw_config_group group);

/* By full name without UCX_, aliases included; NULL when unknown. */
const struct cw_setting *cw_setting_find(const char *name);
const struct cw_setting *cw_setting_find_global(const char *name);
const struct cw_setting_retired *cw_setting_find_retired(const char *name);

/* Whether a key of ucp_config_modify selects this setting: its full name, or its name without the prefix of its
 * group. */
bool cw_setting_has_key(const struct cw_setting *setting, const char *key);
/* Writes "MM_..." for a setting with CW_SETTING_MM. */
void cw_setting_mm_name(const struct cw_setting *setting, char *name, size_t size);

/* Whether UCX_<name> needs no warning. */
bool cw_setting_is_known(const char *name);
/* A name with * or ?, as ucx.conf files and ucp_config_modify may have, and whether it matches some setting. */
bool cw_name_is_pattern(const char *name);
int cw_setting_fits(const char *pattern);
/* Whether ucp_config_modify of this key needs no warning. */
bool cw_setting_is_known_key(const char *key);

/* The nearest known name, at most 3 changes away; NULL when there is none. Borrowed from the tables. */
const char *cw_setting_guess(const char *name);

#endif
