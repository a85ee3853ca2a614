/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading, copying, changing and checking a configuration (config/config.h). Everything goes through the table of
 * settings; no setting is named here except in cw_config_validate.
 */
#include "config/config.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/global.h"
#include "config/source.h"

#define VARIABLE_SIZE 256

static void *member_of(struct cw_config *config, const struct cw_setting *setting)
{
    return (char *)config + setting->offset;
}

static const void *const_member_of(const struct cw_config *config, const struct cw_setting *setting)
{
    return (const char *)config + setting->offset;
}

/* `variable` as read, or NULL. */
static void log_invalid(const struct cw_setting *setting, const char *name, const char *value,
                        const struct cw_config_variable *variable)
{
    struct cw_text syntax = {0};

    cw_value_syntax(&setting->spec, &syntax);
    if (variable != NULL) {
        cw_config_variable_location(variable, "; set in ", "", &syntax);
    }
    cw_error("invalid value for %s: '%.200s', expected: %s", name, value, cw_text_get(&syntax));
    cw_text_free(&syntax);
}

/* Replaces the old value by a parsed one. */
static void store(struct cw_config *config, const struct cw_setting *setting, const union cw_value *value,
                  enum cw_config_source source)
{
    void *member = member_of(config, setting);

    cw_value_release(&setting->spec, member);
    memcpy(member, value, cw_value_size(setting->spec.type));
    config->sources[setting - cw_settings] = (unsigned char)source;
}

/* The value that no line of a file may give this setting, or NULL. */
static const char *nothing_for(const struct cw_setting *setting)
{
    return ((setting->flags & CW_SETTING_PROTECTS) != 0) ? setting->spec.default_text : NULL;
}

static bool is_at_default(const struct cw_config *config, const struct cw_setting *setting)
{
    struct cw_text text = {0};
    bool equal;

    cw_value_print(&setting->spec, const_member_of(config, setting), &text);
    equal = strcmp(cw_text_get(&text), setting->spec.default_text) == 0;
    cw_text_free(&text);
    return equal;
}

/* Once per process: a line of a file that would disable what another source, or a weaker form of the name, set. */
static void warn_retained(const struct cw_config *config, const struct cw_setting *setting,
                          const struct cw_config_sources *sources, const char *variable)
{
    static atomic_bool logged;
    const struct cw_config_variable *ignored;
    struct cw_text location = {0};
    enum cw_config_source source;

    ignored = cw_config_sources_find(sources, variable, NULL, &source);
    if (ignored == NULL || source != CW_SOURCE_FILE || !cw_string_equal_nocase(ignored->value, nothing_for(setting)) ||
        is_at_default(config, setting) || atomic_exchange(&logged, true)) {
        return;
    }
    cw_config_variable_location(ignored, " in ", "", &location);
    cw_warn("%s=%s%s is ignored: a configuration file cannot disable protection that another source enables; use the "
            "environment", variable, ignored->value, cw_text_get(&location));
    cw_text_free(&location);
}

/* Applies one variable if it is set. UCS_ERR_INVALID_PARAM: malformed, and logged. */
static ucs_status_t apply_variable(struct cw_config *config, const struct cw_setting *setting,
                                   const struct cw_config_sources *sources, enum cw_name_form form, const char *name)
{
    const struct cw_config_variable *found;
    char variable[VARIABLE_SIZE];
    enum cw_config_source source;
    union cw_value parsed;
    ucs_status_t status;

    if (!cw_config_sources_may_have(sources, name) ||
        !cw_config_variable_name(form, sources->prefix, name, variable, sizeof(variable))) {
        return UCS_OK;
    }
    found = cw_config_sources_find(sources, variable, nothing_for(setting), &source);
    status = (found == NULL) ? UCS_OK : cw_value_parse(&setting->spec, found->value, &parsed);
    if (found != NULL && status == UCS_OK) {
        store(config, setting, &parsed, source);
    } else if (status == UCS_ERR_INVALID_PARAM) {
        log_invalid(setting, variable, found->value, found);
    }
    if (nothing_for(setting) != NULL) {
        warn_retained(config, setting, sources, variable);
    }
    return status;
}

/* Applies the variables of one form, weakest first: MM_ names, aliases, own names. */
static ucs_status_t apply_form(struct cw_config *config, const struct cw_config_sources *sources,
                               enum cw_name_form form)
{
    const struct cw_setting_alias *alias;
    ucs_status_t result = UCS_OK;
    ucs_status_t status;
    char mm_name[64];
    size_t i;

