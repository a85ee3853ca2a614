/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further sockets of a TCP connection, which carry placed packets only.
 */
#ifndef CW_TRANSPORT_TCP_TCP_RAILS_H
#define CW_TRANSPORT_TCP_TCP_RAILS_H

#include "transport/tcp/tcp.h"

/* A flush that waits for several sockets. */
struct cw_tcp_wide_flush {
    struct cw_completion *completion;
    unsigned waits_for;           /* 1: the first socket, 2 << slot: a further one, CW_TCP_WAITS_LOST: rails->lost */
};

/* A placed packet on a further socket, until the peer has it. */
struct cw_tcp_kept {
    struct cw_list link;          /* of its socket, or rails->lost */
    struct cw_completion *completion;
    unsigned count;
    uint8_t id;
    uint8_t header[CW_PLACE_HEADER];
    struct iovec iov[];
};

/* Placed packets on a further socket, and how far its end has come (tcp_rail_count.c, tcp_rail_kept.c). */
struct cw_tcp_rail_count {
    uint64_t sent;
    uint64_t confirmed;           /* of those: the peer has them */
    struct cw_list kept;          /* the others, the oldest first */
    uint64_t taken;
    uint64_t told_taken;          /* what the peer knows of them */
    uint64_t peer_sent;           /* these two once it was heard */
    uint64_t peer_taken;
    uint8_t has_ended;            /* here: there will be no other of this slot */
    uint8_t told;
    uint8_t heard;
    uint8_t judged;
};

#define CW_TCP_WAITS_LOST (2u << CW_TCP_MAX_JOINED)

/* What a connection needs for further sockets. */
struct cw_tcp_rails {
    uint64_t id;                  /* names the connection in the acceptor's iface->joinable */
    uint32_t key;                 /* this and the next two are the dialler's */
    struct cw_net_address peer;
    uint8_t may_dial;             /* once */
    uint8_t is_joinable;          /* at the acceptor */
    uint8_t ending;               /* a socket has ended; the others are read to their ends */
    uint8_t next;                 /* slot that a placed packet tries first */
    uint8_t num_flushes;
    uint8_t heard;                /* numbers of the peer are to be looked at; on iface->pending */
    uint8_t untold;               /* numbers wait for room */
    uint8_t token[CW_TCP_TOKEN_SIZE];
    struct cw_list lost;          /* packets to be sent again */
    struct cw_tcp_rail_count counts[CW_TCP_MAX_JOINED];
    struct cw_tcp_conn *sockets[CW_TCP_MAX_JOINED]; /* NULL, or CONNECTING, GREETING, OPEN */
    struct cw_tcp_wide_flush flushes[CW_TCP_MAX_FLUSHES];
};

/* The acceptor writes a pass, or nothing: returns its length. */
size_t cw_tcp_rails_offer(struct cw_tcp_conn *conn, void *pass);
/* The dialler got that pass. Without memory there will be no further sockets. */
void cw_tcp_rails_take(struct cw_tcp_conn *conn, const void *pass);
/* A large packet comes or goes: the dialler opens the further sockets, once. */
void cw_tcp_rails_want(struct cw_tcp_conn *conn);
/* A stranger came with the pass in its greeting. NULL: joined, or why not. */
const char *cw_tcp_rails_join(struct cw_tcp_conn *conn, enum cw_log_level *level_p);
/* An idle further socket for a placed packet; NULL: none. */
struct cw_tcp_conn *cw_tcp_rails_choose(struct cw_tcp_conn *conn);
/* What further sockets carry that the peer may not have, as bits of waits_for. */
unsigned cw_tcp_rails_busy(const struct cw_tcp_conn *conn);
/* These bits need not be waited for any more: writes the flushes that waited for nothing else to `done`, at most
 * CW_TCP_MAX_FLUSHES, and returns how many. */
unsigned cw_tcp_rails_drained(struct cw_tcp_conn *first, unsigned bits, struct cw_completion **done);
/* A socket came to its end. The connection is lost with the last one; until then the others are read. From progress. */
void cw_tcp_rails_ended(struct cw_tcp_conn *conn, ucs_status_t status);
/* Nothing more is sent on any socket, and the connection ends when all have been read. From progress. */
void cw_tcp_rails_broke(struct cw_tcp_conn *first);
/* Takes a further socket out of its connection and frees it. */
void cw_tcp_rails_leave(struct cw_tcp_conn *conn);
/* Frees the further sockets, after their completions; `linger`: those that are open in the background. */
void cw_tcp_rails_end(struct cw_tcp_conn *conn, ucs_status_t status, int linger);

/* tcp_rail_count.c. The answer JOINED came with this body. 0: it is none. */
int cw_tcp_rail_named(struct cw_tcp_conn *conn, const void *body);
/* A further socket came to its end. True: it is gone, and the connection may live without it. From progress. */
int cw_tcp_rail_died(struct cw_tcp_conn *conn);
/* The peer told its numbers. 0: they are none. */
int cw_tcp_rail_heard(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length);
/* From progress, later. 0: to be called again. */
int cw_tcp_rails_settle(struct cw_tcp_conn *first, unsigned *events);
/* There is room for what could not be told. */
void cw_tcp_rails_tell(struct cw_tcp_conn *first);
/* A placed packet came whole on this further socket. */
void cw_tcp_rail_took(struct cw_tcp_conn *conn);

/* tcp_rail_kept.c. Sends a placed packet on a further socket and keeps it until the peer has it: UCS_INPROGRESS.
 * CW_AGAIN: there is none that is idle. */
ucs_status_t cw_tcp_rails_send(struct cw_tcp_conn *first, uint8_t id, const void *header, const struct iovec *iov,
                               unsigned count, struct cw_completion *completion);
/* The frame TAKEN. 0: it is none. From progress. */
int cw_tcp_rail_confirmed(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length);
/* A further socket has ended with that many packets at the peer: the others are sent again. From progress. */
void cw_tcp_rail_settled(struct cw_tcp_conn *first, unsigned slot, uint64_t at_peer);
/* There may be room for what is to be sent again. From progress. */
void cw_tcp_rails_resend(struct cw_tcp_conn *first);
/* Nothing is sent again: everything kept ends with this status, and all flushes that wait. */
void cw_tcp_rails_cancel(struct cw_tcp_conn *first, ucs_status_t status);

#endif
