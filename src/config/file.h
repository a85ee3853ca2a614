/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources of values: variables of ucx.conf files and of the environment as lists of name and value. For the files of
 * this directory and their tests.
 */
#ifndef CW_CONFIG_FILE_H
#define CW_CONFIG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/string.h"
#include "ucs/type/status.h"

struct cw_config_variable {
    char *name;             /* one block of memory with value and path */
    char *value;
    const char *path;       /* "": from the environment */
    unsigned line;
    uint32_t older;         /* number of the one with this name that it replaces: its index + 1; 0: none */
};

/* Each is matched with every setting. */
#define CW_CONFIG_PATTERNS_MAX 256u

/* Starts as {0}. All variables stay, the newest last. */
struct cw_config_variables {
    struct cw_config_variable *items;
    size_t count;
    size_t capacity;
    uint32_t *slots;        /* hash table: numbers of the newest of each name, 0 for none */
    size_t num_slots;       /* a power of 2, or 0 */
    uint32_t *patterns;     /* indices of those of files whose name has * or ?, at most CW_CONFIG_PATTERNS_MAX */
    size_t num_patterns;
};

void cw_config_variables_free(struct cw_config_variables *variables);
/* The newest with that name, or NULL. Borrowed. */
const struct cw_config_variable *cw_config_variables_get(const struct cw_config_variables *variables, const char *name);
/* As before; if no name matches exactly, the last pattern that matches. For files. Variables with the value `nothing`,
 * if that is not NULL, are skipped. */
const struct cw_config_variable *cw_config_variables_match(const struct cw_config_variables *variables,
                                                           const char *name, const char *nothing);

/* Appends its location, between these; nothing for the environment. */
void cw_config_variable_location(const struct cw_config_variable *variable, const char *before, const char *after,
                                 struct cw_text *text);

/*
 * Adds the assignments of one file, which replace earlier ones of the same name. A missing file is skipped. One that
 * cannot be read, or that users other than this one and root may have written, is skipped with a line in `problems`.
 * The first error in a file gets such a line, too; its correct lines count. UCS_ERR_NO_MEMORY.
 */
ucs_status_t cw_config_file_parse(const char *path, struct cw_config_variables *variables, struct cw_text *problems);

/* A snapshot of the environment: names that begin with "UCX_" or contain "_UCX_". UCS_ERR_NO_MEMORY. */
ucs_status_t cw_config_environment_take(struct cw_config_variables *variables);

/*
 * The assignments of all ucx.conf files, read at the first call and retained for the life of the process. Thread safe.
 * `problems` is filled by the call that read them. UCS_ERR_NO_MEMORY: the next call retries.
 */
ucs_status_t cw_config_files_get(const struct cw_config_variables **variables_p, struct cw_text *problems);

/* The path of the ucx.conf in etc`below` beside the `lib` directory of a library file; 0 when it does not fit.
 * Pure. */
int cw_config_library_file(const char *library_path, const char *below, char *path, size_t size);

#endif
