/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The head of a transport's table, what the core offers to it, and the heads of its interfaces and connections
 * (transport/transport.h).
 */
#ifndef CW_TRANSPORT_IFACE_H
#define CW_TRANSPORT_IFACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "os/poll.h"
#include "ucs/type/status.h"

struct cw_consumer;
struct cw_config;
struct cw_conn;
struct cw_domain;
struct cw_nt_choice;
struct cw_iface;
struct cw_net_address;
struct cw_protocol_plan;
struct cw_text;

#define CW_DEVICE_NAME_MAX 32

/* Answer of a send slot when nothing was taken; `room` follows from progress() once a further attempt can succeed. */
#define CW_AGAIN UCS_ERR_NO_RESOURCE

/* One usable device of a transport on this machine, as listed by ucp_context_print_info. */
struct cw_device {
    char name[CW_DEVICE_NAME_MAX];
    uint8_t is_local; /* of a network: leads to this machine only */
};

enum cw_device_class { CW_DEVICE_NET, CW_DEVICE_SHM, CW_DEVICE_SELF };

/* Completion of a zcopy send or of a flush; owned by the caller, embedded in a request. Called once, from progress() or
 * from close(). */
struct cw_completion {
    void (*done)(struct cw_completion *self, ucs_status_t status);
};

/* What the slots of `access` take; sizes in bytes. 0: not at all. `in_order`: puts, atomic operations and packets of a
 * connection take effect at the target in the order in which they were taken, only fetches may be passed; 0: accesses
 * keep no order at all. */
struct cw_access_limits {
    size_t max_put_short;
    size_t max_put_bcopy;
    size_t max_put_zcopy;
    size_t max_get_bcopy;
    size_t max_get_zcopy;
    unsigned max_iov;       /* entries of put_zcopy and get_zcopy */
    size_t alignment;       /* of addresses here and there and of lengths of put_zcopy and get_zcopy; 0: none */
    unsigned posted;        /* bits 1 << enum cw_access_op: atomic operations without a result, */
    unsigned fetching;      /* and with one */
    int in_order;
};

/* Plain numbers by which the plan chooses; sizes in bytes, they do not change while the iface is open. */
struct cw_limits {
    size_t max_short;       /* payload of send_short, beside its 8 header bytes */
    size_t max_bcopy;       /* packet of send_bcopy; at least CW_WIRE_LEAST_PIECE */
    size_t max_zcopy;       /* header and payload of send_zcopy together; 0: no send_zcopy */
    unsigned max_iov;       /* entries of send_zcopy and send_placed */
    size_t max_placed;      /* payload of send_placed; 0: no send_placed */
    unsigned max_placed_iov; /* entries of send_in_place, at least max_iov, at most CW_PLACE_MAX_IOV; 0: max_iov */
    double latency_ns;      /* one way, 8 bytes */
    double bandwidth_bps;   /* bytes per second, large messages */
    double overhead_ns;     /* CPU time of one send */
    struct cw_access_limits access;
};

#define CW_PLACE_SHOWN 0x100u

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
    /* A dial that was is_unseen is so no longer. */
    void (*seen)(struct cw_conn *conn);
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
    /* Whether the core waits for something of the peer. Then it has to be noticed, asleep or not, if that got lost.
     * NULL: it never does. */
    int (*awaits)(const struct cw_conn *conn);
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
    struct cw_domain *domain;           /* of the device, of the kind that `access` names. NULL: no access, or the
                                         * context has too many; limits.access stays 0 then */
    uint64_t worker_uid;                /* random, unique; for naming and for logs */
    int wakeup;                         /* the worker may sleep: arm() will be called and doorbells are needed */
    int peer_memory;                    /* the system's copies between processes may be used (cma in UCX_TLS) */
};

/* The groups of slots, a page each. A group that is NULL, or a slot that is NULL, means "cannot". The core calls all
 * slots through core/lane.h alone. */
struct cw_transport_connect;  /* transport/connect.h */
struct cw_transport_cm;       /* transport/connect.h */
struct cw_transport_packets;  /* transport/packets.h */
struct cw_transport_copies;   /* transport/copies.h */
struct cw_transport_access;   /* transport/access.h */
struct cw_transport_fastpath; /* transport/fastpath.h */

