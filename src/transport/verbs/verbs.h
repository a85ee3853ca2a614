/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the verbs transport (docs/why/verbs_transport.md). An interface serves one port of one device; its
 * connections are queue pairs of type RC, which are set up by datagrams. Files:
 *
 *   verbs_device.c   the ports of the machine, and those of them that are used
 *   verbs_iface.c    the table; opening and closing, completion queues, arming, events of the device
 *   verbs_ud.c       the queue pair for datagrams
 *   verbs_cm.c       dialling and accepting by datagrams
 *   verbs_watch.c    peers whose process ends
 *   verbs_park.c     idle connections without a queue pair
 *   verbs_conn.c     queue pairs, their places and completions, ends (verbs_conn.h)
 *   verbs_data.c     packets
 *   verbs_batch.c    several requests by one doorbell
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

#define CW_VERBS_RETAINED    2u /* places of a send queue that are kept for END and for an empty request */
#define CW_VERBS_BATCH   16 /* completions taken in one call */
#define CW_VERBS_FLUSHES 4u
#define CW_VERBS_HANDLES 16u /* address handles that are kept */

/* Datagrams: the number of receives, and of sends under way. A received datagram has 40 bytes before its payload; a
 * peer may send at most 4096 bytes, and a receive that is too short would end the queue pair. */
#define CW_VERBS_UD_RECEIVES 64u
#define CW_VERBS_UD_GRH      40u
#define CW_VERBS_UD_SPACE     (CW_VERBS_UD_GRH + 4096u)
#define CW_VERBS_UD_SENDS    32u
#define CW_VERBS_UD_SEND     512u
/* Set in the wr_id of requests of the datagrams. */
#define CW_VERBS_UD_WR       (UINT64_C(1) << 63)

/* The id of a packet travels as immediate data; id 0 belongs to the transport, with one of these values above it. PARK
 * and its answer PARK_OK have a number in their upper half. */
enum {
    CW_VERBS_READY = 0x100,
    CW_VERBS_END = 0x200,
    CW_VERBS_PARK = 0x300,
    CW_VERBS_PARK_OK = 0x400,
    CW_VERBS_PARTED = 0x500
};

/* Bytes before the data of each segment: who keeps a packet writes there. Behind the first 8 bytes of a packet its data
 * are aligned to 16 bytes. */
#define CW_VERBS_KEEP_SPACE 136u

struct cw_verbs_segment {
    struct cw_verbs_segment *next;
    char *data;
    uint32_t lkey;
};

/* Registered memory in pieces of one size, for sending and receiving. It grows and never shrinks. */
struct cw_verbs_pool {
    struct cw_verbs_segment *free;
    struct cw_verbs_chunk *chunks;
    size_t count;
    int told;
};

/* An access under way whose request has a completion of its own. Freed ones are kept in iface->spare_ops. */
struct cw_verbs_op {
    struct cw_verbs_op *next;
    struct cw_completion *completion; /* may be NULL */
    cw_unpack_fn unpack;
    void *arg;
    size_t length;
    uint64_t *result;
    struct cw_verbs_segment *segment; /* memory that holds the bytes for unpack and result */
    uint32_t number;                  /* number of its request */
    ucs_status_t status;
    uint8_t is_over;
    uint8_t is_packet; /* its failure is that of the connection */
};

struct cw_verbs_domain {
    struct cw_domain super;
    const struct cw_verbs_library *lib;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct cw_verbs_port port;
    int pages_atomics; /* if attr.on_demand: atomic operations reach such memory, too */
    _Atomic int vanished;
};

struct cw_verbs_conn;
struct cw_verbs_process;

struct cw_verbs_iface {
    struct cw_iface super;
    const struct cw_verbs_library *lib;
    struct cw_verbs_settings settings;
    struct cw_verbs_port port;
    struct cw_poller *poller;
    int sleeps;

    struct cw_verbs_domain *domain; /* domain with this context and pd; NULL: the interface's own, without accesses */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* NULL: the worker never sleeps */
    struct ibv_cq *recv_cq;
    struct ibv_cq *send_cq;
    struct ibv_srq *srq; /* NULL before the first connection */
    struct cw_poll_item events;
    struct cw_poll_item async;
    struct cw_alarm look; /* for broken queue pairs, if port.breaks_unseen */
    int armed;
    int vanished; /* the device is gone */
    struct cw_verbs_pool pool;
    struct cw_verbs_op *spare_ops;
    struct cw_verbs_chain *spare_chains;
    unsigned missing;   /* receives to be posted */
    unsigned receiving; /* receives posted */
    _Atomic int dry;    /* the device had used all of them; set by the worker that reads its events */
    unsigned retained;  /* segments that the core has; not more than most_retained, so that enough are left */
    unsigned most_retained;
    struct cw_verbs_segment *handed; /* holds the packet that is being handed up; NULL: none, or the core keeps it */
    struct ibv_wc *held;             /* completions that were taken from recv_cq; those before next_held are handled */
    unsigned num_blocked;
    unsigned next_held;
    unsigned most_blocked;

