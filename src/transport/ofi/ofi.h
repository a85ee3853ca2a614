/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the transport over libfabric. An interface has one domain, address vector, completion queue and
 * endpoint of type FI_EP_RDM; its connections are numbers within it.
 *
 *   ofi_device.c   the providers and domains of the machine, and those of them that are used
 *   ofi_domain.c   fabric and domain of libfabric, and memory that peers reach; ofi_mr.c: registering memory;
 *                  ofi_quirk.c: what providers do otherwise than they say
 *   ofi_open.c     opening and closing an interface
 *   ofi_iface.c    the head of the transport: address, progress, sleep
 *   ofi_cq.c       completions, and reports of the provider that cannot be true
 *   ofi_slot.c     memory of packets that leave or arrive
 *   ofi_peer.c     routes (entries of the address vector) and lives of peers
 *   ofi_watch.c    peers of other machines that end or fall silent
 *   ofi_conn.c     dial, accept, end; ofi_packet.c: packets that arrive; ofi_send.c: packets that leave
 *   ofi_access.c   reads, writes and atomic operations in the memory of peers
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
#define CW_OFI_INJECT_MOST  256u  /* bytes of a packet that leaves without a completion */
#define CW_OFI_WINDOW       256u  /* packets of a connection that are under way, or that the peer has not handled; */
#define CW_OFI_WINDOW_S     32u   /* for a provider that loses packets without a posted receive; */
#define CW_OFI_AT_ONCE      16u   /* completions that are read at once */
#define CW_OFI_RETAINED         4096u /* packets of a connection that are kept because they came before their turn */
#define CW_OFI_UNAUTH    16u      /* peers that only packets named, of each kind */
#define CW_OFI_GUESSES      64u   /* processes that are watched because packets name them, before they answered */
#define CW_OFI_FORMER       64u   /* connections that ended and are remembered */

struct ofi_call;
struct ofi_conn;
struct ofi_iface;
struct ofi_peer;
struct ofi_slot;

/* An entry of the address vector. */
struct ofi_route {
    struct cw_hash_link link; /* iface->routes */
    fi_addr_t address;
    uint64_t renewed; /* iface->ages when the address was last inserted anew */
    unsigned references;
    size_t length;
    uint8_t bytes[CW_OFI_MAX_ADDRESS];
};

/* A peer is one life of a process at a route. A process that restarts there is another peer. */
struct ofi_peer {
    struct cw_hash_link link; /* iface->peers */
    struct ofi_iface *iface;
    struct ofi_route *route;
    struct cw_list strange; /* a list of iface->unauthenticated peers, which holds a reference */
    enum ofi_strange why;   /* which of them, */
    uint64_t since_ns;      /* and when it came there */
    unsigned references;    /* references of connections, of slots, and of that list */
    int dead;
    uint8_t is_reached; /* the program named its address, or the provider took a packet to it */
    uint8_t is_proved;  /* the program named its address, or a packet came from there with a token of this side */
    uint8_t is_guessed; /* its process is watched, and is_proved is 0 */
    struct cw_poll_item process; /* reports the death of a process on this machine; fd -1: not available */
    struct cw_watch watch;       /* of its process by TCP, */
    uint8_t is_tried;            /* which was tried */
    struct cw_ofi_entry entry;
};

enum ofi_state { OFI_DIALLING, OFI_OPEN, OFI_ENDING, OFI_BROKEN };

/* A packet that came before its turn. */
struct ofi_retained {
    struct cw_list link; /* in order */
    uint32_t number;
    uint32_t length;
    uint8_t id;
    char data[];
};

struct ofi_flush {
    struct cw_list link;
    struct cw_completion *completion;
    uint32_t number; /* packets before this number are waited for */
};

