/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists, texts and sizes by memory type (config/list.h).
 */
#include "config/list.h"

#include <stdlib.h>
#include <string.h>

#include "config/number.h"

/* Elements between commas; empty ones do not count, blanks do. An empty list has no block of memory. */
static ucs_status_t split(const char *text, struct cw_name_list *list)
{
    size_t length = strlen(text);
    unsigned count = 0;
    const char *position;
    char **names;
    char *copy;
    unsigned i;

    for (position = text; *position != '\0'; ++position) {
        count += (*position != ',' && (position == text || position[-1] == ','));
    }
    if (count == 0) {
        *list = (struct cw_name_list){NULL, 0};
        return UCS_OK;
    }
    names = malloc((size_t)count * sizeof(*names) + length + 1);
    if (names == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    copy = (char *)(names + count);
    memcpy(copy, text, length + 1);
    for (i = 0; i < count; ++i) {
        copy += strspn(copy, ",");
        names[i] = copy;
        copy += strcspn(copy, ",");
        if (*copy == ',') {
            *copy++ = '\0';
        }
    }
    list->names = names;
    list->count = count;
    return UCS_OK;
}

ucs_status_t cw_list_parse(const struct cw_value_spec *spec, const char *text, void *value)
{
    (void)spec;
    return (strchr(text, '=') != NULL) ? UCS_ERR_INVALID_PARAM : split(text, value);
}

void cw_list_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const struct cw_name_list *list = value;
    unsigned i;

    (void)spec;
    for (i = 0; i < list->count; ++i) {
        cw_text_addf(text, "%s%s", (i == 0) ? "" : ",", list->names[i]);
    }
}

ucs_status_t cw_list_copy(const struct cw_name_list *list, struct cw_name_list *copy)
{
    struct cw_text text = {0};
    ucs_status_t status;

    cw_list_print(NULL, list, &text);
    status = text.failed ? UCS_ERR_NO_MEMORY : split(cw_text_get(&text), copy);
    cw_text_free(&text);
    return status;
}

ucs_status_t cw_allow_list_parse(const struct cw_value_spec *spec, const char *text, void *value)
{
    struct cw_allow_list *list_p = value;
    struct cw_allow_list list = {.mode = CW_LIST_ALLOW};
    ucs_status_t status;
    unsigned i;

    (void)spec;
    if (strcmp(text, "all") == 0) {
        list_p->list = (struct cw_name_list){NULL, 0};
        list_p->mode = CW_LIST_ALL;
        return UCS_OK;
    }
    if (*text == '^') {
        list.mode = CW_LIST_EXCEPT;
        ++text;
    }
    status = cw_list_parse(spec, text, &list.list);
    if (status != UCS_OK) {
        return status;
    }
    for (i = 0; i < list.list.count; ++i) {
        /* As first name of an allow-list, a name with ^ would negate the list; elsewhere it names nothing. */
        if (strcmp(list.list.names[i], "all") == 0 ||
            (i == 0 && list.mode == CW_LIST_ALLOW && list.list.names[i][0] == '^')) {
            free(list.list.names);
            return UCS_ERR_INVALID_PARAM;
        }
    }
    *list_p = list;
    return UCS_OK;
}

void cw_allow_list_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    const struct cw_allow_list *list = value;

    if (list->mode == CW_LIST_ALL) {
        cw_text_add(text, "all");
        return;
    }
    if (list->mode == CW_LIST_EXCEPT) {
        cw_text_add(text, "^");
    }
    cw_list_print(spec, &list->list, text);
}

ucs_status_t cw_allow_list_copy(const struct cw_allow_list *list, struct cw_allow_list *copy)
{
    copy->mode = list->mode;
    return cw_list_copy(&list->list, &copy->list);
}

/* Defaults, which most settings have, are not copied: they live as long as the library. */
static char *text_keep(const struct cw_value_spec *spec, const char *text)
{
    return (text == spec->default_text) ? (char *)text : cw_string_dup(text);
}

ucs_status_t cw_string_parse(const struct cw_value_spec *spec, const char *text, void *value)
{
    char *copy;

    if (spec->type == CW_VALUE_STRING && strchr(text, '=') != NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    copy = text_keep(spec, text);
    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *(char **)value = copy;
    return UCS_OK;
}

void cw_string_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    (void)spec;
    cw_text_add(text, *(char *const *)value);
}

ucs_status_t cw_string_value_copy(const struct cw_value_spec *spec, char *const *value, char **copy)
{
    *copy = text_keep(spec, *value);
    return (*copy == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
}

void cw_string_value_release(const struct cw_value_spec *spec, char *value)
{
    if (value != spec->default_text) {
        free(value);
    }
}

/* Overwrites the sizes of the types that the text names. */
static int read_memory_sizes(const char *text, size_t *sizes)
{
    char item[64];
    char *colon;
    size_t length;
    int type;

    while (*text != '\0') {
        length = strcspn(text, ",");
        if (length >= sizeof(item)) {
            return 0;
        }
        memcpy(item, text, length);
        item[length] = '\0';
        colon = strchr(item, ':');
        if (colon == NULL) {
            return 0;
        }
        *colon = '\0';
        for (type = 0; type < CW_MEMORY_TYPE_COUNT && strcmp(cw_words_memory_type[type], item) != 0; ++type) {
        }
        if (type == CW_MEMORY_TYPE_COUNT || !cw_number_read_memunits(colon + 1, &sizes[type])) {
            return 0;
        }
        text += length;
        text += (*text == ',');
    }
    return 1;
}

ucs_status_t cw_memory_sizes_parse(const struct cw_value_spec *spec, const char *text, void *value)
{
    struct cw_memory_sizes *sizes_p = value;
    struct cw_memory_sizes sizes = {.text = NULL};

    if (!read_memory_sizes(spec->default_text, sizes.sizes) || !read_memory_sizes(text, sizes.sizes)) {
        return UCS_ERR_INVALID_PARAM;
    }
    sizes.text = cw_string_dup(text);
    if (sizes.text == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *sizes_p = sizes;
    return UCS_OK;
}

void cw_memory_sizes_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text)
{
    (void)spec;
    cw_text_add(text, ((const struct cw_memory_sizes *)value)->text);
}

ucs_status_t cw_memory_sizes_copy(const struct cw_memory_sizes *sizes, struct cw_memory_sizes *copy)
{
    *copy = *sizes;
    copy->text = cw_string_dup(sizes->text);
    return (copy->text == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
}