    uint64_t key;
    uint8_t address[CW_VERBS_ADDRESS_MAX];
    size_t address_length;
    struct cw_verbs_address local; /* `address`, decoded */
    struct ibv_qp *ud;
    struct ibv_mr *ud_mr;
    char *ud_memory;
    unsigned ud_sending; /* datagrams that are being sent */
    unsigned ud_next;
    struct cw_log_limit ud_limit;
    struct {
        struct ibv_ah *handle;
        uint16_t lid;
        uint8_t gid[16];
        uint8_t index;
    } handles[CW_VERBS_HANDLES];
    unsigned next_handle;

    struct cw_watch_listener watched; /* for those that watch this process */
    struct cw_hash processes;         /* that are watched, by the key of the peer's interface */
    struct cw_hash by_qp;   /* connections by the number of their queue pair */
    struct cw_hash by_peer; /* accepted connections, by the dialler's interface and connection */
    struct cw_idmap ids;
    struct cw_list conns;
    struct cw_list live;     /* connections with a queue pair, roughly the least recently used first */
    struct cw_list waiting;  /* connections for which the device had no queue pair */
    unsigned num_live;       /* in `live` */
    unsigned most_live;      /* idle ones beyond this number are parked */
    unsigned num_dials;      /* hellos that wait for a reply */
    unsigned most_dials;     /* further ones wait, so that the device has room for those of peers */
    int is_short;            /* the device refused a queue pair since the last sweep */
    uint64_t refused_ns;     /* when it began to, without success since then; 0: it does not */
    struct cw_alarm sweep;   /* for idle connections, at sweep_ns if it is set */
    uint64_t sweep_ns;
    struct cw_verbs_retired *retired; /* queue pairs of parked connections, the oldest first */
    struct cw_verbs_retired **retired_end;
    struct cw_list blocked; /* connections whose send got CW_AGAIN */
    struct cw_list due;     /* connections with an upcall or an end to handle */
    unsigned num_conns;
    unsigned num_qps; /* of type RC */
    unsigned num_draining; /* connections in that state */
    unsigned in_flight; /* requests under way of all connections, */
    unsigned most_in_flight; /* and how many there may be, beside the places that are kept, so that send_cq has room */
    unsigned most_unseen; /* beyond this number each request completes visibly */
    uint32_t last_serial;
    int cq_stays; /* the device does not let send_cq grow */
    int drained; /* recv_cq was empty when it was last looked at */
    int starved; /* segments, or places of send_cq, ran out */
    int hurried; /* all requests under way complete visibly */
    int told_limit;
    int is_closing;
    struct cw_verbs_refusal *refusals; /* answers to diallers that may ask again */
    unsigned next_refusal;
};

/* ACCEPTING: the acceptor does not know yet that the dialler receives. FAILING: `closed` follows. LEAVING: the core
 * closed the connection, and requests are still under way. OVER: to be freed. DRAINING: only the interface still knows
 * the connection, for the last completions of its queue pair, which is in the error state. Others: verbs_park.c. */
