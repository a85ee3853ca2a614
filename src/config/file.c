/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.conf files and the environment as lists of variables (config/file.h). Nothing is logged here: the files
 * may say where the log goes.
 */
#include "config/file.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/env.h"

#ifndef CW_SYSCONFDIR
#define CW_SYSCONFDIR "/usr/local/etc"
#endif

#define FILE_NAME     "ucx.conf"
#define FILE_SIZE_MAX ((size_t)1024 * 1024)
#define PATH_SIZE     4096

void cw_config_variables_free(struct cw_config_variables *variables)
{
    size_t i;

    for (i = 0; i < variables->count; ++i) {
        free(variables->items[i].name);
    }
    free(variables->items);
    *variables = (struct cw_config_variables){0};
}

/* Where a value was read. */
struct place {
    const char *path;
    unsigned line;
};

static struct cw_config_variable *find_variable(const struct cw_config_variables *variables, const char *name)
{
    size_t i;

    for (i = 0; i < variables->count; ++i) {
        if (strcmp(variables->items[i].name, name) == 0) {
            return &variables->items[i];
        }
    }
    return NULL;
}

const struct cw_config_variable *cw_config_variables_get(const struct cw_config_variables *variables, const char *name)
{
    return find_variable(variables, name);
}

const struct cw_config_variable *cw_config_variables_match(const struct cw_config_variables *variables,
                                                           const char *name)
{
    const struct cw_config_variable *found = find_variable(variables, name);
    size_t i;

    for (i = variables->count; i-- > 0 && found == NULL;) {
        if (strpbrk(variables->items[i].name, "*?") != NULL && fnmatch(variables->items[i].name, name, 0) == 0) {
            found = &variables->items[i];
        }
    }
    return found;
}

void cw_config_variable_place(const struct cw_config_variable *variable, const char *before, const char *after,
                              struct cw_text *text)
{
    if (variable->path[0] != '\0') {
        cw_text_addf(text, "%s'%s' at line %u%s", before, variable->path, variable->line, after);
    }
}

const char *cw_config_variables_find(const struct cw_config_variables *variables, const char *name)
{
    const struct cw_config_variable *variable = find_variable(variables, name);

    return (variable == NULL) ? NULL : variable->value;
}

