/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the verbs transport (docs/why/verbs_transport.md). An interface serves one port of one device; its
 * connections are RC queue pairs, which are set up by datagrams. Files:
 *
 *   verbs_device.c   the ports of the machine, and the selection of those in use
 *   verbs_iface.c    the transport table; open and close, completion queues, arming, device events
 *   verbs_ud.c       the UD queue pair for datagrams
 *   verbs_cm.c       connection setup by datagrams: dial and accept
 *   verbs_watch.c    detects the end of peer processes
 *   verbs_port.c     detects that the own port has lost its link
 *   verbs_park.c     idle connections without a queue pair
 *   verbs_renew.c    connections whose queue pair a refused access broke
 *   verbs_conn.c     queue pairs, their send queue entries and completions, teardown (verbs_conn.h)
 *   verbs_data.c     packets
 *   verbs_batch.c    posts several requests with one doorbell
 *   verbs_pool.c     registered memory
 *   verbs_wire.c     encoding of addresses and datagrams
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_H
#define CW_TRANSPORT_VERBS_VERBS_H

#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "mem/domain.h"
#include "os/net.h"
#include "os/watch.h"
#include "transport/verbs/libibverbs.h"
#include "transport/verbs/verbs_device.h"
#include "transport/verbs/verbs_transport.h"
#include "transport/verbs/verbs_wire.h"

#define CW_VERBS_RETAINED    2u /* send queue entries reserved for END and for an empty request */
#define CW_VERBS_BATCH   16 /* completions polled in one call */
#define CW_VERBS_FLUSHES 4u
#define CW_VERBS_HANDLES 16u /* cached address handles */

/* UD queue pair: posted receives, and sends in flight. The device writes a 40 byte GRH before the payload. A peer may
 * send up to 4096 bytes, and a receive that is too short would break the queue pair. */
#define CW_VERBS_UD_RECEIVES 64u
#define CW_VERBS_UD_GRH      40u
#define CW_VERBS_UD_SPACE     (CW_VERBS_UD_GRH + 4096u)
#define CW_VERBS_UD_SENDS    32u
#define CW_VERBS_UD_SEND     512u
/* Set in the wr_id of UD requests. */
#define CW_VERBS_UD_WR       (UINT64_C(1) << 63)

/* The packet id travels as immediate data. Id 0 is a control word of the transport, with one of these values above it.
 * PARK and its answer PARK_OK carry a number in their upper half. */
enum {
    CW_VERBS_READY = 0x100,
    CW_VERBS_END = 0x200,
    CW_VERBS_PARK = 0x300,
    CW_VERBS_PARK_OK = 0x400,
    CW_VERBS_PARTED = 0x500
};

/* Bytes before the data of each segment, for the core's use while it retains a packet. Behind the first 8 bytes of a
 * packet its data are aligned to 16 bytes. */
#define CW_VERBS_KEEP_SPACE 136u

struct cw_verbs_segment {
    struct cw_verbs_segment *next;
    char *data;
    uint32_t lkey;
};

/* Registered memory in segments of one size, for send and receive. Grows and never shrinks. */
struct cw_verbs_pool {
    struct cw_verbs_segment *free;
    struct cw_verbs_chunk *chunks;
    size_t count;
    int logged;
};

/* An access in flight whose request has a completion of its own. Freed ones are cached in iface->spare_ops. */
struct cw_verbs_op {
    struct cw_verbs_op *next;
    struct cw_completion *completion; /* may be NULL */
    cw_unpack_fn unpack;
    void *arg;
    size_t length;
    uint64_t *result;
    struct cw_verbs_segment *segment; /* holds the bytes for unpack and result */
    uint32_t number;                  /* number of its request */
    ucs_status_t status;
    uint8_t is_over;
    uint8_t is_packet;  /* its failure breaks the connection */
    uint8_t is_refused; /* another access with its completion was refused: it must not be repeated */
};

