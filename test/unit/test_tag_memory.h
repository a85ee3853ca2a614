/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the matcher: allocations are counted, and refused when the test wants that.
 */
#ifndef CW_TEST_UNIT_TEST_TAG_MEMORY_H
#define CW_TEST_UNIT_TEST_TAG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

static struct {
    size_t live;
    size_t calls;
    bool (*refuses)(void); /* NULL: nothing is refused */
} memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *ptr);

static inline bool memory_granted(void)
{
    bool granted = memory.refuses == NULL || !memory.refuses();

    memory.calls++;
    memory.live += granted;
    return granted;
}

void *__wrap_malloc(size_t size)
{
    return memory_granted() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return memory_granted() ? __real_calloc(count, size) : NULL;
}

void __wrap_free(void *ptr)
{
    memory.live -= ptr != NULL;
    __real_free(ptr);
}

#endif
