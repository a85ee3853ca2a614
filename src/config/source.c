/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of variables and the sources in which they are searched (config/source.h).
 */
#include "config/source.h"

#include <stdio.h>
#include <string.h>

/* Each form of a variable has the prefix and UCX_ before the name of the setting. A pattern may match any setting. */
static uint64_t beginnings_of(const struct cw_config_variables *variables, size_t prefix_length)
{
    const size_t plain = strlen("UCX_"), longer = prefix_length + strlen("_UCX_");
    uint64_t beginnings = 0;
    const char *name;
    size_t length, i;

    for (i = 0; i < variables->count; ++i) {
        name = variables->items[i].name;
        length = strlen(name);
        if (cw_name_is_pattern(name)) {
            return UINT64_MAX;
        }
        beginnings |= (length > plain) ? cw_config_beginning(name + plain) : 0;
        beginnings |= (length > longer) ? cw_config_beginning(name + longer) : 0;
    }
    return beginnings;
}

ucs_status_t cw_config_sources_open(struct cw_config_sources *sources, const char *prefix, const char *filename,
                                    struct cw_text *problems)
{
    ucs_status_t status;

    sources->prefix = prefix;
    status = cw_config_files_get(&sources->files, problems);
    if (status == UCS_OK && filename[0] != '\0') {
        status = cw_config_file_parse(filename, &sources->file, problems);
    }
    if (status == UCS_OK) {
        status = cw_config_environment_take(&sources->environment);
    }
    if (status == UCS_OK) {
        sources->beginnings = beginnings_of(sources->files, strlen(prefix)) |
                              beginnings_of(&sources->file, strlen(prefix)) |
                              beginnings_of(&sources->environment, strlen(prefix));
    }
    return status;
}

void cw_config_sources_close(struct cw_config_sources *sources)
{
    cw_config_variables_free(&sources->file);
    cw_config_variables_free(&sources->environment);
}

const struct cw_config_variable *cw_config_sources_find(const struct cw_config_sources *sources, const char *variable,
                                                        const char *nothing, enum cw_config_source *source_p)
{
    const struct cw_config_variable *found = cw_config_variables_get(&sources->environment, variable);

    if (found != NULL) {
        *source_p = CW_SOURCE_ENVIRONMENT;
        return found;
    }
    found = cw_config_variables_match(&sources->file, variable, nothing);
    if (found == NULL) {
        found = cw_config_variables_match(sources->files, variable, nothing);
    }
    if (found != NULL) {
        *source_p = CW_SOURCE_FILE;
    }
    return found;
}

/* With the prefix TCP, UCX_TCP_MAX_IOV is the setting TCP_MAX_IOV and no other. */
static bool is_setting(const char *name)
{
    return cw_setting_find(name) != NULL || cw_setting_find_global(name) != NULL;
}

int cw_config_variable_name(enum cw_name_form form, const char *prefix, const char *name, char *variable, size_t size)
{
    const size_t name_size = strlen(name) + 1;
    int length;

    if (form == CW_FORM_PLAIN) { /* for each setting, whenever a program starts */
        if (strlen("UCX_") + name_size > size) {
            return 0;
        }
        cw_string_copy(variable, size, "UCX_");
        cw_string_copy(variable + strlen("UCX_"), size - strlen("UCX_"), name);
        return 1;
    }
    if (prefix[0] == '\0') {
        return 0;
    } else if (form == CW_FORM_PREFIX_INNER) {
        length = snprintf(variable, size, "UCX_%s_%s", prefix, name);
        if (length > 0 && (size_t)length < size && is_setting(variable + strlen("UCX_"))) {
            return 0;
        }
    } else {
        length = snprintf(variable, size, "%s_UCX_%s", prefix, name);
    }
    return length > 0 && (size_t)length < size;
}

const char *cw_config_variable_split(const char *prefix, const char *variable, enum cw_name_form *form_p)
{
    size_t length = strlen(prefix);

    if (length > 0 && cw_string_starts(variable, prefix) && cw_string_starts(variable + length, "_UCX_")) {
        *form_p = CW_FORM_PREFIX_OUTER;
        return variable + length + strlen("_UCX_");
    }
    if (!cw_string_starts(variable, "UCX_")) {
        return NULL;
    }
    variable += strlen("UCX_");
    if (length > 0 && cw_string_starts(variable, prefix) && variable[length] == '_' && !is_setting(variable)) {
        *form_p = CW_FORM_PREFIX_INNER;
        return variable + length + 1;
    }
    *form_p = CW_FORM_PLAIN;
    return variable;
}
