/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of a transport whose device reads and writes the peer's memory (transport/transport.h). Optional; a
 * transport with it has packets as well, over the same connection.
 *
 * Every access is asynchronous. The target's program and processor take no part in it: the target's device checks the
 * key, the range and the rights.
 */
#ifndef CW_TRANSPORT_ACCESS_H
#define CW_TRANSPORT_ACCESS_H

#include "mem/domain.h"
#include "transport/iface.h"
#include "transport/packets.h"

/* The access begins after all fetches (gets, atomics with a result) that this connection took before have ended. */
#define CW_ACCESS_AFTER_FETCHES 1u

/* Memory of ours. The registration has CW_RIGHT_LOCAL_WRITE where a get or a result goes to it. */
struct cw_access_iov {
    void *address;
    size_t length;
    const struct cw_memh *memh; /* of the domain of the interface; covers these bytes */
};

/* Memory of the peer: by the part of its key that is of the domain `peer_domain`, read by our domain. */
struct cw_access_target {
    uint64_t address;
    struct cw_remote_key key;
};

/* On words of 8 bytes in the byte order of the host, at addresses that 8 divides. */
enum cw_access_op {
    CW_ACCESS_ADD,
    CW_ACCESS_AND,
    CW_ACCESS_OR,
    CW_ACCESS_XOR,
    CW_ACCESS_SWAP,
    CW_ACCESS_CSWAP,
    CW_ACCESS_OPS
};

/* Takes bytes that a get brought; runs inside progress(), at most once, directly before `done` of that get. */
typedef void (*cw_unpack_fn)(const void *data, size_t length, void *arg);

/*
 * Accesses over an open connection. A slot may be NULL; its limit (struct cw_access_limits) is 0 then.
 *
 * Answers: UCS_INPROGRESS: taken, `done` follows exactly once, never inside the call: from progress(), or from
 * close_conn(). CW_AGAIN: nothing taken, `room` follows. Other errors: the connection is broken, nothing was taken,
 * `closed` follows or came. There is no UCS_OK: no device is that fast.
 *
 * `done` with UCS_OK means: a put or an atomic operation is carried out in the target's memory, visible there to the
 * processor and to every later access; what a get or an atomic operation fetched is in our memory. An error says
 * nothing of the target's memory: the access was carried out, in part, or not, but never later than `closed` was handed
 * up at the target or `revoke` completed there. A key, a range or a right that the target's device refused is
 * UCS_ERR_INVALID_ADDR where the device tells it apart, else UCS_ERR_IO_ERROR; the connection may break with it
 * (`closed`). UCS_ERR_CANCELED: by close_conn(), after which no memory of ours is touched any more; so it is after
 * `abandon`, too.
 *
 * Completions come in any order.
 */
struct cw_transport_access {
    const struct cw_domain_kind *domain; /* whose memory the device reaches; never NULL */

    /* The number of the domain of the peer's device, as the peer's transport tells ours while they meet; constant while
     * the connection is open. 0: the peer's memory is out of reach. It is untrusted. Never NULL. */
    unsigned (*peer_domain)(const struct cw_conn *conn);

    /* Up to max_put_short bytes, which are free on return. Completion NULL: `flush` tells. */
    ucs_status_t (*put_short)(struct cw_conn *conn, const void *data, size_t length, const struct cw_access_target *to,
                              unsigned flags, struct cw_completion *completion);
    /* Up to max_put_bcopy bytes, which `pack` writes into memory of the transport: at most `max`, at least 1. */
    ucs_status_t (*put_bcopy)(struct cw_conn *conn, size_t max, cw_pack_fn pack, void *arg,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);
    /* Up to max_put_zcopy bytes, at least 1. The payload is in use until `done`, the array is free on return. */
    ucs_status_t (*put_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);

    /* Up to max_get_bcopy bytes, at least 1, into memory of the transport and by `unpack` from there. `unpack` does not
     * run when the access failed. */
    ucs_status_t (*get_bcopy)(struct cw_conn *conn, size_t length, cw_unpack_fn unpack, void *arg,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);
    /* Up to max_get_zcopy bytes, at least 1. Until `done` anything may stand there. */
    ucs_status_t (*get_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);

    /* An operation that is in limits.access.posted (result NULL; the completion may be NULL) or in
     * limits.access.fetching. `compare` is for CSWAP, which stores `operand`. *result has what stood there, from before
     * `done`; it needs no registration. */
    ucs_status_t (*atomic)(struct cw_conn *conn, enum cw_access_op op, uint64_t operand, uint64_t compare,
                           uint64_t *result, const struct cw_access_target *to, unsigned flags,
                           struct cw_completion *completion);

    /* UCS_OK: all accesses that were taken before have ended; `done` is not called. UCS_INPROGRESS: `done` follows with
     * the last of them; its status is the first error among those without a completion. CW_AGAIN: too many wait. With
     * completion NULL it is a question only, which UCS_OK or UCS_INPROGRESS answers. Never NULL. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);

    /* Called at the target, once at most, in any state but DIALLING: from `done` on no access that the peer made or
     * makes over this connection reaches memory here. The connection is broken by it (`closed` may follow; sends and
     * accesses answer an error). UCS_OK: at once; UCS_INPROGRESS: `done` follows, not later than close_conn() returns.
     * It needs nothing of the peer, who may be silent. Never NULL. */
    ucs_status_t (*revoke)(struct cw_conn *conn, struct cw_completion *completion);
};

#endif