static ucs_status_t add_variable(struct cw_config_variables *variables, const char *name, size_t name_length,
                                 const char *value, size_t value_length, const struct place *place)
{
    const size_t path_size = strlen(place->path) + 1;
    struct cw_config_variable variable;
    struct cw_config_variable *items;
    struct cw_config_variable *old;
    size_t capacity;

    variable.name = malloc(name_length + value_length + 2 + path_size);
    if (variable.name == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    variable.value = variable.name + name_length + 1;
    memcpy(variable.name, name, name_length);
    variable.name[name_length] = '\0';
    memcpy(variable.value, value, value_length);
    variable.value[value_length] = '\0';
    variable.path = memcpy(variable.value + value_length + 1, place->path, path_size);
    variable.line = place->line;

    old = find_variable(variables, variable.name);
    if (old != NULL) {
        free(old->name);
        *old = variable;
        return UCS_OK;
    }
    if (variables->count == variables->capacity) {
        capacity = (variables->capacity == 0) ? 16 : 2 * variables->capacity;
        items    = realloc(variables->items, capacity * sizeof(*items));
        if (items == NULL) {
            free(variable.name);
            return UCS_ERR_NO_MEMORY;
        }
        variables->items    = items;
        variables->capacity = capacity;
    }
    variables->items[variables->count++] = variable;
    return UCS_OK;
}

static int is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

static void trim(const char **begin, const char **end)
{
    while (*begin < *end && is_blank(**begin)) {
        ++*begin;
    }
    while (*begin < *end && is_blank((*end)[-1])) {
        --*end;
    }
}

/* Where the value ends: at a comment sign at its start or behind a blank, or at the end of the line. */
static const char *value_end(const char *value, const char *end)
{
    const char *position;

    for (position = value; position < end; ++position) {
        if ((*position == '#' || *position == ';') && (position == value || is_blank(position[-1]))) {
            return position;
        }
    }
    return end;
}

static int ends_with(const char *begin, const char *end, const char *suffix)
{
    size_t length = strlen(suffix);

    return (size_t)(end - begin) > length && memcmp(end - length, suffix, length) == 0;
}

/* UCS_ERR_INVALID_PARAM: not a line of the format (CFG-6). */
static ucs_status_t parse_line(const char *begin, const char *end, const struct place *place,
                               struct cw_config_variables *variables)
{
    const char *value;
    const char *name_end;
    const char *stop;
    const char *position;

    trim(&begin, &end);
    if (begin == end || *begin == '#' || *begin == ';') {
        return UCS_OK;
    }
    if (memchr(begin, '\0', (size_t)(end - begin)) != NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (*begin == '[') {
        return (memchr(begin, ']', (size_t)(end - begin)) == NULL) ? UCS_ERR_INVALID_PARAM : UCS_OK;
    }
    for (name_end = begin; name_end < end && *name_end != '=' && *name_end != ':'; ++name_end) {
    }
    if (name_end == end) {
        /* A printed configuration lists deprecated names like this (CFG-29). */
        return ends_with(begin, end, " (deprecated)") ? UCS_OK : UCS_ERR_INVALID_PARAM;
    }
    value = name_end + 1;
    trim(&begin, &name_end);
    for (position = begin; position < name_end; ++position) {
        if (is_blank(*position)) {
            return UCS_ERR_INVALID_PARAM;
        }
    }
    if (begin == name_end) {
        return UCS_ERR_INVALID_PARAM;
    }
    while (value < end && is_blank(*value)) {
        ++value;
    }
    stop = value_end(value, end);
    trim(&value, &stop);
    return add_variable(variables, begin, (size_t)(name_end - begin), value, (size_t)(stop - value), place);
}

static ucs_status_t parse_text(const char *text, size_t length, const char *path,
                               struct cw_config_variables *variables, unsigned *bad_line)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const char *end                     = text + length;
    struct place place                  = {.path = path};
    const char *line_end;
    ucs_status_t status;

    *bad_line = 0;
    if (length >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        text += 3;
    }
    while (text < end) {
        ++place.line;
        line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL) {
            line_end = end;
        }
        status = parse_line(text, line_end, &place, variables);
        if (status == UCS_ERR_NO_MEMORY) {
            return status;
        }
        if (status != UCS_OK && *bad_line == 0) {
            *bad_line = place.line;
        }
        text = line_end + 1;
    }
    return UCS_OK;
}

ucs_status_t cw_config_file_parse(const char *path, struct cw_config_variables *variables, struct cw_text *problems)
{
    unsigned bad_line = 0;
    ucs_status_t status;
    size_t length;
    char *text;

    status = cw_file_read(path, FILE_SIZE_MAX, &text, &length);
    if (status == UCS_ERR_EXCEEDS_LIMIT) {
        cw_text_addf(problems, "%sconfiguration file '%s' is ignored: it is longer than %zu bytes",
                     (problems->length == 0) ? "" : "\n", path, FILE_SIZE_MAX);
        return UCS_OK;
    }
    if (status != UCS_OK) {
        return (status == UCS_ERR_NO_MEMORY) ? status : UCS_OK;
    }
    status = parse_text(text, length, path, variables, &bad_line);
    free(text);
    if (bad_line != 0) {
        cw_text_addf(problems,
                     "%scannot parse configuration file '%s' at line %u: expected NAME = value; the line is ignored",
                     (problems->length == 0) ? "" : "\n", path, bad_line);
    }
    return status;
}

ucs_status_t cw_config_environment_take(struct cw_config_variables *variables)
{
    const struct place nowhere = {.path = ""};
    char *const *entry         = cw_env_all();
    const char *equals;
    ucs_status_t status;

    for (; entry != NULL && *entry != NULL; ++entry) {
        if (!cw_string_starts(*entry, "UCX_") && strstr(*entry, "_UCX_") == NULL) {
            continue;
        }
        equals = strchr(*entry, '=');
        if (equals == NULL || equals == *entry) {
            continue;
        }
        status = add_variable(variables, *entry, (size_t)(equals - *entry), equals + 1, strlen(equals + 1), &nowhere);
        if (status != UCS_OK) {
            return status;
        }
    }
    return UCS_OK;
}

