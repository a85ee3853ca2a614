/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Optional slots of a transport whose device reads and writes the peer's memory (transport/transport.h). Such a
 * transport moves packets as well, over the same connection.
 *
 * Every access is asynchronous and one-sided: the target's CPU takes no part; its device checks key, range and rights.
 */
#ifndef CW_TRANSPORT_ACCESS_H
#define CW_TRANSPORT_ACCESS_H

#include "mem/domain.h"
#include "transport/iface.h"
#include "transport/packets.h"

/* Fence: the access starts only after all earlier fetches (gets, atomic operations with a result) of this connection
 * have completed. */
#define CW_ACCESS_AFTER_FETCHES 1u

/* Local memory. The registration has CW_RIGHT_LOCAL_WRITE if a get or a result is written to it. */
struct cw_access_iov {
    void *address;
    size_t length;
    const struct cw_memh *memh; /* a registration in the domain of the interface; covers these bytes */
};

/* Target memory. The key is the part for the peer's domain number `peer_domain`, decoded by the domain of the
 * interface. */
struct cw_access_target {
    uint64_t address;
    struct cw_remote_key key;
};

/* Operations on 8-byte words in host byte order, naturally aligned. */
enum cw_access_op {
    CW_ACCESS_ADD,
    CW_ACCESS_AND,
    CW_ACCESS_OR,
    CW_ACCESS_XOR,
    CW_ACCESS_SWAP,
    CW_ACCESS_CSWAP,
    CW_ACCESS_OPS
};

/* Consumes the bytes that a get fetched. Runs inside progress(), at most once, directly before `done` of that get. */
typedef void (*cw_unpack_fn)(const void *data, size_t length, void *arg);

/*
 * Accesses over an open connection. A slot may be NULL; its limit (struct cw_access_limits) is 0 then.
 *
 * Return values: UCS_INPROGRESS: the access is accepted; `done` is called exactly once, from progress() or
 * close_conn(), never inside the call. CW_AGAIN: not accepted, the upcall `space` follows. Other errors: not accepted,
 * the connection is broken; `closed` follows or came before. No slot returns UCS_OK, because no device completes an
 * access within the call.
 *
 * `done` with UCS_OK means: a put or an atomic operation has taken effect in the target's memory and is visible to the
 * CPU there and to every later access; the bytes that a get or an atomic operation fetched are in local memory. After
 * an error the access may have taken effect completely, in part, or not at all, but it takes no effect after `closed`
 * was called at the target or the registration ended there (`dereg`). close_conn() completes with UCS_ERR_CANCELED.
 * After close_conn() and after `abandon` the device no longer accesses local memory for the connection.
 *
 * If the target's device refuses a key, a range or a right, the status is UCS_ERR_INVALID_ADDR where the device reports
 * the reason, else UCS_ERR_IO_ERROR or UCS_ERR_CONNECTION_RESET; the connection may break with it (`closed`). After
 * UCS_ERR_INVALID_ADDR the access takes no effect any more. Later accesses with the same completion belong to the same
 * operation: the transport may end them with this status, too, without trying them.
 *
 * Completions may be reordered.
 */
struct cw_transport_access {
    const struct cw_domain_kind *domain; /* the kind of domain whose memory the device can access; never NULL */

    /* The number of the memory domain of the peer's device, which the peer's transport sends during connection setup;
     * constant while the connection is open. 0: the peer's memory is not accessible. The number is untrusted. Never
     * NULL. */
    unsigned (*peer_domain)(const struct cw_conn *conn);

    /* Up to max_put_short bytes, which the caller may reuse on return. Completion NULL: completed by `flush` only. */
    ucs_status_t (*put_short)(struct cw_conn *conn, const void *data, size_t length, const struct cw_access_target *to,
                              unsigned flags, struct cw_completion *completion);
    /* Up to max_put_bcopy bytes, which `pack` writes into a buffer of the transport: at least 1, at most `max`. */
    ucs_status_t (*put_bcopy)(struct cw_conn *conn, size_t max, cw_pack_fn pack, void *arg,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);
    /* Up to max_put_zcopy bytes, at least 1. The payload is in use until `done`; the caller may reuse the array on
     * return. */
    ucs_status_t (*put_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);

    /* Up to max_get_bcopy bytes, at least 1, into a buffer of the transport, from which `unpack` copies them. `unpack`
     * is not called if the access fails. */
    ucs_status_t (*get_bcopy)(struct cw_conn *conn, size_t length, cw_unpack_fn unpack, void *arg,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);
    /* Up to max_get_zcopy bytes, at least 1. Until `done` the contents of the memory are undefined. */
    ucs_status_t (*get_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);

    /* An operation in limits.access.posted (result NULL; the completion may be NULL) or limits.access.fetching. CSWAP
     * compares with `compare` and stores `operand`. Before `done` the transport writes the old value to *result, which
     * needs no registration. */
    ucs_status_t (*atomic)(struct cw_conn *conn, enum cw_access_op op, uint64_t operand, uint64_t compare,
                           uint64_t *result, const struct cw_access_target *to, unsigned flags,
                           struct cw_completion *completion);

    /* UCS_OK: all earlier accesses have completed; `done` is not called. UCS_INPROGRESS: `done` is called with the last
     * of them; its status is the first error among those without a completion. CW_AGAIN: too many flushes are pending.
     * With completion NULL the call only queries and returns UCS_OK or UCS_INPROGRESS. A closed connection returns its
     * status in both cases. A flush that ends because the connection breaks is done in the progress() that calls
     * `closed`, or later: before, the core would take the error for that of a refused access. Never NULL. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
};

#endif
