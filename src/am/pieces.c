/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of active messages in several packets. A handler gets its data contiguous behind the descriptor, but the
 * length of the message comes from a peer and may be false. A short message therefore gets its memory with the first
 * packet. A long message starts in a buffer of its own, which grows to twice the bytes received; at the end the
 * descriptor is copied to its place before the data. The buffer grows in place, or the kernel remaps its pages, so its
 * bytes are not copied again.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "am/desc.h"
#include "base/bytes.h"

static size_t alignment(const struct ucp_worker *worker)
{
    return (worker->am_alignment > alignof(struct cw_am_desc)) ? worker->am_alignment : alignof(struct cw_am_desc);
}

/* Returns the address of the data in the allocation: aligned, with space for the descriptor before it. */
static char *data_of(char *memory, size_t align)
{
    const uintptr_t least = (uintptr_t)memory + sizeof(struct cw_am_desc);

    return memory + (((least + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)memory);
}

struct cw_am_desc *cw_am_pieces_new(const struct ucp_worker *worker, uint64_t total, const void *header,
                                    uint32_t header_length)
{
    const uint64_t at_once = (total <= CW_AM_AT_ONCE) ? total : 0;
    struct cw_am_desc *desc = cw_am_desc_new(worker, at_once, header_length, CW_AM_DESC_PIECES);

    if (desc != NULL) {
        desc->header_length = header_length;
        desc->in.total = total;
        cw_bytes_copy_any((char *)cw_am_desc_data(desc) + at_once, header, header_length);
    }
    return desc;
}

/* Enlarges the buffer to at least `least` bytes of data. 0: no memory. */
static int grow(const struct ucp_worker *worker, struct cw_am_desc *desc, uint64_t least)
{
    const size_t align = alignment(worker);
    const size_t at = (desc->growing == NULL) ? 0 : (size_t)(data_of(desc->growing, align) - desc->growing);
    uint64_t space = (2 * least > CW_AM_AT_ONCE) ? 2 * least : CW_AM_AT_ONCE;
    char *memory, *data;

    space = (space < desc->in.total) ? space : desc->in.total;
    if (align > PTRDIFF_MAX / 4) {
        return 0;
    }
    memory = realloc(desc->growing, sizeof(struct cw_am_desc) + align + (size_t)space + desc->header_length);
    if (memory == NULL) {
        return 0;
    }
    data = data_of(memory, align);
    if (desc->growing != NULL && data != memory + at) {
        cw_bytes_move(data, memory + at, (size_t)desc->in.received); /* the aligned offset in the buffer has changed */
    }
    desc->growing = memory;
    desc->space = space;
    return 1;
}

char *cw_am_pieces_space(const struct ucp_worker *worker, struct cw_am_desc *desc, size_t length)
{
    const uint64_t at = desc->in.received;

    if (desc->in.total <= CW_AM_AT_ONCE) {
        return (char *)cw_am_desc_data(desc) + at;
    }
    if (at + length > desc->space && !grow(worker, desc, at + length)) {
        return NULL;
    }
    return data_of(desc->growing, alignment(worker)) + at;
}

ucs_status_t cw_am_pieces_add(const struct ucp_worker *worker, struct cw_am_desc *desc, const void *data,
                              size_t length)
{
    char *to;

    if (length == 0) {
        return UCS_OK;
    }
    to = cw_am_pieces_space(worker, desc, length);
    if (to == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (to != data) {
        cw_bytes_copy_any(to, data, length);
    }
    return UCS_OK;
}

struct cw_am_desc *cw_am_pieces_end(const struct ucp_worker *worker, struct cw_am_desc *desc)
{
    struct cw_am_desc *whole;
    char *data;

    if (desc->growing == NULL) {
        return desc;
    }
    data = data_of(desc->growing, alignment(worker));
    whole = cw_am_desc_of(data);
    cw_bytes_copy_any(data + desc->in.total, cw_am_desc_data(desc), desc->header_length);
    *whole = *desc;
    whole->memory = desc->growing;
    whole->growing = NULL;
    cw_list_init(&whole->in.link);
    desc->growing = NULL;
    cw_am_desc_free(desc);
    return whole;
}
