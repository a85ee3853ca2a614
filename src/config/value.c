/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types of settings (config/value.h): one row per type with its reader, its printer and its syntax. Numbers are in
 * config/number.c, types that own memory in config/list.c.
 */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/list.h"
#include "config/number.h"

const char *const cw_words_atomic_mode[] = {"cpu", "device", "guess", NULL};
const char *const cw_words_rndv_scheme[] = {"auto",     "get_zcopy", "put_zcopy", "get_ppln",
                                            "put_ppln", "am",        "rkey_ptr",  NULL};
const char *const cw_words_auth_tls[] = {"off", "psk", "cert", NULL};
const char *const cw_words_memory_type[] = {"host",    "cuda",      "cuda-managed", "rocm",  "rocm-managed", "rdma",
                                            "ze-host", "ze-device", "ze-managed",   "gaudi", NULL};
const char *const cw_words_log_level[] = {"FATAL", "ERROR", "WARN",  "DIAG", "INFO", "DEBUG", "TRACE",
                                          "REQ",   "DATA",  "ASYNC", "FUNC", "POLL", NULL};

static const char *const bool_words[] = {"n", "y", NULL};
static const char *const try_words[] = {"n", "y", "try", NULL};
static const char *const on_off_words[] = {"off", "on", "auto", NULL};

static ucs_status_t status_of(int is_good)
{
    return is_good ? UCS_OK : UCS_ERR_INVALID_PARAM;
}

