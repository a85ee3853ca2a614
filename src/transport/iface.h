/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport's table, the upcalls of the core, and the common heads of interfaces and connections
 * (transport/transport.h).
 */
#ifndef CW_TRANSPORT_IFACE_H
#define CW_TRANSPORT_IFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/completion.h"
#include "base/list.h"
#include "os/poll.h"
#include "ucs/type/status.h"

struct cw_rx;
struct cw_config;
struct cw_conn;
struct cw_domain;
struct cw_nt_choice;
struct cw_iface;
struct cw_net_address;
struct cw_protocol_plan;
struct cw_text;

#define CW_DEVICE_NAME_MAX 32

/* Back-pressure: a send slot accepted nothing; progress() calls `space` once a retry can succeed. */
#define CW_AGAIN UCS_ERR_NO_RESOURCE

/* A usable device of a transport on this machine, as listed by ucp_context_print_info. */
struct cw_device {
    char name[CW_DEVICE_NAME_MAX];
    uint8_t is_local; /* loopback: reaches only this host */
};

enum cw_device_class { CW_DEVICE_NET, CW_DEVICE_SHM, CW_DEVICE_SELF };

/* The maximum sizes, in bytes, of the slots of `access`; 0: the slot cannot be used. `in_order`: puts, atomic
 * operations and packets of a connection take effect at the target in the order in which they were issued, and only
 * fetches may be overtaken; 0: accesses are unordered. */
struct cw_access_limits {
    size_t max_put_short;
    size_t max_put_bcopy;
    size_t max_put_zcopy;
    size_t max_get_bcopy;
    size_t max_get_zcopy;
    unsigned max_iov;       /* entries of put_zcopy and get_zcopy */
    size_t alignment;       /* of both addresses and of lengths for put_zcopy and get_zcopy; 0: none */
    unsigned posted;        /* bits 1 << enum cw_access_op: atomic operations without a result, */
    unsigned fetching;      /* and those with a result */
    int in_order;
};

/* The inputs of protocol selection, sizes in bytes; constant while the iface is open. */
struct cw_limits {
    size_t max_short;       /* payload of send_short, beside its 8 header bytes */
    size_t max_bcopy;       /* packet of send_bcopy; at least CW_WIRE_LEAST_PIECE */
    size_t max_zcopy;       /* header and payload of send_zcopy together; 0: no send_zcopy */
    size_t zcopy_break_even; /* from this length send_zcopy costs less than a copy; a message that exceeds one copied
                             * packet uses it earlier (proto/protocol.c) */
    size_t copies_break_even; /* from this length a copy between the processes (transport/copies.h) costs less than
                               * packets */
    size_t max_registered;  /* header and payload of send_registered together; 0: no send_registered */
    unsigned max_iov;       /* entries of send_zcopy and send_placed */
    size_t max_placed;      /* payload of send_placed; 0: no send_placed */
    size_t keep_space;      /* bytes before the data of a packet that belong to whoever retains it */
    double latency_ns;      /* one-way time of 8 bytes, between cores that share caches */
    double distance_ns;     /* extra latency between typical cores; for estimates, not for selection */
    double line_ns;         /* the same for each of the first cache lines, which are not prefetched */
    double bandwidth_bps;   /* bytes per second of large messages */
    double overhead_ns;     /* CPU time of one send */
    struct cw_access_limits access;
};

/* The functions of the core that an iface calls, inside progress() only, except for `consume` from a send and `done`
 * from close_conn(). `owner` is the value passed to open(). */