/* What is needed to repeat a request in flight. */
struct cw_verbs_request {
    uint64_t address; /* of the target */
    uint32_t key;
    uint32_t word;   /* immediate data */
    uint32_t before; /* packets sent before it */
    uint16_t length; /* if it is inline: of `bytes` */
    uint8_t opcode;
    uint8_t num_sge;
    uint8_t flags;
    uint8_t is_over; /* it must not be repeated */
    union {
        char bytes[64]; /* more if settings.inlined is */
        struct {
            struct ibv_sge sge;
            uint64_t compare_add;
            uint64_t swap;
        } atomic;
        struct ibv_sge sges[CW_VERBS_MAX_IOV];
    };
};

/* What the device has reported of itself and of the port. The interfaces of a domain share it, because each event
 * reaches only one of them. */
struct cw_verbs_health {
    _Atomic unsigned changes; /* of the members below */
    _Atomic int vanished;
    _Atomic uint64_t down_ns; /* when an interface learned that the port has no link; 0: it has one */
};

struct cw_verbs_domain {
    struct cw_domain super;
    const struct cw_verbs_library *lib;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct cw_verbs_port port;
    int pages_atomics; /* if attr.on_demand: atomic operations work on such memory, too */
    struct cw_verbs_health health;
};

struct cw_verbs_conn;
struct cw_verbs_process;

struct cw_verbs_iface {
    struct cw_iface super;
    const struct cw_verbs_library *lib;
    struct cw_verbs_settings settings;
    struct cw_verbs_port port;
    struct cw_poller *poller;

    struct cw_verbs_domain *domain; /* domain with this context and pd; NULL: they are private, without accesses */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* NULL: the worker never sleeps */
    struct ibv_cq *recv_cq;
    struct ibv_cq *send_cq;
    struct ibv_srq *srq; /* NULL before the first connection */
    struct cw_poll_item events;
    struct cw_poll_item async;
    struct cw_alarm check; /* polls for broken queue pairs, if port.breaks_unseen */
    struct cw_alarm down;  /* set while the port has no link, until that counts as the loss of all peers */
    struct cw_verbs_health *health; /* the domain's, or own_health */
    struct cw_verbs_health own_health;
    unsigned changes; /* of health, as handled; first 0, so that progress handles earlier ones */
    int armed;
    int vanished; /* the device is gone */
    struct cw_verbs_pool pool;
    struct cw_verbs_op *spare_ops;
    struct cw_verbs_chain *spare_chains;
    unsigned missing;   /* receives to be posted */
    unsigned receiving; /* receives posted */
    _Atomic int receives_ran_out;    /* the device ran out of receives; set by the worker that reads its events */
    unsigned retained;  /* segments that the core retains */
    struct cw_verbs_segment *handed; /* segment of the packet in the current upcall; NULL: none, or the core retains
                                      * it */
    struct ibv_wc *polled;           /* completions polled from recv_cq; those before next_polled are handled */
    unsigned num_polled;
    unsigned next_polled;
    unsigned most_polled;

    uint64_t key;
    uint8_t address[CW_VERBS_ADDRESS_MAX];
    size_t address_length;
    struct cw_verbs_address local; /* `address`, decoded */
    struct ibv_qp *ud;
    struct ibv_mr *ud_mr;
    char *ud_memory;
    unsigned ud_sending; /* UD sends in flight */
    unsigned ud_next;
    struct cw_log_limit ud_limit;
    struct {
        struct ibv_ah *handle;
        uint16_t lid;
        uint8_t gid[16];
        uint8_t index;
    } handles[CW_VERBS_HANDLES];
    unsigned next_handle;