/* -1 when `text` (not terminated) is none of the words. */
static int find_word(const char *const *words, const char *text, size_t length)
{
    char name[64];
    int i;

    if (length >= sizeof(name)) {
        return -1;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    for (i = 0; words[i] != NULL; ++i) {
        if (cw_string_equal_nocase(words[i], name)) {
            return i;
        }
    }
    return -1;
}

/* 0, 1 or -1. */
static int bool_value(const char *text)
{
    if (cw_string_equal_nocase(text, "y") || cw_string_equal_nocase(text, "yes") || strcmp(text, "on") == 0 ||
        strcmp(text, "1") == 0) {
        return 1;
    }
    if (cw_string_equal_nocase(text, "n") || cw_string_equal_nocase(text, "no") || strcmp(text, "off") == 0 ||
        strcmp(text, "0") == 0) {
        return 0;
    }
    return -1;
}

static ucs_status_t parse_bool(const struct cw_value_spec *spec, const char *text, void *value)
{
    int number = bool_value(text);

    if (number < 0 && spec->type == CW_VALUE_TERNARY &&
        (cw_string_equal_nocase(text, "try") || cw_string_equal_nocase(text, "maybe"))) {
        number = CW_TRY;
    }
    if (number < 0 && spec->type == CW_VALUE_ON_OFF_AUTO && cw_string_equal_nocase(text, "auto")) {
        number = CW_ON_OFF_AUTO;
    }
    if (number < 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *(int *)value = number;
    return UCS_OK;
}

static void print_bool(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const char *const *words = on_off_words;

    if (spec->type == CW_VALUE_BOOL || spec->type == CW_VALUE_TERNARY) {
        words = (spec->type == CW_VALUE_BOOL) ? bool_words : try_words;
    }
    cw_text_add(text, words[*(const int *)value]);
}

static ucs_status_t parse_number(const struct cw_value_spec *spec, const char *text, void *value)
{
    switch (spec->type) {
    case CW_VALUE_UINT:
        return status_of(cw_number_read_uint(text, value));
    case CW_VALUE_ULUNITS:
        return status_of(cw_number_read_ulunits(text, value));
    case CW_VALUE_MEMUNITS:
        return status_of(cw_number_read_memunits(text, value));
    case CW_VALUE_TIME:
    case CW_VALUE_TIME_UNITS:
        return status_of(cw_number_read_time(text, spec->type == CW_VALUE_TIME_UNITS, value));
    case CW_VALUE_BANDWIDTH:
        return status_of(cw_number_read_bandwidth(text, value));
    default:
        return status_of(cw_number_read_float(text, spec->type == CW_VALUE_FLOAT_AUTO, value));
    }
}

static void print_number(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    switch (spec->type) {
    case CW_VALUE_UINT:
        cw_number_print_uint(*(const unsigned *)value, text);
        break;
    case CW_VALUE_ULUNITS:
        cw_number_print_ulunits(*(const uint64_t *)value, text);
        break;
    case CW_VALUE_MEMUNITS:
        cw_number_print_memunits(*(const size_t *)value, text);
        break;
    case CW_VALUE_TIME:
    case CW_VALUE_TIME_UNITS:
        cw_number_print_time(*(const uint64_t *)value, text);
        break;
    case CW_VALUE_BANDWIDTH:
        cw_number_print_bandwidth(*(const double *)value, text);
        break;
    default:
        cw_number_print_float(*(const double *)value, spec->type == CW_VALUE_FLOAT_AUTO, text);
        break;
    }
}

static ucs_status_t parse_enum(const struct cw_value_spec *spec, const char *text, void *value)
{
    int word = find_word(spec->words, text, strlen(text));

    if (word < 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *(int *)value = word;
    return UCS_OK;
}

static void print_enum(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    cw_text_add(text, spec->words[*(const int *)value]);
}

static ucs_status_t parse_bitmap(const struct cw_value_spec *spec, const char *text, void *value)
{
    unsigned bits = 0;
    size_t length;
    int word;

    while (*text != '\0') {
        length = strcspn(text, ",");
        word = find_word(spec->words, text, length);
        if (word < 0) {
            return UCS_ERR_INVALID_PARAM;
        }
        bits |= 1u << word;
        text += length;
        text += (*text == ',');
    }
    *(unsigned *)value = bits;
    return UCS_OK;
}

static void print_bitmap(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const char *separator = "";
    unsigned bits = *(const unsigned *)value;
    unsigned word;

    for (word = 0; spec->words[word] != NULL; ++word) {
        if ((bits & (1u << word)) != 0) {
            cw_text_addf(text, "%s%s", separator, spec->words[word]);
            separator = ",";
        }
    }
}

static ucs_status_t parse_range(const struct cw_value_spec *spec, const char *text, void *value)
{
    struct cw_range *range_p = value;
    const char *dash = strchr(text, '-');
    size_t length = (dash == NULL) ? strlen(text) : (size_t)(dash - text);
    struct cw_range range;
    char first[32];

    (void)spec;
    if (length >= sizeof(first)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    if (!cw_number_read_uint(first, &range.first) ||
        !cw_number_read_uint((dash == NULL) ? first : dash + 1, &range.last) || range.first > range.last ||
        range.last == CW_UINT_INF) {
        return UCS_ERR_INVALID_PARAM;
    }
    *range_p = range;
    return UCS_OK;
}

static void print_range(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const struct cw_range *range = value;

    (void)spec;
    if (range->first == range->last) {
        cw_text_addf(text, "%u", range->first);
    } else {
        cw_text_addf(text, "%u-%u", range->first, range->last);
    }
}

/* A part of CW_VALUE_NODE_SIZES. */
static int parse_part(const char *text, size_t length, struct cw_node_sizes *sizes)
{
    static const char intra[] = "intra:", inter[] = "inter:";
    const size_t prefix = sizeof(intra) - 1;
    char number[32];
    size_t *size;

    if (length <= prefix || length - prefix >= sizeof(number)) {
        return 0;
    }
    if (strncmp(text, intra, prefix) == 0) {
        size = &sizes->intra;
    } else if (strncmp(text, inter, prefix) == 0) {
        size = &sizes->inter;
    } else {
        return 0;
    }
    memcpy(number, text + prefix, length - prefix);
    number[length - prefix] = '\0';
    return cw_number_read_memunits(number, size);
}

static ucs_status_t parse_node_sizes(const struct cw_value_spec *spec, const char *text, void *value)
{
    struct cw_node_sizes sizes = {.intra = CW_MEMUNITS_AUTO, .inter = CW_MEMUNITS_AUTO};
    const char *comma = strchr(text, ',');
    size_t first = (comma == NULL) ? strlen(text) : (size_t)(comma - text);

    (void)spec;
    if (strchr(text, ':') == NULL) {
        if (!cw_number_read_memunits(text, &sizes.intra)) {
            return UCS_ERR_INVALID_PARAM;
        }
        sizes.inter = sizes.intra;
    } else if (!parse_part(text, first, &sizes) ||
               (comma != NULL && !parse_part(comma + 1, strlen(comma + 1), &sizes))) {
        return UCS_ERR_INVALID_PARAM;
    }
    *(struct cw_node_sizes *)value = sizes;
    return UCS_OK;
}

static void print_node_sizes(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const struct cw_node_sizes *sizes = value;

    (void)spec;
    if (sizes->intra == sizes->inter) {
        cw_number_print_memunits(sizes->intra, text);
        return;
    }
    cw_text_add(text, "intra:");
    cw_number_print_memunits(sizes->intra, text);
    cw_text_add(text, ",inter:");
    cw_number_print_memunits(sizes->inter, text);
}

#define CW_VALUE_SIZE(type, ctype) [type] = sizeof(ctype),
static const size_t value_sizes[CW_VALUE_TYPE_COUNT] = {CW_VALUE_TYPES(CW_VALUE_SIZE)};
#undef CW_VALUE_SIZE

/* `syntax` NULL: generated from the words. */
static const struct {
    ucs_status_t (*parse)(const struct cw_value_spec *spec, const char *text, void *value);
    void (*print)(const struct cw_value_spec *spec, const void *value, struct cw_text *text);
    const char *syntax;
} value_types[CW_VALUE_TYPE_COUNT] = {
    [CW_VALUE_BOOL] = {parse_bool, print_bool, "y or n"},
    [CW_VALUE_TERNARY] = {parse_bool, print_bool, "y, n or try"},
    [CW_VALUE_ON_OFF_AUTO] = {parse_bool, print_bool, "on, off or auto"},
    [CW_VALUE_UINT] = {parse_number, print_number, "non-negative integer or inf"},
    [CW_VALUE_ULUNITS] = {parse_number, print_number, "non-negative integer, inf or auto"},
    [CW_VALUE_MEMUNITS] = {parse_number, print_number,
                           "memory size: integer with an optional b, k, m, g or t (powers of 1024), inf or auto"},
    [CW_VALUE_TIME] = {parse_number, print_number, "time: number with m, s, ms, us or ns (s if none), or inf"},
    [CW_VALUE_TIME_UNITS] = {parse_number, print_number,
                             "time: number with m, s, ms, us or ns (s if none), inf or auto"},
    [CW_VALUE_BANDWIDTH] = {parse_number, print_number,
                            "bandwidth: number with an optional K, M, G or T and B (bytes) or b (bits), "
                            "optionally ps, /s or s; or auto"},
    [CW_VALUE_FLOAT] = {parse_number, print_number, "number or inf"},
    [CW_VALUE_FLOAT_AUTO] = {parse_number, print_number, "non-negative number, inf or auto"},
    [CW_VALUE_ENUM] = {parse_enum, print_enum, NULL},
    [CW_VALUE_BITMAP] = {parse_bitmap, print_bitmap, NULL},
    [CW_VALUE_LIST] = {cw_list_parse, cw_list_print, "comma-separated list of names without '='"},
    [CW_VALUE_ALLOW_LIST] = {cw_allow_list_parse, cw_allow_list_print,
                             "comma-separated list of names, with a leading ^ for all but these, or all alone"},
    [CW_VALUE_RANGE] = {parse_range, print_range, "number, or range a-b of numbers"},
    [CW_VALUE_NODE_SIZES] = {parse_node_sizes, print_node_sizes,
                             "memory size as 64k, inf or auto; or intra:<size>,inter:<size>"},
    [CW_VALUE_STRING] = {cw_string_parse, cw_string_print, "text without '='"},
    [CW_VALUE_FREE_TEXT] = {cw_string_parse, cw_string_print, "text"},
    [CW_VALUE_PATTERN] = {cw_string_parse, cw_string_print,
                          "stdout, stderr, file:<path> or a path, with %p pid, %h host, %c cpu, %t time, "
                          "%u user, %e program"},
    [CW_VALUE_ANY] = {cw_string_parse, cw_string_print, "any text"},
    [CW_VALUE_MEMORY_SIZES] = {cw_memory_sizes_parse, cw_memory_sizes_print,
                               "comma-separated list of <memory type>:<memory size>"},
};

size_t cw_value_size(enum cw_value_type type)
{
    return value_sizes[type];
}

ucs_status_t cw_value_parse(const struct cw_value_spec *spec, const char *text, void *value)
{
    const char *position;

    /* A line of `NAME=value` must hold any value. */
    for (position = text; *position != '\0' && spec->type != CW_VALUE_ANY; ++position) {
        if ((unsigned char)*position < ' ' || *position == 0x7f) {
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return value_types[spec->type].parse(spec, text, value);
}

void cw_value_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    value_types[spec->type].print(spec, value, text);
}

ucs_status_t cw_value_copy(const struct cw_value_spec *spec, const void *value, void *copy)
{
    switch (spec->type) {
    case CW_VALUE_LIST:
        return cw_list_copy(value, copy);
    case CW_VALUE_ALLOW_LIST:
        return cw_allow_list_copy(value, copy);
    case CW_VALUE_STRING:
    case CW_VALUE_FREE_TEXT:
    case CW_VALUE_PATTERN:
    case CW_VALUE_ANY:
        return cw_string_value_copy(spec, value, copy);
    case CW_VALUE_MEMORY_SIZES:
        return cw_memory_sizes_copy(value, copy);
    default:
        memcpy(copy, value, value_sizes[spec->type]);
        return UCS_OK;
    }
}

void cw_value_release(const struct cw_value_spec *spec, void *value)
{
    switch (spec->type) {
    case CW_VALUE_LIST:
        free(((struct cw_name_list *)value)->names);
        break;
    case CW_VALUE_ALLOW_LIST:
        free(((struct cw_allow_list *)value)->list.names);
        break;
    case CW_VALUE_STRING:
    case CW_VALUE_FREE_TEXT:
    case CW_VALUE_PATTERN:
    case CW_VALUE_ANY:
        cw_string_value_release(spec, *(char **)value);
        break;
    case CW_VALUE_MEMORY_SIZES:
        free(((struct cw_memory_sizes *)value)->text);
        break;
    default:
        break;
    }
}

void cw_value_syntax(const struct cw_value_spec *spec, struct cw_text *text)
{
    int i;

    if (value_types[spec->type].syntax != NULL) {
        cw_text_add(text, value_types[spec->type].syntax);
        return;
    }
    cw_text_add(text, (spec->type == CW_VALUE_BITMAP) ? "comma-separated list of " : "one of ");
    for (i = 0; spec->words[i] != NULL; ++i) {
        cw_text_addf(text, "%s%s", (i == 0) ? "" : ", ", spec->words[i]);
    }
}
