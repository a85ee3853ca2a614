/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.conf files and the environment as lists of variables (config/file.h). Nothing is logged here: the files
 * may say where the log goes.
 */
#include "config/file.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "os/env.h"
#include "os/machine.h"

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
    free(variables->slots);
    free(variables->patterns);
    *variables = (struct cw_config_variables){0};
}

/* Where a value was read. */
struct location {
    const char *path;
    unsigned line;
};

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0;

    for (; *name != '\0'; ++name) {
        hash = cw_hash_mix(hash ^ (unsigned char)*name);
    }
    return hash;
}

/* The slot of a name: it contains the number of the newest variable of that name, or 0. There are slots. */
static uint32_t *slot_of(const struct cw_config_variables *variables, const char *name)
{
    size_t slot = hash_of(name) & (variables->num_slots - 1);

    while (variables->slots[slot] != 0 && strcmp(variables->items[variables->slots[slot] - 1].name, name) != 0) {
        slot = (slot + 1) & (variables->num_slots - 1);
    }
    return &variables->slots[slot];
}

/* A value that `nothing` (which may be NULL) matches, meaning none. */
static bool says_nothing(const struct cw_config_variable *variable, const char *nothing)
{
    return nothing != NULL && cw_string_equal_nocase(variable->value, nothing);
}

static const struct cw_config_variable *find_variable(const struct cw_config_variables *variables, const char *name,
                                                      const char *nothing)
{
    uint32_t number = (variables->num_slots == 0) ? 0 : *slot_of(variables, name);

    while (number != 0 && says_nothing(&variables->items[number - 1], nothing)) {
        number = variables->items[number - 1].older;
    }
    return (number == 0) ? NULL : &variables->items[number - 1];
}

const struct cw_config_variable *cw_config_variables_get(const struct cw_config_variables *variables, const char *name)
{
    return find_variable(variables, name, NULL);
}

const struct cw_config_variable *cw_config_variables_match(const struct cw_config_variables *variables,
                                                           const char *name, const char *nothing)
{
    const struct cw_config_variable *found = find_variable(variables, name, nothing);
    const struct cw_config_variable *pattern;
    size_t i;

    for (i = variables->num_patterns; i-- > 0 && found == NULL;) {
        pattern = &variables->items[variables->patterns[i]];
        if (fnmatch(pattern->name, name, 0) == 0 && !says_nothing(pattern, nothing)) {
            found = pattern;
        }
    }
    return found;
}

void cw_config_variable_location(const struct cw_config_variable *variable, const char *before, const char *after,
                                 struct cw_text *text)
{
    if (variable->path[0] != '\0') {
        cw_text_addf(text, "%s'%s' at line %u%s", before, variable->path, variable->line, after);
    }
}

/* Reserves space for one more of each, with at least two slots for each variable. */
static ucs_status_t make_space(struct cw_config_variables *variables)
{
    const size_t capacity = (variables->capacity == 0) ? 16 : 2 * variables->capacity;
    struct cw_config_variable *items;
    uint32_t *patterns, *slots;
    size_t i;

    if (variables->count < variables->capacity) {
        return UCS_OK;
    }
    items = realloc(variables->items, capacity * sizeof(*items));
    variables->items = (items == NULL) ? variables->items : items;
    patterns = realloc(variables->patterns, capacity * sizeof(*patterns));
    variables->patterns = (patterns == NULL) ? variables->patterns : patterns;
    slots = calloc(2 * capacity, sizeof(*slots));
    if (items == NULL || patterns == NULL || slots == NULL) {
        free(slots);
        return UCS_ERR_NO_MEMORY;
    }
    free(variables->slots);
    variables->slots = slots;
    variables->num_slots = 2 * capacity;
    variables->capacity = capacity;
    for (i = 0; i < variables->count; ++i) {
        *slot_of(variables, items[i].name) = (uint32_t)i + 1;
    }
    return UCS_OK;
}