    struct cw_watch_listener watched; /* for peers that watch this process */
    struct cw_hash processes;         /* watched peer processes, by the key of the peer's interface */
    struct cw_hash by_qp;   /* connections by queue pair number */
    struct cw_hash by_peer; /* accepted connections, by the dialler's interface and connection */
    struct cw_idmap ids;
    struct cw_list conns;
    struct cw_list live;     /* connections with a queue pair, roughly in LRU order */
    struct cw_list waiting;  /* connections waiting for a queue pair */
    unsigned num_live;       /* in `live` */
    unsigned most_live;      /* beyond this number idle connections are parked */
    unsigned num_dials;      /* hellos without a reply yet */
    unsigned most_dials;     /* limit of num_dials, so that the device has queue pairs for those of peers */
    int is_short;            /* the device refused a queue pair since the last sweep */
    uint64_t refused_ns;     /* time of the first refusal since the last success; 0: none */
    struct cw_alarm sweep;   /* parks idle connections, at sweep_ns if it is set */
    uint64_t sweep_ns;
    struct cw_verbs_retired *retired; /* queue pairs of parked connections, oldest first */
    struct cw_verbs_retired **retired_end;
    struct cw_list blocked; /* connections whose send got CW_AGAIN */
    struct cw_list due;     /* connections with a pending upcall or teardown */
    unsigned num_conns;
    unsigned num_qps; /* RC queue pairs */
    unsigned num_draining; /* connections in DRAINING */
    unsigned in_flight; /* requests in flight of all connections */
    unsigned most_in_flight; /* limit of in_flight, without the reserved entries, so that send_cq cannot overflow */
    unsigned most_unseen; /* beyond this number each request is signaled */
    uint32_t last_serial;
    int cq_stays; /* the device cannot resize send_cq */
    int drained; /* recv_cq was empty at the last poll */
    int starved; /* segments or send_cq entries ran out */
    size_t request_size; /* of each of conn->requests */
    unsigned most_unsignalled; /* of so many requests of a connection one is signaled */
    struct ibv_send_wr short_wr; /* work request of a short packet, and its only part */
    struct ibv_sge short_sge;
    int hurried; /* all requests in flight will complete with a signal */
    int limit_logged;
    int is_closing;
    struct cw_verbs_refusal *refusals; /* answers to diallers, for repeated hellos */
    unsigned next_refusal;
};

/* ACCEPTING: the acceptor does not know yet that the dialler receives. FAILING: `closed` follows. LEAVING: the core
 * closed the connection, and requests are still in flight. OVER: to be freed. DRAINING: only the interface still knows
 * the connection, for the last completions of its queue pair, which is in the error state. BROKEN: verbs_renew.c.
 * Others: verbs_park.c. */
enum cw_verbs_state {
    CW_VERBS_DIALLING,
    CW_VERBS_ACCEPTING,
    CW_VERBS_PARKED,
    CW_VERBS_REOPENING,
    CW_VERBS_PARTING,
    CW_VERBS_OPEN,
    CW_VERBS_PARKING,
    CW_VERBS_YIELDING,
    CW_VERBS_BROKEN,
    CW_VERBS_FAILING,
    CW_VERBS_CLOSED,
    CW_VERBS_LEAVING,
    CW_VERBS_OVER,
    CW_VERBS_DRAINING
};

struct cw_verbs_flush {
    struct cw_completion *completion;
    uint32_t until;
    int is_of_packets;
};

