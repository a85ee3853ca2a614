/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP transport internals: one listening socket per iface, one socket per connection, all registered in the worker's
 * poller. While all events come from one connection (the hot one), progress receives from it directly.
 *
 *   dialled:   CONNECTING --established--> HANDSHAKE --accepted--> OPEN --end, error--> CLOSED
 *                  ^------next candidate-----'   '--refused, candidates used up------> CLOSED
 *   accepted:  UNAUTH --hello--> OPEN, or refused and LINGERING
 *   at a listener of the program: UNAUTH --hello--> REQUESTED --answer--> OPEN or LINGERING
 *   close_conn: freed; from OPEN with unsent bytes LINGERING, freed later
 *
 * Idle connections hold no buffers. Memory is reserved before bytes move: sends need the iface's spare tx, receives its
 * staging buffer and spare place, so that a failed allocation delays bytes and never loses them.
 */
#ifndef CW_TRANSPORT_TCP_TCP_H
#define CW_TRANSPORT_TCP_TCP_H

#include <errno.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/string.h"
#include "os/net.h"
#include "os/route.h"
#include "transport/tcp/tcp_wire.h"
#include "transport/transport.h"

#define CW_TCP_WIRE_ID 3u

#define CW_TCP_MAX_IOV            16u
#define CW_TCP_MAX_CANDIDATES     (CW_TCP_ADDRESS_MAX_HOSTS + 2u)
#define CW_TCP_MAX_FLUSHES        4u    /* flushes pending on one connection; one more gets CW_AGAIN */
#define CW_TCP_STREAK             8u    /* after this many events in a row a connection is the hot one */
#define CW_TCP_MAX_FRUITLESS      1000u /* after this many receives without a byte it no longer is */
#define CW_TCP_TURN               (128u << 10) /* received from the hot one before progress polls the others */
#define CW_TCP_MAX_UNAUTH      1024u
#define CW_TCP_HELLO_TIMEOUT_NS   UINT64_C(10000000000)
#define CW_TCP_MAX_LINGERING      64u
#define CW_TCP_LINGER_NS          UINT64_C(10000000000) /* from when the kernel has all remaining bytes */

/* The local addresses: those of the devices in use. */
struct cw_tcp_local {
    uint64_t netns;
    unsigned loopback;                 /* families of the loopback device if it is in use, as in `listens` */
    int ipv6_first;
    unsigned num_hosts;
    struct cw_net_interface hosts[CW_TCP_ADDRESS_MAX_HOSTS];
};

/* The protection of connections; the paths are those of the configuration. */
struct cw_tcp_auth {
    unsigned tls;                 /* enum auth_tls, tcp_security.c */
    int checksum;
    const char *key_file;
    const char *cert_file;
    const char *cert_key_file;
    const char *ca_file;
};

/* The settings, converted. Read once, when an iface is opened. */
struct cw_tcp_settings {
    size_t tx_seg_size;
    size_t rx_seg_size;
    unsigned max_iov;
    unsigned max_poll;
    int lanes_on_loopback;        /* further lanes gain nothing on loopback, so they are opened there only if the
                                   * setting exceeds the default */
    unsigned port_first;          /* 0: any */
    unsigned port_last;
    int use_ipv4;
    int use_ipv6;
    int ipv6_first;
    int use_bridges;
    int prefer_default;
    int failure_level;            /* enum cw_log_level */
    uint64_t connect_timeout_ns;  /* for all candidates; may be CW_TIME_INF */
    double bandwidth_bps;
    uint64_t silence_ns;          /* keepalive: a watched peer that is silent for this time is dead; 0: disabled */
    struct cw_net_keepalive keepalive; /* of watched connections; other connections have socket.keepalive */
    const struct cw_name_list *only_devices; /* from the configuration; NULL: all may be used */
    struct cw_net_options socket;
    uint64_t cm_user_timeout_ms;  /* replaces that in `socket` for connections by socket address */
    struct cw_tcp_auth auth;
};

