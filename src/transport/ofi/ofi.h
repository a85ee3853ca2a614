/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the transport over libfabric. An interface has one domain, address vector, completion queue and
 * endpoint of type FI_EP_RDM; its connections are numbers within it.
 *
 *   ofi_device.c   the providers and domains of the machine, and the selection of those in use
 *   ofi_domain.c   libfabric's fabric and domain, and memory for remote access; ofi_mr.c: memory registration;
 *                  ofi_quirk.c: provider bugs
 *   ofi_open.c     opening and closing an interface
 *   ofi_iface.c    the transport table: address, progress, sleep
 *   ofi_cq.c       completions, and invalid reports of the provider
 *   ofi_slot.c     memory of sent and received packets
 *   ofi_peer.c     routes (entries of the address vector) and lives of peers
 *   ofi_watch.c    watches peers on other machines for exit and silence
 *   ofi_conn.c     dial, accept, end; ofi_packet.c: received packets; ofi_send.c: sent packets
 *   ofi_access.c   RMA and atomic operations
 */
#ifndef CW_TRANSPORT_OFI_OFI_H
#define CW_TRANSPORT_OFI_OFI_H

#include "base/compiler.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/list.h"
#include "os/memory.h"
#include "os/poll.h"
#include "os/watch.h"
#include "transport/ofi/libfabric.h"
#include "transport/ofi/ofi_domain.h"
#include "transport/ofi/ofi_peer.h"
#include "transport/ofi/ofi_slot.h"
#include "transport/ofi/ofi_transport.h"
#include "transport/ofi/ofi_wire.h"

#define CW_OFI_MAX_SHORT    (CW_OFI_SMALL - sizeof(struct cw_ofi_header) - 8)
#define CW_OFI_INJECT_LEAST (sizeof(struct cw_ofi_header) + 16)
#define CW_OFI_INJECT_MOST  256u  /* largest packet sent without a completion */
#define CW_OFI_WINDOW       256u  /* packets of a connection in flight or not acknowledged by the peer */
#define CW_OFI_WINDOW_S     32u   /* as CW_OFI_WINDOW, for a provider that loses packets without a posted receive */
#define CW_OFI_AT_ONCE      16u   /* completions read in one call */
#define CW_OFI_RETAINED         4096u /* out-of-order packets that a connection retains */
#define CW_OFI_UNAUTH    16u      /* unauthenticated peers of each kind */
#define CW_OFI_GUESSES      64u   /* watched processes that only packets named and that have not answered yet */
#define CW_OFI_FORMER       64u   /* remembered closed connections */

struct ofi_call;
struct ofi_conn;
struct ofi_iface;
struct ofi_peer;
struct ofi_slot;

/* An entry of the address vector. */
struct ofi_route {
    struct cw_hash_link link; /* iface->routes */
    fi_addr_t address;
    uint64_t renewed; /* iface->ages when the address was last inserted again */
    unsigned references;
    size_t length;
    uint8_t bytes[CW_OFI_MAX_ADDRESS];
};

/* A peer is one life of a process at a route. A process that restarts there is another peer. */
struct ofi_peer {
    struct cw_hash_link link; /* iface->peers */
    struct ofi_iface *iface;
    struct ofi_route *route;
    struct cw_list strange; /* a list of iface->unauth, which holds a reference */
    enum ofi_strange why;   /* index of that list */
    uint64_t since_ns;      /* time at which it was added to that list */
    unsigned references;    /* held by connections, slots and the list of `strange` */
    int dead;
    uint8_t is_reached; /* the program named its address, or the provider accepted a packet to it */
    uint8_t is_proved;  /* the program named its address, or a packet from it carried a token of this side */
    uint8_t is_guessed; /* its process is watched although is_proved is 0 */
    struct cw_poll_item process; /* reports the death of a process on this machine; fd -1: not available */
    struct cw_watch watch;       /* TCP watch of its process */
    uint8_t is_tried;            /* `watch` was tried */
    struct cw_ofi_entry entry;
};

