/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocols share by which the device of a lane carries out puts, gets and atomic operations (src/proto/rma,
 * transport/access.h): memory of ours that the device knows, and one completion for all accesses of a request.
 * Invariant: `outstanding` of a request counts its accesses, and an access holds nothing of the request but that.
 */
#ifndef CW_OP_ACCESS_H
#define CW_OP_ACCESS_H

#include "core/lane_access.h"
#include "core/mem_use.h"
#include "core/rkey.h"
#include "core/request.h"

/* Of a request, from its first access until its release. */
struct cw_access {
    struct cw_completion completion;
    struct cw_request *request;
    void (*ended)(struct cw_request *request, ucs_status_t status);
    struct cw_mem_use use;      /* of the memory; without a handle: through memory of the transport */
    ucs_status_t status;        /* of the first that failed */
    uint8_t all_begun;          /* no further access follows */
    unsigned flags;             /* of all accesses of a put */
    uint64_t result;            /* of an atomic operation */
    uint64_t receive_id;        /* of a message that is written: the receiver's name for it, */
    uint64_t address;           /* and its memory */
    struct cw_remote_key key;
};

/* Whether the device of the endpoint's lane reaches the memory of that key. Only on an open endpoint. */
int cw_access_reaches(const struct ucp_ep *ep, const struct ucp_rkey *rkey);
static inline int cw_access_is_possible(const struct ucp_ep *ep, const struct ucp_rkey *rkey)
{
    return cw_unlikely(rkey->parts.length > 0) && cw_access_reaches(ep, rkey);
}

/* `ended` is called when no access is under way and none follows, never from inside a call. NULL: no memory. */
struct cw_access *cw_access_new(struct cw_request *request, void (*ended)(struct cw_request *, ucs_status_t));
/* No access is under way. NULL: nothing happens. */
void cw_access_free(struct cw_access *access);
/* Sets `use` for contiguous memory of the host, where that is worth it: by the region that the program mapped, or by a
 * registration for this request alone. */
void cw_access_use(struct cw_access *access, const void *memory, size_t length, unsigned rights);

/* How many of the `left` bytes between `memory` and `remote` the next access moves, and whether out of or to the memory
 * itself: as far as the handle, and what the device wants of addresses and lengths, allow it. 0: the device does not
 * reach it. */
size_t cw_access_next_put(const struct cw_access *access, const void *memory, uint64_t remote, size_t left,
                          int *in_place_p);
size_t cw_access_next_get(const struct cw_access *access, const void *memory, uint64_t remote, size_t left,
                          int *in_place_p);
/* What a slot answered: an access that was taken is counted. Returns UCS_OK for it. */
ucs_status_t cw_access_taken(struct cw_access *access, ucs_status_t status);
/* A get through memory of the transport, to `to`. Answers as a slot, or UCS_ERR_NO_MEMORY. */
ucs_status_t cw_access_get_bcopy(struct cw_access *access, struct cw_conn *lane, size_t length, void *to,
                                 const struct cw_access_target *from);
/* All were taken. UCS_INPROGRESS, or how they ended. */
ucs_status_t cw_access_begun(struct cw_access *access);

#endif