enum cw_tcp_state {
    CW_TCP_CONNECTING,
    CW_TCP_HANDSHAKE,
    CW_TCP_UNAUTH,
    CW_TCP_REQUESTED, /* at a listener of the program, waits for its answer; in no list, not in the poller */
    CW_TCP_OPEN,
    CW_TCP_CLOSED,   /* no descriptor; the core knows it or learns it in the next progress, and calls close_conn */
    CW_TCP_LINGERING /* the core has closed the connection */
};

/* Bytes that the kernel has not accepted yet: bytes[head .. length), then iov[iov_first .. iov_count). */
struct cw_tcp_tx {
    size_t head;
    size_t length;
    unsigned iov_first;
    unsigned iov_count;
    unsigned num_flushes;
    struct cw_completion *zcopy;  /* NULL: no user memory, and bytes may be appended */
    struct cw_completion *flushes[CW_TCP_MAX_FLUSHES];
    struct iovec iov[CW_TCP_MAX_IOV];
    uint8_t bytes[];              /* iface->tx_capacity */
};

/* A placed packet of which `missing` bytes have not arrived; they go to iov[first .. count). iov[0] is for padding. */
struct cw_tcp_place {
    size_t missing;
    size_t length;
    unsigned first;
    unsigned count;
    uint8_t id;
    uint8_t header[CW_PLACE_HEADER];
    struct iovec iov[1 + CW_PLACE_MAX_IOV];
    uint8_t padding[CW_TCP_PADDING_MAX];
};

/* State that a connection needs only until it is open. */
struct cw_tcp_handshake {
    struct cw_tcp_conn *conn;
    struct cw_alarm alarm;        /* the deadline of the current step; while connecting, that of the current
                                   * candidate */
    uint64_t deadline_ns;         /* of an unauthenticated peer, or of connecting; UINT64_MAX: none */
    size_t have;                  /* bytes in `in` */
    uint8_t phase;                /* the step of the agreement on protection, tcp_security.c */
    uint8_t said_no;              /* the reason of the refusal was sent and must reach the peer */
    uint8_t hints;                /* bits of enum hint, tcp_dial.c: advice for the failures so far */
    uint8_t nonces[2][32];        /* the dialler's, the acceptor's */
    size_t out_length;
    uint32_t key;                 /* of the dialled address */
    int is_cm;                    /* dialled to a listener of the program */
    struct cw_net_address source; /* the address to bind to; CW_NET_NONE: any */
    int is_further;               /* a further connection to a peer: its failure is not logged as an error */
    unsigned next;
    unsigned num_candidates;
    unsigned silent;              /* bits of candidates that timed out */
    unsigned rounds;              /* rounds through the candidates; after the first only silent candidates are
                                   * redialled */
    ucs_status_t status;          /* of the last failed attempt */
    struct cw_text tried;         /* for the log: the candidates that failed, with the reasons */
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    uint8_t in[CW_TCP_HANDSHAKE_SIZE + CW_HELLO_MAX];
    uint8_t out[CW_TCP_HANDSHAKE_SIZE + CW_HELLO_MAX];
};

