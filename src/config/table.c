/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables generated from config.def (config/table.h). Linear search: a configuration is read a few times in the life
 * of a process.
 */
#include "config/table.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "config/global.h"

#define GUESS_DISTANCE 3u

#define CW_VALUE_SHAPE(type, ctype) ctype shape_##type;
struct value_shapes {
    CW_VALUE_TYPES(CW_VALUE_SHAPE)
};

/* The C type of a member must be that of its value type. */
#define CW_ASSERT_SHAPE(ctype, name, type)                                                                             \
    _Static_assert(__builtin_types_compatible_p(ctype, __typeof__(((struct value_shapes *)0)->shape_##type)), name);
#define CW_SETTING(member, ctype, name, type, words, text, group, flags, description)                          \
    CW_ASSERT_SHAPE(ctype, name, type)
#define CW_GLOBAL CW_SETTING
#include "config/config.def"

#define CW_SETTING(member, ctype, name, type, words, text, group, flags, description)                          \
    {name, {type, words, text}, offsetof(struct cw_config, member), group, flags, description},
#define CW_NAME(name, text, group, flags)                                                                              \
    {#name, {CW_VALUE_ANY, NULL, text}, offsetof(struct cw_config, retained[CW_NAME_##name]), group, flags, NULL},
const struct cw_setting cw_settings[CW_SETTING_COUNT] = {
#include "config/config.def"
};

#define CW_GLOBAL(member, ctype, name, type, words, text, group, flags, description)                           \
    {name, {type, words, text}, offsetof(struct cw_global_config, member), group, flags, description},
#define CW_GLOBAL_NAME(name, text, flags)                                                                              \
    {#name, {CW_VALUE_ANY, NULL, text}, offsetof(struct cw_global_config, retained[CW_GLOBAL_NAME_##name]),            \
     CW_GROUP_GLOBAL, flags, NULL},
const struct cw_setting cw_global_settings[CW_GLOBAL_COUNT] = {
#include "config/config.def"
};

#define CW_ALIAS(name, target) {name, target},
const struct cw_setting_alias cw_setting_aliases[] = {
#include "config/config.def"
    {NULL, NULL}};

#define CW_RETIRED(name, group) {name, group},
const struct cw_setting_retired cw_setting_retired_names[] = {
#include "config/config.def"
    {NULL, CW_GROUP_CONTEXT}};

#define CW_KNOWN(name, reason) {name, reason},
const struct cw_setting_known cw_setting_known_names[] = {
#include "config/config.def"
    {NULL, NULL}};

#define CW_KNOWN_KEY(name) {name, NULL},
const struct cw_setting_known cw_setting_known_keys[] = {
#include "config/config.def"
    {NULL, NULL}};

const char *cw_config_group_prefix(enum cw_config_group group)
{
    static const char *const prefixes[CW_GROUP_COUNT] = {
        [CW_GROUP_CONTEXT] = "",   [CW_GROUP_TCP] = "TCP_", [CW_GROUP_POSIX] = "POSIX_",
        [CW_GROUP_SYSV] = "SYSV_", [CW_GROUP_CMA] = "CMA_", [CW_GROUP_SELF] = "SELF_",
        [CW_GROUP_IB] = "IB_",     [CW_GROUP_RC] = "RC_",   [CW_GROUP_GLOBAL] = ""};

    return prefixes[group];
}

static const char *resolve_alias(const char *name)
{
    const struct cw_setting_alias *alias;

    for (alias = cw_setting_aliases; alias->name != NULL; ++alias) {
        if (strcmp(alias->name, name) == 0) {
            return alias->target;
        }
    }
    return name;
}

static const struct cw_setting *find_in(const struct cw_setting *settings, size_t count, const char *name)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        if (strcmp(settings[i].name, name) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

const struct cw_setting *cw_setting_find(const char *name)
{
    return find_in(cw_settings, CW_SETTING_COUNT, resolve_alias(name));
}

const struct cw_setting *cw_setting_find_global(const char *name)
{
    return find_in(cw_global_settings, CW_GLOBAL_COUNT, name);
}

const struct cw_setting_retired *cw_setting_find_retired(const char *name)
{
    const struct cw_setting_retired *retired;

    for (retired = cw_setting_retired_names; retired->name != NULL; ++retired) {
        if (strcmp(retired->name, name) == 0) {
            return retired;
        }
    }
    return NULL;
}

void cw_setting_mm_name(const struct cw_setting *setting, char *name, size_t size)
{
    cw_string_copy(name, size, "MM_");
    cw_string_copy(name + strlen("MM_"), size - strlen("MM_"),
                   setting->name + strlen(cw_config_group_prefix(setting->group)));
}

bool cw_setting_has_key(const struct cw_setting *setting, const char *key)
{
    const char *prefix = cw_config_group_prefix(setting->group);
    char mm_name[64];

    if (strcmp(setting->name, key) == 0) {
        return true;
    }
    if ((setting->flags & CW_SETTING_MM) != 0) {
        cw_setting_mm_name(setting, mm_name, sizeof(mm_name));
        if (strcmp(mm_name, key) == 0) {
            return true;
        }
    }
    return prefix[0] != '\0' && strcmp(setting->name + strlen(prefix), key) == 0;
}

static int known_name_matches(const struct cw_setting_known *known, const char *name)
{
    size_t length = strlen(known->name);

    if (known->name[length - 1] == '*') {
        return strncmp(known->name, name, length - 1) == 0 && name[length - 1] != '\0';
    }
    return strcmp(known->name, name) == 0;
}

bool cw_setting_is_known(const char *name)
{
    const struct cw_setting_known *known;
    char mm_name[64];
    size_t i;

    if (cw_setting_find(name) != NULL || cw_setting_find_global(name) != NULL ||
        cw_setting_find_retired(name) != NULL) {
        return true;
    }
    for (known = cw_setting_known_names; known->name != NULL; ++known) {
        if (known_name_matches(known, name)) {
            return true;
        }
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        if ((cw_settings[i].flags & CW_SETTING_MM) != 0) {
            cw_setting_mm_name(&cw_settings[i], mm_name, sizeof(mm_name));
            if (strcmp(mm_name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool cw_name_is_pattern(const char *name)
{
    return strpbrk(name, "*?") != NULL;
}

int cw_setting_fits(const char *pattern)
{
    size_t i;

    if (!cw_name_is_pattern(pattern)) {
        return 0;
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        if (fnmatch(pattern, cw_settings[i].name, 0) == 0) {
            return 1;
        }
    }
    return 0;
}

bool cw_setting_is_known_key(const char *key)
{
    const struct cw_setting *global = cw_setting_find_global(key);
    const struct cw_setting_known *known;
    size_t i;

    if (global != NULL) {
        return (global->flags & CW_SETTING_READ_ONLY) == 0;
    }
    if (cw_setting_is_known(key)) {
        return true;
    }
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        if (cw_setting_has_key(&cw_settings[i], key)) {
            return true;
        }
    }
    for (known = cw_setting_known_keys; known->name != NULL; ++known) {
        if (strcmp(known->name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Records `candidate` as the best guess if it is nearer than the one before. */
static void guess_nearer(const char *name, const char *candidate, unsigned *distance, const char **guess)
{
    unsigned now = cw_string_distance(name, candidate, GUESS_DISTANCE);

    if (now < *distance) {
        *distance = now;
        *guess = candidate;
    }
}

const char *cw_setting_guess(const char *name)
{
    size_t length = strlen(name);
    unsigned distance = (length < 2 * GUESS_DISTANCE) ? (unsigned)length / 2 + 1 : GUESS_DISTANCE + 1;
    const char *guess = NULL;
    size_t i;

    /* A short name of which half is different is another name. */
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        guess_nearer(name, cw_settings[i].name, &distance, &guess);
    }
    for (i = 0; i < CW_GLOBAL_COUNT; ++i) {
        guess_nearer(name, cw_global_settings[i].name, &distance, &guess);
    }
    return guess;
}
