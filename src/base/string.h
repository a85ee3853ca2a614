/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text helpers: growing text, file name patterns, comparison for near misses. No locks, no I/O.
 */
#ifndef CW_BASE_STRING_H
#define CW_BASE_STRING_H

#include <stdarg.h>
#include <stddef.h>

/* A NUL-terminated text that grows. Starts as {0}. After a failed allocation it keeps its contents and stays `failed`;
 * further calls are no-ops. */
struct cw_text {
    char *data; /* NULL while empty; owned, end with cw_text_free */
    size_t length;
    size_t capacity;
    int failed;
};

void cw_text_add(struct cw_text *text, const char *string);
void cw_text_add_bytes(struct cw_text *text, const char *bytes, size_t length);
void cw_text_addf(struct cw_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "" rather than NULL. Borrowed until the next change. */
const char *cw_text_get(const struct cw_text *text);
/* Empties it and keeps the memory. */
void cw_text_clear(struct cw_text *text);
void cw_text_free(struct cw_text *text);

/* As strdup. Owned by the caller; NULL: out of memory. */
char *cw_string_dup(const char *string);

/* Truncates to size - 1 bytes and always terminates; size > 0. */
void cw_string_copy(char *to, size_t size, const char *from);

/* Expands %p %h %c %t %u %e; any other pair stays unchanged. Truncates to fit; size > 0. */
void cw_string_expand(char *to, size_t size, const char *pattern);

/* Number of single-byte insertions, removals, replacements and swaps of neighbours that turn one into the other, or
 * limit + 1 when it is more than `limit`. Names longer than 127 bytes count as unlike. */
unsigned cw_string_distance(const char *left, const char *right, unsigned limit);

/* ASCII only, independent of the locale. */
int cw_string_equal_nocase(const char *left, const char *right);
int cw_string_starts(const char *string, const char *prefix);

#endif