struct cw_verbs_conn {
    struct cw_conn super;
    struct cw_hash_link by_qp;
    struct cw_hash_link by_peer;
    struct cw_list link; /* iface->conns */
    struct cw_list blocked;
    struct cw_list due;
    struct cw_list live; /* iface->live, or iface->waiting */
    struct cw_alarm alarm;
    struct ibv_qp *qp; /* NULL: parked, or waiting for one */
    enum cw_verbs_state state;
    ucs_status_t status; /* reason of FAILING and CLOSED, and of a dial that failed */
    uint32_t serial;     /* distinguishes completions from those of an earlier queue pair with this number */
    uint32_t posted;     /* requests posted */
    uint32_t completed;
    uint32_t signalled; /* requests before this number will complete with a signal */
    uint32_t checked;   /* `completed` at the last check */
    uint32_t lent;      /* requests before this number may use memory of the core */
    uint32_t unsent;    /* count of the last requests, which the device does not have */
    uint32_t packets;   /* packets sent, */
    uint32_t handled;   /* and packets of the peer that the core handled */
    unsigned idle_polls;
    uint32_t end; /* number of the request with END, if LEAVING and is_last, or with PARTED, if PARTING */
    uint32_t epoch;      /* how often it gave up its queue pair */
    uint32_t swept;      /* `posted` at the last sweep */
    uint16_t idle;       /* sweeps since it was used, or since PARK was sent */
    uint16_t asked;      /* number of this side's last PARK */
    uint16_t peer_asked; /* if is_asked: number of the peer's PARK */
    uint8_t is_asked;    /* the peer's PARK waits for an answer */
    uint8_t is_used;     /* a packet came since the last sweep */
    uint8_t is_dial;     /* counted in num_dials */
    uint8_t is_doubtful; /* PARTING, and the peer may not have received the word */
    uint8_t patience;    /* parked after 2^patience idle sweeps */
    uint32_t psn;
    unsigned max_inline;
    uint8_t is_last;
    uint8_t is_ready; /* both queue pairs receive */
    uint8_t is_dialler;
    uint8_t is_said; /* the hello was sent */
    uint8_t is_watched;
    uint8_t is_ended;  /* the peer's END came */
    uint8_t peer_knows;   /* both sides know of the end, or a cancel reports it to the peer */
    uint8_t is_connected; /* the queue pair may have received something */
    uint8_t is_broken;    /* the queue pair is in the error state */
    uint8_t is_listed; /* the connection is in by_peer */
    uint8_t num_flushes;
    uint16_t batches;             /* open batches */
    struct cw_verbs_chain *chain; /* requests counted as posted but not given to the device yet; NULL: none */
    uint8_t gid_index;            /* index in this side's address */
    uint8_t peer_gid;
    uint64_t id;
    uint64_t peer_id;
    const char *lost;           /* not NULL: how the peer's process ended; progress reports it after received packets */
    ucs_status_t lost_status;
    struct cw_verbs_process *process; /* the peer's process, if it is watched */
    uint64_t paced_ns;          /* from then on its next queue pair is not too many */
    ucs_status_t access_status; /* first error of an access without completion, for the next flush of accesses */
    uint32_t peer_handled;      /* as the peer reported when it was reopened: packets that it handled, */
    uint8_t peer_is_refused;    /* and its `is_refused` */
    uint8_t is_refused;         /* the device reported which access of this side was refused */
    uint8_t is_renewing;        /* an access broke its queue pair, and it was not reopened yet */
    uint8_t is_returning;       /* BROKEN: the first request came back */
    uint64_t grace_ns; /* if is_ended: until then the device may not have acknowledged the peer's END yet */
    struct cw_verbs_address peer;
    struct cw_verbs_retry retry;
    struct cw_verbs_flush flushes[CW_VERBS_FLUSHES];
    uint8_t *words; /* hello or reply; NULL when no longer needed */
    size_t num_words;
    struct cw_verbs_op *ops; /* in the order of their requests */
    struct cw_verbs_op **ops_end;
    char *requests;                   /* struct cw_verbs_request in flight; NULL: there are none */
    struct cw_verbs_segment *slots[]; /* segments of the requests in flight */
};

/* The size of one of conn->requests. */
static inline size_t cw_verbs_request_size(const struct cw_verbs_settings *settings)
{
    const size_t size = sizeof(struct cw_verbs_request), part = offsetof(struct cw_verbs_request, bytes);

    return (settings->inlined > size - part) ? (part + settings->inlined + 7) & ~(size_t)7 : size;
}

static inline struct cw_verbs_iface *cw_verbs_iface_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct cw_verbs_iface, super);
}

static inline struct cw_verbs_conn *cw_verbs_conn_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct cw_verbs_conn, super);
}

/* verbs_pool.c */
struct cw_verbs_segment *cw_verbs_segment_get(struct cw_verbs_iface *iface);
void cw_verbs_segment_put(struct cw_verbs_iface *iface, struct cw_verbs_segment *segment);
void cw_verbs_pool_free(struct cw_verbs_iface *iface);
/* Returns registered memory; NULL: port.why is the reason. */
char *cw_verbs_memory(struct cw_verbs_iface *iface, size_t length, struct ibv_mr **mr_p);