struct cw_tcp_conn {
    struct cw_conn super;
    struct cw_poll_item item;     /* fd -1: none */
    struct cw_list link;          /* iface->unauth, pending or lingering */
    struct cw_listening *listening; /* of an unauthenticated peer: the listener that it connected to; NULL: the iface's
                                     * own socket */
    struct cw_tcp_handshake *handshake;
    struct cw_tcp_filter *filter; /* NULL: bytes go to the descriptor unchanged */
    struct cw_tcp_watch *watch;   /* NULL: no keepalive */
    struct cw_tcp_tx *tx;         /* NULL: no unsent bytes */
    uint8_t *rx_frame;            /* an incomplete frame with a complete header: rx_have of rx_size bytes */
    struct cw_tcp_place *place;   /* where the next bytes go */
    size_t rx_have;               /* without rx_frame: bytes in rx_head */
    size_t rx_size;
    uint8_t rx_head[CW_TCP_PLACED_HEADER];
    uint16_t fruitless;
    uint8_t state;
    uint8_t quiet;                /* watched, but not on iface->in_flight */
    uint8_t wants_space;          /* a send returned CW_AGAIN */
    uint8_t finished;             /* LINGERING: FIN was sent */
    uint8_t rx_eof;               /* LINGERING: the peer sent FIN */
    uint8_t failed, bulk;         /* a send failed here; the last packet was a long placed one */
    uint8_t batches, collected;   /* depth of nested batches; tx was not passed to the kernel yet */
    uint8_t more, corked;         /* further packets follow in the batch; the kernel may hold back the end of the last
                                   * one */
    ucs_status_t broken;          /* UCS_OK, or what sends return from now on */
    uint64_t deadline_ns;         /* of LINGERING, once `finished` is set */
};

struct cw_tcp_watch {
    struct cw_list link;          /* iface->in_flight, unless the connection is quiet */
    struct cw_tcp_conn *conn;
    uint64_t own_limit_ms;        /* TCP_USER_TIMEOUT by the settings; 0: none */
    uint64_t silent_ns;           /* since when the peer's kernel does not respond; 0: it does */
    uint8_t by_system;            /* the kernel's limit for unacknowledged bytes is set */
};

/* A listener of the program. */
struct cw_listening {
    struct cw_poll_item item;
    struct cw_list link; /* iface->listenings */
    struct cw_tcp_iface *iface;
    void *user;
    uint8_t paused; /* not in the poller: out of descriptors */
};

struct cw_tcp_iface {
    struct cw_iface super;
    struct cw_tcp_settings settings;
    struct cw_tcp_local local;
    struct cw_poller *poller;
    struct cw_poll_item listener;
    int shortage_logged;          /* the shortage was logged; one line per shortage */
    int paused;                   /* out of descriptors: accepting pauses until `accept_again` */
    struct cw_alarm accept_again;
    struct cw_alarm hello_deadline; /* of the oldest unauthenticated peer, or earlier */
    struct cw_alarm linger_deadline; /* of the oldest lingering connection, or earlier */
    struct cw_list listenings;
    struct cw_list unauth;        /* oldest first */
    struct cw_list pending;       /* connections with an event for the next progress */
    struct cw_list lingering;     /* oldest first */
    struct cw_list unread;        /* filters that hold received bytes */
    struct cw_tcp_security *security;
    struct cw_list in_flight;     /* struct cw_tcp_watch; `check` is set while this list or the next one is not empty */
    struct cw_list resting;       /* struct cw_tcp_watch; their checks need not wake a sleeping program */
    struct cw_alarm check;
    uint64_t checked_ns;          /* time of the last check */
    unsigned num_unauth;
    unsigned num_lingering;
    struct cw_tcp_conn *active;   /* the connection of the last event; NULL: none */
    struct cw_tcp_conn *hot;      /* `active`, or NULL: progress only uses the poller */
    size_t unpolled;              /* bytes received since progress last polled the others */
    unsigned streak;              /* events of `active` in a row, up to CW_TCP_STREAK */
    uint8_t *staging;             /* NULL until needed */
    size_t staging_size;          /* at least a whole frame */
    struct cw_tcp_handshake *spare_handshake; /* cached for the next connection, or NULL */
    struct cw_tcp_tx *spare_tx;   /* NULL until needed; empty */
    unsigned num_tx;              /* allocated buffers, including the spare one */
    struct cw_tcp_place *spare_place; /* NULL until needed; empty */
    size_t tx_capacity;
    struct cw_device *devices;    /* the devices that it serves */
    unsigned num_devices;
    size_t address_length;
    uint8_t address[CW_TCP_ADDRESS_MAX];
    uint32_t key;
};

