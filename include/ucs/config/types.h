/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types that appear in configuration values and in the parameters of public calls.
 * Callers: programs. Of all of these the UCP calls take only ucs_config_print_flags_t and ucs_sock_addr_t; the others
 * are the value types behind settings that users know (section 3.5 of the behaviour specification).
 */
#ifndef UCS_CONFIG_TYPES_H
#define UCS_CONFIG_TYPES_H

#include <ucs/sys/compiler_def.h>
#include <sys/types.h>
#include <sys/socket.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** How much is logged; each level contains the ones before it (UCX_LOG_LEVEL). */
typedef enum {
    UCS_LOG_LEVEL_FATAL,       /**< The process cannot go on. */
    UCS_LOG_LEVEL_ERROR,       /**< A call or a connection failed. */
    UCS_LOG_LEVEL_WARN,        /**< Something deserves attention; the default level. */
    UCS_LOG_LEVEL_DIAG,        /**< Failures that a program is expected to deal with. */
    UCS_LOG_LEVEL_INFO,        /**< A few lines per object. */
    UCS_LOG_LEVEL_DEBUG,       /**< Decisions. */
    UCS_LOG_LEVEL_TRACE,       /**< Rare events in detail. */
    UCS_LOG_LEVEL_TRACE_REQ,   /**< Each request. */
    UCS_LOG_LEVEL_TRACE_DATA,  /**< Each packet. */
    UCS_LOG_LEVEL_TRACE_ASYNC, /**< Asynchronous events. */
    UCS_LOG_LEVEL_TRACE_FUNC,  /**< Each call. */
    UCS_LOG_LEVEL_TRACE_POLL,  /**< Each poll. */
    UCS_LOG_LEVEL_LAST,        /**< Number of levels. */
    UCS_LOG_LEVEL_PRINT        /**< Text asked for, not a log record: always printed. */
} ucs_log_level_t;

/** Names by ucs_log_level_t: "FATAL" to "POLL", NULL for UCS_LOG_LEVEL_LAST, "PRINT". */
extern const char *ucs_log_level_names[];

/** How asynchronous events would be delivered; kept for programs that name it. */
typedef enum {
    UCS_ASYNC_MODE_SIGNAL,                                 /**< By signal. */
    UCS_ASYNC_MODE_THREAD,                                 /**< By a thread, in its default form. */
    UCS_ASYNC_MODE_THREAD_SPINLOCK = UCS_ASYNC_MODE_THREAD, /**< By a thread that spins for its lock. */
    UCS_ASYNC_MODE_THREAD_MUTEX,                           /**< By a thread that sleeps for its lock. */
    UCS_ASYNC_MODE_POLL,                                   /**< Only when the program polls. */
    UCS_ASYNC_MODE_LAST                                    /**< Number of modes. */
} ucs_async_mode_t;

/** Names by ucs_async_mode_t, then NULL: "signal", "thread_spinlock", "thread_mutex", "poll". */
extern const char *ucs_async_mode_names[];

/** Value of a ternary setting. */
typedef enum ucs_ternary_auto_value {
    UCS_NO,          /**< Never. */
    UCS_YES,         /**< Always; fail where it is impossible. */
    UCS_TRY,         /**< Where it is possible. */
    UCS_AUTO,        /**< The library decides. */
    UCS_TERNARY_LAST /**< Number of values. */
} ucs_ternary_auto_value_t;

/** 1 for UCS_YES and UCS_TRY, else 0. */
static inline int ucs_ternary_auto_value_is_yes_or_try(ucs_ternary_auto_value_t value)
{
    return (value == UCS_YES) || (value == UCS_TRY);
}

/** 1 for UCS_YES and UCS_NO, which the user decided; else 0. */
static inline int ucs_ternary_auto_value_is_yes_or_no(ucs_ternary_auto_value_t value)
{
    return (value == UCS_YES) || (value == UCS_NO);
}

/** Value of an on-off-auto setting. */
typedef enum ucs_on_off_auto_value {
    UCS_CONFIG_OFF,        /**< Off. */
    UCS_CONFIG_ON,         /**< On. */
    UCS_CONFIG_AUTO,       /**< The library decides. */
    UCS_CONFIG_ON_OFF_LAST /**< Number of values. */
} ucs_on_off_auto_value_t;

/** Actions on an error signal (UCX_HANDLE_ERRORS); a setting holds a bit mask over these. */
typedef enum {
    UCS_HANDLE_ERROR_BACKTRACE, /**< Print a back-trace. */
    UCS_HANDLE_ERROR_FREEZE,    /**< Stop and wait for a debugger. */
    UCS_HANDLE_ERROR_DEBUG,     /**< Start a debugger. */
    UCS_HANDLE_ERROR_NONE,      /**< Nothing. */
    UCS_HANDLE_ERROR_LAST       /**< Number of actions. */
} ucs_handle_error_t;

/** Parts that ucp_config_print() prints; combine by OR. */
typedef enum {
    UCS_CONFIG_PRINT_CONFIG          = UCS_BIT(0), /**< Lines NAME=value. */
    UCS_CONFIG_PRINT_HEADER          = UCS_BIT(1), /**< The title, framed by lines of '#'. */
    UCS_CONFIG_PRINT_DOC             = UCS_BIT(2), /**< A comment with meaning and syntax before each line. */
    UCS_CONFIG_PRINT_HIDDEN          = UCS_BIT(3), /**< Internal and deprecated settings and aliases too. */
    UCS_CONFIG_PRINT_COMMENT_DEFAULT = UCS_BIT(4)  /**< "# " before lines whose value is the default. */
} ucs_config_print_flags_t;

/** An array member of a settings structure: @a array elements and their count. */
#define UCS_CONFIG_ARRAY_FIELD(type, array) \
    struct { \
        type    *array; \
        unsigned count; \
    }

/** An array member of a settings structure whose elements are strings. */
#define UCS_CONFIG_STRING_ARRAY_FIELD(array) UCS_CONFIG_ARRAY_FIELD(char *, array)

/** A list of names. */
typedef struct {
    char   **names;     /**< The names. */
    unsigned count;     /**< How many. */
    unsigned truncated; /**< Non-zero: there were more. Unused up to level 1.16. */
} ucs_config_names_array_t;

/** How the names of an allow-list are meant. */
typedef enum {
    UCS_CONFIG_ALLOW_LIST_ALLOW_ALL, /**< "all": everything, the list is empty. */
    UCS_CONFIG_ALLOW_LIST_ALLOW,     /**< Only what is listed. */
    UCS_CONFIG_ALLOW_LIST_NEGATE     /**< Everything except what is listed. */
} ucs_config_allow_list_mode_t;

/** An allow-list such as UCX_TLS. */
typedef struct {
    ucs_config_names_array_t     array; /**< The names. */
    ucs_config_allow_list_mode_t mode;  /**< How they are meant. */
} ucs_config_allow_list_t;

/** A socket address of any family. The structure borrows what it points at for the length of one call. */
typedef struct ucs_sock_addr {
    const struct sockaddr *addr;    /**< The address; port in network byte order. */
    socklen_t              addrlen; /**< Its length in bytes. */
} ucs_sock_addr_t;

/** Logging of one part of a library. */
typedef struct ucs_log_component_config {
    ucs_log_level_t log_level;   /**< Records above this level are dropped. */
    char            name[16];    /**< Name of the part, NUL-terminated. */
    const char     *file_filter; /**< Pattern of source files whose records are wanted. */
} ucs_log_component_config_t;

#pragma GCC visibility pop
END_C_DECLS

#endif
