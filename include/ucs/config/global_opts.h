/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the process.
 */
#ifndef UCS_GLOBAL_OPTS_H
#define UCS_GLOBAL_OPTS_H

#include <ucs/config/types.h>
#include <ucs/type/status.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Options that programs read directly. Its size and the places of the members are part of the interface. */
typedef struct ucs_global_opts {
    ucs_log_component_config_t log_component;    /**< The library's log: its level, and the name "UCX". */
    uint64_t                   reserved1[5];     /**< Nothing. */
    int                        log_print_enable; /**< 0: lines of level PRINT are not wanted. */
    int                        reserved2[93];    /**< Nothing. */
} ucs_global_opts_t;

/**
 * The options. To be read only. The level is WARN, the default, until the first call of the library reads
 * UCX_LOG_LEVEL, and follows every later change.
 */
extern ucs_global_opts_t ucs_global_opts;

/**
 * Sets an option of the process, in place of its environment variable. Any thread may call it at any time. libucp goes
 * by the value from its next ucp_config_read(), ucp_config_modify() or ucp_init() on.
 *
 * @param name   Name of the variable without UCX_.
 * @param value  Its text; borrowed for the call.
 *
 * @return UCS_OK; for options that are read at the start only, such as LOG_FILE, without effect.
 *         UCS_ERR_NO_ELEM: no option of the process has this name.
 *         UCS_ERR_INVALID_PARAM: the text is no value of this option, or an argument is NULL. UCS_ERR_NO_MEMORY.
 */
ucs_status_t ucs_global_opts_set_value(const char *name, const char *value);

#pragma GCC visibility pop
END_C_DECLS

#endif
