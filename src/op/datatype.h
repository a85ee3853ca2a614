/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor over user memory of any datatype: contiguous, iov, generic (spec section 13). Senders read it front to back
 * with cw_dt_pack, receivers write it front to back with cw_dt_unpack. Contiguous memory and iov of another type than
 * the host's are a class of their own, so that nothing takes them for bytes that a processor can touch. Embedded in
 * requests; generic types have a state that must be finished exactly once (DT-9), whatever happens.
 */
#ifndef CW_OP_DATATYPE_H
#define CW_OP_DATATYPE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/nt_copy.h"
#include "mem/copy.h"
#include "ucp/api/ucp.h"

struct cw_stage;

struct cw_dt_cursor {
    size_t length;                /* bytes in all: of the message to send, or the capacity of a receive */
    size_t offset;                /* bytes done */
    union {
        char *contig;
        struct {
            const ucp_dt_iov_t *iov;
            size_t entry;         /* current entry ... */
            size_t entry_offset;  /* ... and the bytes of it that are done */
        } vec;
        struct {
            const struct cw_dt_generic *type;
            void *state;
            char *collected;      /* of a receive in pieces: what came so far; NULL: unpacked piece by piece */
        } generic;
        struct cw_stage *stage;
    };
    uint8_t class_id;             /* ucp_dt_type, or CW_DT_DEVICE; then also: */
    uint8_t memory_type;          /* ucs_memory_type_t of its bytes, */
    uint8_t layout;               /* and the class of what lies there, contiguous or iov */
    uint8_t owns_iov;             /* CW_DT_OWNS: the array, or the contiguous memory, is our copy */
};

/* What a generic datatype handle points to. */
struct cw_dt_generic {
    ucp_generic_dt_ops_t ops;
    void *context;
};

/* Memory of another type than the host's, for the length of one call: a datatype within the library. */
#define CW_DT_DEVICE 3u
/* The same, contiguous, by way of a stage (op/stage.h): of a cursor only. */
#define CW_DT_STAGED 4u

struct cw_dt_device {
    ucp_datatype_t datatype;        /* contiguous or iov */
    ucs_memory_type_t memory_type;
};

static inline ucp_datatype_t cw_dt_make_device(const struct cw_dt_device *device)
{
    return (ucp_datatype_t)(uintptr_t)device | CW_DT_DEVICE;
}

/* How the program called it. */
ucp_datatype_t cw_dt_of_program(ucp_datatype_t datatype);

/* Bits of owns_iov. */
#define CW_DT_OWNS  1u
#define CW_DT_NOTES 2u  /* of a device: its end keeps the type */

/* Also of one that is finished. */
ucs_memory_type_t cw_dt_memory_type(const struct cw_dt_cursor *cursor);

enum cw_dt_direction { CW_DT_SEND, CW_DT_RECV };

static inline int cw_dt_is_contig(ucp_datatype_t datatype)
{
    return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG;
}

static inline size_t cw_dt_contig_length(ucp_datatype_t datatype, size_t count)
{
    return (size_t)(datatype >> UCP_DATATYPE_SHIFT) * count;
}

/* Begins a transfer of contiguous memory. Members are written one by one, as they are read soon after: a wide store
 * that is read in parts, or parts read as one, would stall the processor. */
static inline void cw_dt_start_contig(struct cw_dt_cursor *cursor, void *buffer, size_t length)
{
    cursor->length   = length;
    cursor->offset   = 0;
    cursor->contig   = buffer;
    cursor->class_id = UCP_DATATYPE_CONTIG;
    cursor->owns_iov = 0;
}

/* Begins a transfer; generic types are started here. UCS_ERR_INVALID_PARAM for classes that do not exist (DT-5). */
ucs_status_t cw_dt_start(struct cw_dt_cursor *cursor, ucp_datatype_t datatype, const void *buffer, size_t count,
                         enum cw_dt_direction direction);

/* The request outlives the call: copies the iov array, which the user may reuse (OPA-19). UCS_ERR_NO_MEMORY. */
ucs_status_t cw_dt_keep(struct cw_dt_cursor *cursor);

/* Ends a transfer; nothing happens the second time. */
void cw_dt_finish(struct cw_dt_cursor *cursor);

/* Copies the next bytes, at most `max`, to `dest`; fewer only at the end of the data. Returns how many. */
size_t cw_dt_pack(struct cw_dt_cursor *cursor, void *dest, size_t max);

/* Like cw_dt_pack, to a packet of a connection with this `far`. */
size_t cw_dt_pack_nt(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, void *dest, size_t max);

/* A generic message is to be sent in pieces: packs all of it into memory of our own, which the cursor then describes.
 * If there is none, or the message is very long, its pieces are packed one by one. Other classes stay as they are. */
void cw_dt_pack_ahead(struct cw_dt_cursor *cursor);

/* A message of `total` bytes will be received in pieces: a generic type is to see all of it in one call, if there is
 * memory and it is not very long. Before the first piece. */
void cw_dt_collect(struct cw_dt_cursor *cursor, size_t total);

/* Whether the data lies in memory that can be named by addresses, and touched. */
static inline int cw_dt_is_memory(const struct cw_dt_cursor *cursor)
{
    return cursor->class_id == UCP_DATATYPE_CONTIG || cursor->class_id == UCP_DATATYPE_IOV;
}

/* Whether all that is left fits this many entries. Of memory only, like the next three. */
int cw_dt_fits_iov(const struct cw_dt_cursor *cursor, unsigned max_entries);

/* Names the next bytes, at most `max` and what fits `max_entries`; returns the number of entries, and their bytes in
 * *length_p. The cursor stays. */
unsigned cw_dt_window(const struct cw_dt_cursor *cursor, size_t max, struct iovec *iov, unsigned max_entries,
                      size_t *length_p);

/* Where the bytes lie one behind the other as they come, also those of a generic type that is received in pieces; or
 * NULL. */
static inline char *cw_dt_flat(const struct cw_dt_cursor *cursor)
{
    return (cursor->class_id == UCP_DATATYPE_CONTIG) ? cursor->contig :
           (cursor->class_id == UCP_DATATYPE_GENERIC) ? cursor->generic.collected : NULL;
}

/* As cw_dt_window, of any `length` bytes within the data, wherever the cursor is. The data is flat, or all of it fits
 * `max_entries` (cw_dt_fits_iov at its beginning). */
unsigned cw_dt_part(const struct cw_dt_cursor *cursor, size_t offset, size_t length, struct iovec *iov,
                    unsigned max_entries);

/* All of a flat message is there, and the cursor was not moved: a generic type gets it. */
ucs_status_t cw_dt_deliver(struct cw_dt_cursor *cursor);

/* Moves over bytes that went by themselves. */
void cw_dt_skip(struct cw_dt_cursor *cursor, size_t length);

/* Back to the beginning; of any class, as long as nothing was packed of a generic one, or the array was kept from the
 * start. */
void cw_dt_rewind(struct cw_dt_cursor *cursor);

/* Stores the next bytes. The caller keeps within cursor->length. An error comes from a generic type's unpack (DT-12),
 * or from the device whose memory it is. */
ucs_status_t cw_dt_unpack(struct cw_dt_cursor *cursor, const void *src, size_t length);

ucs_status_t cw_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p);
void cw_dt_destroy(ucp_datatype_t datatype);
/* The packed size of `count` elements (DT-17). */
ucs_status_t cw_dt_packed_size(ucp_datatype_t datatype, const void *buffer, size_t count, size_t *size_p);

#endif