struct ofi_conn {
    struct cw_conn super;
    struct cw_list link;    /* iface->conns */
    struct cw_list blocked; /* iface->blocked, when a send was answered by CW_AGAIN */
    struct cw_list ending;  /* iface->ending */
    struct cw_list calling; /* iface->calling */
    struct cw_list slots;   /* packets under way, in order */
    struct cw_list retained;
    struct cw_list flushes;
    struct ofi_peer *peer; /* NULL while the connection is in `calling` */
    struct {
        unsigned domain;         /* number of the peer's domain; 0: its memory is out of reach */
        struct ofi_route *route; /* to its memory; NULL: packets have the same route */
    } reach;
    struct cw_list accesses; /* in the order in which they were taken */
    struct cw_list access_flushes;
    uint32_t next_access;
    unsigned accessing;        /* length of `accesses` */
    unsigned fetching;         /* gets and atomic operations among them, */
    unsigned longs;            /* and accesses that are longer than a large packet */
    ucs_status_t access_error; /* of those without a completion */
    struct ofi_call *call; /* until the dial has its answer */
    struct ofi_slot *last;    /* slot for BYE or LEAVE, so that an end needs no memory */
    struct cw_alarm deadline; /* of a dial, later for looks for silence */
    uint64_t dial_end_ns;     /* the end of a dial, and */
    uint64_t say_ns;          /* when its HELLO is sent again, */
    uint64_t pause_ns;        /* so long after the last time */
    uint64_t repeat_until_ns; /* the end of attempts to send its HELLO or REPLY again; 0: none was made */
    uint64_t look_ns;         /* the next look for silence */
    uint64_t number;          /* of the connection at this side */
    uint64_t age;             /* its place among the connections that were ever made here */
    uint64_t peer_number;
    uint32_t token;
    uint32_t peer_token;
    uint16_t watch_port; /* at which the peer's process can be watched; 0: none */
    uint32_t next_out;   /* number of the next packet */
    uint32_t next_in;
    uint32_t handled; /* number of the packet that the peer expects next, as far as it told; */
    uint32_t told;    /* and the number that this side told the peer last */
    unsigned flying;  /* length of `slots` */
    unsigned large;   /* of these, large ones */
    unsigned stuck;   /* of these, packets that the provider did not take yet */
    unsigned silent;  /* looks without a sign of life while a ping was under way; */
    unsigned quiet;   /* and looks without one at all */
    unsigned pings;   /* that were sent, */
    unsigned pongs;   /* and answers that came */
    unsigned asking;  /* the ping whose answer has to tell that packets up to `asked` were handled; 0: none */
    uint32_t asked;
    ucs_status_t status; /* reason of ENDING and BROKEN */
    enum ofi_state state;
    uint8_t is_acceptor;
    uint8_t is_proved; /* a packet came with the token of this side */
    uint8_t said_bye; /* the peer no longer knows this connection */
    uint8_t abandoned;
    uint8_t watched;
    uint8_t wakes;         /* the next look wakes a sleeping worker */
    uint8_t heard;         /* a packet came since the last look */
    uint8_t held;          /* the provider did not take its oldest packet in this round */
    uint8_t is_dialling;   /* `opened` was not called yet */
    uint8_t is_ahead;      /* a send got CW_AGAIN because the peer is behind, */
    uint8_t wants_large;   /* or because too many large packets are under way, */
    uint8_t wants_access;  /* or too many accesses, */
    uint8_t wants_long;    /* or too many long ones, */
    uint8_t wants_fetched; /* or a fetch must end first */
    uint8_t injects;       /* the peer handled a packet, so small ones may leave without a completion */
    uint8_t unmarked;      /* a packet left so, and none with a completion behind it */
    struct ofi_slot *ping; /* under way */
};

struct ofi_iface {
    struct cw_iface super;
    struct ofi_domain *objects;
    const struct cw_libfabric *fi; /* this and the next three members are those of `objects` */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct cw_poller *poller;
    struct cw_poll_item item; /* descriptor of the completion queue; fd -1: it has none */
    struct cw_alarm look;     /* a timer for a queue without a descriptor */
    const struct cw_config *config;
    struct cw_idmap numbers;
    struct cw_hash routes;
    struct cw_hash peers;
    struct cw_list conns;
    struct cw_list blocked;
    struct cw_list ending;
    struct cw_list calling;                       /* connections whose HELLO was not sent yet */
    struct cw_list waiting;                       /* packets that the provider did not take, in order */
    struct cw_list orphans;                       /* packets under way of connections that were closed */
    struct cw_list unposted;                      /* slots of receives that are not posted */
    struct cw_list over;                          /* accesses that ended inside a call, by `waiting` */
    struct cw_list free_slots[OFI_BLOCK_RECEIVE]; /* by enum ofi_block_kind */
    struct ofi_block *blocks;
    struct ofi_block *receives;  /* the block of all receives */
    struct ofi_block *last_sent; /* the block of the last completion of another kind; NULL: none yet */
    size_t max_packet;
    size_t inject;        /* bytes of a packet that the provider copies; */
    size_t inject_short;  /* and bytes behind the header of a short packet that leaves without a completion */
    unsigned window;      /* packets of a connection that are under way, or that the peer has not handled */
    unsigned flying;      /* packets of this side that are not complete, */
    unsigned posted;      /* those among them that the provider has, */
    unsigned most_posted; /* and how many it may have */
    unsigned unmarked;    /* connections whose `unmarked` is set */
    unsigned num_blocks[OFI_BLOCK_RECEIVE];
    unsigned
        idle_rounds;  /* progress calls without an event since the last one, or since the last end of a connection */
    unsigned strange; /* failed receives since the last good one */
    uint64_t ages;    /* connections that were ever made */
    uint8_t has_work; /* some list of those that progress looks after may have entries */
    uint8_t injects;  /* packets without a completion keep their order with the others */
    uint8_t own_objects;
    uint8_t is_fragile; /* the provider ends the process for a packet to a closed endpoint of the process itself */
    uint8_t wakeup;
    uint8_t broken; /* the provider gave reports that cannot be true, and is not used any more */
    uint8_t closing;
    uint8_t stays;               /* its endpoint and the memory of packets are left as they are when it is closed */
    struct ofi_iface *next_left; /* of such ones */
    struct {
        struct cw_list lists[OFI_UNAUTH]; /* by enum ofi_strange; in the order in which they came */
        unsigned counts[OFI_UNAUTH];
        unsigned guessed; /* peers with is_guessed */
        struct cw_alarm over;
    } unauth;
    struct {
        uint64_t number;
        uint32_t token;
    } former[CW_OFI_FORMER]; /* connections of this side that ended: the last ones */
    unsigned next_former;
    unsigned num_conns;
    struct cw_watch_listener watch; /* for those that watch this process */
    struct {
        struct fi_cq_msg_entry entries[CW_OFI_AT_ONCE];
        fi_addr_t sources[CW_OFI_AT_ONCE];
        unsigned count;
    } early; /* completions that were read before a sleep */
    size_t entry_length;
    struct {
        struct cw_ofi_entry head;
        uint8_t bytes[CW_OFI_MAX_ADDRESS];
    } entry; /* the entry of this interface */
};