/* verbs_ud.c */
ucs_status_t cw_verbs_ud_open(struct cw_verbs_iface *iface);
void cw_verbs_ud_close(struct cw_verbs_iface *iface);
/* Sends a datagram, which may be lost. */
void cw_verbs_ud_send(struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                      unsigned peer_gid, const struct cw_verbs_datagram *datagram);
/* Handles a completion of send_cq for the UD queue pair. */
void cw_verbs_ud_sent(struct cw_verbs_iface *iface, const struct ibv_wc *wc);
/* Handles a completion of recv_cq for the UD queue pair. Returns the number of upcalls. */
unsigned cw_verbs_ud_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc);

/* verbs_cm.c */
ucs_status_t cw_verbs_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                           size_t hello_length, void *user, struct cw_conn **conn_p);
int cw_verbs_reachable(struct cw_iface *super, const void *address, size_t length, const char **why);
unsigned cw_verbs_datagram(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *datagram,
                           const struct ibv_wc *wc, const uint8_t *grh);
/* The IPv4 or IPv6 address in a GID. Returns 0 if it is link-local. */
int cw_verbs_gid_address(const uint8_t gid[16], struct cw_net_address *address);
unsigned cw_verbs_cm_alarm(struct cw_verbs_conn *conn, uint64_t now_ns);
void cw_verbs_cancel(struct cw_verbs_conn *conn);
/* Resolves a crossing of two control words: the one of the lower address wins. */
bool cw_verbs_wins(const struct cw_verbs_conn *conn);
/* Sends close datagrams for a parked connection until the peer answers. Returns false when the retries have timed
 * out. */
bool cw_verbs_say_close(struct cw_verbs_conn *conn, uint64_t now_ns);

/* verbs_park.c */
/* Call when the connection gets a queue pair. */
void cw_verbs_live_add(struct cw_verbs_conn *conn);
/* Takes the connection off iface->live and iface->waiting. */
void cw_verbs_live_remove(struct cw_verbs_conn *conn);
/* Whether parking other connections can provide a queue pair. */
bool cw_verbs_can_wait(const struct cw_verbs_iface *iface);
/* As cw_verbs_can_wait, and starts parking because the device has no further queue pair. */
bool cw_verbs_make_space(struct cw_verbs_iface *iface);
/* Creates a queue pair for a connection that dials or is reopened. */
bool cw_verbs_dial_begin(struct cw_verbs_conn *conn);
void cw_verbs_dial_end(struct cw_verbs_conn *conn);
/* Queues the connection for a queue pair. */
void cw_verbs_wait(struct cw_verbs_conn *conn);
/* Called by a send on a connection that is not open. Returns whether it is open now. */
bool cw_verbs_wake(struct cw_verbs_conn *conn);
/* Handles a control word of the peer. Returns false for a protocol violation. */
bool cw_verbs_park_word(struct cw_verbs_conn *conn, uint32_t word);
/* Parks the connection: its queue pair is no longer needed, and everything was received. BROKEN: keeps what is in
 * flight. */
void cw_verbs_park(struct cw_verbs_conn *conn);
/* Runs the steps of parking that were waiting for completions. */
void cw_verbs_park_settle(struct cw_verbs_conn *conn);
void cw_verbs_reopen(struct cw_verbs_conn *conn);
/* Destroys queue pairs of parked connections: all, or those that are old enough. Returns whether there were any. */
bool cw_verbs_retired_free(struct cw_verbs_iface *iface, bool all);
void cw_verbs_sweep_init(struct cw_verbs_iface *iface);

/* verbs_renew.c */
/* Gives up the queue pair, which is broken or is to be, without losing what was sent. Makes no upcall. */
void cw_verbs_renew(struct cw_verbs_conn *conn);
/* Handles a failed request. Returns false if the connection fails with it. */
bool cw_verbs_renew_on_error(struct cw_verbs_conn *conn, uint32_t number, const struct ibv_wc *wc);
/* The queue pair is at rest: releases it, which leaves the connection PARKED. `drained`: all packets were received.
 * Returns false if requests are still in flight. */
bool cw_verbs_renew_leave(struct cw_verbs_conn *conn, bool drained);
/* The peer gave up its queue pair. Returns false if it has to ask again later. */
bool cw_verbs_renew_for_peer(struct cw_verbs_conn *conn);
/* Whether the peer may take any time to answer a hello: otherwise it is watched, and nothing else detects its end. */
bool cw_verbs_reopens_for_ever(const struct cw_verbs_conn *conn);
/* The connection was reopened: sends READY, if `says_ready`, and repeats what the peer has not received. */
void cw_verbs_renewed(struct cw_verbs_conn *conn, bool says_ready);

