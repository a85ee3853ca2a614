/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcing memory of the program's own to the reference library's tracking of leaks.
 * Nothing is tracked here: programs that announce their memory link and run, and use their own tools to find leaks.
 */
#ifndef UCS_MEMTRACK_H
#define UCS_MEMTRACK_H

#include <stddef.h>
#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * Tells that memory was allocated. Does nothing, from any thread.
 *
 * @param ptr   The memory.
 * @param size  Its bytes.
 * @param name  What it is for.
 */
void ucs_memtrack_allocated(void *ptr, size_t size, const char *name);

/**
 * Tells that memory is about to be freed. Does nothing, from any thread.
 *
 * @param ptr  The memory.
 */
void ucs_memtrack_releasing(void *ptr);

#pragma GCC visibility pop
END_C_DECLS

#endif
