/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which variable gives a setting its value: the names of a setting under a prefix, and the sources in which they are
 * searched. For the files of this directory.
 */
#ifndef CW_CONFIG_SOURCE_H
#define CW_CONFIG_SOURCE_H

#include <stdbool.h>

#include "config/file.h"
#include "config/table.h"

/* The sources of one reading. Borrows `files`. Starts as {0}. */
struct cw_config_sources {
    const char *prefix;                      /* "" for none */
    const struct cw_config_variables *files; /* all ucx.conf */
    struct cw_config_variables file;         /* the file named by the caller */
    struct cw_config_variables environment;
    uint64_t beginnings; /* a bit for each distinct beginning of the settings' names in these variables */
};

/* Errors in files go to `problems`, see config/file.h. UCS_ERR_NO_MEMORY. To be ended with _close, also after a
 * failure. */
ucs_status_t cw_config_sources_open(struct cw_config_sources *sources, const char *prefix, const char *filename,
                                    struct cw_text *problems);
void cw_config_sources_close(struct cw_config_sources *sources);

/* The bit of a setting's name. */
static inline uint64_t cw_config_beginning(const char *name)
{
    return UINT64_C(1) << (((unsigned char)name[0] * 5u + (unsigned char)name[1]) % 64u);
}

/* False: no variable, whatever precedes the name, means the setting of that name. Avoids the search for most settings,
 * as few are ever set. */
static inline bool cw_config_sources_may_have(const struct cw_config_sources *sources, const char *name)
{
    return name[0] == '\0' || (sources->beginnings & cw_config_beginning(name)) != 0;
}

/* Exactly this variable from the strongest source, or NULL; borrowed. In files the value `nothing`, if that is not
 * NULL, is skipped. */
const struct cw_config_variable *cw_config_sources_find(const struct cw_config_sources *sources, const char *variable,
                                                        const char *nothing, enum cw_config_source *source_p);

/* The forms of UCX and the prefix in front of a name, weakest first. */
enum cw_name_form {
    CW_FORM_PLAIN,        /* UCX_<NAME> */
    CW_FORM_PREFIX_INNER, /* UCX_<prefix>_<NAME> */
    CW_FORM_PREFIX_OUTER, /* <prefix>_UCX_<NAME> */
    CW_FORM_COUNT
};

/* Writes the variable name; 0 when there is no such form without a prefix, when it would mean another setting, or
 * when it does not fit. */
int cw_config_variable_name(enum cw_name_form form, const char *prefix, const char *name, char *variable, size_t size);

/* The name behind UCX_ and prefix, its form in *form_p; NULL for a variable of another library. Points into
 * `variable`. */
const char *cw_config_variable_split(const char *prefix, const char *variable, enum cw_name_form *form_p);

#endif