static inline struct cw_tcp_iface *cw_tcp_iface_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct cw_tcp_iface, super);
}

static inline struct cw_tcp_conn *cw_tcp_conn_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct cw_tcp_conn, super);
}

/* Defers the connection's event to the next progress, and wakes the worker. */
static inline void cw_tcp_notify_later(struct cw_tcp_conn *conn)
{
    cw_list_add_tail(&cw_tcp_iface_of(&conn->super)->pending, &conn->link);
    cw_poller_wake(cw_tcp_iface_of(&conn->super)->poller);
}

/* The status with which a connection ends after an error of its descriptor. */
static inline ucs_status_t cw_tcp_end_status(ssize_t error)
{
    return (error == -ETIMEDOUT || error == -EHOSTUNREACH || error == -ENETUNREACH) ? UCS_ERR_ENDPOINT_TIMEOUT :
           UCS_ERR_CONNECTION_RESET;
}

/* tcp_iface.c. Reads the configuration. */
void cw_tcp_settings_load(const struct cw_config *config, struct cw_tcp_settings *settings);
/* The routes to the peer's hosts; EXCLUDED where the configuration excludes the device. */
void cw_tcp_routes_find(const struct cw_tcp_settings *settings, const struct cw_tcp_address *peer,
                        struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS]);
/* Whether the configuration allows the device of this local address. */
int cw_tcp_allows(const struct cw_tcp_settings *settings, const struct cw_net_address *local);

/* tcp_accept.c. Opens the listening socket and reports port and families. Logs. */
ucs_status_t cw_tcp_listen(struct cw_tcp_iface *iface, uint16_t *port_p, unsigned *listens_p);
void cw_tcp_listen_end(struct cw_tcp_iface *iface);
/* The descriptor of an unauthenticated peer is readable. */
unsigned cw_tcp_unauth_ready(struct cw_tcp_conn *conn);
/* Resumes accepting if it is paused. */
void cw_tcp_accept_resume(struct cw_tcp_iface *iface);
/* `fire` of iface->accept_again, which resumes accepting, and of iface->hello_deadline, which drops unauthenticated
 * peers whose hello timed out. */
unsigned cw_tcp_accept_again(struct cw_alarm *alarm);
unsigned cw_tcp_unauth_expire(struct cw_alarm *alarm);

/* tcp_conn.c. Allocates a connection with descriptor fd (-1: none), not registered; NULL: no memory, the caller keeps
 * fd. */
struct cw_tcp_conn *cw_tcp_conn_new(struct cw_tcp_iface *iface, enum cw_tcp_state state, int fd);
/* Removes the connection from every list and the poller, closes its descriptor, frees it and its buffers. */
void cw_tcp_conn_free(struct cw_tcp_conn *conn);
/* Removes the connection from the list and the counter of its state. */
void cw_tcp_conn_leave(struct cw_tcp_conn *conn);
/* Unregisters and closes the descriptor, if any. */
void cw_tcp_conn_drop_fd(struct cw_tcp_conn *conn);
/* Frees conn->handshake, if any. */
void cw_tcp_handshake_free(struct cw_tcp_conn *conn);
/* Frees or caches a handshake that is detached from its connection. */
void cw_tcp_handshake_release(struct cw_tcp_iface *iface, struct cw_tcp_handshake *handshake);
/* The handshake is complete: the connection becomes OPEN. */
void cw_tcp_conn_open(struct cw_tcp_conn *conn);
/* Stores for the log why the connection ends; only the first reason is stored. */
void cw_tcp_conn_note_end(struct cw_tcp_conn *conn, const char *reason);
/* Ends an OPEN connection: calls completions and `closed`. From progress. */
void cw_tcp_conn_end(struct cw_tcp_conn *conn, ucs_status_t status);
/* The core has closed the connection: sends unsent bytes in the background, then frees it. Frees at once if there are
 * none. */
