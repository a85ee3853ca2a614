/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor over user memory of any datatype: contiguous, iov, generic. A sender reads the memory front to
 * back with cw_dt_pack, a receiver writes it front to back with cw_dt_unpack. Contiguous memory and iov that are not
 * host memory have a class of their own, so that no code accesses them by the CPU. Requests contain cursors. A generic
 * type has a state that must be finished exactly once, also after errors.
 */
#ifndef CW_MSG_DATATYPE_H
#define CW_MSG_DATATYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cost.h"
#include "base/nt_copy.h"
#include "mem/copy.h"
#include "ucp/api/ucp.h"

struct cw_completion;
struct cw_staging;
struct cw_dt_piece;

/* Operations of a cursor that uses staging (rndv/staging.h). `end` waits for the copies in progress and frees the
 * staging; afterwards nothing accesses the program's memory. */
struct cw_dt_staging {
    void (*pack)(struct cw_staging *staging, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length);
    ucs_status_t (*unpack)(struct cw_staging *staging, size_t offset, const char *src, size_t length);
    void (*end)(struct cw_staging *staging);
};

/* The pieces of a generic type. CW_DT_LONG: elements of many pieces, each sent as one nevertheless. */
enum cw_dt_pieces { CW_DT_ELEMENTS, CW_DT_LONG, CW_DT_INSIDE };

struct cw_dt_cursor {
    size_t length;                /* total bytes: of the message to send, or the capacity of a receive */
    size_t offset;                /* bytes transferred */
    union {
        char *contig;
        struct {
            const ucp_dt_iov_t *iov;
            size_t entry;         /* current entry ... */
            size_t entry_offset;  /* ... and its transferred bytes */
        } vec;
        struct {
            struct cw_dt_generic *type; /* the cursor holds a reference */
            void *state;
            struct cw_dt_piece *piece; /* bytes between the type and shorter packets; NULL: none now */
        } generic;
        struct {
            struct cw_staging *staging;
            const struct cw_dt_staging *by_staging;
        };
    };
    uint8_t class_id;             /* ucp_dt_type, CW_DT_DEVICE or CW_DT_STAGED; for the last two also: */
    union {
        uint8_t memory_type;      /* ucs_memory_type_t of its bytes, */
        bool gathers;             /* generic: cw_dt_gather was called */
    };
    union {
        uint8_t layout;           /* and the class of its layout, contiguous or iov */
        uint8_t pieces;           /* generic: enum cw_dt_pieces */
    };
    uint8_t owns_iov;             /* CW_DT_OWNS, CW_DT_NOTES */
    uint32_t piece_length;        /* generic: of a piece; CW_DT_INSIDE: at most */
};

/* The structure whose address is the handle of a generic datatype. */
struct cw_dt_generic {
    ucp_generic_dt_ops_t ops;
    void *context;
    uint32_t holds; /* references, atomic: the program's until it destroys the type, and those of cursors, of any
                       thread */
    struct cw_cost cost[CW_DT_INSIDE + 1]; /* of packing and unpacking, by enum cw_dt_pieces */
    uint32_t long_messages; /* sent, not CW_DT_ELEMENTS; atomic */
};

/* Class of memory that is not host memory: a datatype inside the library, which exists during one call. */
#define CW_DT_DEVICE 3u
/* Class of contiguous device memory that is copied through staging (rndv/staging.h). Only cursors have it. */
#define CW_DT_STAGED 4u

struct cw_dt_device {
    ucp_datatype_t datatype;        /* contiguous or iov */
    ucs_memory_type_t memory_type;
};

static inline ucp_datatype_t cw_dt_make_device(const struct cw_dt_device *device)
{
    return (ucp_datatype_t)(uintptr_t)device | CW_DT_DEVICE;
}

/* Whether the cursor is over contiguous memory of a device. */
static inline bool cw_dt_is_flat_device(const struct cw_dt_cursor *cursor)
{
    return cursor->class_id == CW_DT_DEVICE && cursor->layout == UCP_DATATYPE_CONTIG;
}

/* Returns the datatype that the program passed. */
ucp_datatype_t cw_dt_of_program(ucp_datatype_t datatype);

/* Bits of owns_iov. CW_DT_OWNS: the array, or the contiguous memory, is the cursor's own copy. */
#define CW_DT_OWNS  1u
#define CW_DT_NOTES 2u  /* device memory: the finished cursor retains the memory type */

/* Returns the memory type; also valid for a finished cursor. */
ucs_memory_type_t cw_dt_memory_type(const struct cw_dt_cursor *cursor);

enum cw_dt_direction { CW_DT_SEND, CW_DT_RECV };

static inline bool cw_dt_is_contig(ucp_datatype_t datatype)
{
    return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG;
}

/* The datatype of a call; the default is bytes. */
static inline ucp_datatype_t cw_dt_of_param(const ucp_request_param_t *param)
{
    return (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) ? param->datatype : ucp_dt_make_contig(1);
}

static inline size_t cw_dt_contig_length(ucp_datatype_t datatype, size_t count)
{
    return (size_t)(datatype >> UCP_DATATYPE_SHIFT) * count;
}

/* Begins a transfer of contiguous memory. The members are stored one by one, because they are loaded soon after: a load
 * of another size than the store would defeat store forwarding. */
static inline void cw_dt_start_contig(struct cw_dt_cursor *cursor, void *buffer, size_t length)
{
    cursor->length = length;
    cursor->offset = 0;
    cursor->contig = buffer;
    cursor->class_id = UCP_DATATYPE_CONTIG;
    cursor->owns_iov = 0;
}

