/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types of settings: their C form, the syntax of their text and the canonical printing of it.
 * Pure functions; independent of the locale. A printed text parses to the value printed: a value finer than its
 * canonical text is rounded to that text when it is read.
 */
#ifndef CW_CONFIG_VALUE_H
#define CW_CONFIG_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/string.h"
#include "ucs/type/status.h"

/* Special values. A member of a type not named here has none. */
#define CW_UINT_INF       UINT32_MAX          /* CW_VALUE_UINT */
#define CW_ULUNITS_INF    UINT64_MAX          /* CW_VALUE_ULUNITS */
#define CW_ULUNITS_AUTO   (UINT64_MAX - 1)
#define CW_MEMUNITS_INF   SIZE_MAX            /* CW_VALUE_MEMUNITS, and the types with several sizes */
#define CW_MEMUNITS_AUTO  (SIZE_MAX - 1)
#define CW_TIME_INF       UINT64_MAX          /* CW_VALUE_TIME, CW_VALUE_TIME_UNITS */
#define CW_TIME_AUTO      (UINT64_MAX - 1)    /* CW_VALUE_TIME_UNITS */
#define CW_BANDWIDTH_AUTO (-1.0)              /* CW_VALUE_BANDWIDTH */
#define CW_FLOAT_AUTO     (-1.0)              /* CW_VALUE_FLOAT_AUTO */
#define CW_FLOAT_INF      1e12                /* CW_VALUE_FLOAT, CW_VALUE_FLOAT_AUTO; above every other value */

/* Columns: enumerator, C type of the member. */
#define CW_VALUE_TYPES(X)                             \
    X(CW_VALUE_BOOL, int)                             \
    X(CW_VALUE_TERNARY, int)     /* enum cw_ternary */ \
    X(CW_VALUE_ON_OFF_AUTO, int) /* enum cw_on_off */ \
    X(CW_VALUE_UINT, unsigned)                        \
    X(CW_VALUE_ULUNITS, uint64_t)                     \
    X(CW_VALUE_MEMUNITS, size_t) /* bytes */          \
    X(CW_VALUE_TIME, uint64_t)   /* nanoseconds */    \
    X(CW_VALUE_TIME_UNITS, uint64_t)                  \
    X(CW_VALUE_BANDWIDTH, double) /* bytes/second */  \
    X(CW_VALUE_FLOAT, double)                         \
    X(CW_VALUE_FLOAT_AUTO, double)                    \
    X(CW_VALUE_ENUM, int)        /* index of word */  \
    X(CW_VALUE_BITMAP, unsigned) /* bits of words */  \
    X(CW_VALUE_LIST, struct cw_name_list)             \
    X(CW_VALUE_ALLOW_LIST, struct cw_allow_list)      \
    X(CW_VALUE_RANGE, struct cw_range)                \
    X(CW_VALUE_NODE_SIZES, struct cw_node_sizes)      \
    X(CW_VALUE_STRING, char *)    /* without '=' */    \
    X(CW_VALUE_FREE_TEXT, char *)                     \
    X(CW_VALUE_PATTERN, char *)   /* %p %h ... */      \
    X(CW_VALUE_ANY, char *)       /* stored as passed */  \
    X(CW_VALUE_MEMORY_SIZES, struct cw_memory_sizes)

#define CW_VALUE_ENUMERATOR(type, ctype) type,
enum cw_value_type { CW_VALUE_TYPES(CW_VALUE_ENUMERATOR) CW_VALUE_TYPE_COUNT };
#undef CW_VALUE_ENUMERATOR

enum cw_ternary { CW_NO, CW_YES, CW_TRY };
enum cw_on_off { CW_OFF, CW_ON, CW_ON_OFF_AUTO };
enum cw_list_mode { CW_LIST_ALL, CW_LIST_ALLOW, CW_LIST_EXCEPT };

/* Owned by the setting, in one block of memory with its texts; NULL when empty. */
struct cw_name_list {
    char **names;
    unsigned count;
};

struct cw_allow_list {
    struct cw_name_list list; /* empty with CW_LIST_ALL */
    enum cw_list_mode mode;
};

struct cw_range {
    unsigned first;
    unsigned last; /* >= first */
};

/* Memory sizes for transports within a node, and for those between nodes. */
struct cw_node_sizes {
    size_t intra;
    size_t inter;
};

#define CW_MEMORY_TYPE_COUNT 10
struct cw_memory_sizes {
    char *text; /* as the user wrote it */
    size_t sizes[CW_MEMORY_TYPE_COUNT]; /* by value of ucs_memory_type_t */
};

/* Words of enumerations and bitmaps, NULL-terminated. */
extern const char *const cw_words_atomic_mode[];
extern const char *const cw_words_rndv_scheme[];
extern const char *const cw_words_auth_tls[];
extern const char *const cw_words_memory_type[];
extern const char *const cw_words_log_level[];

/* Form of a value: its type, its words, and the default text that supplies the parts that a text omits. */
struct cw_value_spec {
    enum cw_value_type type;
    const char *const *words;  /* CW_VALUE_ENUM, CW_VALUE_BITMAP */
    const char *default_text;  /* lives as long as values do; default of CW_VALUE_MEMORY_SIZES */
};

/* Storage for a value of any type. */
union cw_value {
    unsigned char bytes[sizeof(struct cw_memory_sizes)];
    uint64_t number;
    double real;
    void *pointer;
};

size_t cw_value_size(enum cw_value_type type);

/*
 * Reads `text` into the raw memory `value` (nothing in it is freed). UCS_ERR_INVALID_PARAM: malformed;
 * UCS_ERR_NO_MEMORY; then nothing is written. Logs nothing. To be ended with cw_value_release.
 */
ucs_status_t cw_value_parse(const struct cw_value_spec *spec, const char *text, void *value);

/* Appends the canonical text. */
void cw_value_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text);

/* Copies into raw memory. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_value_copy(const struct cw_value_spec *spec, const void *value, void *copy);
void cw_value_release(const struct cw_value_spec *spec, void *value);

/* Appends the expected syntax, for messages and for the `syntax:` line of printed documentation. */
void cw_value_syntax(const struct cw_value_spec *spec, struct cw_text *text);

#endif