/* UCS_ERR_EXCEEDS_LIMIT: too many names in a file are patterns. */
static ucs_status_t add_variable(struct cw_config_variables *variables, const char *name, size_t name_length,
                                 const char *value, size_t value_length, const struct location *location)
{
    const bool is_pattern =
        location->path[0] != '\0' && (memchr(name, '*', name_length) != NULL || memchr(name, '?', name_length) != NULL);
    const size_t path_size = strlen(location->path) + 1;
    struct cw_config_variable variable;
    uint32_t *slot;

    if (is_pattern && variables->num_patterns == CW_CONFIG_PATTERNS_MAX) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    if (make_space(variables) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    variable.name = malloc(name_length + value_length + 2 + path_size);
    if (variable.name == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    variable.value = variable.name + name_length + 1;
    memcpy(variable.name, name, name_length);
    variable.name[name_length] = '\0';
    memcpy(variable.value, value, value_length);
    variable.value[value_length] = '\0';
    variable.path = memcpy(variable.value + value_length + 1, location->path, path_size);
    variable.line = location->line;

    slot = slot_of(variables, variable.name);
    variable.older = *slot;
    if (is_pattern) {
        variables->patterns[variables->num_patterns++] = (uint32_t)variables->count;
    }
    variables->items[variables->count++] = variable;
    *slot = (uint32_t)variables->count;
    return UCS_OK;
}

static bool is_blank(char letter)
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

/* The end of the value: at a comment sign at its start or behind a blank, or at the end of the line. */
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

/* A partially read file. */
struct reader {
    struct location location;
    struct cw_machine machine;  /* valid once a condition was found */
    bool knows_machine;
    bool skips;                 /* the section is for other machines */
};

/* What the condition of that name is compared with; NULL: there is no such condition. */
static const char *condition_subject(struct reader *reader, const char *name, size_t length)
{
    static const char *const names[] = {"CPU vendor", "CPU model", "Product name"};
    size_t i;

    for (i = 0; i < 3 && (strlen(names[i]) != length || memcmp(names[i], name, length) != 0); i++) {
    }
    if (i == 3) {
        return NULL;
    }
    if (!reader->knows_machine) {
        cw_machine_read(&reader->machine);
        reader->knows_machine = true;
    }
    return (const char *[]){reader->machine.cpu_vendor, reader->machine.cpu_model, reader->machine.product}[i];
}

static ucs_status_t check_condition(struct reader *reader, const char *subject, const char *pattern, size_t length)
{
    char *copy = strndup(pattern, length);

    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    reader->skips = fnmatch(copy, subject, FNM_CASEFOLD) != 0;
    free(copy);
    return UCS_OK;
}

/* UCS_ERR_INVALID_PARAM: a syntax error. */
static ucs_status_t parse_line(const char *begin, const char *end, struct reader *reader,
                               struct cw_config_variables *variables)
{
    const char *subject;
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
        if (memchr(begin, ']', (size_t)(end - begin)) == NULL) {
            return UCS_ERR_INVALID_PARAM;
        }
        reader->skips = false;
        return UCS_OK;
    }
    if (reader->skips) {
        return UCS_OK;
    }
    for (name_end = begin; name_end < end && *name_end != '=' && *name_end != ':'; ++name_end) {
    }
    if (name_end == end) {
        /* A printed configuration lists deprecated names like this. */
        return ends_with(begin, end, " (deprecated)") ? UCS_OK : UCS_ERR_INVALID_PARAM;
    }
    value = name_end + 1;
    trim(&begin, &name_end);
    while (value < end && is_blank(*value)) {
        ++value;
    }
    stop = value_end(value, end);
    trim(&value, &stop);
    subject = condition_subject(reader, begin, (size_t)(name_end - begin));
    if (subject != NULL) {
        return check_condition(reader, subject, value, (size_t)(stop - value));
    }
    for (position = begin; position < name_end; ++position) {
        if (is_blank(*position)) {
            return UCS_ERR_INVALID_PARAM;
        }
    }
    if (begin == name_end) {
        return UCS_ERR_INVALID_PARAM;
    }
    return add_variable(variables, begin, (size_t)(name_end - begin), value, (size_t)(stop - value), &reader->location);
}

/* The first skipped line; 0: none. */
struct bad_line {
    unsigned number;
    ucs_status_t status;
};

static ucs_status_t parse_text(const char *text, size_t length, const char *path,
                               struct cw_config_variables *variables, struct bad_line *bad)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const char *end = text + length;
    struct reader reader = {.location = {.path = path}};
    const char *line_end;
    ucs_status_t status;

    if (length >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        text += 3;
    }
    while (text < end) {
        ++reader.location.line;
        line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL) {
            line_end = end;
        }
        status = parse_line(text, line_end, &reader, variables);
        if (status == UCS_ERR_NO_MEMORY) {
            return status;
        }
        if (status != UCS_OK && bad->number == 0) {
            *bad = (struct bad_line){reader.location.line, status};
        }
        text = line_end + 1;
    }
    return UCS_OK;
}

static void add_problem(struct cw_text *problems, const char *before, const char *path, const char *after)
{
    cw_text_addf(problems, "%s%s '%s'%s", (problems->length == 0) ? "" : "\n", before, path, after);
}

/* `other`: an additional accepted owner, see cw_file_read_trusted. */
static ucs_status_t parse_file(const char *path, unsigned other, struct cw_config_variables *variables,
                               struct cw_text *problems)
{
    struct bad_line bad = {0};
    ucs_status_t status;
    char why[256];
    size_t length;
    char *text;

    status = cw_file_read_trusted(path, FILE_SIZE_MAX, other, &text, &length, why, sizeof(why));
    if (status == UCS_ERR_REJECTED) {
        add_problem(problems, "configuration file", path, " is ignored: ");
        cw_text_add(problems, why);
    }
    if (status != UCS_OK) {
        return (status == UCS_ERR_NO_MEMORY) ? status : UCS_OK;
    }
    status = parse_text(text, length, path, variables, &bad);
    free(text);
    if (bad.number != 0 && bad.status == UCS_ERR_EXCEEDS_LIMIT) {
        add_problem(problems, "configuration file", path, "");
        cw_text_addf(problems, " at line %u: only the first %u names with * or ? are read", bad.number,
                     CW_CONFIG_PATTERNS_MAX);
    } else if (bad.number != 0) {
        add_problem(problems, "cannot parse configuration file", path, "");
        cw_text_addf(problems, " at line %u: expected NAME = value; the line is ignored", bad.number);
    }
    return status;
}

