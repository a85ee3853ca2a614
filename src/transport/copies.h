/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of slots of a transport that reaches the memory of the peer's process (transport/transport.h).
 */
#ifndef CW_TRANSPORT_COPIES_H
#define CW_TRANSPORT_COPIES_H

#include "transport/iface.h"

/* A word in the peer's process that has this value as long as the memory that a key names is still mapped and the
 * same. */
struct cw_validity {
    uint64_t address;
    uint64_t value;
};

/* Accessed with atomic operations only; the core defines the meaning of the words. Initially zero. */
struct cw_claim_pair {
    _Alignas(64) uint64_t claim;
    _Alignas(64) uint64_t done;
};

#define CW_CLAIM_PAIRS 16u /* for shares of copies (rndv/shares.h) */

/* Copies between the memory of this process and the peer's, and words that both share. Only `revoked`,
 * `process`, `pass` and `take_fd` may be NULL, the last two together. */
struct cw_transport_copies {
    /* Whether copies are proved to work on this open connection; after a failure it stays 0. On a connection that is
     * dialled and not answered: whether copies with a validity word may be tried; `pair`, `pass` and `take_fd` need the
     * answer. */
    int (*ready)(struct cw_conn *conn);
    /* Copies between local memory and an address of the peer, which may be any number, as the kernel checks it. The
     * call blocks for the whole copy, so the caller limits it to a MiB. All bytes are copied, or it returns
     * UCS_ERR_IO_ERROR. With a validity word (else NULL) a read counts only if the validity word holds its value after
     * it, and a write is made only if the validity word holds it before; otherwise, and for unmapped memory, it returns
     * UCS_ERR_REJECTED, and further copies are possible. */
    ucs_status_t (*read)(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                         const struct cw_validity *validity);
    ucs_status_t (*write)(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                          const struct cw_validity *validity);
    /* Must be called after validity words of this process were cleared, and before the memory that they stand for is
     * released: peers that have seen a word need not read it again until then. Any thread. NULL: peers read the word
     * with each copy. */
    void (*revoked)(void);
    /* Two words that both ends share, index < CW_CLAIM_PAIRS. `ours` 1: the words that this end allocates, 0: the
     * peer's. The peer can write any value there at any time. */
    struct cw_claim_pair *(*pair)(struct cw_conn *conn, int ours, unsigned index);
    /* The pid of the peer's process, from the kernel and not from the peer, in the pid namespace of this process; the
     * own pid if the peer is in this process. 0: unknown. Makes a system call. */
    uint32_t (*process)(struct cw_conn *conn);
    /* Passes a descriptor to the peer, ahead of any packet that is sent later; the caller keeps its own. `number`
     * identifies it and may be reused. 0: the kernel does not accept it now. fd -1 passes nothing: 0 then means that
     * the peer accepts none. */
    int (*pass)(struct cw_conn *conn, uint64_t number, int fd);
    /* Returns the first descriptor of that number that the peer has passed; the caller owns it, and it may refer to
     * anything. -1: none. The transport retains a bounded number of them and closes the oldest ones. */
    int (*take_fd)(struct cw_conn *conn, uint64_t number);
};

/* Descriptors retained for `take_fd`. */
#define CW_MOST_PASSED 64u

#endif