    for (i = 0; i < CW_SETTING_COUNT && cw_config_sources_may_have(sources, "MM_"); ++i) {
        if ((cw_settings[i].flags & CW_SETTING_MM) != 0) {
            cw_setting_mm_name(&cw_settings[i], mm_name, sizeof(mm_name));
            status = apply_variable(config, &cw_settings[i], sources, form, mm_name);
            result = (status == UCS_OK) ? result : status;
        }
    }
    for (alias = cw_setting_aliases; alias->name != NULL; ++alias) {
        if (cw_config_sources_may_have(sources, alias->name)) {
            status = apply_variable(config, cw_setting_find(alias->target), sources, form, alias->name);
            result = (status == UCS_OK) ? result : status;
        }
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        status = apply_variable(config, &cw_settings[i], sources, form, cw_settings[i].name);
        result = (status == UCS_OK) ? result : status;
    }
    return result;
}

/* Applies all variables, weakest first. All malformed values are reported, not only the first. */
static ucs_status_t apply_all(struct cw_config *config, const struct cw_config_sources *sources)
{
    const int forms = (sources->prefix[0] == '\0') ? CW_FORM_PLAIN + 1 : CW_FORM_COUNT;
    ucs_status_t result = UCS_OK;
    ucs_status_t status;
    int form;

    for (form = 0; form < forms; ++form) {
        status = apply_form(config, sources, (enum cw_name_form)form);
        result = (status == UCS_OK) ? result : status;
    }
    return result;
}

/* Once per process and name. */
static void warn_retired(const struct cw_setting_retired *retired, const char *variable)
{
    static _Atomic uint64_t logged;
    uint64_t bit = UINT64_C(1) << ((retired - cw_setting_retired_names) % 64);

    if (cw_config_global_warns_unused() && (atomic_fetch_or(&logged, bit) & bit) == 0) {
        cw_warn("%s is deprecated (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning). It has no effect.",
                variable);
    }
}

static void warn_retired_variables(const struct cw_config_sources *sources)
{
    const struct cw_setting_retired *retired;
    char variable[VARIABLE_SIZE];
    enum cw_config_source source;
    int form;

    for (retired = cw_setting_retired_names; retired->name != NULL; ++retired) {
        for (form = 0; form < CW_FORM_COUNT; ++form) {
            if (cw_config_sources_may_have(sources, retired->name) &&
                cw_config_variable_name((enum cw_name_form)form, sources->prefix, retired->name, variable,
                                        sizeof(variable)) &&
                cw_config_sources_find(sources, variable, NULL, &source) != NULL) {
                warn_retired(retired, variable);
            }
        }
    }
}

