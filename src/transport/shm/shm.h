/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures of the shared memory transport.
 *
 * Connection setup: the acceptor listens on a Unix socket. The dialler creates the memory for both directions, sends
 * its descriptor with the core's hello over the socket, and waits for the reply; from then on packets go through the
 * rings only. The socket stays open: its EOF reports the death of the peer, a byte on it wakes a peer whose ring says
 * that it sleeps or does not poll, and descriptors may follow (shm_pass.h).
 *
 * Memory: struct shm_shared, then both rings, first the dialler's to the acceptor, then an unused page, since a
 * consumer may read the line behind its ring. Each part is page-aligned, so that pages of an idle ring can be returned
 * to the system (shm_trim.c).
 *
 * Cross-process copies (shm_peer.c): each handshake contains the addresses of two words of the sender's process, one to
 * read and one to write, by which the other side proves that the kernel permits copies.
 */
#ifndef CW_TRANSPORT_SHM_SHM_H
#define CW_TRANSPORT_SHM_SHM_H

#include <stdbool.h>
#include <string.h>

#include "os/peer_memory.h"
#include "transport/shm/shm_ring.h"
#include "transport/shm/shm_transport.h"

#define SHM_WIRE_ID        2u
#define SHM_MAX_HANDSHAKES  256u    /* connections that have not sent a handshake yet */
#define SHM_MAX_BYTES      (64u << 20)
#define SHM_MIN_BYTES      4096u
#define SHM_LARGE_BYTES    (2u << 20) /* of a ring, unless its packets are longer than by default */

enum shm_conn_state {
    SHM_CONN_WAITING,   /* dialled; the listener's backlog was full, and the dial is retried later */
    SHM_CONN_DIALLED,   /* the hello is sent; no reply yet */
    SHM_CONN_HANDSHAKE, /* accepted; no hello yet; unknown to the core */
    SHM_CONN_OPEN,
    SHM_CONN_BROKEN     /* `closed`, or `opened` with an error, was called */
};

/* The longest packet that always fits eventually into a lap of `bytes`: it may have to skip nearly its own length at
 * the end, and up to a quarter may be read but not published by the consumer. Half of that in a large ring, because the
 * reader waits for the whole packet. */
static inline size_t shm_max_whole(uint32_t bytes)
{
    return (bytes >= SHM_LARGE_BYTES) ? bytes / 16 * 3 : bytes / 8 * 3 - 6 * SHM_LINE;
}

/* Whether progress polls an open connection (shm_idle.c). */
enum shm_heat {
    SHM_HOT,
    SHM_COOLING,    /* still polled, but the peer's flag is set */
    SHM_COLD
};

/* A bit of a listener's token: its process allows cross-process copies. */
#define SHM_TOKEN_COPIES UINT64_C(1)

/* State of cross-process copies. */
enum shm_peer_state { SHM_PEER_UNPROVED, SHM_PEER_READY, SHM_PEER_CLOSED };

/* A word of the peer's process that had its value at the last check (shm_peer.c). */
struct shm_checked {
    uint64_t address;               /* 0: none */
    uint64_t value;
};

#define SHM_CHECKED 4u

#define SHM_PAGE 4096u

/* The beginning of the memory. Index 0: the ring to the acceptor, and the claim pairs that the dialler allocates. An
 * idle connection uses the first page only. */
struct shm_shared {
    struct shm_ring_control rings[2];
    char heads[2][SHM_HEAD_BYTES];
    char unused[2 * CW_CACHE_LINE];
    struct cw_claim_pair pairs[2][CW_CLAIM_PAIRS];
};

_Static_assert(sizeof(struct cw_claim_pair) == 2 * CW_CACHE_LINE, "layout shared with the peer");
_Static_assert(offsetof(struct shm_shared, heads) % (2 * CW_CACHE_LINE) == 0, "records end at even lines");
_Static_assert(offsetof(struct shm_shared, pairs) == SHM_PAGE, "shared with the peer");
_Static_assert(sizeof(struct shm_shared) == SHM_PAGE + 4 * CW_CLAIM_PAIRS * CW_CACHE_LINE, "shared with the peer");

static inline size_t shm_whole_pages(size_t size)
{
    return (size + SHM_PAGE - 1) & ~(size_t)(SHM_PAGE - 1);
}

static inline size_t shm_memory_size(uint32_t ring_bytes)
{
    return shm_whole_pages(sizeof(struct shm_shared)) + 2 * (size_t)ring_bytes + SHM_PAGE;
}

