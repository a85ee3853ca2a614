/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of slots of a transport that reaches the memory of the peer's process (transport/transport.h).
 */
#ifndef CW_TRANSPORT_COPIES_H
#define CW_TRANSPORT_COPIES_H

#include "transport/iface.h"

/* A word in the peer's process that has this value as long as some memory there is still the memory that the key
 * names. */
struct cw_validity {
    uint64_t address;
    uint64_t value;
};

/* Accessed with atomic operations only; the core defines the meaning of the words. They are zero at first. */
struct cw_claim_pair {
    _Alignas(64) uint64_t claim;
    _Alignas(64) uint64_t done;
};

#define CW_CLAIM_PAIRS 16u /* for shares of copies (rndv/shares.h) */

/* Copies between memory of this process and of the peer's, and words that both see. Only `scatter`, `gone`,
 * `process`, `pass` and `take` may be NULL, the last two together. */
struct cw_transport_copies {
    /* Whether copies have been proved to work on this open connection; once they failed it is 0 for good. */
    int (*ready)(struct cw_conn *conn);
    /* Copies between memory of this process and an address of the peer, which may be any number, as the system checks
     * it. The call blocks for the whole copy, so the caller keeps it to some 100 KiB. All bytes are copied, or the
     * answer is UCS_ERR_IO_ERROR. With a validity word (else NULL) a read counts only if the validity word holds its
     * value after it, and a write is made only if the validity word holds it before; otherwise, and for memory that
     * does not exist, the answer is UCS_ERR_REJECTED, and further copies are possible. */
    ucs_status_t (*read)(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                         const struct cw_validity *validity);
    ucs_status_t (*write)(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                          const struct cw_validity *validity);
    /* Two words that both ends see, index < CW_CLAIM_PAIRS. `ours` 1: the words that this end hands out, 0: the
     * peer's. The peer can write any value there at any time. */
    struct cw_claim_pair *(*pair)(struct cw_conn *conn, int ours, unsigned index);
    /* The id of the peer's process, from the system and not from the peer, in the name space of this process; this
     * process' own id where the peer is in it. 0: not known. It is a system call. */
    uint32_t (*process)(struct cw_conn *conn);
    /* Passes a descriptor, which stays the caller's, to the peer before any packet that is sent later. The caller names
     * it by a number, which may be that of others passed before. 0: the system does not take it now. fd -1 passes
     * nothing: 0 then tells that the peer takes none. */
    int (*pass)(struct cw_conn *conn, uint64_t number, int fd);
    /* Returns the first descriptor of that number that the peer has passed, which is the caller's from now on and may
     * be of anything; -1: there is none. The transport keeps a bounded number of them, and closes the oldest ones. */
    int (*take)(struct cw_conn *conn, uint64_t number);
};

/* Descriptors that are kept for `take`. */
#define CW_MOST_PASSED 64u

#endif