enum ofi_state { OFI_DIALLING, OFI_OPEN, OFI_ENDING, OFI_BROKEN };

/* A packet received out of order. */
struct ofi_retained {
    struct cw_list link; /* in order of `number` */
    uint32_t number;
    uint32_t length;
    uint8_t id;
    char data[];
};

struct ofi_flush {
    struct cw_list link;
    struct cw_completion *completion;
    uint32_t number; /* waits for the packets before this number */
};

struct ofi_conn {
    struct cw_conn super;
    struct cw_list link;    /* iface->conns */
    struct cw_list blocked; /* iface->blocked, after a send returned CW_AGAIN */
    struct cw_list ending;  /* iface->ending */
    struct cw_list calling; /* iface->calling */
    struct cw_list slots;   /* packets in flight, in order */
    struct cw_list retained;
    struct cw_list flushes;
    struct ofi_peer *peer; /* NULL while the connection is in iface->calling */
    struct {
        unsigned domain;         /* number of the peer's domain; 0: no remote access */
        struct ofi_route *route; /* route for accesses; NULL: that of packets */
    } reach;
    struct cw_list accesses; /* in the order of their submission */
    struct cw_list access_flushes;
    uint32_t next_access;
    unsigned accessing;        /* length of `accesses` */
    unsigned fetching;         /* gets and atomic operations among `accesses` */
    unsigned longs;            /* accesses that are longer than a large packet */
    ucs_status_t access_error; /* error of accesses without a completion */
    struct ofi_call *call; /* until the dial is answered */
    struct ofi_slot *last;    /* slot reserved for BYE or LEAVE, so that closing needs no memory */
    struct cw_alarm deadline; /* of a dial; once open, of the keepalive checks */
    uint64_t dial_end_ns;     /* timeout of a dial */
    uint64_t say_ns;          /* next retransmission of its HELLO */
    uint64_t pause_ns;        /* interval since the last HELLO */
    uint64_t repeat_until_ns; /* end of the retries after a failed send of HELLO or REPLY; 0: no retry yet */
    uint64_t poll_ns;         /* next keepalive check */
    uint64_t number;          /* this side's number of the connection */
    uint64_t age;             /* value of iface->ages when it was created */
    uint64_t peer_number;
    uint32_t token;
    uint32_t peer_token;
    uint16_t watch_port; /* TCP port at which the peer's process can be watched; 0: none */
    uint32_t next_out;   /* number of the next packet */
    uint32_t next_in;
    uint32_t handled; /* number of the packet that the peer expects next, as last acknowledged */
    uint32_t reported; /* number that this side acknowledged last */
    unsigned flying;  /* length of `slots` */
    unsigned large;   /* large packets in `slots` */
    unsigned stuck;   /* packets in `slots` that the provider has not accepted yet */
    unsigned silent;  /* keepalive checks without a sign of life while a ping was in flight */
    unsigned quiet;   /* keepalive checks without any sign of life */
    unsigned pings;   /* pings sent */
    unsigned pongs;   /* pongs received */
    unsigned asking;  /* the ping whose answer must acknowledge the packets up to `asked`; 0: none */
    uint32_t asked;
    ucs_status_t status; /* reason of ENDING and BROKEN */
    enum ofi_state state;
    uint8_t is_acceptor;
    uint8_t is_proved; /* a packet with this side's token was received */
    uint8_t said_bye; /* the peer has closed this connection */
    uint8_t abandoned;
    uint8_t watched;
    uint8_t wakes;         /* the next keepalive check wakes a sleeping worker */
    uint8_t heard;         /* a packet was received since the last keepalive check */
    uint8_t held;          /* the provider rejected its oldest packet in this round */
    uint8_t is_dialling;   /* `opened` was not called yet */
    uint8_t is_ahead;      /* a send got CW_AGAIN: the window is full */
    uint8_t wants_large;   /* a send got CW_AGAIN: too many large packets in flight */
    uint8_t wants_access;  /* a send got CW_AGAIN: too many accesses in flight */
    uint8_t wants_long;    /* a send got CW_AGAIN: too many long accesses in flight */
    uint8_t wants_fetched; /* a send got CW_AGAIN: a fetch must complete first */
    uint8_t injects;       /* the peer acknowledged a packet, so small ones may be injected */
    uint8_t unmarked;      /* a packet was injected, and none with a completion sent after it */
    struct ofi_slot *ping; /* in flight; NULL: none */
};

