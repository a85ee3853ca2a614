/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a type of memory. Every byte is kept with its bits turned over, so nothing but the
 * domain's copy can make sense of it. Peers reach it through its owner alone. */
#include "mirror.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *ptr; size_t length; } blocks[MOST];
static uint64_t copies, left = UINT64_MAX;

void mirror_fail_after(uint64_t count)
{
    left = count;
}

uint64_t mirror_copies(void)
{
    return copies;
}

static void query(struct cw_md_attr *attr)
{
    const uint64_t types = CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA);

    *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types};
}

/* The block that has all of these bytes; MOST: none. Locked. */
static unsigned find(const void *ptr, size_t length)
{
    unsigned i = 0;

    while (i < MOST && ((const char *)ptr < blocks[i].ptr || blocks[i].ptr == NULL ||
                        (size_t)((const char *)ptr - blocks[i].ptr) >= blocks[i].length ||
                        length > blocks[i].length - (size_t)((const char *)ptr - blocks[i].ptr))) {
        i++;
    }
    return i;
}

static ucs_status_t allocate(const struct cw_memory_wish *wish, struct cw_memory *memory)
{
    char *ptr  = malloc(wish->length);
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (i < MOST && blocks[i].ptr != NULL) {
        i++;
    }
    if (ptr != NULL && i < MOST) {
        memset(ptr, 0xff, wish->length);
        blocks[i].ptr    = ptr;
        blocks[i].length = wish->length;
        *memory          = (struct cw_memory){.ptr = ptr, .length = wish->length, .fd = -1};
        ptr              = NULL;
    } else {
        i = MOST;
    }
    pthread_mutex_unlock(&lock);
    free(ptr);
    return (i < MOST) ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static void release(struct cw_memory *memory)
{
    unsigned i;

    pthread_mutex_lock(&lock);
    i = find(memory->ptr, 1);
    if (i < MOST) {
        free(blocks[i].ptr);
        blocks[i].ptr = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static ucs_memory_type_t type_of(const void *ptr, size_t length)
{
    unsigned i;

    pthread_mutex_lock(&lock);
    i = find(ptr, length);
    pthread_mutex_unlock(&lock);
    return (i < MOST) ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_UNKNOWN;
}

static ucs_status_t reg(void *address, size_t length)
{
    return (type_of(address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;
}

static void dereg(void *address, size_t length)
{
    (void)address, (void)length;
}

static int publish(struct cw_memory *memory, const struct cw_md_label *label, struct cw_md_part *part)
{
    (void)memory, (void)label, (void)part;
    return 0;
}

static void withdraw(struct cw_memory *memory, const struct cw_md_part *part)
{
    (void)memory, (void)part;
}

static ucs_status_t attach(const struct cw_md_part *part, const struct cw_md_label *label, uint64_t length,
                           struct cw_memory *memory, const uint64_t **valid_p)
{
    (void)part, (void)label, (void)length, (void)memory, (void)valid_p;
    return UCS_ERR_UNREACHABLE;
}

/* Turns the bytes over if one end is of the host; within the domain they stay as they are. */
void mirror_move(void *to, const void *from, size_t length)
{
    const int turn = (type_of(to, length) == UCS_MEMORY_TYPE_CUDA) != (type_of(from, length) == UCS_MEMORY_TYPE_CUDA);

    memmove(to, from, length);
    for (size_t i = 0; turn && i < length; i++) {
        ((unsigned char *)to)[i] ^= 0xff;
    }
}

static ucs_status_t copy(void *to, const void *from, size_t length)
{
    if (left == 0) {
        return UCS_ERR_IO_ERROR;
    }
    left--;
    copies++;
    mirror_move(to, from, length);
    return UCS_OK;
}

const struct cw_md mirror_md = {
    .name     = "mirror",
    .query    = query,
    .allocate = allocate,
    .release  = release,
    .reg      = reg,
    .dereg    = dereg,
    .publish  = publish,
    .withdraw = withdraw,
    .attach   = attach,
    .type_of  = type_of,
    .copy     = copy,
};