enum cw_verbs_state {
    CW_VERBS_DIALLING,
    CW_VERBS_ACCEPTING,
    CW_VERBS_PARKED,
    CW_VERBS_REOPENING,
    CW_VERBS_PARTING,
    CW_VERBS_OPEN,
    CW_VERBS_PARKING,
    CW_VERBS_YIELDING,
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
    uint32_t serial;     /* tells completions apart from those of an earlier queue pair with this number */
    uint32_t posted;     /* requests posted; of these: */
    uint32_t completed;
    uint32_t signalled; /* all requests before this number will complete visibly */
    uint32_t looked;    /* `completed` at the last look */
    uint32_t lent;      /* requests before this number may use memory that the core named */
    uint32_t unsent;    /* the last requests, which the device never got */
    unsigned idle_looks;
    uint32_t end; /* number of the request with END, if LEAVING and is_last, or with PARTED, if PARTING */
    uint32_t epoch;      /* how often it was parked */
    uint32_t swept;      /* `posted` at the last sweep */
    uint16_t idle;       /* sweeps since it was used, or since PARK was sent */
    uint16_t asked;      /* number of the last PARK of this side */
    uint16_t peer_asked; /* if is_asked: that of the peer */
    uint8_t is_asked;    /* the peer's PARK waits for an answer */
    uint8_t is_used;     /* a packet came since the last sweep */
    uint8_t is_dial;     /* counted in num_dials */
    uint8_t is_doubtful; /* PARTING, and the peer may not know */
    uint8_t patience;    /* it is parked after 2^patience idle sweeps */
    uint32_t psn;
    unsigned max_inline;
    uint8_t is_last;
    uint8_t is_ready; /* both queue pairs receive */
    uint8_t is_dialler;
    uint8_t is_said; /* the hello was sent */
    uint8_t is_watched;
    uint8_t is_ended;  /* the peer's END came */
    uint8_t is_told;   /* both sides know of the end, or a cancel says it to the peer */
    uint8_t is_connected; /* the queue pair may have received something */
    uint8_t is_broken;    /* the queue pair was put into the error state */
    uint8_t is_listed; /* the connection is in by_peer */
    uint8_t num_flushes;
    uint16_t batches;             /* batches that began and did not end */
    struct cw_verbs_chain *chain; /* requests counted as posted that the device does not have yet; NULL: none */
    uint8_t gid_index;            /* index in this side's address */
    uint8_t peer_gid;
    uint64_t id;
    uint64_t peer_id;
    const char *lost;           /* NULL; or its process is gone, and how, which progress says behind what arrived */
    ucs_status_t lost_status;
    struct cw_verbs_process *process; /* the peer's, if it is watched */
    uint64_t grace_ns; /* if is_ended: until then the device may still owe the acknowledgement of the peer's END */
    struct cw_verbs_address peer;
    struct cw_verbs_retry retry;
    struct cw_verbs_flush flushes[CW_VERBS_FLUSHES];
    uint8_t *words; /* hello or reply; NULL when it is not needed any more */
    size_t num_words;
    struct cw_verbs_op *ops; /* in the order of their requests */
    struct cw_verbs_op **ops_end;
    struct cw_verbs_segment *slots[]; /* segments of the requests under way */
};

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
/* Registered memory for a device; NULL: port.why says why. */
char *cw_verbs_memory(struct cw_verbs_iface *iface, size_t length, struct ibv_mr **mr_p);

/* verbs_ud.c */
ucs_status_t cw_verbs_ud_open(struct cw_verbs_iface *iface);
void cw_verbs_ud_close(struct cw_verbs_iface *iface);
/* Sends a datagram, which may be lost. */
void cw_verbs_ud_send(struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                      unsigned peer_gid, const struct cw_verbs_datagram *datagram);
/* Handles a completion of recv_cq for this queue pair. Returns the number of upcalls. */
unsigned cw_verbs_ud_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc);

/* verbs_cm.c */
ucs_status_t cw_verbs_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                           size_t hello_length, void *user, struct cw_conn **conn_p);
int cw_verbs_reachable(struct cw_iface *super, const void *address, size_t length, const char **why);
unsigned cw_verbs_datagram(struct cw_verbs_iface *iface, const struct cw_verbs_datagram *datagram,
                           const struct ibv_wc *wc, const uint8_t *grh);
/* The IPv4 or IPv6 address in a GID. 0: it is link-local. */
int cw_verbs_gid_address(const uint8_t gid[16], struct cw_net_address *address);
unsigned cw_verbs_cm_alarm(struct cw_verbs_conn *conn, uint64_t now_ns);
void cw_verbs_cancel(struct cw_verbs_conn *conn);
/* Of two words of both sides that have crossed, that of the lower address counts. */
bool cw_verbs_wins(const struct cw_verbs_conn *conn);
/* Tells the peer of a parked connection that it is over, until the peer answers. False: the time for that is over. */
bool cw_verbs_say_close(struct cw_verbs_conn *conn, uint64_t now_ns);

