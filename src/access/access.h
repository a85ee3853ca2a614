/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the protocols in which the device of a lane carries out puts, gets and atomic operations (src/proto,
 * transport/access.h): registration of local memory, and one completion for all accesses of a request. Invariant: the
 * field `outstanding` of a request counts its accesses in flight; only this count keeps the request alive for them.
 */
#ifndef CW_ACCESS_ACCESS_H
#define CW_ACCESS_ACCESS_H

#include <stdbool.h>

#include "core/lane_access.h"
#include "core/mem_use.h"
#include "core/request.h"
#include "core/rkey.h"
#include "msg/datatype.h"

struct cw_stripes;

/* The accesses of one request. It exists from the first access until the release of the request. */
struct cw_access {
    struct cw_completion completion;
    struct cw_request *request;
    void (*ended)(struct cw_request *request, ucs_status_t status);
    struct cw_mem_use use;      /* the local memory; without a handle, the transport copies the data */
    struct cw_stripes *stripes; /* the lanes that share the accesses; NULL: the message lane alone */
    ucs_status_t status;        /* of the first access that failed */
    uint8_t all_begun;          /* no further access follows */
    uint8_t memory_type;        /* ucs_memory_type_t of the local memory */
    unsigned flags;             /* of every access of a put */
    uint64_t result;            /* the result of an atomic operation */
    uint64_t receive_id;        /* of a message that the device writes: the receiver's id, */
    uint64_t address;           /* and its address in the receiver's memory */
    struct cw_remote_key key;   /* of a message: the peer's memory for the device of the message lane */
};

/* Returns whether the device of the endpoint's lane reaches the memory of the key. The endpoint must be open. */
int cw_access_reaches(const struct ucp_ep *ep, const struct ucp_rkey *rkey);
static inline bool cw_access_is_possible(const struct ucp_ep *ep, const struct ucp_rkey *rkey)
{
    return cw_unlikely(rkey->parts.length > 0) && cw_access_reaches(ep, rkey);
}

/* `ended` is called when no access of the request is in flight and none follows; a call that begins an access never
 * calls it. NULL: out of memory. */
struct cw_access *cw_access_new(struct cw_request *request, void (*ended)(struct cw_request *, ucs_status_t));
/* No access may be in flight. NULL is allowed and does nothing. */
void cw_access_free(struct cw_access *access);
/* Sets `use` for contiguous memory if a registration costs less than a copy: from the region that the program mapped,
 * from a cached registration, or from one for this request alone. */
void cw_access_use(struct cw_access *access, const struct cw_mem_part *part, unsigned rights);

/* Returns how many of the `left` bytes between `memory` and `remote` the next access over the lane moves. `memh`: the
 * registration of `memory`, or NULL. *in_place_p: whether the device accesses `memory` itself (zero copy), which the
 * handle and the device's limits for addresses and lengths must allow. 0: the device does not reach the memory. */
size_t cw_access_next_put(const struct cw_conn *lane, const struct cw_memh *memh, const void *memory, uint64_t remote,
                          size_t left, int *in_place_p);
size_t cw_access_next_get(const struct cw_conn *lane, const struct cw_memh *memh, const void *memory, uint64_t remote,
                          size_t left, int *in_place_p);
/* Counts an access if the transport accepted it according to `status`, the result of the transport's function. Returns
 * UCS_OK then, else `status`. */
ucs_status_t cw_access_taken(struct cw_access *access, ucs_status_t status);
/* Begins a get through a bounce buffer of the transport, which is copied to `to`. Returns the result of the transport's
 * function, or UCS_ERR_NO_MEMORY. */
ucs_status_t cw_access_get_bcopy(struct cw_access *access, struct cw_conn *lane, size_t length, void *to,
                                 const struct cw_access_target *from);
/* The caller has begun all accesses. Returns UCS_INPROGRESS, or the status of the accesses if all of them have
 * ended. */
ucs_status_t cw_access_begun(struct cw_access *access);

#endif