void cw_tcp_conn_linger(struct cw_tcp_conn *conn);
void cw_tcp_close_conn(struct cw_conn *conn);
/* Makes the connection CLOSED; close_conn completes its pending operations. */
void cw_tcp_abandon(struct cw_conn *conn);
/* `fire` of iface->linger_deadline. */
unsigned cw_tcp_lingering_expire(struct cw_alarm *alarm);
/* At close of the iface: waits briefly for bytes that a reset could still destroy, then frees all lingering
 * connections. */
void cw_tcp_lingering_end(struct cw_tcp_iface *iface);
/* A handshake message has arrived in part: `expire` is called if the rest times out. */
void cw_tcp_handshake_await_rest(struct cw_tcp_conn *conn, unsigned (*expire)(struct cw_alarm *alarm));
/* Reads until handshake->in holds `need` bytes. 1: complete, 0: not yet, -EPIPE: EOF, else -errno. */
int cw_tcp_handshake_read(struct cw_tcp_conn *conn, size_t need);
/* Enables keepalive, also for a connection that is not established yet. */
void cw_tcp_watch(struct cw_conn *conn);
/* The connection is established and its handshake was sent; the peer's program may take any time to answer. */
void cw_tcp_watch_handshake(struct cw_tcp_conn *conn);
void cw_tcp_watch_handshake_done(struct cw_tcp_conn *conn);
/* conn->quiet is set and bytes are about to be sent. */
void cw_tcp_watch_sends(struct cw_tcp_conn *conn);
/* The program is about to sleep: settles which checks must wake it. */
void cw_tcp_watch_settle(struct cw_tcp_iface *iface);
/* Logs that the peer's machine is considered dead. */
void cw_tcp_watch_notify(struct cw_tcp_conn *conn);
/* `fire` of iface->check. */
unsigned cw_tcp_watch_check(struct cw_alarm *alarm);

/* tcp_dial.c. The families whose loopback addresses reach the peer, as in `listens`. */
unsigned cw_tcp_shared_loopback(const struct cw_tcp_local *local, const struct cw_tcp_address *peer);

/*
 * The addresses to dial, best first (docs/operate/routes.md): loopback within the namespace, then addresses on a direct
 * route, then those by a gateway, then those without a known route. The more specific route comes first, and the
 * families alternate, the preferred one first. `routes` are those to the peer's hosts; NULL: unknown. Returns how many;
 * on 0 *why is a phrase for the log.
 */
unsigned cw_tcp_candidates(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                           const struct cw_route *routes, struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES],
                           const char **why);

/* Moves the candidates that use different local devices to the front, the best one for each device, and returns their
 * number; 1 if the devices are unknown. `routes` are those to the peer's hosts. */
unsigned cw_tcp_paths_first(const struct cw_tcp_address *peer, const struct cw_route *routes,
                            struct cw_net_address *candidates, unsigned count);