/* verbs_park.c */
/* The connection has a queue pair since now. */
void cw_verbs_live_add(struct cw_verbs_conn *conn);
/* It is none of those that are parked, or wait for a queue pair. */
void cw_verbs_live_remove(struct cw_verbs_conn *conn);
/* Whether who has got no queue pair may expect one when connections are parked. */
bool cw_verbs_can_wait(const struct cw_verbs_iface *iface);
/* As well, and begins to, as the device has no further one. */
bool cw_verbs_make_space(struct cw_verbs_iface *iface);
/* Makes a queue pair for a connection that dials or is reopened. */
bool cw_verbs_dial_begin(struct cw_verbs_conn *conn);
void cw_verbs_dial_end(struct cw_verbs_conn *conn);
/* Has the connection wait for one. */
void cw_verbs_wait(struct cw_verbs_conn *conn);
/* A send found the connection other than open. Returns whether it is open now. */
bool cw_verbs_wake(struct cw_verbs_conn *conn);
/* Handles a word of the peer. False: it breaks the protocol. */
bool cw_verbs_park_word(struct cw_verbs_conn *conn, uint32_t word);
/* The connection's queue pair is not needed any more, and everything was received. */
void cw_verbs_park(struct cw_verbs_conn *conn);
/* Does what waits for completions, or for the end of parking. */
void cw_verbs_park_settle(struct cw_verbs_conn *conn);
void cw_verbs_reopen(struct cw_verbs_conn *conn);
/* Destroys queue pairs of parked connections: all, or those that are old enough. Returns whether there were any. */
bool cw_verbs_retired_free(struct cw_verbs_iface *iface, bool all);
void cw_verbs_sweep_init(struct cw_verbs_iface *iface);

/* verbs_watch.c */
/* Listens at the addresses of the port for those that watch this process, where it has such. */
void cw_verbs_watch_open(struct cw_verbs_iface *iface);
/* Watches the process of the peer, if the connection was opened and is watched, or its peer does not answer. */
void cw_verbs_watch_begin(struct cw_verbs_conn *conn);
void cw_verbs_watch_end(struct cw_verbs_conn *conn);
/* Whether the system tells the end of the peer's process. */
bool cw_verbs_is_seen(const struct cw_verbs_conn *conn);

/* verbs_data.c */
extern const struct cw_transport_packets cw_verbs_packets;
unsigned cw_verbs_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc);
/* Posts receives that are missing. */
void cw_verbs_refill(struct cw_verbs_iface *iface);
ucs_status_t cw_verbs_receive_begin(struct cw_verbs_iface *iface);
int cw_verbs_has_place(const struct cw_verbs_conn *conn);

ucs_status_t cw_verbs_can_send(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn);
ucs_status_t cw_verbs_again(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn);
/* CW_AGAIN: none is free. */
ucs_status_t cw_verbs_segment_for(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                                  struct cw_verbs_segment **segment_p);
ucs_status_t cw_verbs_flush_accesses(struct cw_conn *super, struct cw_completion *completion);

/* verbs_domain.c */
extern const struct cw_domain_kind cw_verbs_domain_kind;
uint32_t cw_verbs_local_key(const struct cw_memh *memh);

/* verbs_access.c */
extern const struct cw_transport_access cw_verbs_access;
void cw_verbs_access_limits(struct cw_verbs_iface *iface);
/* Requests before `until` are over; their slots still hold their segments. */
void cw_verbs_ops_fetched(struct cw_verbs_conn *conn, uint32_t until, ucs_status_t status);
/* Calls the completions of accesses that are over, or cancels all. */
unsigned cw_verbs_ops_settle(struct cw_verbs_conn *conn, int all);
/* Slot send_registered. */
ucs_status_t cw_verbs_send_registered(struct cw_conn *super, uint8_t id, const void *header, size_t header_length,
                                      const struct cw_access_iov *payload, struct cw_completion *completion);

/* verbs_iface.c */
/* Notes why the interface cannot be opened. */
ucs_status_t cw_verbs_lacks(struct cw_verbs_iface *iface, const char *what, int error);
/* The device is of no use any more: ends all connections, with a line in the log. */
void cw_verbs_gone(struct cw_verbs_iface *iface, const char *why);
/* Returns the number of completions, 0 also of a device that is gone. */
int cw_verbs_poll(struct cw_verbs_iface *iface, struct ibv_cq *cq, unsigned most, struct ibv_wc *wc);
/* Queue pairs may break from now on. */
void cw_verbs_look_for_broken(struct cw_verbs_iface *iface);
/* Makes room for the completions of one more connection; 0 if the device has none. */
int cw_verbs_grow_cq(struct cw_verbs_iface *iface);
/* Shares send_cq out anew, after the number of connections changed. */
void cw_verbs_share_cq(struct cw_verbs_iface *iface);
/* Whether connections wait for segments or places of send_cq, and some are free. */
int cw_verbs_can_feed(const struct cw_verbs_iface *iface);
/* Takes all completions out of recv_cq; progress handles them. */
void cw_verbs_hold_received(struct cw_verbs_iface *iface);

#endif
