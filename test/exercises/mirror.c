/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a type of memory. Every byte is kept with its bits turned over, so nothing but the
 * domain's copy can make sense of it. Peers reach it through its owner alone. */
#include "mirror.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A block of no bytes is free; the one behind the last stands for none. */
static struct block { char *ptr; size_t length; } blocks[MOST + 1];

static void query(const struct cw_md *md CW_UNUSED, struct cw_md_attr *attr)
{
    const uint64_t types = CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA);

    *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types};
}

/* The block that has all of these bytes; MOST: none. Locked. */
static unsigned find(const void *ptr, size_t length)
{
    unsigned i = 0;

    while (i < MOST && ((uintptr_t)ptr - (uintptr_t)blocks[i].ptr >= blocks[i].length ||
                        length > blocks[i].length - ((uintptr_t)ptr - (uintptr_t)blocks[i].ptr))) {
        i++;
    }
    return i;
}

static ucs_status_t allocate(const struct cw_md *md CW_UNUSED, const struct cw_memory_spec *spec, struct cw_memory *mem)
{
    ucs_status_t status = UCS_ERR_NO_MEMORY;
    char *ptr = malloc(spec->length);
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (i < MOST && blocks[i].length > 0) {
        i++;
    }
    if (ptr != NULL && i < MOST) {
        blocks[i] = (struct block){memset(ptr, 0xff, spec->length), spec->length};
        *mem = (struct cw_memory){.ptr = ptr, .length = spec->length, .fd = -1};
        status = UCS_OK;
    }
    pthread_mutex_unlock(&lock);
    if (status != UCS_OK) {
        free(ptr);
    }
    return status;
}

static void release(const struct cw_md *md CW_UNUSED, struct cw_memory *memory)
{
    pthread_mutex_lock(&lock);
    blocks[find(memory->ptr, 1)].length = 0;
    pthread_mutex_unlock(&lock);
    free(memory->ptr);
}

static ucs_memory_type_t type_of(const struct cw_md *md CW_UNUSED, const void *ptr, size_t length)
{
    unsigned i;

    pthread_mutex_lock(&lock);
    i = find(ptr, length);
    pthread_mutex_unlock(&lock);
    return (i < MOST) ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_UNKNOWN;
}

static ucs_status_t reg(const struct cw_md *md, void *address, size_t length)
{
    return (type_of(md, address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;
}

/* Turns the bytes over if one end is of the host; within the domain they stay as they are. */
static ucs_status_t copy(const struct cw_md *md, void *to, const void *from, size_t length)
{
    const int turn = type_of(md, to, length) != type_of(md, from, length);

    memmove(to, from, length);
    for (size_t i = 0; turn && i < length; i++) {
        ((unsigned char *)to)[i] ^= 0xff;
    }
    return UCS_OK;
}

const struct cw_md mirror_md = {
    .name = "mirror",
    .query = query,
    .allocate = allocate,
    .release = release,
    .reg = reg,
    .type_of = type_of,
    .copy = copy,
};