/* A configuration of defaults. */
static ucs_status_t config_new(const char *prefix, const char *filename, struct cw_config **config_p)
{
    struct cw_config *config;
    union cw_value value;
    ucs_status_t status;
    size_t i;

    config = calloc(1, sizeof(*config)); /* a zeroed value needs no release */
    if (config == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = UCS_ERR_NO_MEMORY;
    config->prefix = cw_string_dup(prefix);
    config->filename = cw_string_dup(filename);
    if (config->prefix == NULL || config->filename == NULL) {
        goto err_free;
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        status = cw_value_parse(&cw_settings[i].spec, cw_settings[i].spec.default_text, &value);
        if (status != UCS_OK) {
            goto err_free;
        }
        store(config, &cw_settings[i], &value, CW_SOURCE_DEFAULT);
    }
    *config_p = config;
    return UCS_OK;
err_free:
    cw_config_free(config);
    return status;
}

ucs_status_t cw_config_read(const char *env_prefix, const char *filename, struct cw_config **config_p)
{
    struct cw_config_sources sources = {0};
    struct cw_config *config = NULL;
    struct cw_text problems = {0};
    ucs_status_t status;

    status = cw_config_global_init();
    if (status != UCS_OK) {
        return status;
    }
    env_prefix = (env_prefix == NULL) ? "" : env_prefix;
    filename = (filename == NULL) ? "" : filename;
    status = cw_config_sources_open(&sources, env_prefix, filename, &problems);
    if (problems.length > 0) {
        cw_warn("%s", cw_text_get(&problems));
    }
    if (status != UCS_OK) {
        goto out;
    }
    status = config_new(env_prefix, filename, &config);
    if (status != UCS_OK) {
        goto out;
    }
    status = apply_all(config, &sources);
    if (status != UCS_OK) {
        cw_config_free(config);
        goto out;
    }
    warn_retired_variables(&sources);
    *config_p = config;
out:
    cw_config_sources_close(&sources);
    cw_text_free(&problems);
    return status;
}

/* Adds a pair at the end or replaces the value of an earlier one. */
static ucs_status_t remember_pair(struct cw_config *config, const char *name, const char *value)
{
    struct cw_config_pair **link = &config->pairs;
    struct cw_config_pair *pair;
    char *copy;

    copy = cw_string_dup(value);
    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (; *link != NULL; link = &(*link)->next) {
        if (strcmp((*link)->name, name) == 0) {
            free((*link)->value);
            (*link)->value = copy;
            return UCS_OK;
        }
    }
    pair = malloc(sizeof(*pair));
    if (pair == NULL) {
        goto err_free_copy;
    }
    pair->name = cw_string_dup(name);
    if (pair->name == NULL) {
        goto err_free_pair;
    }
    pair->value = copy;
    pair->next = NULL;
    *link = pair;
    return UCS_OK;
err_free_pair:
    free(pair);
err_free_copy:
    free(copy);
    return UCS_ERR_NO_MEMORY;
}

ucs_status_t cw_config_clone(const struct cw_config *config, struct cw_config **clone_p)
{
    const struct cw_config_pair *pair;
    struct cw_config *clone;
    union cw_value value;
    ucs_status_t status;
    size_t i;

    status = config_new(config->prefix, config->filename, &clone);
    if (status != UCS_OK) {
        return status;
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        status = cw_value_copy(&cw_settings[i].spec, const_member_of(config, &cw_settings[i]), &value);
        if (status != UCS_OK) {
            goto err_free;
        }
        store(clone, &cw_settings[i], &value, (enum cw_config_source)config->sources[i]);
    }
    for (pair = config->pairs; pair != NULL; pair = pair->next) {
        status = remember_pair(clone, pair->name, pair->value);
        if (status != UCS_OK) {
            goto err_free;
        }
    }
    *clone_p = clone;
    return UCS_OK;
err_free:
    cw_config_free(clone);
    return status;
}

void cw_config_free(struct cw_config *config)
{
    struct cw_config_pair *pair;
    size_t i;

    if (config == NULL) {
        return;
    }
    while (config->pairs != NULL) {
        pair = config->pairs;
        config->pairs = pair->next;
        free(pair->name);
        free(pair->value);
        free(pair);
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        cw_value_release(&cw_settings[i].spec, member_of(config, &cw_settings[i]));
    }
    free(config->prefix);
    free(config->filename);
    free(config);
}

static ucs_status_t modify_option(struct cw_config *config, const struct cw_setting *setting, const char *name,
                                  const char *value)
{
    union cw_value parsed;
    ucs_status_t status;

    status = cw_value_parse(&setting->spec, value, &parsed);
    if (status == UCS_OK) {
        store(config, setting, &parsed, CW_SOURCE_MODIFY);
    } else if (status == UCS_ERR_INVALID_PARAM) {
        log_invalid(setting, name, value, NULL);
    }
    return status;
}

/* Whether a name passed to ucp_config_modify selects this setting: a pattern selects all names that match, a key every
 * transport's setting that has it. */
static bool is_meant(const struct cw_setting *setting, const char *name)
{
    return cw_name_is_pattern(name) ? fnmatch(name, setting->name, 0) == 0 :
           setting->group != CW_GROUP_CONTEXT && cw_setting_has_key(setting, name);
}

/* The settings of the process that a pattern selects. */
static bool is_meant_global(const struct cw_setting *setting, const char *name)
{
    return cw_name_is_pattern(name) && !(setting->flags & CW_SETTING_READ_ONLY) &&
           fnmatch(name, setting->name, 0) == 0;
}

static ucs_status_t try_value(const struct cw_setting *setting, const char *name, const char *value)
{
    union cw_value parsed;
    ucs_status_t status = cw_value_parse(&setting->spec, value, &parsed);

    if (status == UCS_OK) {
        cw_value_release(&setting->spec, &parsed);
    } else if (status == UCS_ERR_INVALID_PARAM) {
        log_invalid(setting, name, value, NULL);
    }
    return status;
}

/* UCS_OK with *count_p settings that the name selects, all of which accept the value. */
static ucs_status_t try_all(const char *name, const char *value, unsigned *count_p)
{
    ucs_status_t status = UCS_OK;
    size_t i;

    *count_p = 0;
    for (i = 0; i < CW_SETTING_COUNT && status == UCS_OK; ++i) {
        if (is_meant(&cw_settings[i], name)) {
            status = try_value(&cw_settings[i], name, value);
            ++*count_p;
        }
    }
    for (i = 0; i < CW_GLOBAL_COUNT && status == UCS_OK; ++i) {
        if (is_meant_global(&cw_global_settings[i], name)) {
            status = try_value(&cw_global_settings[i], name, value);
            ++*count_p;
        }
    }
    return status;
}

static ucs_status_t refuse_name(const char *name)
{
    const struct cw_setting *global = cw_setting_find_global(name);
    const char *guess = cw_setting_guess(name);

    if (global != NULL) {
        cw_error("cannot modify the configuration: UCX_%s is read once, at the first use of the library; set it in the "
                 "environment", global->name);
    } else {
        cw_error("cannot modify the configuration: unknown setting '%.200s'%s%s%s", name,
                 (guess == NULL) ? "" : " (maybe: ", (guess == NULL) ? "" : guess, (guess == NULL) ? "" : "?)");
    }
    return UCS_ERR_INVALID_PARAM;
}

/* Sets all settings that the name selects, or none of them, and records the pair. Names that only UCX knows are
 * accepted; other unknown names are rejected. */
static ucs_status_t modify_all(struct cw_config *config, const char *name, const char *value)
{
    unsigned count;
    ucs_status_t status = try_all(name, value, &count);
    size_t i;

    if (status == UCS_OK && count == 0 && !cw_setting_is_known_key(name)) {
        return refuse_name(name);
    }
    if (status == UCS_OK) {
        status = remember_pair(config, name, value);
    }
    for (i = 0; i < CW_SETTING_COUNT && status == UCS_OK; ++i) {
        if (is_meant(&cw_settings[i], name)) {
            status = modify_option(config, &cw_settings[i], name, value);
        }
    }
    for (i = 0; i < CW_GLOBAL_COUNT && status == UCS_OK; ++i) {
        if (is_meant_global(&cw_global_settings[i], name)) {
            status = cw_config_global_set(&cw_global_settings[i], value);
        }
    }
    return status;
}

ucs_status_t cw_config_modify(struct cw_config *config, const char *name, const char *value)
{
    const struct cw_setting_retired *retired;
    const struct cw_setting *setting;
    ucs_status_t status;

    if (name == NULL || value == NULL) {
        cw_error("cannot modify the configuration: the %s is NULL", (name == NULL) ? "name" : "value");
        return UCS_ERR_INVALID_PARAM;
    }
    setting = cw_setting_find(name);
    if (setting != NULL && setting->group == CW_GROUP_CONTEXT) {
        return modify_option(config, setting, name, value);
    }
    setting = cw_setting_find_global(name);
    if (setting != NULL && (setting->flags & CW_SETTING_READ_ONLY) == 0) {
        status = cw_config_global_set(setting, value);
        if (status == UCS_ERR_INVALID_PARAM) {
            log_invalid(setting, name, value, NULL);
        }
        return status;
    }
    retired = cw_setting_find_retired(name);
    if (retired != NULL) {
        warn_retired(retired, name);
        return UCS_OK;
    }
    return modify_all(config, name, value);
}

/* The variable of ucx.conf files that gave a setting its value, or NULL. */
static const struct cw_config_variable *find_in_files(const struct cw_config *config, const struct cw_setting *setting)
{
    const struct cw_config_variable *found = NULL;
    const struct cw_config_variables *files;
    struct cw_text problems = {0}; /* logged when they were read */
    char variable[VARIABLE_SIZE];
    int form;

    if (config->sources[setting - cw_settings] == CW_SOURCE_FILE && cw_config_files_get(&files, &problems) == UCS_OK) {
        for (form = CW_FORM_COUNT - 1; form >= 0 && found == NULL; --form) {
            if (cw_config_variable_name((enum cw_name_form)form, config->prefix, setting->name, variable,
                                        sizeof(variable))) {
                found = cw_config_variables_match(files, variable, nothing_for(setting));
            }
        }
    }
    cw_text_free(&problems);
    return found;
}

static ucs_status_t refuse(const struct cw_config *config, enum cw_setting_id id, const char *expected)
{
    const struct cw_setting *setting = &cw_settings[id];
    const struct cw_config_variable *found = find_in_files(config, setting);
    struct cw_text value = {0}, location = {0};

    if (found != NULL) {
        cw_config_variable_location(found, "; set in ", "", &location);
    }
    cw_value_print(&setting->spec, const_member_of(config, setting), &value);
    cw_error("invalid value for UCX_%s: '%s', expected: %s%s", setting->name, cw_text_get(&value), expected,
             cw_text_get(&location));
    cw_text_free(&value);
    cw_text_free(&location);
    return UCS_ERR_INVALID_PARAM;
}

static bool is_allocation_method(const char *name)
{
    static const char *const methods[] = {"thp", "huge", "mmap", "heap"};
    size_t i;

    for (i = 0; i < sizeof(methods) / sizeof(methods[0]); ++i) {
        if (strcmp(name, methods[i]) == 0) {
            return true;
        }
    }
    return cw_string_starts(name, "md:") && name[3] != '\0';
}

ucs_status_t cw_config_validate(const struct cw_config *config)
{
    unsigned i;

    if (config->keepalive_interval_ns == 0) {
        return refuse(config, CW_SETTING_keepalive_interval_ns, "a time above 0, or inf for no checks");
    }
    if (config->keepalive_num_eps == 0) {
        return refuse(config, CW_SETTING_keepalive_num_eps, "a number above 0");
    }
    if (config->recovery_retries == 0) {
        return refuse(config, CW_SETTING_recovery_retries, "a number above 0, or inf");
    }
    if (config->min_rndv_chunk_size == 0) {
        return refuse(config, CW_SETTING_min_rndv_chunk_size, "a size above 0");
    }
    if (config->connect_timeout_ns == 0) {
        return refuse(config, CW_SETTING_connect_timeout_ns, "a time above 0, or inf for no limit");
    }
    if (config->tcp_port_range.last > UINT16_MAX) {
        return refuse(config, CW_SETTING_tcp_port_range, "ports between 0 and 65535");
    }
    for (i = 0; i < config->alloc_prio.count; ++i) {
        if (!is_allocation_method(config->alloc_prio.names[i])) {
            return refuse(config, CW_SETTING_alloc_prio, "a list of md:<name>, thp, huge, mmap or heap");
        }
    }
    return UCS_OK;
}

int cw_name_list_has(const struct cw_name_list *list, const char *name)
{
    unsigned i;

    for (i = 0; i < list->count; ++i) {
        if (strcmp(list->names[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Reads a number without leading zeros, of at most nine digits, and steps over it. */
static bool take_number(const char **text, unsigned long *value)
{
    const size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > 9 || ((*text)[0] == '0' && digits > 1)) {
        return false;
    }
    *value = strtoul(*text, NULL, 10);
    *text += digits;
    return true;
}

/* The name, or a port of it. */
static bool is_device(const char *entry, size_t length, const char *name)
{
    if (strncmp(entry, name, length) != 0) {
        return false;
    }
    name += length;
    return *name == '\0' || (*name == ':' && name[1] != '\0' && strspn(name + 1, "0123456789") == strlen(name + 1));
}

bool cw_device_entry_names(const char *entry, const char *name)
{
    const char *open = strchr(entry, '['), *next = (open == NULL) ? NULL : open + 1;
    unsigned long first, last, number;

    if (next == NULL || !take_number(&next, &first) || *next++ != '-' || !take_number(&next, &last) ||
        *next++ != ']' || first > last) {
        return is_device(entry, strlen(entry), name);
    }
    if (strncmp(entry, name, (size_t)(open - entry)) != 0) {
        return false;
    }
    name += open - entry;
    return take_number(&name, &number) && number >= first && number <= last && is_device(next, strlen(next), name);
}

bool cw_device_list_is_open(const struct cw_name_list *list)
{
    return cw_name_list_has(list, "all") || (list->count > 0 && list->names[0][0] == '^');
}

bool cw_device_list_allows(const struct cw_name_list *list, const char *name)
{
    const bool is_negated = list->count > 0 && list->names[0][0] == '^';
    bool is_named = false;
    unsigned i;

    for (i = 0; i < list->count && !is_named; ++i) {
        is_named = cw_device_entry_names(list->names[i] + (i == 0 && is_negated), name);
    }
    return is_negated ? !is_named : is_named || cw_name_list_has(list, "all");
}

static const char *const rules[CW_TUNING_COUNT] = {[CW_TUNING_NT_COPY] = "nt_copy"};

int cw_tuning_follows(const struct cw_allow_list *tuning, enum cw_tuning rule)
{
    return tuning->mode == CW_LIST_ALL ||
           cw_name_list_has(&tuning->list, rules[rule]) == (tuning->mode == CW_LIST_ALLOW);
}

const char *cw_tuning_unknown(const struct cw_allow_list *tuning)
{
    const struct cw_name_list *list = &tuning->list;
    unsigned i, rule;

    for (i = 0; i < list->count; i++) {
        for (rule = 0; rule < CW_TUNING_COUNT && strcmp(list->names[i], rules[rule]) != 0; rule++) {
        }
        if (rule == CW_TUNING_COUNT) {
            return list->names[i];
        }
    }
    return NULL;
}