ucs_status_t cw_config_file_parse(const char *path, struct cw_config_variables *variables, struct cw_text *problems)
{
    return parse_file(path, 0, variables, problems);
}

ucs_status_t cw_config_environment_take(struct cw_config_variables *variables)
{
    const struct location nowhere = {.path = ""};
    char *const *entry = cw_env_all();
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

int cw_config_library_file(const char *library_path, const char *below, char *path, size_t size)
{
    const char *end = strrchr(library_path, '/'); /* of the directory, whose last component begins at `slash` */
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
    length = snprintf(path, size, "%.*s/etc%s/" FILE_NAME, (int)(slash - library_path), library_path, below);
    return length > 0 && (size_t)length < size;
}

/* 0: there is no such path. */
static int file_in_directory(const char *directory, const char *below, char *path)
{
    int length;

    if (directory == NULL || directory[0] == '\0') {
        return 0;
    }
    length = snprintf(path, PATH_SIZE, "%s%s/" FILE_NAME, directory, below);
    return length > 0 && length < PATH_SIZE;
}

/* The paths of the files, the weakest first. */
enum { AT_SYSTEM, AT_PREFIX, AT_PREFIX_UCX, AT_HOME, AT_CONFIG_DIR, AT_CURRENT, NUM_FILES };

/* Two texts of PATH_SIZE, which would overflow a small stack. */
struct paths {
    char file[PATH_SIZE];
    char library[PATH_SIZE];
};

/* 0: there is no such path. */
static int file_at(int which, struct paths *paths)
{
    switch (which) {
    case AT_SYSTEM:
        return file_in_directory(CW_SYSCONFDIR, "/ucx", paths->file);
    case AT_PREFIX:
    case AT_PREFIX_UCX:
        return cw_env_library_path(paths->library, PATH_SIZE) == UCS_OK &&
               cw_config_library_file(paths->library, (which == AT_PREFIX) ? "" : "/ucx", paths->file, PATH_SIZE);
    case AT_HOME:
        return file_in_directory(cw_env_get("HOME"), "", paths->file);
    case AT_CONFIG_DIR:
        return file_in_directory(cw_env_get("UCX_CONFIG_DIR"), "", paths->file);
    default:
        return !cw_env_is_secure() && file_in_directory(".", "", paths->file);
    }
}

/* An explicitly named file is expected to be readable. */
static void check_config_dir(struct cw_text *problems)
{
    const char *directory = cw_env_get("UCX_CONFIG_DIR");
    const int error = (directory == NULL || directory[0] == '\0') ? 0 : cw_directory_check(directory);

    if (error != 0) {
        add_problem(problems, "no configuration file is read from UCX_CONFIG_DIR, the directory", directory, ": ");
        cw_text_add(problems, strerror(error));
    }
}

/* All files. A directory that occurs twice, such as HOME as current directory, counts last. A path is rebuilt when its
 * file is read, because storing paths takes 4 KiB each and nearly no process has such a file. The owner of the library
 * may configure it, because he could change it. */
static ucs_status_t parse_all(struct cw_config_variables *variables, struct cw_text *problems)
{
    struct paths *const paths = malloc(sizeof(*paths));
    struct cw_file_id ids[NUM_FILES];
    int is_known[NUM_FILES]; /* ids[] contains its number */
    ucs_status_t status = UCS_OK;
    int which, later, again;

    if (paths == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    check_config_dir(problems);
    for (which = 0; which < NUM_FILES; ++which) {
        is_known[which] = file_at(which, paths) && cw_file_id_get(paths->file, &ids[which]);
    }
    for (which = 0; which < NUM_FILES && status == UCS_OK; ++which) {
        for (again = 0, later = which + 1; is_known[which] && later < NUM_FILES; ++later) {
            again |= is_known[later] && ids[which].device == ids[later].device &&
                     ids[which].number == ids[later].number;
        }
        if (!again && file_at(which, paths)) {
            status = parse_file(paths->file, (which <= AT_PREFIX_UCX) ? cw_env_library_owner() : 0, variables,
                                problems);
        }
    }
    free(paths);
    return status;
}

ucs_status_t cw_config_files_get(const struct cw_config_variables **variables_p, struct cw_text *problems)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct cw_config_variables retained;
    static int is_read;
    ucs_status_t status = UCS_OK;

    (void)pthread_mutex_lock(&lock);
    if (!is_read) {
        status = parse_all(&retained, problems);
        if (status == UCS_OK) {
            is_read = 1;
        } else {
            cw_config_variables_free(&retained);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (status == UCS_OK) {
        *variables_p = &retained;
    }
    return status;
}