struct cw_transport {
    const char *name;                   /* as in UCX_TLS, print_info and ep_query */
    uint8_t wire_id;                    /* names the transport in addresses; never reused */
    enum cw_device_class device_class;  /* which *_DEVICES setting filters it */
    int spans_devices;                  /* one interface serves all devices; otherwise there is one for each */

    const struct cw_transport_connect *connect;
    const struct cw_transport_packets *packets;
    const struct cw_transport_cm *cm;               /* NULL: no listeners */
    const struct cw_transport_copies *copies;       /* NULL: the memory of the peer is out of reach */
    const struct cw_transport_access *access;       /* NULL: the device does not reach the memory of the peer */
    const struct cw_transport_fastpath *fastpath;   /* NULL: every packet takes a slot */

    /* Lists devices, at most `max`; returns how many there are. No side effects, microseconds. */
    unsigned (*query_devices)(const struct cw_config *config, struct cw_device *devices, unsigned max);
    /* Adds a line for each device that is there and not listed, or why there is none at all. NULL: that says itself. */
    void (*explain)(const struct cw_config *config, struct cw_text *text);
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
};

/* Heads of the transport's own structures. */
struct cw_iface {
    const struct cw_transport *transport;
    const struct cw_device *device;             /* the core's: the first of those that it was opened on */
    const struct cw_transport_packets *packets; /* the core's: those of the transport, or what notes them before */
    const struct cw_upcalls *upcalls;
    void *owner;
    struct cw_domain *domain;                   /* the core's: as in the parameters */
    struct cw_limits limits;
    const struct cw_protocol_plan *plan;    /* the core's: how it uses these limits */
    unsigned counted;                       /* the core's: place of the transport in the worker's counters */
    uint8_t told;                           /* the core's: UCX_PROTO_INFO was obeyed */
    uint8_t left_out;                       /* the core's: the worker's address had no room for it */
    /* The cells that the core may empty by itself, in place of `progress`, as long as they hold short packets and the
     * producer need not be told; then nothing else is to be done there. May be one that is always empty, while
     * `progress` would find nothing. May change at any time. Only of transports with `fastpath`; &cw_cell_no_consumer:
     * none. */
    struct cw_consumer *inbox;
};

struct cw_conn {
    struct cw_iface *iface;
    void *user;                 /* the core's; NULL until accepted or dialled */
    struct cw_conn *next_old;   /* likewise: of dials that are to be closed */
    /* send_bcopy takes packets of up to so many bytes here, if that is more than max_bcopy: for those that nobody needs
     * to copy at the other side. May change in any call; a greater packet than it says is answered by CW_AGAIN. */
    size_t max_whole;
    /* The same for any packet, because a message in fewer and longer ones is faster; not more than max_whole. The first
     * of a message in several has max_bcopy all the same. */
    size_t max_piece;
    /* Messages shorter than this go in packets here, although the plan, unless told so by the user, has rendezvous for
     * them. 0 in most. May change in any call. */
    size_t eager_end;
    uint8_t dialled;            /* the core's: this side dialled the message lane; */
    uint8_t lanes_asked;        /* it was found out whether there are further ones */
    uint8_t gathers;            /* a batch is open until the next progress */
    uint64_t sent_round;        /* of the worker, when a send last went out alone */
    /* How `pack` copies best to where send_bcopy tells it (base/nt_copy.h). NULL: as to any memory. */
    struct cw_nt_choice *nt;
    /* How it ended and with whom, as a phrase for the log, on the heap: set by the transport with the end, freed with
     * the connection unless the core took it. NULL: nothing is known. */
    char *end;
};

/* Whether a payload can go to its place at the peer without a copy. */
static inline int cw_conn_places(const struct cw_conn *conn)
{
    return conn->iface->limits.max_placed > 0;
}

/* What the packets of a long message may be. */
static inline size_t cw_conn_max_piece(const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;

    return (conn->max_piece > max) ? conn->max_piece : max;
}

#endif
