/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of a transport that reaches the memory of the peer's process (transport/transport.h).
 */
#ifndef CW_TRANSPORT_COPIES_H
#define CW_TRANSPORT_COPIES_H

#include "transport/iface.h"

/* A word of the peer's process that has this value as long as some memory there is what we think it is. */
struct cw_beacon {
    uint64_t address;
    uint64_t value;
};

/* Accessed with atomics only; what the words mean is the core's business. Zero at first. */
struct cw_board {
    _Alignas(64) uint64_t claim;
    _Alignas(64) uint64_t done;
};

#define CW_BOARDS        16u              /* for shares of copies (op/board.h) */
#define CW_COUNTED        CW_BOARDS        /* index of the one behind them (op/counted.h) */
#define CW_ALL_BOARDS    (CW_BOARDS + 1u)
/* Copies between our memory and that of the peer's process, and words that both see. `scatter`, `gone` and `excused`
 * alone may be NULL. */
struct cw_transport_copies {
    /* Whether copies have been proved to work on this open connection; 0 for good after they once did not. */
    int (*ready)(struct cw_conn *conn);
    /* Copies between our memory and an address of the peer, which may be any number: the system checks it. Blocks as
     * long as the copy takes; the caller keeps it to some 100 KiB. All or UCS_ERR_IO_ERROR. With a beacon (else NULL) a
     * read counts only if the beacon was right after it, a write is made only if it was right before; UCS_ERR_REJECTED
     * otherwise, and for memory that is not there: further copies are possible. */
    ucs_status_t (*read)(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                         const struct cw_beacon *beacon);
    ucs_status_t (*write)(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                          const struct cw_beacon *beacon);
    /* As write, each entry to one of as many bytes in the peer's process. NULL: by single writes. */
    ucs_status_t (*scatter)(struct cw_conn *conn, const struct iovec *from, const struct iovec *to, unsigned count,
                            const struct cw_beacon *beacon);
    /* Two words that both ends see, index < CW_ALL_BOARDS: `ours` 1: those that we hand out, 0: the peer's. The peer
     * can write anything there at any time. */
    struct cw_board *(*board)(struct cw_conn *conn, int ours, unsigned index);
    /* Whether the peer has ended the connection, or died, although packets from before are still to be handed up: for
     * who waits for a word on a board. A system call. NULL: the peer is in this process. */
    int (*gone)(struct cw_conn *conn);
    /* The peer let us wait for so long, 0: whether it may. 0: no, nothing is waited for any more, and `ready` is 0. For
     * who waits for a word on a board; copies see to it by themselves. NULL: the peer is in this process. */
    int (*excused)(struct cw_conn *conn, uint64_t waited_ns);
};

#endif