/* Adds an entry to a list that progress looks after. */
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
/* The offer of libfabric for a device of that name; NULL: there is none. */
const struct fi_info *cw_ofi_offer(const char *device, const char **why);
int cw_ofi_is_local(const struct fi_info *info);
uint32_t cw_ofi_provider_sum(const struct fi_info *info);

/* ---- ofi_open.c, ofi_mr.c ---- */
ucs_status_t cw_ofi_open(const struct cw_iface_params *params, struct cw_iface **iface_p);
void cw_ofi_close(struct cw_iface *super);
/* Registers memory of the transport's own for packets, if the provider asks for that. */
ucs_status_t cw_ofi_register(struct ofi_iface *iface, void *memory, size_t length, struct fid_mr **mr, void **desc);

/* ---- ofi_cq.c ---- */
/* Reads completions, up to a bound, until some concern connections; returns how many of these there were. Packets that
 * are dropped are no work done, so a program's drain loop ends while unauthenticated peers keep sending. */
unsigned cw_ofi_poll(struct ofi_iface *iface);
/* Whether the provider has an event for a worker that wants to sleep. Completions are kept for the next cw_ofi_poll. */
int cw_ofi_has_event(struct ofi_iface *iface);
/* The provider reported something that cannot be true: all connections end. */
void cw_ofi_break(struct ofi_iface *iface, const char *what);

/* ---- ofi_conn.c ---- */
ucs_status_t cw_ofi_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
void cw_ofi_close_conn(struct cw_conn *super);
void cw_ofi_watch(struct cw_conn *super);
void cw_ofi_abandon(struct cw_conn *super);
struct ofi_conn *cw_ofi_conn_new(struct ofi_iface *iface, struct ofi_peer *peer, void *user);
void cw_ofi_conn_free(struct ofi_conn *conn);
/* The connection ends for this reason (NULL: none is known); progress tells the core after everything that arrived was
 * handed up. */
void cw_ofi_end(struct ofi_conn *conn, ucs_status_t status, const char *why);
/* Sends the dials that wait in `calling`. Returns how many. */
unsigned cw_ofi_call(struct ofi_iface *iface);
/* Called before the worker sleeps: looks for silence wake the worker only while a message of the peer is awaited. */
void cw_ofi_looks_asleep(struct ofi_iface *iface);
/* Begins looks at a connection: for silence where it is watched, and for packets that were lost. */
void cw_ofi_look_later(struct ofi_conn *conn);
/* A packet came with the token that this side chose for the connection. */
void cw_ofi_conn_proved(struct ofi_conn *conn);
/* The answer to a ping came. */
void cw_ofi_ponged(struct ofi_conn *conn);
/* Tells the core the ends that are due. Returns how many. */
unsigned cw_ofi_tell_ends(struct ofi_iface *iface);
/* Tells the end of this connection, from progress. */
void cw_ofi_tell_end(struct ofi_conn *conn);
/* The reply to a dial came. */
void cw_ofi_open_now(struct ofi_conn *conn, const void *reply, size_t length);
void cw_ofi_peer_died(struct ofi_peer *peer, ucs_status_t status, const char *why);

/* ---- ofi_packet.c ---- */
/* `source`: the entry of the address vector that sent the packet; FI_ADDR_NOTAVAIL: the provider does not know. Returns
 * 1 if the packet belongs to a connection or makes one, and 0 if it is dropped. */
unsigned cw_ofi_arrived(struct ofi_iface *iface, const char *bytes, size_t length, fi_addr_t source);

#endif
