/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous contexts of the original's transport layer. There are none: a program that asks for one
 * gets UCS_ERR_UNSUPPORTED.
 */
#ifndef UCS_ASYNC_FWD_H
#define UCS_ASYNC_FWD_H

#include <ucs/config/types.h>
#include <ucs/type/status.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** An asynchronous context. None is ever made. */
typedef struct ucs_async_context ucs_async_context_t;

/**
 * Asks for an asynchronous context. Any thread may call it.
 *
 * @param mode     How events would be delivered.
 * @param async_p  Set to NULL.
 *
 * @return UCS_ERR_UNSUPPORTED.
 */
ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t **async_p);

/**
 * Ends an asynchronous context. Does nothing.
 *
 * @param async  NULL, as no other is ever made.
 */
void ucs_async_context_destroy(ucs_async_context_t *async);

#pragma GCC visibility pop
END_C_DECLS

#endif
