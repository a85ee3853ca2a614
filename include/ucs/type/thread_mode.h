/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the threads of a program share an object.
 * Callers: users of ucp_worker_params_t, ucp_worker_attr_t, ucp_context_attr_t and ucp_lib_attr_t.
 */
#ifndef UCS_TYPE_THREAD_MODE_H
#define UCS_TYPE_THREAD_MODE_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Promise of the program about its threads; each value allows what the ones before it allow. */
typedef enum {
    UCS_THREAD_MODE_SINGLE,     /**< One thread, the creating one, makes all calls. */
    UCS_THREAD_MODE_SERIALIZED, /**< Any thread, never two at the same time: the program locks. */
    UCS_THREAD_MODE_MULTI,      /**< Any thread at any time: the library locks. */
    UCS_THREAD_MODE_LAST        /**< Number of modes. */
} ucs_thread_mode_t;

/** Names by mode, UCS_THREAD_MODE_LAST entries: "single", "serialized", "multi". */
extern const char *ucs_thread_mode_names[];

#pragma GCC visibility pop
END_C_DECLS

#endif
