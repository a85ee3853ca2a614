/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a transport: how bytes move between two workers.
 *
 * A transport is one const table (struct cw_transport). A slot that is NULL means "cannot". An interface (iface) is the
 * transport opened for one worker; a connection (conn) is one ordered, reliable, bidirectional channel of packets
 * between two endpoints. Every call is made with the worker entered, so an interface takes no locks except on memory
 * shared with other processes. Upcalls run only inside progress(), dial's own completion comes from progress() too: no
 * upcall is ever made from inside a call of the core, except `done` from close(). The author's guide is
 * docs/TRANSPORT.md; the suite in test/conform holds every transport against this page.
 */
#ifndef CW_TRANSPORT_TRANSPORT_H
#define CW_TRANSPORT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "os/poll.h"
#include "ucs/type/status.h"

struct cw_beacon;
struct cw_consumer;
struct cw_producer;
struct cw_config;
struct cw_conn;
struct cw_far;
struct cw_iface;
struct cw_listening;
struct cw_net_address;
struct cw_protocol_plan;

#define CW_DEVICE_NAME_MAX 32

/* Answer of a send slot when nothing was taken; `room` follows from progress() once a further attempt can succeed. */
#define CW_AGAIN UCS_ERR_NO_RESOURCE

/* One usable device of a transport on this machine, as listed by ucp_context_print_info. */
struct cw_device {
    char name[CW_DEVICE_NAME_MAX];
};

enum cw_device_class { CW_DEVICE_NET, CW_DEVICE_SHM, CW_DEVICE_SELF };

/* Completion of a zcopy send or of a flush; owned by the caller, embedded in a request. Called once, from progress() or
 * from close(). */
struct cw_completion {
    void (*done)(struct cw_completion *self, ucs_status_t status);
};

/* Fills at most `max` bytes at `dest` and returns how many it wrote. Runs at most once per send, and only for a packet
 * that is taken. */
typedef size_t (*cw_pack_fn)(void *dest, size_t max, void *arg);

/* Plain numbers by which the plan chooses; sizes in bytes, they do not change while the iface is open. */
struct cw_limits {
    size_t max_short;       /* payload of send_short, beside its 8 header bytes */
    size_t max_bcopy;       /* packet of send_bcopy */
    size_t max_zcopy;       /* header and payload of send_zcopy together; 0: no send_zcopy */
    unsigned max_iov;       /* entries of send_zcopy and send_placed */
    size_t max_placed;      /* payload of send_placed; 0: no send_placed */
    double latency_ns;      /* one way, 8 bytes */
    double bandwidth_bps;   /* bytes per second, large messages */
    double overhead_ns;     /* CPU time of one send */
};