struct cw_upcalls {
    /* A packet arrived on an open connection. `data` is valid until the return only. */
    void (*packet)(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
    /* A peer dialled this interface and sent this hello. If the core returns UCS_OK it has set conn->user; the reply
     * (*reply_length: capacity on entry, bytes written on return) goes to the dialler in both cases. Any other status
     * refuses: the transport then sends the reply, if any, and frees conn itself. */
    ucs_status_t (*accept)(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                           size_t *reply_length);
    /* Whether a hello that arrived at this interface is for its worker. No side effects. Transports with unverified
     * source addresses call it before they allocate or send anything, and drop other hellos. NULL: every hello may
     * be. */
    bool (*is_ours)(const struct cw_iface *iface, const void *hello, size_t length);
    /* Whether `accept` would refuse a hello that is for this worker; if so, writes the reply as `accept` does. No side
     * effects. For transports to which a connection is expensive: when both sides dial, half of all dials are refused.
     * NULL: not known. */
    bool (*refuses)(const struct cw_iface *iface, const void *hello, size_t hello_length, void *reply,
                    size_t *reply_length);
    /* The dialled connection is open (UCS_OK), was refused (UCS_ERR_REJECTED, with the acceptor's reply) or failed (any
     * other status; reply NULL). After a status other than UCS_OK the core still calls close_conn(). */
    void (*opened)(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length);
    /* The header of a packet of send_placed arrived; `length` bytes follow. The core fills `iov` (at most
     * CW_PLACE_MAX_IOV entries) with the destination of exactly `length` bytes, valid until `placed` or the end of the
     * connection, and returns the number of entries. 0: the core abandoned the connection, or the packet breaks the
     * protocol; the transport then ends the connection with UCS_ERR_IO_ERROR. The header is valid until the return
     * only. The program may read the destination at any time, so the transport writes only bytes there that are known
     * to be the peer's. */
    unsigned (*place)(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov);
    /* The whole payload is at its destination. Header and length are those of `place`. */
    void (*placed)(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
    /* The transport releases a destination without `placed`: the packet was lost and will be sent again. Header and
     * length are those of `place`. For packets of send_placed only. */
    void (*unplaced)(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
    /* Tx space is available: a send that returned CW_AGAIN can be retried; the retry may fail again. */
    void (*space)(struct cw_conn *conn);
    /* Whether the core waits for a message of the peer. If so, the transport must detect the loss of that message, also
     * while the worker sleeps. NULL: the core never waits. */
    int (*awaits)(const struct cw_conn *conn);
    /* A peer connected to a listener and sent a hello. The transport leaves the connection pending until the core calls
     * `answer`. The hello is valid until the return only. False: the hello was invalid, and the core has refused it. */
    bool (*requested)(void *user, struct cw_conn *conn, const void *hello, size_t length);
    /* An open connection ended: UCS_ERR_CONNECTION_RESET when the peer is gone, UCS_ERR_ENDPOINT_TIMEOUT when its
     * machine fell silent, UCS_ERR_IO_ERROR on bytes that break the framing. Everything that arrived before was
     * delivered already. From now on sends return this status. The core calls close_conn() later. */
    void (*closed)(struct cw_conn *conn, ucs_status_t status);
    /* Called inside `hand_over`, with its arguments, while no packet is queued for this end. The payload is in memory
     * of the sender. True: the core has consumed the message and has called no callback of the program; the interface
     * calls `finish` in its next progress, before it delivers any packet, and the worker must not sleep until then. */
    bool (*consume)(struct cw_conn *conn, uint64_t header, const void *payload, size_t length, bool may_store);
    /* Completes what `consume` has started. Returns the number of messages. */
    unsigned (*finish)(void *owner);
    /* The interface ran out of receive buffers, so peers may have had to resend packets. NULL: not counted. */
    void (*receives_ran_out)(void *owner);
};

struct cw_iface_params {
    const struct cw_config *config;     /* borrowed for the lifetime of the iface */
    const struct cw_upcalls *upcalls;   /* borrowed as well */
    void *owner;                        /* passed to upcalls that have no connection */
    struct cw_poller *poller;           /* descriptors are registered here; their callbacks run inside the worker's
                                         * progress */
    const struct cw_device *devices;    /* the devices that the configuration allows; none: the interface is for
                                         * socket addresses only */
    unsigned num_devices;
    struct cw_domain *domain;           /* the device's domain, of the kind that `access` requires. NULL: no access, or
                                         * the context has too many domains; limits.access stays 0 then */
    uint64_t worker_uid;                /* random, unique; for naming and for logs */
    int wakeup;                         /* the worker may sleep: the core calls arm(), and senders must wake the
                                         * worker */
    int peer_memory;                    /* cross-process copies may be used (cma in UCX_TLS) */
};

/* The groups of slots, each in its own header. A NULL group or slot is unsupported. The core calls slots only through
 * core/lane.h. */
struct cw_transport_connect;  /* transport/connect.h */
struct cw_transport_cm;       /* transport/connect.h */
struct cw_transport_packets;  /* transport/packets.h */
struct cw_transport_copies;   /* transport/copies.h */
struct cw_transport_access;   /* transport/access.h */
struct cw_transport_fastpath; /* transport/fastpath.h */

struct cw_transport {
    const char *name;                   /* as in UCX_TLS, print_info and ep_query */
    uint8_t wire_id;                    /* identifies the transport in addresses; never reused */
    enum cw_device_class device_class;  /* the *_DEVICES setting that filters it */
    int spans_devices;                  /* one interface serves all devices; otherwise each device has one */
    size_t iface_size;                  /* for transports without `open`: of the interface's structure, */
    struct cw_limits limits;            /* and its limits */

    const struct cw_transport_connect *connect;
    const struct cw_transport_packets *packets;
    const struct cw_transport_cm *cm;               /* NULL: no listeners */
    const struct cw_transport_copies *copies;       /* NULL: the peer's process memory is not accessible */
    const struct cw_transport_access *access;       /* NULL: no one-sided access by the device */
    const struct cw_transport_fastpath *fastpath;   /* NULL: every packet goes through a send slot */

    /* Lists devices, at most `max`; returns how many exist. No side effects; takes microseconds. NULL: there is always
     * one, "memory". */
    unsigned (*query_devices)(const struct cw_config *config, struct cw_device *devices, unsigned max);
    /* Appends a line for each device that exists and is not listed, or the reason why there is none. NULL:
     * query_devices lists everything. */
    void (*explain)(const struct cw_config *config, struct cw_text *text);
    /* Opens an interface. On failure logs the reason in one line that names the device, and releases everything.
     * UCS_ERR_INVALID_PARAM and UCS_ERR_UNSUPPORTED: the settings demand protection that the transport does not have,
     * so the worker must not be created. close(): all connections were closed before. Both NULL: an interface is
     * `iface_size` bytes, all 0 behind the head, with `limits`. */
    ucs_status_t (*open)(const struct cw_iface_params *params, struct cw_iface **iface_p);
    void (*close)(struct cw_iface *iface);
    /* Writes the address by which peers dial this iface; returns its length (<= max), or 0 if it does not fit. Every
     * call writes the same bytes. NULL, with `reachable` NULL: an interface reaches only its own worker. */
    size_t (*address)(struct cw_iface *iface, void *buffer, size_t max);
    /* The same for the device of that name alone: peers that have only this address use no other device of this iface.
     * 0 also if the iface has no such device. NULL: the iface serves one device. */
    size_t (*device_address)(struct cw_iface *iface, const char *device, void *buffer, size_t max);
    /* Whether a dial can succeed. The address comes from a peer: any bytes, any length. On 0 *why is set to a constant
     * phrase for a log line. */
    int (*reachable)(struct cw_iface *iface, const void *address, size_t length, const char **why);
    /* Sends and receives without blocking; returns the number of packets and connection events delivered. A memory
     * transport makes no system call when nothing is outstanding. */
    unsigned (*progress)(struct cw_iface *iface);
    /* After UCS_OK any event makes the poller's descriptor readable (cw_poller_wake); UCS_ERR_BUSY: an event is
     * pending, so the worker calls progress. NULL: all events of this transport come through descriptors in the poller,
     * or are announced by cw_iface_wake. */
    ucs_status_t (*arm)(struct cw_iface *iface);
};

/* The common head of a transport's interface; struct cw_conn is that of its connections. */
struct cw_iface {
    const struct cw_transport *transport;
    const struct cw_device *device;             /* set by the core: the first of the devices that it was opened on */
    const struct cw_transport_packets *packets; /* set by the core: the transport's, or a group that traces packets
                                                 * before it calls them */
    const struct cw_upcalls *upcalls;
    void *owner;
    uint64_t worker_uid;                        /* set by the core, as `owner`, `upcalls` and `transport` above, after
                                                 * `open` where the transport has not set them */
    struct cw_poller *poller;                   /* set by the core: as in the parameters */
    struct cw_domain *domain;                   /* set by the core: as in the parameters */
    struct cw_limits limits;
    const struct cw_protocol_plan *plan;    /* set by the core: how it uses these limits */
    const char *name;                       /* set by the core: the transport's, or that of the transport that carries
                                             * the packets of a lane of core/failover */
    unsigned counted;                       /* set by the core: index of the transport in the worker's counters */
    uint8_t logged;                         /* set by the core: the line of UCX_PROTO_INFO was logged */
    uint8_t left_out;                       /* set by the core: it did not fit into the worker's address */
    uint8_t woken;                          /* set by cw_iface_wake; progress clears it before it polls for events */
    /* Where the core may poll short packets itself instead of calling `progress`, as long as the producer needs no
     * position update; `progress` has nothing else to do then. While `progress` has no work this may be a place that is
     * always empty. It may change at any time. Only for transports with `fastpath`; &cw_no_rx: none. */
    struct cw_rx *inbox;
};

struct cw_conn {
    struct cw_iface *iface;
    void *user;                 /* of the core: set by the transport in `dial`, by the core in `accept` */
    struct cw_conn *next_old;   /* set by the core: list of dials to be closed */
    /* The largest packet that send_bcopy accepts here, if that is more than max_bcopy: for packets that the peer need
     * not copy, and for pieces that a type packs straight into the packet. It may change in any call; a larger packet
     * gets CW_AGAIN. */
    size_t max_whole;
    /* The largest useful packet of a fragmented message: fewer and longer packets are faster; not more than max_whole.
     * The first packet of such a message has at most max_bcopy all the same. */
    size_t max_piece;
    uint8_t dialled;            /* set by the core: this side dialled the message lane */
    uint8_t lanes_asked;        /* set by the core: it has queried whether there are further lanes */
    uint8_t gathers;            /* a batch is open until the next progress */
    uint32_t sent_round;        /* the low bits of the worker's round in which a send last left unbatched */
    /* The copy method that `pack` uses for the memory that send_bcopy gives it (base/nt_copy.h). NULL: the default. */
    struct cw_nt_choice *nt;
    /* Peer and reason of the end of the connection, as a phrase for the log, on the heap: the transport sets it at the
     * end; it is freed with the connection unless the core took it over. NULL: unknown. */
    char *end;
};

/* Notes that a call has left work for progress: the worker must not sleep before it, and is woken if it sleeps. */
static inline void cw_iface_wake(struct cw_iface *iface)
{
    iface->woken = 1;
    cw_poller_wake(iface->poller);
}

/* For transports without `address`: the address of an interface, and the check for it. */
static inline size_t cw_iface_own_address(const struct cw_iface *iface, void *buffer, size_t max)
{
    if (max < sizeof(iface->worker_uid)) {
        return 0;
    }
    memcpy(buffer, &iface->worker_uid, sizeof(iface->worker_uid));
    return sizeof(iface->worker_uid);
}

static inline bool cw_iface_is_own(const struct cw_iface *iface, const void *address, size_t length)
{
    return length == sizeof(iface->worker_uid) && memcmp(address, &iface->worker_uid, length) == 0;
}

/* Whether a payload can be received directly into its destination at the peer. */
static inline bool cw_conn_places(const struct cw_conn *conn)
{
    return conn->iface->limits.max_placed > 0;
}

/* The largest packet of a fragmented message. */
static inline size_t cw_conn_max_piece(const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;

    return (conn->max_piece > max) ? conn->max_piece : max;
}

#endif
