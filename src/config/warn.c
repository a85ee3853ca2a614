/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warnings about variables that nothing reads. Names of transports that only UCX has
 * are known and never warned about.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "config/global.h"
#include "config/source.h"

/* Prefixes already handled in this process; retained for its life. */
struct seen_prefix {
    struct seen_prefix *next;
    char prefix[];
};

static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen_prefix *seen;

/* Whether this is the first call for a prefix. Out of memory: no; a missing warning does no harm. */
static bool is_first_time(const char *prefix)
{
    struct seen_prefix *entry;
    size_t size = strlen(prefix) + 1;
    int is_new = 0;

    (void)pthread_mutex_lock(&seen_lock);
    for (entry = seen; entry != NULL && strcmp(entry->prefix, prefix) != 0; entry = entry->next) {
    }
    if (entry == NULL) {
        entry = malloc(sizeof(*entry) + size);
        if (entry != NULL) {
            memcpy(entry->prefix, prefix, size);
            entry->next = seen;
            seen = entry;
            is_new = 1;
        }
    }
    (void)pthread_mutex_unlock(&seen_lock);
    return is_new;
}

/* UCX_<prefix>_<NAME> of another part of the program that read its configuration before. */
static bool is_of_other_prefix(const char *prefix, const char *variable)
{
    const struct seen_prefix *entry;
    enum cw_name_form form;
    const char *name;
    int found = 0;

    (void)pthread_mutex_lock(&seen_lock);
    for (entry = seen; entry != NULL && !found; entry = entry->next) {
        name = cw_config_variable_split(entry->prefix, variable, &form);
        found = strcmp(entry->prefix, prefix) != 0 && name != NULL && form != CW_FORM_PLAIN &&
                cw_setting_is_known(name);
    }
    (void)pthread_mutex_unlock(&seen_lock);
    return found;
}

#define MOST_UNUSED 20u /* the listed ones */

/* Names as found, as text. */
struct sorted {
    struct cw_text used;
    struct cw_text environment;     /* unused variables of the environment ... */
    struct cw_text files;           /* ... and of files */
    unsigned num_environment;
    unsigned num_files;
};

/* A guess searches all known names. */
static void add_unused(const char *name, const struct cw_config_variable *variable, struct cw_text *unused,
                       unsigned *count)
{
    const char *guess;

    if ((*count)++ >= MOST_UNUSED) {
        return;
    }
    guess = cw_setting_guess(name);
    cw_text_addf(unused, "%s%s", (unused->length == 0) ? "" : "; ", variable->name);
    cw_config_variable_location(variable, " in ", "", unused);
    if (guess != NULL && cw_setting_find_global(guess) != NULL) {
        cw_text_addf(unused, " (maybe: UCX_%s?)", guess);
    } else if (guess != NULL) {
        cw_text_addf(unused, " (maybe: %.*s%s?)", (int)(name - variable->name), variable->name, guess);
    }
}

/* Patterns have a meaning in files only. */
static bool is_read(const struct cw_config_variable *variable, const char *name)
{
    return cw_setting_is_known(name) || (variable->path[0] != '\0' && cw_setting_fits(name));
}

static void sort_variable(const char *prefix, const struct cw_config_variable *variable, struct sorted *sorted)
{
    enum cw_name_form form;
    const char *name = cw_config_variable_split(prefix, variable->name, &form);

    if (name == NULL || is_of_other_prefix(prefix, variable->name)) {
        return;
    }
    /* Settings of the process have no prefix. */
    if (is_read(variable, name) && (form == CW_FORM_PLAIN || cw_setting_find_global(name) == NULL)) {
        cw_text_addf(&sorted->used, "%s%s", (sorted->used.length == 0) ? "" : "; ", variable->name);
    } else if (variable->path[0] == '\0') {
        add_unused(name, variable, &sorted->environment, &sorted->num_environment);
    } else {
        add_unused(name, variable, &sorted->files, &sorted->num_files);
    }
}

static void sort_variables(const char *prefix, const struct cw_config_variables *variables,
                           const struct cw_config_variables *except, struct sorted *sorted)
{
    const struct cw_config_variable *variable;
    size_t i;

    for (i = 0; i < variables->count; ++i) {
        variable = &variables->items[i];
        if (cw_config_variables_get(variables, variable->name) == variable &&
            (except == NULL || cw_config_variables_get(except, variable->name) == NULL)) {
            sort_variable(prefix, variable, sorted);
        }
    }
}

static void add_unnamed(struct cw_text *unused, unsigned count)
{
    if (count > MOST_UNUSED) {
        cw_text_addf(unused, "; and %u more", count - MOST_UNUSED);
    }
}

static void warn_unused(struct sorted *sorted)
{
    struct cw_text lines = {0};

    add_unnamed(&sorted->environment, sorted->num_environment);
    add_unnamed(&sorted->files, sorted->num_files);
    if (sorted->environment.length > 0 && !sorted->environment.failed) {
        cw_text_addf(&lines, "unused environment variable%s: %s\n", (sorted->num_environment == 1) ? "" : "s",
                     cw_text_get(&sorted->environment));
    }
    if (sorted->files.length > 0 && !sorted->files.failed) {
        cw_text_addf(&lines, "unused in configuration files: %s\n", cw_text_get(&sorted->files));
    }
    if (lines.length > 0 && !lines.failed && cw_config_global_warns_unused()) {
        cw_warn("%s(set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)", cw_text_get(&lines));
    }
    cw_text_free(&lines);
}

void cw_config_warn_unused(const struct cw_config *config)
{
    struct cw_config_sources sources = {0};
    struct cw_text problems = {0}; /* logged when the configuration was read */
    struct sorted sorted = {0};

    if (!is_first_time(config->prefix)) {
        return;
    }
    if (cw_config_sources_open(&sources, config->prefix, config->filename, &problems) == UCS_OK) {
        sort_variables(config->prefix, &sources.environment, NULL, &sorted);
        sort_variables(config->prefix, &sources.file, &sources.environment, &sorted);
        sort_variables(config->prefix, sources.files, &sources.environment, &sorted);
        if (sorted.used.length > 0 && !sorted.used.failed) {
            cw_info("UCX_* variables used: %s", cw_text_get(&sorted.used));
        }
        warn_unused(&sorted);
    }
    cw_text_free(&problems);
    cw_text_free(&sorted.used);
    cw_text_free(&sorted.environment);
    cw_text_free(&sorted.files);
    cw_config_sources_close(&sources);
}