/* Begins a transfer, and starts a generic type. Returns UCS_ERR_INVALID_PARAM for an unknown class. */
ucs_status_t cw_dt_start(struct cw_dt_cursor *cursor, ucp_datatype_t datatype, const void *buffer, size_t count,
                         enum cw_dt_direction direction);

/* Copies the iov array for a request that outlives the call, because the user may reuse the array. Returns
 * UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t cw_dt_keep(struct cw_dt_cursor *cursor);

/* Ends a transfer; a second call does nothing. */
void cw_dt_finish(struct cw_dt_cursor *cursor);

/* Copies the next bytes, at most `max`, to `dest`; fewer only at the end of the data. Returns their number. */
size_t cw_dt_pack(struct cw_dt_cursor *cursor, void *dest, size_t max);

/* Like cw_dt_pack, to a packet of the ring to which `nt` belongs. NULL: no ring. */
size_t cw_dt_pack_nt(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, void *dest, size_t max);

/* A generic type is called for at least this many bytes, except at the end of a message and where the type stops by
 * itself: types of MPI libraries are slow to seek to an arbitrary position in their data. Calls end between elements.
 * If these are long, and seeking is not slow, calls are for CW_DT_LEAST_INSIDE bytes or more, and at most CW_DT_ITEM
 * more, where the type stops by itself: the sender ends a packet there, and the receiver's type is called for the same
 * bytes. Bytes of shorter packets pass through a buffer; without memory each packet is packed or unpacked by itself. A
 * type that returns UCS_ERR_MESSAGE_TRUNCATED for a piece before the end cannot stop there (structures of MPICH): it
 * gets the same bytes again with the rest of the element, or if it refuses that, with all that follow, up to a
 * limit. */
#define CW_DT_PIECE ((size_t)64 << 10)
#define CW_DT_ITEM  64u
/* No number of packets of usual length of a sender with other pieces has this length. In messages of more than a MiB
 * the least length is larger and may be such a number; that costs time only. */
#define CW_DT_LEAST_INSIDE ((size_t)34 << 10)

/* As cw_dt_pack_nt, but also fewer at the end of a piece of a generic type. */
size_t cw_dt_pack_next(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, void *dest, size_t max);

/* The number of bytes up to the end of the piece, which a packet must not exceed. Generic types only. */
size_t cw_dt_to_piece_end(const struct cw_dt_cursor *cursor);

/* Packs the next piece of a generic type, unless bytes of the last one are left, and returns the next bytes, at most
 * `max`, in *iov. A transport may send them from there; if it completes later it calls the returned completion, which
 * calls `completion`. NULL: no memory. */
struct cw_completion *cw_dt_pack_piece(struct cw_dt_cursor *cursor, size_t max, struct iovec *iov,
                                       struct cw_completion *completion);
/* Advances the cursor over bytes sent from the piece. `lent`: the transport has not completed. */
void cw_dt_sent_piece(struct cw_dt_cursor *cursor, size_t length, int lent);

/* Must be called before the first bytes of a message of `total` bytes that arrives in several packets. */
void cw_dt_gather(struct cw_dt_cursor *cursor, size_t total);

/* Returns where the next bytes of a gathered message may be written, for cw_dt_unpack; NULL: no space. */
char *cw_dt_piece_place(struct cw_dt_cursor *cursor, size_t length);

/* Whether the data is in memory that the CPU can access by address. */
static inline bool cw_dt_is_memory(const struct cw_dt_cursor *cursor)
{
    return cursor->class_id == UCP_DATATYPE_CONTIG || cursor->class_id == UCP_DATATYPE_IOV;
}

/* Whether all remaining bytes fit this many entries. This function and cw_dt_window are for memory only
 * (cw_dt_is_memory). */
int cw_dt_fits_iov(const struct cw_dt_cursor *cursor, unsigned max_entries);

/* Writes the addresses of the next bytes to `iov`: at most `max` bytes, in at most `max_entries` entries. Returns the
 * number of entries, and their bytes in *length_p. The cursor does not advance. */
unsigned cw_dt_window(const struct cw_dt_cursor *cursor, size_t max, struct iovec *iov, unsigned max_entries,
                      size_t *length_p);

/* As cw_dt_window, for `length` bytes at `offset` of the data, independent of the cursor's position. All of the data
 * must fit `max_entries` (cw_dt_fits_iov at its beginning). */
unsigned cw_dt_part(const struct cw_dt_cursor *cursor, size_t offset, size_t length, struct iovec *iov,
                    unsigned max_entries);

/* Advances the cursor over bytes that were transferred without it. */
void cw_dt_skip(struct cw_dt_cursor *cursor, size_t length);

/* Rewinds the cursor to the beginning. No bytes of a generic type may have been packed; an iov array may have been
 * copied (cw_dt_keep) only at the beginning. */
void cw_dt_rewind(struct cw_dt_cursor *cursor);

/* Stores the next bytes. The caller must not exceed cursor->length. Errors come from the unpack function of a generic
 * type, or from the device of the memory. */
ucs_status_t cw_dt_unpack(struct cw_dt_cursor *cursor, const void *src, size_t length);

ucs_status_t cw_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p);
void cw_dt_destroy(ucp_datatype_t datatype);
/* The packed size of `count` elements. */
ucs_status_t cw_dt_packed_size(ucp_datatype_t datatype, const void *buffer, size_t count, size_t *size_p);

#endif
