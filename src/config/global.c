/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of the process (config/global.h). A mutex guards the values; the log is notified of changes, so that nothing
 * reads them on a fast path.
 */
#include "config/global.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/log_join.h"
#include "config/file.h"

static struct {
    pthread_mutex_t lock;
    int is_read;
    unsigned char is_set[CW_GLOBAL_COUNT]; /* by enum cw_global_id */
    unsigned changes; /* number of changes made through libucs that were applied */
    struct cw_global_config values;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *member_of(const struct cw_setting *setting)
{
    return (char *)&state.values + setting->offset;
}

static void release_first(size_t count)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        cw_value_release(&cw_global_settings[i].spec, member_of(&cw_global_settings[i]));
    }
}

static void add_problem(struct cw_text *problems, const struct cw_setting *setting,
                        const struct cw_config_variable *variable)
{
    cw_text_addf(problems, "%sinvalid value for UCX_%s: '%.200s', expected: ", (problems->length == 0) ? "" : "\n",
                 setting->name, variable->value);
    cw_value_syntax(&setting->spec, problems);
    cw_config_variable_location(variable, "; set in ", "", problems);
}

/* With the lock held. */
static ucs_status_t read_all(const struct cw_config_variables *environment, const struct cw_config_variables *files,
                             struct cw_text *problems)
{
    const struct cw_config_variable *variable;
    const struct cw_setting *setting;
    ucs_status_t status;
    char name[64] = "UCX_";
    size_t i;

    for (i = 0; i < CW_GLOBAL_COUNT; ++i) {
        setting = &cw_global_settings[i];
        cw_string_copy(name + strlen("UCX_"), sizeof(name) - strlen("UCX_"), setting->name);
        variable = cw_config_variables_get(environment, name);
        if (variable == NULL) {
            variable = cw_config_variables_get(files, name);
        }
        state.is_set[i] = (variable != NULL);
        status = (variable == NULL) ? UCS_ERR_INVALID_PARAM
                                    : cw_value_parse(&setting->spec, variable->value, member_of(setting));
        if (status == UCS_ERR_INVALID_PARAM) {
            if (variable != NULL) {
                add_problem(problems, setting, variable);
                state.is_set[i] = 0;
            }
            status = cw_value_parse(&setting->spec, setting->spec.default_text, member_of(setting));
        }
        if (status != UCS_OK) {
            release_first(i);
            return status;
        }
    }
    return UCS_OK;
}

/* With the lock held. libucs starts with the same defaults, and is not called if nothing was set: most programs never
 * use it, and would load its pages for this call alone. */
static void apply_log(void)
{
    cw_log_set_level((enum cw_log_level)state.values.log_level);
    cw_log_set_filter(state.values.log_file_filter);
    if (state.is_set[CW_GLOBAL_log_level] || state.is_set[CW_GLOBAL_log_file_filter]) {
        cw_log_join_level(state.values.log_level, state.values.log_file_filter);
    }
}

/* With the lock held. */
static void apply_log_file(void)
{
    cw_log_set_file(state.values.log_file, state.values.log_file_size, state.values.log_file_rotate);
    if (state.is_set[CW_GLOBAL_log_file] || state.is_set[CW_GLOBAL_log_file_size] ||
        state.is_set[CW_GLOBAL_log_file_rotate]) {
        cw_log_join_file(state.values.log_file, state.values.log_file_size, state.values.log_file_rotate);
    }
    cw_log_join();
}

/* With the lock held: applies the values set by ucs_global_opts_set_value() since the last call. */
static void take_changes(void)
{
    const unsigned changes = cw_log_join_changes();
    const struct cw_setting *setting;
    union cw_value parsed;
    char *text;
    size_t i;

    if (changes == state.changes) {
        return;
    }
    for (i = 0; i < CW_GLOBAL_COUNT; ++i) {
        setting = &cw_global_settings[i];
        text = cw_log_join_option(setting->name, state.changes);
        if (text != NULL && cw_value_parse(&setting->spec, text, &parsed) == UCS_OK) {
            cw_value_release(&setting->spec, member_of(setting));
            memcpy(member_of(setting), &parsed, cw_value_size(setting->spec.type));
            state.is_set[i] = 1;
        }
        free(text);
    }
    state.changes = changes;
    apply_log();
}

ucs_status_t cw_config_global_init(void)
{
    struct cw_config_variables environment = {0};
    const struct cw_config_variables *files;
    struct cw_text file_problems = {0};
    struct cw_text problems = {0};
    ucs_status_t status = UCS_OK;

    (void)pthread_mutex_lock(&state.lock);
    if (state.is_read) {
        take_changes();
        goto out_unlock;
    }
    status = cw_config_files_get(&files, &file_problems);
    if (status != UCS_OK) {
        goto out_unlock;
    }
    status = cw_config_environment_take(&environment);
    if (status != UCS_OK) {
        goto out_free;
    }
    status = read_all(&environment, files, &problems);
    if (status == UCS_OK) {
        state.is_read = 1;
        apply_log();
        apply_log_file();
        take_changes();
    }
out_free:
    cw_config_variables_free(&environment);
out_unlock:
    (void)pthread_mutex_unlock(&state.lock);
    if (file_problems.length > 0) {
        cw_warn("%s", cw_text_get(&file_problems));
    }
    if (problems.length > 0) {
        cw_error("%s", cw_text_get(&problems));
    }
    cw_text_free(&file_problems);
    cw_text_free(&problems);
    return status;
}

ucs_status_t cw_config_global_set(const struct cw_setting *setting, const char *value)
{
    union cw_value parsed;
    ucs_status_t status;

    status = cw_config_global_init();
    if (status == UCS_OK) {
        status = cw_value_parse(&setting->spec, value, &parsed);
    }
    if (status != UCS_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&state.lock);
    cw_value_release(&setting->spec, member_of(setting));
    memcpy(member_of(setting), &parsed, cw_value_size(setting->spec.type));
    state.is_set[setting - cw_global_settings] = 1;
    apply_log();
    (void)pthread_mutex_unlock(&state.lock);
    return UCS_OK;
}

void cw_config_global_print(const struct cw_setting *setting, struct cw_text *text, int *is_set_p)
{
    if (cw_config_global_init() != UCS_OK) {
        cw_text_add(text, setting->spec.default_text);
        *is_set_p = 0;
        return;
    }
    (void)pthread_mutex_lock(&state.lock);
    cw_value_print(&setting->spec, member_of(setting), text);
    *is_set_p = state.is_set[setting - cw_global_settings];
    (void)pthread_mutex_unlock(&state.lock);
}

int cw_config_global_warns_unused(void)
{
    int warns = 1;

    if (cw_config_global_init() == UCS_OK) {
        (void)pthread_mutex_lock(&state.lock);
        warns = state.values.warn_unused_env_vars;
        (void)pthread_mutex_unlock(&state.lock);
    }
    return warns;
}