/* verbs_watch.c */
/* Listens at the port's IP addresses, if it has any, for peers that watch this process. */
void cw_verbs_watch_open(struct cw_verbs_iface *iface);
/* Starts to watch the peer's process, if the connection was opened and is watched, or its peer does not answer. */
void cw_verbs_watch_begin(struct cw_verbs_conn *conn);
void cw_verbs_watch_end(struct cw_verbs_conn *conn);
/* Whether the system reports the end of the peer's process. */
bool cw_verbs_is_seen(const struct cw_verbs_conn *conn);

/* verbs_port.c */
void cw_verbs_port_init(struct cw_verbs_iface *iface);
/* An event reported whether the port has a link. */
void cw_verbs_port_event(struct cw_verbs_iface *iface, bool has_link);
/* If the port has no link: fails the watched connections unless it has one again within UCX_KEEPALIVE_INTERVAL. Call
 * when health->down_ns has changed, or another connection is watched. */
void cw_verbs_port_follow(struct cw_verbs_iface *iface);

/* verbs_data.c */
extern const struct cw_transport_packets cw_verbs_packets;
unsigned cw_verbs_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc);
/* Posts missing receives. */
void cw_verbs_refill(struct cw_verbs_iface *iface);
ucs_status_t cw_verbs_receive_begin(struct cw_verbs_iface *iface);
int cw_verbs_has_place(const struct cw_verbs_conn *conn);

ucs_status_t cw_verbs_can_send(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn);
ucs_status_t cw_verbs_again(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn);
/* Returns CW_AGAIN if none is free. */
ucs_status_t cw_verbs_segment_for(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                                  struct cw_verbs_segment **segment_p);
ucs_status_t cw_verbs_flush_accesses(struct cw_conn *super, struct cw_completion *completion);

/* verbs_domain.c */
extern const struct cw_domain_kind cw_verbs_domain_kind;
uint32_t cw_verbs_local_key(const struct cw_memh *memh);

/* verbs_access.c */
extern const struct cw_transport_access cw_verbs_access;
void cw_verbs_access_limits(struct cw_verbs_iface *iface);
/* Call when requests before `until` are complete, while their slots still hold their segments. */
void cw_verbs_ops_fetched(struct cw_verbs_conn *conn, uint32_t until, ucs_status_t status);
/* Calls the completions of finished accesses, or cancels all. */
unsigned cw_verbs_ops_settle(struct cw_verbs_conn *conn, int all);
/* Slot send_registered. */
ucs_status_t cw_verbs_send_registered(struct cw_conn *super, uint8_t id, const void *header, size_t header_length,
                                      const struct cw_access_iov *payload, struct cw_completion *completion);

/* verbs_iface.c */
/* Records why the interface cannot be opened. */
ucs_status_t cw_verbs_lacks(struct cw_verbs_iface *iface, const char *what, int error);
/* The device has failed: logs one line and ends all connections. */
void cw_verbs_gone(struct cw_verbs_iface *iface, const char *why);
/* Returns the number of completions; 0 if the device has failed. */
int cw_verbs_poll(struct cw_verbs_iface *iface, struct ibv_cq *cq, unsigned most, struct ibv_wc *wc);
/* Starts polling for broken queue pairs. */
void cw_verbs_poll_broken(struct cw_verbs_iface *iface);
/* Grows send_cq for one more connection. Returns 0 if the device cannot. */
int cw_verbs_grow_cq(struct cw_verbs_iface *iface);
/* Redistributes send_cq after the number of connections changed. */
void cw_verbs_share_cq(struct cw_verbs_iface *iface);
/* Whether connections wait for segments or send_cq entries, and some are free. */
int cw_verbs_can_feed(const struct cw_verbs_iface *iface);
/* Polls all completions from recv_cq; progress handles them later. */
void cw_verbs_hold_received(struct cw_verbs_iface *iface);

#endif