/* What the core offers to an iface. `owner` is the value given to open(). All run inside progress() only. */
struct cw_upcalls {
    /* A packet came in on an open connection. `data` is borrowed until the return; copy to keep. */
    void (*packet)(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
    /* Somebody dialled us and sent this hello. conn->user is to be set by the core when it answers UCS_OK; the reply
     * (at most *reply_length bytes on entry, what was written on return) goes to the dialler in both cases. Any other
     * status refuses: the transport then sends the reply, if any, and disposes of conn by itself. */
    ucs_status_t (*accept)(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                           size_t *reply_length);
    /* The dialled connection is open (UCS_OK), was refused (UCS_ERR_REJECTED, with the acceptor's reply) or failed (any
     * other status; reply NULL). After a status other than UCS_OK the core still calls close(). */
    void (*opened)(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length);
    /* The header of a packet of send_placed came in; `length` bytes follow. Fills `iov` (at most CW_PLACE_MAX_IOV
     * entries) with the memory that they go to, which covers exactly `length` and stays valid until `placed` or the end
     * of the connection, and returns the number of entries. 0: the core abandoned the connection, or the packet breaks
     * the protocol, and the transport ends the connection with UCS_ERR_IO_ERROR. The header is borrowed until the
     * return. With CW_PLACE_SHOWN added somebody may look at that memory at any time, and nothing may be written there
     * but bytes that are known to be the peer's; otherwise it may hold anything until `placed`. */
    unsigned (*place)(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov);
    /* All of it is there. The same header and length. */
    void (*placed)(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
    /* A place is given back without `placed`: the packet was lost on the way and comes again. The same header and
     * length. Only of packets of send_placed. */
    void (*unplaced)(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
    /* A send that answered CW_AGAIN can be tried again. May be spurious. */
    void (*room)(struct cw_conn *conn);
    /* Somebody came to a listener and said hello. The connection waits, with nothing of it in progress, until the core
     * calls `answer`. The hello is borrowed. */
    void (*requested)(void *user, struct cw_conn *conn, const void *hello, size_t length);
    /* An open connection ended: UCS_ERR_CONNECTION_RESET when the peer is gone, UCS_ERR_ENDPOINT_TIMEOUT when its
     * machine fell silent, UCS_ERR_IO_ERROR on bytes that break the framing. Everything that arrived before was handed
     * up already. Sends answer this status from now on. The core calls close() later. */
    void (*closed)(struct cw_conn *conn, ucs_status_t status);
};

struct cw_iface_params {
    const struct cw_config *config;     /* borrowed for the life of the iface */
    const struct cw_upcalls *upcalls;   /* likewise */
    void *owner;                        /* passed to accept */
    struct cw_poller *poller;           /* descriptors are registered here; their callbacks run inside the worker's
                                         * progress */
    const struct cw_device *devices;    /* those that the configuration left over; at least one */
    unsigned num_devices;
    uint64_t worker_uid;                /* random, unique; for naming and for logs */
    int wakeup;                         /* the worker may sleep: arm() will be called and doorbells are needed */
    int peer_memory;                    /* the system's copies between processes may be used (cma in UCX_TLS) */
};

/* LONG: begins, and several messages follow, so that no end of one needs to leave by itself; LAST: but the next one. */
enum cw_batch { CW_BATCH_END, CW_BATCH_BEGIN, CW_BATCH_LONG, CW_BATCH_LAST };

struct cw_transport {
    const char *name;                   /* as in UCX_TLS, print_info and ep_query */
    uint8_t wire_id;                    /* names the transport in addresses; never reused */
    enum cw_device_class device_class;  /* which *_DEVICES setting filters it */

    /* Lists devices, at most `max`; returns how many there are. No side effects, microseconds. */
    unsigned (*query_devices)(const struct cw_config *config, struct cw_device *devices, unsigned max);

    /* Opens an interface. Fails with a reason in the log and nothing left behind. UCS_ERR_INVALID_PARAM and
     * UCS_ERR_UNSUPPORTED: the settings demand protection that cannot be had, so there must be no worker. close(): all
     * conns were closed before. */
    ucs_status_t (*open)(const struct cw_iface_params *params, struct cw_iface **iface_p);
    void (*close)(struct cw_iface *iface);

    /* Writes the address by which peers dial this iface; returns its length (<= max), or 0 when it does not fit. Always
     * the same bytes. */
    size_t (*address)(struct cw_iface *iface, void *buffer, size_t max);
    /* Whether dial has a chance. The address comes from a peer: any bytes, any length. On 0 *why is set to a constant
     * phrase for a log line. */
    int (*reachable)(struct cw_iface *iface, const void *address, size_t length, const char **why);

    /* Moves what can be moved without blocking; returns the number of packets and connection events handed up. No
     * system call when nothing is outstanding on memory transports. */
    unsigned (*progress)(struct cw_iface *iface);
    /* After UCS_OK any event makes the poller's descriptor readable (cw_poller_stir); UCS_ERR_BUSY: something is here
     * already, call progress. NULL: all events of this transport come through descriptors in the poller. */
    ucs_status_t (*arm)(struct cw_iface *iface);

    /* Starts a connection; `hello` (<= CW_HELLO_MAX) is copied. UCS_OK: `opened` follows from progress. Never waits. */
    ucs_status_t (*dial)(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
    /* Whether the peer cannot have seen the hello of a dialled connection yet. NULL: it may always have. */
    int (*is_unseen)(const struct cw_conn *conn);
    /* Ends a connection in any state and frees it. What was taken by sends before is still delivered if the peer lives
     * (hand it to the system first). Outstanding completions are called with UCS_ERR_CANCELED inside. Never called from
     * inside an upcall of this iface. */
    void (*close_conn)(struct cw_conn *conn);
    /* The death of the peer is to be noticed from now on even when its machine falls silent, within the configured
     * time: `closed` then tells UCS_ERR_ENDPOINT_TIMEOUT. Of a connection that is dialled, being accepted or open; may
     * be called again. NULL: it always is. */
    void (*watch)(struct cw_conn *conn);
    /* Memory that was given to this connection, payloads and places, becomes something else: none of it is touched any
     * more when this returns. What is under way is lost, sends fail, no upcalls follow; the connection waits for
     * close_conn, and its completions come there. Legal inside upcalls. NULL: nothing is kept between calls. */
    void (*abandon)(struct cw_conn *conn);

    /* Sends. UCS_OK: taken, the buffer is free. CW_AGAIN: nothing taken. Other errors: the connection is broken,
     * `closed` follows or came. Packets of one conn arrive in the order in which they were taken, each exactly once. */
    ucs_status_t (*send_short)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
    /* `max`: upper bound of what pack will write, <= max_bcopy. Where there is a `board` and pack writes all of `max`,
     * the bytes stay where pack wrote them until the peer has handled the packet, or this end is closed. */
    ucs_status_t (*send_bcopy)(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
    /* UCS_INPROGRESS: taken, the payload stays in use until `done`. The header and the iov array are free on return. */
    ucs_status_t (*send_zcopy)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
    /* As send_zcopy, for payloads of up to max_placed bytes that the peer's core has a place for: they go there without
     * another copy (upcalls `place`, `placed`). The header has CW_PLACE_HEADER bytes. Such packets keep no order with
     * any other packet: the transport may use further channels for them. */
    ucs_status_t (*send_placed)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion);
    /* As send_placed, in order with all other packets. NULL: no. */
    ucs_status_t (*send_in_place)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
    /* A message of that length is about to be announced, as `eager_end` of the connection is not above it. NULL: that
     * never changes. */
    void (*grow)(struct cw_conn *conn, size_t length);
    /* Between BEGIN or LONG and END, which may be nested, packets may be kept and then handed over together. NULL: a
     * packet costs the same alone. */
    void (*batch)(struct cw_conn *conn, enum cw_batch what);
    /* UCS_OK: everything taken so far is out of this process' hands. UCS_INPROGRESS: `done` follows. CW_AGAIN:
     * too many wait already, `room` follows. NULL: always UCS_OK. With completion NULL it is a question only, which
     * UCS_OK or UCS_INPROGRESS answers. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
    /* Whether flush has to be asked at all: some connection may have something in hand. NULL: it has, if there is a
     * flush. */
    int (*owes)(const struct cw_iface *iface);

    /* Meeting by socket addresses (docs/CLIENT_SERVER.md): all five or none. listen: whoever comes there and says a
     * hello is handed up by `requested`, with `user`. The port that was chosen goes to *address. Logs. UCS_ERR_BUSY: it
     * is in use. */
    ucs_status_t (*listen)(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                           struct cw_listening **listening_p);
    /* Refuses, with an empty reply, everybody who came and was not handed up (CS-12). */
    void (*listen_end)(struct cw_listening *listening);
    /* As dial, to a listener; `source` may be NULL. Fails for want of memory only: the rest comes by `opened`. */
    ucs_status_t (*dial_to)(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
    /* Answers a connection of `requested`. Accepted: it belongs to `iface`, of any worker, and is open; conn->user was
     * set before. Refused, or on failure: it is gone. iface NULL: it is dropped without a word. The iface where it was
     * requested may be gone, and another thread may be in it. */
    ucs_status_t (*answer)(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                           size_t reply_length);
    /* Both ends; family CW_NET_NONE when they are not known any more. */
    void (*ends)(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);

    /* Short packets without the transport's help (base/cell.h). Asked when a connection is open: the cells into which
     * the core may put them by itself, in turn with the slots above, whenever one is free; what finds none free takes a
     * slot. NULL, the slot or the answer: it may not. */
    struct cw_producer *(*cells)(struct cw_conn *conn);

    /* Memory of the peer's process: all four or none. peer_ready: whether copies to and from it have been proved to
     * work on this open connection; 0 for good after they once did not. */
    int (*peer_ready)(struct cw_conn *conn);
    /* Copies between our memory and an address of the peer, which may be any number: the system checks it. Blocks as
     * long as the copy takes; the caller keeps it to some 100 KiB. All or UCS_ERR_IO_ERROR. With a beacon (else NULL) a
     * read counts only if the beacon was right after it, a write is made only if it was right before; UCS_ERR_REJECTED
     * otherwise, and for memory that is not there: further copies are possible. */
    ucs_status_t (*peer_read)(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_beacon *beacon);
    ucs_status_t (*peer_write)(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_beacon *beacon);
    /* Two words that both ends see, index < CW_ALL_BOARDS: `ours` 1: those that we hand out, 0: the peer's. The peer
     * can write anything there at any time. */
    struct cw_board *(*board)(struct cw_conn *conn, int ours, unsigned index);
    /* Whether the peer has ended the connection, or died, although packets from before are still to be handed up: for
     * who waits for a word on a board. A system call. NULL: the peer is in this process. */
    int (*peer_gone)(struct cw_conn *conn);
};

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
#define CW_LEDGER        CW_BOARDS        /* index of the one behind them (op/ledger.h) */
#define CW_ALL_BOARDS    (CW_BOARDS + 1u)
#define CW_PLACE_HEADER  16u
#define CW_PLACE_MAX_IOV 16u
#define CW_PLACE_SHOWN   0x100u

#define CW_HELLO_MAX 256u

/* Heads of the transport's own structures. */
struct cw_iface {
    const struct cw_transport *transport;
    const struct cw_upcalls *upcalls;
    void *owner;
    struct cw_limits limits;
    const struct cw_protocol_plan *plan;    /* the core's: how it uses these limits */
    /* The cells that the core may empty by itself, in place of `progress`, as long as they hold short packets and the
     * producer need not be told; then nothing else is to be done there. May be one that is always empty, while
     * `progress` would find nothing. May change at any time. Only of transports with `cells`; &cw_cell_no_consumer:
     * none. */
    struct cw_consumer *inbox;
};

struct cw_conn {
    struct cw_iface *iface;
    void *user;             /* the core's; NULL until accepted or dialled */
    /* send_bcopy takes packets of up to so many bytes here, if that is more than max_bcopy: for those that nobody needs
     * to copy at the other side. May change in any call; a greater packet than it says is answered by CW_AGAIN. */
    size_t max_whole;
    /* The same for any packet, because a message in fewer and longer ones is faster; not more than max_whole. The first
     * of a message in several has max_bcopy all the same. */
    size_t max_piece;
    /* Messages shorter than this go in packets here, although the plan, unless told so by the user, has rendezvous for
     * them. 0 in most. May change in any call. */
    size_t eager_end;
    /* Of send_placed: what one packet should have at most, so that several channels get some. 0: max_placed. */
    size_t placed_piece;
    /* How `pack` copies best to where send_bcopy tells it (base/far.h). NULL: as to any memory. */
    struct cw_far *far;
};

/* What the packets of a long message may be. */
static inline size_t cw_conn_max_piece(const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;

    return (conn->max_piece > max) ? conn->max_piece : max;
}

#endif