/* The ring to the acceptor (index 0) or to the dialler (1). */
static inline void *shm_ring_memory(void *memory, uint32_t ring_bytes, unsigned index)
{
    return (char *)memory + shm_whole_pages(sizeof(struct shm_shared)) + index * (size_t)ring_bytes;
}

/* The place of the ring to the acceptor (index 0) or to the dialler (1). */
static inline struct shm_place shm_place(void *memory, uint32_t first_bytes, uint32_t ring_bytes, unsigned index)
{
    struct shm_shared *shared = memory;

    return (struct shm_place){.ring = shm_ring_memory(memory, ring_bytes, index),
                              .head = shared->heads[index],
                              .control = &shared->rings[index],
                              .first = first_bytes,
                              .most = ring_bytes};
}

struct shm_conn {
    struct cw_conn super;
    struct shm_tx tx;
    struct shm_rx rx;
    uint8_t state;
    uint8_t blocked;                /* a send returned CW_AGAIN */
    uint8_t hangup;                 /* EOF on the socket; the ring may still hold packets */
    uint8_t is_dialler;
    uint8_t peer_state;             /* enum shm_peer_state */
    uint8_t heat;                   /* enum shm_heat, of an OPEN one */
    uint8_t peer_sleeps;            /* the peer may sleep */
    uint8_t peer_passes;            /* the peer accepts descriptors */
    uint8_t bell_refused;           /* the peer got no doorbell and rings by a byte on the socket */
    uint32_t index;                 /* in iface->open */
    struct cw_poll_item item;       /* the socket */
    struct cw_list link;            /* iface->others unless OPEN */
    void *memory;                   /* begins with struct shm_shared */
    size_t memory_size;
    uint32_t hello_length;          /* WAITING */
    struct cw_peer_process peer;    /* pid 0 until it is proved */
    uint64_t peer_target;           /* the word in the peer's process that this side may write */
    uint64_t deadline_ns;           /* of a HANDSHAKE */
    uint64_t cool_seen;             /* shm_read_mark at the last check in shm_idle.c */
    uint64_t seen[2];               /* shm_trim.c: marks of what was sent and received at its last check */
    uint64_t rested;                /* bytes sent when there was last nothing to trim */
    const struct cw_line *read_at_send; /* the position in `rx` when the last packet of several lines was sent */
    uint32_t wanted;                /* blocked: the length of the packet that needs space, if longer than max_bcopy */
    uint32_t first_bytes;           /* of a lap until it grows */
    uint32_t small_bytes;           /* and of one that has grown in a small ring */
    uint8_t trim_polls;             /* checks left; 0: nothing to trim */
    uint8_t is_large;               /* laps of this side's ring may grow */
    uint32_t bell;                  /* the peer's doorbell in iface->arrivals; 0: none */
    uint32_t peer_bell;             /* ours in ... */
    struct shm_arrivals *peer_arrivals; /* ... the peer's page; NULL: none */
    struct shm_passed *passed;      /* descriptors received from the peer; NULL: none so far */
    uint64_t probe;                 /* the peer reads this word of ours; 0 once the connection has ended */
    uint64_t token;                 /* dialled: the token of the listener */
    struct cw_list revocable;       /* connections whose peers read our `revocations` (shm_peer.c) */
    struct shm_checked checked[SHM_CHECKED]; /* by address */
    uint64_t checked_ticks;         /* when one of them was checked last */
    uint32_t checked_revocations;   /* the peer's `revocations` before they were checked */
    char *hello;                    /* WAITING: to send, allocated */
};