int cw_config_library_file(const char *library_path, char *path, size_t size)
{
    const char *end   = strrchr(library_path, '/'); /* of the directory, whose last component begins at `slash` */
    const char *slash = (end == NULL) ? NULL : memrchr(library_path, '/', (size_t)(end - library_path));
    const char *above;
    int length;

    if (slash == NULL) {
        return 0;
    }
    /* Debian puts libraries into lib/<architecture>. */
    if (!cw_string_starts(slash, "/lib")) {
        above = memrchr(library_path, '/', (size_t)(slash - library_path));
        slash = (above != NULL && cw_string_starts(above, "/lib")) ? above : slash;
    }
    length = snprintf(path, size, "%.*s/etc/" FILE_NAME, (int)(slash - library_path), library_path);
    return length > 0 && (size_t)length < size;
}

/* 0: there is no such place. */
static int file_in_directory(const char *directory, const char *below, char *path)
{
    int length;

    if (directory == NULL || directory[0] == '\0') {
        return 0;
    }
    length = snprintf(path, PATH_SIZE, "%s%s/" FILE_NAME, directory, below);
    return length > 0 && length < PATH_SIZE;
}

static int file_of_library(char *path)
{
    char library[PATH_SIZE];

    return cw_env_library_path(library, sizeof(library)) == UCS_OK && cw_config_library_file(library, path, PATH_SIZE);
}

/* The places of CFG-4, the weakest first. */
enum { AT_SYSTEM, AT_LIBRARY, AT_HOME, AT_CONFIG_DIR, AT_CURRENT, NUM_PLACES };

/* 0: there is no such place. */
static int file_at(int place, char *path)
{
    switch (place) {
    case AT_SYSTEM:
        return file_in_directory(CW_SYSCONFDIR, "/ucx", path);
    case AT_LIBRARY:
        return file_of_library(path);
    case AT_HOME:
        return file_in_directory(cw_env_get("HOME"), "", path);
    case AT_CONFIG_DIR:
        return file_in_directory(cw_env_get("UCX_CONFIG_DIR"), "", path);
    default:
        return file_in_directory(".", "", path);
    }
}

/* All files. A directory that occurs twice, such as HOME as current directory, counts last. A path is written anew when
 * its file is read, because paths have room for 4 KiB each and nearly no process has such a file. */
static ucs_status_t parse_all(struct cw_config_variables *variables, struct cw_text *problems)
{
    struct cw_file_id ids[NUM_PLACES];
    int is_there[NUM_PLACES];
    char path[PATH_SIZE];
    ucs_status_t status = UCS_OK;
    int place, later;

    for (place = 0; place < NUM_PLACES; ++place) {
        is_there[place] = file_at(place, path) && cw_file_id_get(path, &ids[place]);
    }
    for (place = 0; place < NUM_PLACES && status == UCS_OK; ++place) {
        for (later = place + 1; is_there[place] && later < NUM_PLACES; ++later) {
            is_there[place] =
                !is_there[later] || ids[place].device != ids[later].device || ids[place].number != ids[later].number;
        }
        if (is_there[place] && file_at(place, path)) {
            status = cw_config_file_parse(path, variables, problems);
        }
    }
    return status;
}

ucs_status_t cw_config_files_get(const struct cw_config_variables **variables_p, struct cw_text *problems)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct cw_config_variables kept;
    static int is_read;
    ucs_status_t status = UCS_OK;

    (void)pthread_mutex_lock(&lock);
    if (!is_read) {
        status = parse_all(&kept, problems);
        if (status == UCS_OK) {
            is_read = 1;
        } else {
            cw_config_variables_free(&kept);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (status == UCS_OK) {
        *variables_p = &kept;
    }
    return status;
}
