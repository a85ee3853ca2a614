/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of slots of a transport whose device reads and writes the peer's memory (transport/transport.h). It is
 * optional; a transport that has it moves packets as well, over the same connection.
 *
 * Every access is asynchronous. The target's program and processor take no part in it: the target's device checks the
 * key, the range and the rights.
 */
#ifndef CW_TRANSPORT_ACCESS_H
#define CW_TRANSPORT_ACCESS_H

#include "mem/domain.h"
#include "transport/iface.h"
#include "transport/packets.h"

/* The access begins only when all fetches (gets, atomic operations with a result) that this connection took before have
 * ended. */
#define CW_ACCESS_AFTER_FETCHES 1u

/* Memory of this process. The registration has CW_RIGHT_LOCAL_WRITE where a get or a result is written to it. */
struct cw_access_iov {
    void *address;
    size_t length;
    const struct cw_memh *memh; /* a registration in the domain of the interface; covers these bytes */
};

/* Memory of the peer. The key is the part for the peer's domain number `peer_domain`, as the domain of the interface
 * has read it. */
struct cw_access_target {
    uint64_t address;
    struct cw_remote_key key;
};

/* Operations on words of 8 bytes in the byte order of the host, at addresses that are multiples of 8. */
enum cw_access_op {
    CW_ACCESS_ADD,
    CW_ACCESS_AND,
    CW_ACCESS_OR,
    CW_ACCESS_XOR,
    CW_ACCESS_SWAP,
    CW_ACCESS_CSWAP,
    CW_ACCESS_OPS
};

/* Takes the bytes that a get fetched; runs inside progress(), at most once, directly before `done` of that get. */
typedef void (*cw_unpack_fn)(const void *data, size_t length, void *arg);

/*
 * Accesses over an open connection. A slot may be NULL; its limit (struct cw_access_limits) is 0 then.
 *
 * Answers: UCS_INPROGRESS: the access is taken, and `done` follows exactly once, never inside the call, but from
 * progress() or close_conn(). CW_AGAIN: nothing is taken, `room` follows. Other errors: the connection is broken,
 * nothing is taken, and `closed` follows or came before. No slot answers UCS_OK, because no device completes an access
 * within the call.
 *
 * `done` with UCS_OK means: a put or an atomic operation is carried out in the target's memory, and the processor there
 * and every later access see it; the bytes that a get or an atomic operation fetched are in the memory of this process.
 * After an error the access may have been carried out completely, in part, or not at all, but never later than `closed`
 * was handed up at the target, or the registration ended there (`dereg`). For a key, a range or a right that the
 * target's device refused, the status is UCS_ERR_INVALID_ADDR where the device tells it apart, else UCS_ERR_IO_ERROR;
 * the connection may break with it (`closed`). UCS_ERR_CANCELED comes from close_conn(). After close_conn(), and after
 * `abandon`, the device touches no memory of this process for the connection any more.
 *
 * Completions come in any order.
 */
struct cw_transport_access {
    const struct cw_domain_kind *domain; /* the kind of domain whose memory the device reaches; never NULL */

    /* The number of the memory domain of the peer's device, which the peer's transport tells while the connection is
     * made; constant while the connection is open. 0: the peer's memory is out of reach. The number is untrusted. Never
     * NULL. */
    unsigned (*peer_domain)(const struct cw_conn *conn);

    /* Up to max_put_short bytes, which the caller may reuse on return. Completion NULL: the caller learns of the end by
     * `flush`. */
    ucs_status_t (*put_short)(struct cw_conn *conn, const void *data, size_t length, const struct cw_access_target *to,
                              unsigned flags, struct cw_completion *completion);
    /* Up to max_put_bcopy bytes, which `pack` writes into memory of the transport: at least 1, at most `max`. */
    ucs_status_t (*put_bcopy)(struct cw_conn *conn, size_t max, cw_pack_fn pack, void *arg,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);
    /* Up to max_put_zcopy bytes, at least 1. The payload is in use until `done`; the caller may reuse the array on
     * return. */
    ucs_status_t (*put_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion);

    /* Up to max_get_bcopy bytes, at least 1, into memory of the transport, from which `unpack` takes them. `unpack`
     * does not run when the access failed. */
    ucs_status_t (*get_bcopy)(struct cw_conn *conn, size_t length, cw_unpack_fn unpack, void *arg,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);
    /* Up to max_get_zcopy bytes, at least 1. Until `done` the memory may hold any bytes. */
    ucs_status_t (*get_zcopy)(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion);

    /* An operation that is in limits.access.posted (result NULL; the completion may be NULL) or in
     * limits.access.fetching. `compare` is for CSWAP, which stores `operand`. Before `done` the transport writes the
     * former value to *result, which needs no registration. */
    ucs_status_t (*atomic)(struct cw_conn *conn, enum cw_access_op op, uint64_t operand, uint64_t compare,
                           uint64_t *result, const struct cw_access_target *to, unsigned flags,
                           struct cw_completion *completion);

    /* UCS_OK: all accesses that were taken before have ended; `done` is not called. UCS_INPROGRESS: `done` follows with
     * the last of them; its status is the first error among those without a completion. CW_AGAIN: too many flushes
     * wait. With completion NULL the call only asks, and the answer is UCS_OK or UCS_INPROGRESS. A connection that
     * is over answers its status, in both cases. Never NULL. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
};

#endif