struct ofi_iface {
    struct cw_iface super;
    struct ofi_domain *objects;
    const struct cw_libfabric *fi; /* this and the next member are copies from `objects` */
    struct fi_info *info;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct cw_poller *poller;
    struct cw_poll_item item; /* completion queue's descriptor; fd -1: it has none */
    struct cw_alarm poll_alarm; /* polls a queue without a descriptor */
    uint64_t connect_timeout_ns; /* UINT64_MAX: none */
    uint64_t keepalive_ns;       /* interval; UINT64_MAX: disabled */
    struct cw_idmap numbers;
    struct cw_hash routes;
    struct cw_hash peers;
    struct cw_list conns;
    struct cw_list blocked;
    struct cw_list ending;
    struct cw_list calling;                       /* connections whose HELLO is not sent yet */
    struct cw_list waiting;                       /* packets that the provider has not accepted yet, in order */
    struct cw_list orphans;                       /* packets in flight of closed connections */
    struct cw_list unposted;                      /* slots of unposted receives */
    struct cw_list over;                          /* accesses that ended inside a call, linked by `waiting` */
    struct cw_list free_slots[OFI_BLOCK_RECEIVE]; /* by enum ofi_block_kind */
    struct ofi_block *blocks;
    struct ofi_block *receives;  /* the block of all receives */
    struct ofi_block *last_sent; /* block of the last completion other than a receive; NULL: none yet */
    size_t max_packet;
    size_t inject;        /* largest packet that the provider copies (inject size) */
    size_t inject_short;  /* most bytes behind the header of a short packet sent without a completion */
    unsigned window;      /* packets of a connection in flight or not acknowledged by the peer */
    unsigned flying;      /* sends without a completion yet */
    unsigned posted;      /* sends in `flying` that the provider has accepted */
    unsigned most_posted; /* limit of `posted` */
    unsigned unmarked;    /* connections whose `unmarked` is set */
    unsigned num_blocks[OFI_BLOCK_RECEIVE];
    unsigned
        idle_rounds;  /* progress calls since the last event, or since the last end of a connection */
    unsigned strange; /* failed receives since the last successful one */
    uint64_t ages;    /* number of connections ever created */
    uint8_t has_work; /* some list that progress serves may be non-empty */
    uint8_t injects;  /* injected packets keep their order with the others */
    uint8_t own_objects;
    uint8_t is_fragile; /* the provider crashes the process on a packet to a closed endpoint of the same process */
    uint8_t wakeup;
    uint8_t broken; /* the provider reported something invalid, and is no longer used */
    uint8_t closing;
    uint8_t stays;               /* closing leaks its endpoint and the memory of packets */
    struct ofi_iface *next_left; /* next such interface */
    struct {
        struct cw_list lists[OFI_UNAUTH]; /* by enum ofi_strange; oldest first */
        unsigned counts[OFI_UNAUTH];
        unsigned guessed; /* peers with is_guessed */
        struct cw_alarm over;
    } unauth;
    struct {
        uint64_t number;
        uint32_t token;
    } former[CW_OFI_FORMER]; /* the last closed connections */
    unsigned next_former;
    unsigned num_conns;
    struct cw_watch_listener watch; /* for peers that watch this process */
    struct {
        struct fi_cq_msg_entry entries[CW_OFI_AT_ONCE];
        fi_addr_t sources[CW_OFI_AT_ONCE];
        unsigned count;
    } early; /* completions read while preparing to sleep */
    size_t entry_length;
    struct {
        struct cw_ofi_entry head;
        uint8_t bytes[CW_OFI_MAX_ADDRESS];
    } entry; /* this interface's address entry */
};

