/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text helpers (base/string.h).
 */
#include "base/string.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/env.h"

#define DISTANCE_NAME_MAX 128

/* Reserves `more` bytes and a NUL. */
static int text_reserve(struct cw_text *text, size_t more)
{
    size_t capacity = (text->capacity == 0) ? 64 : text->capacity;
    char *data;

    if (text->failed) {
        return 0;
    }
    if (more >= SIZE_MAX / 4 || text->length >= SIZE_MAX / 4) {
        text->failed = 1;
        return 0;
    }
    while (capacity < text->length + more + 1) {
        capacity *= 2;
    }
    if (capacity == text->capacity) {
        return 1;
    }
    data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void cw_text_add_bytes(struct cw_text *text, const char *bytes, size_t length)
{
    if (text_reserve(text, length)) {
        memcpy(text->data + text->length, bytes, length);
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void cw_text_add(struct cw_text *text, const char *string)
{
    cw_text_add_bytes(text, string, strlen(string));
}

void cw_text_addf(struct cw_text *text, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !text_reserve(text, (size_t)length)) {
        text->failed = 1;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    va_end(args);
    text->length += (size_t)length;
}

const char *cw_text_get(const struct cw_text *text)
{
    return (text->data == NULL) ? "" : text->data;
}

void cw_text_clear(struct cw_text *text)
{
    text->length = 0;
    text->failed = 0;
    if (text->data != NULL) {
        text->data[0] = '\0';
    }
}

void cw_text_free(struct cw_text *text)
{
    free(text->data);
    *text = (struct cw_text){0};
}

char *cw_string_dup(const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = malloc(size);

    if (copy != NULL) {
        memcpy(copy, string, size);
    }
    return copy;
}

void cw_string_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length >= size) {
        length = size - 1;
    }
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Writes the expansion of `letter`; 0 when it has none. */
static int expand_letter(char *to, size_t size, char letter)
{
    switch (letter) {
    case 'p':
        (void)snprintf(to, size, "%d", cw_env_pid());
        return 1;
    case 'h':
        cw_env_host(to, size);
        return 1;
    case 'c':
        (void)snprintf(to, size, "%02d", cw_env_cpu());
        return 1;
    case 't':
        (void)snprintf(to, size, "%llu", (unsigned long long)(cw_env_wall_time_us() / 1000000u));
        return 1;
    case 'u':
        cw_env_user(to, size);
        return 1;
    case 'e':
        cw_env_program(to, size);
        return 1;
    default:
        return 0;
    }
}

void cw_string_expand(char *to, size_t size, const char *pattern)
{
    size_t length = 0;
    char value[256];

    while (*pattern != '\0' && length + 1 < size) {
        if (pattern[0] == '%' && expand_letter(value, sizeof(value), pattern[1])) {
            cw_string_copy(to + length, size - length, value);
            length += strlen(to + length);
            pattern += 2;
        } else {
            to[length++] = *pattern++;
        }
    }
    to[length] = '\0';
}

static unsigned smaller(unsigned left, unsigned right)
{
    return (left < right) ? left : right;
}

unsigned cw_string_distance(const char *left, const char *right, unsigned limit)
{
    size_t left_length = strlen(left);
    size_t right_length = strlen(right);
    unsigned rows[3][DISTANCE_NAME_MAX];
    unsigned *before_last = rows[0];
    unsigned *last = rows[1];
    unsigned *row = rows[2];
    unsigned *free_row;
    size_t i;
    size_t j;

    if (left_length >= DISTANCE_NAME_MAX || right_length >= DISTANCE_NAME_MAX) {
        return limit + 1;
    }
    for (j = 0; j <= right_length; ++j) {
        last[j] = (unsigned)j;
        before_last[j] = 0;
    }
    for (i = 1; i <= left_length; ++i) {
        row[0] = (unsigned)i;
        for (j = 1; j <= right_length; ++j) {
            row[j] = smaller(last[j] + 1, row[j - 1] + 1);
            row[j] = smaller(row[j], last[j - 1] + (left[i - 1] != right[j - 1]));
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
                row[j] = smaller(row[j], before_last[j - 2] + 1);
            }
        }
        free_row = before_last;
        before_last = last;
        last = row;
        row = free_row;
    }
    return (last[right_length] > limit) ? limit + 1 : last[right_length];
}

static char to_lower(char letter)
{
    return (letter >= 'A' && letter <= 'Z') ? (char)(letter - 'A' + 'a') : letter;
}

int cw_string_equal_nocase(const char *left, const char *right)
{
    while (*left != '\0' && to_lower(*left) == to_lower(*right)) {
        ++left;
        ++right;
    }
    return to_lower(*left) == to_lower(*right);
}

int cw_string_starts(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}
