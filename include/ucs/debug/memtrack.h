/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in the library's name, and announcing memory of the program's own to tracking of leaks.
 * Nothing is tracked here: programs that announce their memory link and run, and use their own tools to find leaks.
 */
#ifndef UCS_MEMTRACK_H
#define UCS_MEMTRACK_H

#include <stddef.h>
#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * Reports that memory was allocated. Does nothing, from any thread.
 *
 * @param ptr   The memory.
 * @param size  Its bytes.
 * @param name  What it is for.
 */
void ucs_memtrack_allocated(void *ptr, size_t size, const char *name);

/**
 * Reports that memory is about to be freed. Does nothing, from any thread.
 *
 * @param ptr  The memory.
 */
void ucs_memtrack_releasing(void *ptr);

/**
 * Allocates memory as malloc() does. Any thread may call it.
 *
 * @param size  Bytes; for 0 there may be a pointer, which is to be freed, too.
 * @param name  What it is for; ignored.
 *
 * @return The memory, to be freed by ucs_free(), or NULL.
 */
void *ucs_malloc(size_t size, const char *name);

/**
 * Frees memory of ucs_malloc(). Any thread may call it.
 *
 * @param ptr  The memory, or NULL.
 */
void ucs_free(void *ptr);

#pragma GCC visibility pop
END_C_DECLS

#endif