/* Adds an entry to a list that progress serves. */
static inline void cw_ofi_line_up(struct ofi_iface *iface, struct cw_list *list, struct cw_list *link)
{
    cw_list_add_tail(list, link);
    iface->has_work = 1;
}

static inline struct ofi_iface *cw_ofi_iface_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct ofi_iface, super);
}

static inline struct ofi_conn *cw_ofi_conn_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct ofi_conn, super);
}

/* ---- ofi_device.c ---- */
unsigned cw_ofi_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max);
void cw_ofi_explain(const struct cw_config *config, struct cw_text *text);
/* Returns libfabric's offer for the device of that name. NULL: there is none, *why is the reason. */
const struct fi_info *cw_ofi_offer(const char *device, const char **why);
int cw_ofi_is_local(const struct fi_info *info);
uint32_t cw_ofi_provider_sum(const struct fi_info *info);

/* ---- ofi_open.c, ofi_mr.c ---- */
ucs_status_t cw_ofi_open(const struct cw_iface_params *params, struct cw_iface **iface_p);
void cw_ofi_close(struct cw_iface *super);
/* Registers the transport's own packet memory, if the provider requires that. */
ucs_status_t cw_ofi_register(struct ofi_iface *iface, void *memory, size_t length, struct fid_mr **mr, void **desc);

/* ---- ofi_cq.c ---- */
/* Reads completions, up to a bound, until some concern connections; returns the number of these. Dropped packets do not
 * count as work, so that a program's drain loop ends while unauthenticated peers keep sending. */
unsigned cw_ofi_poll(struct ofi_iface *iface);
/* Whether the provider has an event for a worker about to sleep. Completions are retained for the next cw_ofi_poll. */
int cw_ofi_has_event(struct ofi_iface *iface);
/* Stops using the provider after an invalid report: all connections end. */
void cw_ofi_break(struct ofi_iface *iface, const char *what);

/* ---- ofi_conn.c ---- */
ucs_status_t cw_ofi_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
void cw_ofi_close_conn(struct cw_conn *super);
void cw_ofi_watch(struct cw_conn *super);
void cw_ofi_abandon(struct cw_conn *super);
struct ofi_conn *cw_ofi_conn_new(struct ofi_iface *iface, struct ofi_peer *peer, void *user);
void cw_ofi_conn_free(struct ofi_conn *conn);
/* Ends the connection with this reason (NULL: unknown); progress reports it to the core after all received packets. */
void cw_ofi_end(struct ofi_conn *conn, ucs_status_t status, const char *why);
/* Sends the dials in iface->calling. Returns how many. */
unsigned cw_ofi_call(struct ofi_iface *iface);
/* Call before the worker sleeps: keepalive checks wake the worker only while a message of the peer is expected. */
void cw_ofi_polls_asleep(struct ofi_iface *iface);
/* Starts the keepalive checks of a connection: for silence if it is watched, and for lost packets. */
void cw_ofi_poll_later(struct ofi_conn *conn);
/* Call when a packet carries the token that this side chose for the connection. */
void cw_ofi_conn_proved(struct ofi_conn *conn);
/* Handles the answer to a ping. */
void cw_ofi_ponged(struct ofi_conn *conn);
/* Reports pending ends of connections to the core. Returns how many. */
unsigned cw_ofi_notify_ends(struct ofi_iface *iface);
/* Reports the end of this connection to the core; only in progress. */
void cw_ofi_notify_end(struct ofi_conn *conn);
/* Opens the connection: the reply to its dial was received. */
void cw_ofi_open_now(struct ofi_conn *conn, const void *reply, size_t length);
void cw_ofi_peer_died(struct ofi_peer *peer, ucs_status_t status, const char *why);

/* ---- ofi_packet.c ---- */
/* Handles a received packet. `source`: the sender's entry in the address vector; FI_ADDR_NOTAVAIL: unknown. Returns 1
 * if the packet belongs to a connection or creates one, 0 if it is dropped. */
unsigned cw_ofi_arrived(struct ofi_iface *iface, const char *bytes, size_t length, fi_addr_t source);

#endif