struct shm_iface {
    struct cw_iface super;
    struct cw_poller *poller;
    struct shm_conn **open;         /* the first num_hot are polled by progress, the others are COLD */
    unsigned num_hot;
    unsigned num_open;
    unsigned max_open;
    unsigned num_blocked;
    unsigned num_waiting;           /* while not 0, `dial_again` is set */
    unsigned num_handshake;
    unsigned num_large;             /* connections that are is_large */
    int armed;                      /* the sleep flags in the rings are set: this process may sleep */
    int wakeup;
    int peer_memory;                /* copies between processes are allowed */
    int nt_copies;                  /* UCX_TUNING leaves that rule enabled */
    int paused;                     /* accepting pauses until `accept_again` or the end of a connection */
    struct cw_alarm accept_again;
    struct cw_alarm dial_again;
    uint64_t dial_delay_ns;         /* the current retry delay of the WAITING connections */
    struct cw_alarm handshake_deadline; /* of the oldest HANDSHAKE, or earlier */
    struct cw_alarm cool;           /* set while there are many open connections */
    uint64_t sweep_ns;              /* when the rings of COLD ones are polled next */
    struct shm_arrivals *arrivals;  /* doorbells of COLD ones, written by the peers; NULL: none needed so far */
    int arrivals_fd;
    struct shm_conn **belled;       /* by doorbell; the first is unused */
    uint32_t num_bells;
    struct cw_alarm trim;           /* set while a connection has trim_polls */
    int shortage_logged;            /* the shortage was logged; one line per shortage */
    struct cw_list others;          /* connections that are not open */
    struct cw_poll_item listener;
    char *directory;                /* "" for abstract names */
    uint64_t token;
    uint64_t place_id;              /* the host and namespace in which the token is valid */
    uint32_t first_bytes;
    uint32_t small_bytes;           /* laps of a ring that is not large may grow to this */
    uint32_t ring_bytes;
    struct cw_rx quiet;       /* the inbox while progress has no ring to poll: of this connection ... */
    struct cw_conn quiet_conn;
    struct cw_line quiet_line;      /* ... and its line, which is always empty */
};

/* The first message in each direction. Host byte order: both ends run on one host. */
struct shm_handshake {
    char magic[4];                  /* SHM_MAGIC */
    uint16_t version;
    uint16_t hello_length;          /* bytes that follow */
    uint32_t first_bytes;           /* of a lap until it grows */
    uint32_t ring_bytes;
    uint64_t memory_size;
    uint8_t sleeps;                 /* the sender may sleep */
    uint8_t accepted;               /* reply only */
    uint8_t passes, reserved[5];    /* the sender accepts descriptors (shm_pass.h); 0 from older releases */
    uint64_t probe_address;         /* address of a word in the sender's process ... */
    uint64_t probe;                 /* ... and its value while the connection is open */
    uint64_t target_address;        /* address of another word, for the receiver to write; all three 0: no copies */
};

_Static_assert(sizeof(struct shm_handshake) == 56, "docs/WIRE.md");

#define SHM_VERSION 11u
#define SHM_MAGIC   "CWS1"

static inline bool shm_handshake_is_ours(const struct shm_handshake *handshake)
{
    return memcmp(handshake->magic, SHM_MAGIC, sizeof(handshake->magic)) == 0 && handshake->version == SHM_VERSION;
}

static inline struct shm_conn *shm_conn_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct shm_conn, super);
}

static inline struct shm_iface *shm_iface_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct shm_iface, super);
}

/* shm_conn.c */
/* Allocates a connection that is not open and has no socket. NULL: no memory. */
struct shm_conn *cw_shm_conn_new(struct shm_iface *iface, enum shm_conn_state state);
/* Sets up tx and rx in conn->memory. `dialler`: which of the two rings this side fills. */
void cw_shm_lay_out(struct shm_conn *conn, uint32_t first_bytes, uint32_t ring_bytes, int dialler);
/* Adds the connection to those that progress polls. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_shm_make_open(struct shm_iface *iface, struct shm_conn *conn);
/* Calls `closed` and stops polling the ring. */
void cw_shm_conn_broken(struct shm_conn *conn, ucs_status_t status);
void cw_shm_close_socket(struct shm_iface *iface, struct shm_conn *conn);
/* Cancels the alarms that no connection needs. */
void cw_shm_forget_alarms(struct shm_iface *iface);
void cw_shm_dispose(struct shm_conn *conn);
void cw_shm_close_conn(struct cw_conn *conn);

