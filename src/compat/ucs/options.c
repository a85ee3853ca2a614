/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the process: set by programs with ucs_global_opts_set_value(), before any other call as well, or read by
 * them directly. libucp adopts what was set through compat/ucs/share.h.
 *
 * Invariants: ucs_global_opts is written through its exported name, because a program that is not position independent
 * reads a copy of its own. No code runs before the first call of this library or of libucp: until then the object says
 * WARN, the default.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>

#include "base/log.h"
#include "base/string.h"
#include "compat/ucs/options.h"
#include "compat/ucs/share.h"
#include "config/table.h"

struct option {
    const char *name;
    int read_only;
    struct cw_value_spec spec;
};

static const struct option options[] = {
#define CW_GLOBAL(member, ctype, name, type, words, text, group, flags, description) \
    {name, (flags)&CW_SETTING_READ_ONLY, {type, words, text}},
#define CW_GLOBAL_NAME(name, text, flags) {#name, (flags)&CW_SETTING_READ_ONLY, {CW_VALUE_ANY, NULL, text}},
#include "config/config.def"
};
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

ucs_global_opts_t ucs_global_opts = {
    .log_component = {.log_level = UCS_LOG_LEVEL_WARN, .name = "UCX", .file_filter = "*"},
};

_Static_assert(sizeof(ucs_global_opts_t) == 448, "programs may hold a copy of this size");
_Static_assert(offsetof(ucs_global_opts_t, log_print_enable) == 72, "compiled into the macros of programs");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int level_is_known;
static _Atomic unsigned num_changes;

static struct {
    char *text;      /* NULL: never set */
    unsigned change; /* the number of that change */
} set[OPTION_COUNT];

/* Programs read it at any time, without a lock. */
static void show_level(int level)
{
    __atomic_store_n(&ucs_global_opts.log_component.log_level, (ucs_log_level_t)level, __ATOMIC_RELAXED);
    atomic_store_explicit(&level_is_known, 1, memory_order_relaxed);
}

ucs_log_component_config_t *cw_ucs_log_component(void)
{
    if (!atomic_load_explicit(&level_is_known, memory_order_relaxed)) {
        show_level((int)cw_log_get_level());
    }
    return &ucs_global_opts.log_component;
}

void ucs_cw_log_tell(int level, const char *filter)
{
    cw_log_set_level((enum cw_log_level)level);
    cw_log_set_filter(filter);
    show_level(level);
}

void ucs_cw_log_tell_file(const char *pattern, uint64_t max_size, unsigned rotate)
{
    cw_log_set_file(pattern, max_size, rotate);
}

static size_t find(const char *name)
{
    size_t index = 0;

    while (index < OPTION_COUNT && strcmp(options[index].name, name) != 0) {
        index++;
    }
    return index;
}

/* With the lock held: applies an option to this library. */
static void apply(const struct option *option, const char *text, const union cw_value *value)
{
    int number;

    if (strcmp(option->name, "LOG_LEVEL") == 0) {
        memcpy(&number, value, sizeof(number));
        cw_log_set_level((enum cw_log_level)number);
        show_level(number);
    } else if (strcmp(option->name, "LOG_FILE_FILTER") == 0) {
        cw_log_set_filter(text);
    }
}

ucs_status_t ucs_global_opts_set_value(const char *name, const char *value)
{
    const struct option *option;
    union cw_value parsed;
    ucs_status_t status;
    size_t index;
    char *text;

    if (name == NULL || value == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    (void)cw_ucs_log_component();
    index = find(name);
    if (index == OPTION_COUNT) {
        return UCS_ERR_NO_ELEM;
    }
    option = &options[index];
    status = cw_value_parse(&option->spec, value, &parsed);
    if (status != UCS_OK) {
        return status;
    }
    text = option->read_only ? NULL : cw_string_dup(value);
    if (text != NULL) {
        (void)pthread_mutex_lock(&lock);
        free(set[index].text);
        set[index].text = text;
        set[index].change = atomic_fetch_add_explicit(&num_changes, 1, memory_order_relaxed) + 1;
        apply(option, value, &parsed);
        (void)pthread_mutex_unlock(&lock);
    } else if (!option->read_only) {
        status = UCS_ERR_NO_MEMORY;
    }
    cw_value_release(&option->spec, &parsed);
    return status;
}

unsigned ucs_cw_options_changes(void)
{
    return atomic_load_explicit(&num_changes, memory_order_relaxed);
}

char *ucs_cw_option_since(const char *name, unsigned since)
{
    const size_t index = find(name);
    char *text = NULL;

    if (index < OPTION_COUNT) {
        (void)pthread_mutex_lock(&lock);
        if (set[index].text != NULL && set[index].change > since) {
            text = cw_string_dup(set[index].text);
        }
        (void)pthread_mutex_unlock(&lock);
    }
    return text;
}