/* The slots of the transport's table. */
ucs_status_t cw_tcp_dial(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
int cw_tcp_is_unseen(const struct cw_conn *conn);
/* The descriptor of a CONNECTING or HANDSHAKE connection is ready. */
unsigned cw_tcp_dial_ready(struct cw_tcp_conn *conn);
/* Starts dialling the candidates of a new connection, with that key and hello. */
void cw_tcp_dial_begin(struct cw_tcp_conn *conn, uint64_t key, const void *hello, size_t hello_length, void *user);
/* Calls `opened` with the failure of the dial. From progress. */
unsigned cw_tcp_dial_failed(struct cw_tcp_conn *conn);
/* The slots `num_paths` and `dial_path` of the transport's table. */
unsigned cw_tcp_paths(struct cw_iface *iface, const void *address, size_t address_length);
ucs_status_t cw_tcp_dial_path(struct cw_iface *iface, const void *address, size_t address_length, unsigned path,
                              const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p);

/* tcp_data.c. The slots of the transport's table. */
ucs_status_t cw_tcp_send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_tcp_send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
ucs_status_t cw_tcp_send_zcopy(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
ucs_status_t cw_tcp_send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
void cw_tcp_batch(struct cw_conn *conn, enum cw_batch what);
ucs_status_t cw_tcp_flush(struct cw_conn *conn, struct cw_completion *completion);
int cw_tcp_has_unsent(const struct cw_iface *iface);
/* Sends a frame of the transport itself, in order with all others. CW_AGAIN: `space` follows. */
ucs_status_t cw_tcp_send_frame(struct cw_tcp_conn *conn, enum cw_tcp_frame_kind kind, const void *body, size_t length);
/* Sends unframed bytes before all others; what the kernel does not accept is queued. The spare tx must exist, and
 * conn->tx must be NULL. */
void cw_tcp_send_raw(struct cw_tcp_conn *conn, const void *data, size_t length);
/* Allocates iface->spare_tx unless it exists. 0: no memory. */
int cw_tcp_tx_reserve(struct cw_tcp_iface *iface);
/* Sends unsent bytes, then calls completions and `space`. Returns the number of events. From progress, unless
 * LINGERING. */
unsigned cw_tcp_send_rest(struct cw_tcp_conn *conn);
/* Calls all pending completions of the connection and frees its unsent bytes; with `keep_bytes`, not those outside user
 * memory. */
void cw_tcp_tx_cancel(struct cw_tcp_conn *conn, ucs_status_t status, int keep_bytes);
/* Updates the poller interest for the current tx state. */
void cw_tcp_tx_update_interest(struct cw_tcp_conn *conn);

/* Receives at most max_polls times and delivers packets. Adds to *events. */
enum cw_tcp_recv_result { CW_TCP_RECV_DRY, CW_TCP_RECV_MORE, CW_TCP_RECV_ENDED };
enum cw_tcp_recv_result cw_tcp_recv(struct cw_tcp_conn *conn, unsigned max_polls, unsigned *events);

/* tcp_accept.c. The slots of the transport's table. */
ucs_status_t cw_tcp_cm_listen(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                              struct cw_listening **listening_p);
void cw_tcp_cm_listen_end(struct cw_listening *listening);
ucs_status_t cw_tcp_cm_dial(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
ucs_status_t cw_tcp_cm_answer(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                              size_t reply_length);
int cw_tcp_cm_carries(struct cw_conn *conn, struct cw_iface *iface);
void cw_tcp_cm_ends(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);

/* ---- filters ---- */

/*
 * Filters protect TCP connections: proof of identity, checksums, TLS (docs/operate/security.md). A filter sits between
 * the transport and the descriptor: all bytes sent and received go through the functions below. An unprotected
 * connection has no filter and pays one branch. Both sides agree on the protection before the handshake, while the peer
 * is still unauthenticated (docs/WIRE.md).
 *
 * A filter may buffer bytes that it has read from the descriptor and that the transport has not received yet. It is
 * then on iface->unread, and progress receives them, because the descriptor does not become readable for them.
 *
 * A filter detects bytes dropped in transit only by the bytes behind them. A watched connection that has sent bytes and
 * then none for a while therefore sends empty frames, at least as long as any record that its peer may be waiting for:
 * the record is then complete, and its check fails.
 */
struct cw_tcp_filter {
    const struct cw_tcp_filter_ops *ops;
    struct cw_tcp_conn *conn;
    struct cw_list unread; /* in iface->unread, or alone */
    size_t said;        /* bytes sent that no empty frame has followed yet */
    size_t seen;        /* `said` at the last check without unsent bytes, and what waited after it */
    size_t followed;    /* by these bytes of empty frames so far */
    const char *why;    /* the reason of an error, as the end of a sentence about the peer; NULL: see errno */
    uint8_t has_unread; /* receive again although the descriptor may not be readable */
};

/* Results are those of os/net.h, and -EBADMSG for bytes that the peer did not send. The caller retries bytes that were
 * not accepted, unchanged, and perhaps with more behind them. */
struct cw_tcp_filter_ops {
    /* 1: done; 0: call again when the descriptor is readable; -EINPROGRESS: when it is writable; other errors. NULL:
     * the filter has no handshake. */
    int (*handshake)(struct cw_tcp_filter *filter);
    ssize_t (*sendv)(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count);
    /* Only verified bytes are written to iov. */
    ssize_t (*recvv)(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count);
    void (*free)(struct cw_tcp_filter *filter);
};

/* Slow paths of connections that have a filter. */
ssize_t cw_tcp_filter_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count);
ssize_t cw_tcp_filter_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count);
ssize_t cw_tcp_filter_send(struct cw_tcp_conn *conn, const void *data, size_t length);
ssize_t cw_tcp_filter_recv(struct cw_tcp_conn *conn, void *data, size_t length);

/* Removes the filter from the connection and frees it. */
void cw_tcp_filter_free(struct cw_tcp_conn *conn);
/* The connection leaves its iface, or has moved to another one. */
void cw_tcp_filter_leave(struct cw_tcp_conn *conn);
void cw_tcp_filter_enter(struct cw_tcp_conn *conn);
/* From progress, when iface->unread is not empty. */
unsigned cw_tcp_filter_progress(struct cw_tcp_iface *iface);

/* Checks an open, watched connection with a filter: sends empty frames, as many as the socket takes, if nothing else
 * was sent since the last check. True if another check is needed. */
bool cw_tcp_filter_check(struct cw_tcp_conn *conn);

/* The protection that a worker demands of every connection. */
struct cw_tcp_security {
    uint8_t protection;               /* enum cw_tcp_protection */
    const struct cw_openssl *openssl; /* NULL: not needed */
    struct cw_tls_context *tls;       /* NULL: not needed */
    uint8_t secret[32];               /* derived from the key */
    char why[320];                    /* buffer for a composed message */
    uint8_t *spare_in;                /* cached buffer of a filter with checksums, or NULL */
};

/* The error of the connection, as the end of a sentence about the peer. */
const char *cw_tcp_filter_reason(const struct cw_tcp_conn *conn, ssize_t error);

/* tcp_security.c. On errors, which it logs, the worker must not be created: UCS_ERR_INVALID_PARAM for settings that
 * cannot be met, UCS_ERR_UNSUPPORTED for a function that the machine lacks. */
ucs_status_t cw_tcp_security_new(const struct cw_tcp_auth *auth, struct cw_tcp_security **security_p);
void cw_tcp_security_free(struct cw_tcp_security *security);
/* Computes the keyed hash of the claim, 32 bytes. 0: OpenSSL fails. */
struct cw_tcp_claim;
int cw_tcp_prove(const struct cw_tcp_security *security, const struct cw_tcp_claim *claim, uint8_t *proof);

/* One step of the agreement of a connection in HANDSHAKE or UNAUTH. Returns NULL, or the reason of the failure, which
 * was also sent to the peer if that can help. *done_p: the handshake comes next, through the filter if there is one. */
const char *cw_tcp_agree_begin(struct cw_tcp_conn *conn);
const char *cw_tcp_agree_dialled(struct cw_tcp_conn *conn, int *done_p, ucs_status_t *status_p);
const char *cw_tcp_agree_accepted(struct cw_tcp_conn *conn, int *done_p);
/* Whether the failure is only that the dialler closed without a message, as it does if its dial loses to ours. */
int cw_tcp_agree_was_left(const struct cw_tcp_conn *conn, const char *wrong);
/* Whether the agreement is complete; an unprotected connection needs none. */
int cw_tcp_agreed(const struct cw_tcp_conn *conn);

/* NULL: no memory. */
struct cw_tls_context;
struct cw_tcp_filter *cw_tcp_filter_crc_new(int dialled);
struct cw_tcp_filter *cw_tcp_filter_tls_new(struct cw_tls_context *context, int fd, int dialled);

#endif