/* shm_dial.c */
ucs_status_t cw_shm_dial(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
/* The kernel has queued the hello at the peer's socket, so its process is alive. */
int cw_shm_is_there(const struct cw_conn *conn);
/* Redials the WAITING connections. */
unsigned cw_shm_dial_waiting(struct cw_alarm *alarm);
/* The acceptor replied, or closed its end of the socket. */
unsigned cw_shm_take_reply(struct shm_iface *iface, struct shm_conn *conn);

/* shm_accept.c */
/* The listener is readable. */
unsigned cw_shm_accept_ready(struct cw_poll_item *item, unsigned events);
/* Resumes accepting if it is paused: a descriptor is free again, or a delay has passed. */
void cw_shm_accept_resume(struct shm_iface *iface);
unsigned cw_shm_accept_again(struct cw_alarm *alarm);
/* Drops connections whose handshake timed out. */
unsigned cw_shm_drop_silent(struct cw_alarm *alarm);
/* The dialler's handshake arrived, or EOF. */
unsigned cw_shm_take_handshake(struct shm_iface *iface, struct shm_conn *conn);

/* shm_peer.c */
/* Before our handshake is sent: sets up our two words and adds them to the handshake. */
void cw_shm_peer_offer(struct shm_conn *conn, struct shm_handshake *handshake);
/* Stores the addresses of the peer's words from its handshake; 0: the handshake is inconsistent. */
int cw_shm_peer_take(struct shm_conn *conn, const struct shm_handshake *handshake);
/* The connection has ended: invalidates our words. Its memory is still mapped, if it ever was. */
void cw_shm_peer_end(struct shm_conn *conn);
void cw_shm_revoked(void);
int cw_shm_peer_ready(struct cw_conn *conn);
ucs_status_t cw_shm_peer_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity);
ucs_status_t cw_shm_peer_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity);
/* Also 0 when the peer's process has ended. */
uint32_t cw_shm_peer_process(struct cw_conn *conn);
struct cw_claim_pair *cw_shm_pair(struct cw_conn *conn, int ours, unsigned index);

/* shm_trim.c */
/* Marks both rings as small, in a new connection. */
void cw_shm_trim_begin(struct shm_conn *conn);
/* Many bytes went through a ring: returns its pages to the system once it is idle for a while. */
void cw_shm_trim_later(struct shm_conn *conn);
/* Many bytes may have gone through our ring: lets its laps grow then. */
void cw_shm_consider(struct shm_conn *conn);
/* Grows the lap of our ring, which is full, if the packet fits then; whether it does. */
int cw_shm_enlarge(struct shm_conn *conn, size_t length);
/* The connection is no longer open. */
void cw_shm_trim_end(struct shm_conn *conn);
/* `fire` of iface->trim. */
unsigned cw_shm_trim(struct cw_alarm *alarm);

/* shm_arrivals.c */
/* Assigns a doorbell to the peer of an OPEN connection, if one is free. */
void cw_shm_bell_offer(struct shm_conn *conn);
/* Handles the message of the peer's cw_shm_bell_offer; false: it is another message. The caller keeps the
 * descriptor. */
bool cw_shm_bell_take(struct shm_conn *conn, const void *message, size_t length, int fd);
/* Sets our doorbell at the peer; false: we have none. */
bool cw_shm_bell_set(const struct shm_conn *conn);
/* Whether a doorbell is set. iface->arrivals must not be NULL. */
bool cw_shm_bell_rang(const struct shm_iface *iface);
/* Polls the rings of the peers that have set theirs from now on. */
void cw_shm_bell_answer(struct shm_iface *iface);
/* The connection has ended. */
void cw_shm_bell_end(struct shm_conn *conn);
void cw_shm_arrivals_end(struct shm_iface *iface);

/* shm_idle.c */
/* Progress polls this OPEN connection from now on. */
void cw_shm_warm(struct shm_conn *conn);
/* Adds the connection to iface->open, which has space; or removes it. Its index must not be below num_hot. */
void cw_shm_open_add(struct shm_iface *iface, struct shm_conn *conn);
void cw_shm_open_remove(struct shm_iface *iface, struct shm_conn *conn);
/* The socket of an OPEN connection is readable: a packet arrived, or the peer is gone. */
unsigned cw_shm_bell(struct shm_conn *conn);
/* Rings a peer that does not poll our ring, in which there is a packet. */
void cw_shm_ring(struct shm_conn *conn);
/* Wakes the peer by a byte on the socket. Never blocks. */
void cw_shm_wake(struct shm_conn *conn);
/* `fire` of iface->cool. */
unsigned cw_shm_cool(struct cw_alarm *alarm);

/* Updates the inbox after a change in iface->open or of a condition there: the core receives packets itself only while
 * progress has nothing else to do. */
void cw_shm_inbox(struct shm_iface *iface);
struct cw_tx *cw_shm_tx(struct cw_conn *conn);
/* Disables the fast path of the core, because a condition holds that only the transport handles. */
static inline void shm_no_space(struct shm_conn *conn)
{
    shm_tx_stop(&conn->tx, 0);
}

/* Publishes our position to the producer; wakes it if it sleeps until there is space. */
void cw_shm_notify(struct shm_conn *conn);
unsigned cw_shm_progress(struct cw_iface *iface);
ucs_status_t cw_shm_arm(struct cw_iface *iface);
ucs_status_t cw_shm_send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_shm_send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);

#endif
