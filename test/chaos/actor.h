/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of the test kill: a worker that talks with up to two peers by every kind of operation at random. Each
 * operation is watched: it ends once and no more, what it received is right, what was freed is not heard of again.
 * Survivors and victims are the same; victims look less at what comes of it.
 */
#ifndef CW_CHAOS_ACTOR_H
#define CW_CHAOS_ACTOR_H

#include <limits.h>

#include "chaos.h"

enum {
    ACTOR_PEERS = 2,
    ACTOR_OPS = 96,             /* at a time, per peer */
    ACTOR_RETAINED = 16,            /* data of active messages that were not released yet */
    ACTOR_REGION = 1 << 20,
    ACTOR_MOST = 2 << 20        /* bytes of the longest message */
};

enum actor_kind {
    ACTOR_TAG_SEND,
    ACTOR_TAG_SYNC,
    ACTOR_TAG_RECV,
    ACTOR_PROBE,                /* and receive what was found, if anything */
    ACTOR_AM_SEND,
    ACTOR_AM_REPLY,             /* to the endpoint that came with the last message */
    ACTOR_AM_RECV,              /* of something that was announced; or its release */
    ACTOR_STREAM_SEND,
    ACTOR_STREAM_RECV,
    ACTOR_PUT,
    ACTOR_GET,
    ACTOR_FETCH,
    ACTOR_POST,
    ACTOR_FLUSH,
    ACTOR_WORKER_FLUSH,
    ACTOR_FENCE,
    ACTOR_CANCEL,
    ACTOR_KINDS
};

enum actor_state { ACTOR_FREE, ACTOR_STARTING, ACTOR_PENDING, ACTOR_DONE };

struct actor_op {
    uint32_t generation;
    uint8_t state;
    uint8_t kind;
    bool inside;                /* the callback may come inside of the starting call */
    bool canceled;
    ucs_status_t status;
    void *request;
    char *buffer;               /* of receives */
    size_t length;              /* asked for, then what came */
    uint64_t tag;
    uint64_t scalar, reply;
    ucp_dt_iov_t iov[3];
    union {
        ucp_tag_recv_info_t tag_info;
        size_t came;
    } info;
};

struct actor_peer {
    struct actor *actor;
    uint32_t id;                /* of this pair of processes; both sides know it by that */
    ucp_ep_h ep;                /* NULL: closed, or none */
    ucp_ep_h reply_ep;
    int failures;
    ucs_status_t failure;
    double failed_at;
    bool live;
    uint64_t sent, got;         /* of the stream */
    ucp_rkey_h keys[2];
    uint64_t addresses[2];
    struct actor_op ops[ACTOR_OPS];
};

struct actor_retained {
    void *desc;
    size_t length;
    size_t offset;
    uint32_t id;
    bool announced;
};

struct actor {
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    bool sleeps;
    bool closing;               /* no more failures are expected */
    uint64_t random;
    unsigned kinds;             /* bit mask of those to be tried */
    ucp_mem_h regions[2];
    uint64_t region_addresses[2];
    void *heap;
    struct actor_peer peers[ACTOR_PEERS];
    struct actor_op flushes[4]; /* of the worker */
    struct actor_retained retained[ACTOR_RETAINED];
    unsigned long counts[ACTOR_KINDS];
};

extern const char *const actor_names[ACTOR_KINDS];

void actor_open(struct actor *actor, uint64_t seed, bool sleeps);
/* Its half that is about operations: sets the handlers of active messages. */
void actor_ops_open(struct actor *actor);
/* ACTOR_MOST bytes and more that all processes agree on; never written. */
const char *actor_pattern(void);
/* Worker and context are destroyed in whatever state. */
void actor_close(struct actor *actor);

/* Sends address and keys, and reads the peer's; makes the endpoint. false: the other process is gone already. `doomed`:
 * a process that is killed before the endpoint is made, or 0. */
bool actor_connect(struct actor *actor, struct actor_peer *peer, uint32_t id, int fd, pid_t doomed);
/* Messages there and back, short and long, compared. first: who begins. */
void actor_handshake(struct actor *actor, struct actor_peer *peer, bool first);

/* Starts one operation of that kind. UCS_OK: it ended at once, or there was nothing to do. UCS_INPROGRESS; or how
 * starting failed. */
ucs_status_t actor_start(struct actor *actor, struct actor_peer *peer, enum actor_kind kind);
/* Some operations of random kinds with random peers. */
void actor_act(struct actor *actor);
/* Progress, or sleep of at most that long when there is nothing to do and the actor is one that sleeps. Returns whether
 * it slept all that time. */
bool actor_step(struct actor *actor, int sleep_ms);
/* Frees what has ended. */
void actor_collect(struct actor *actor);

/* How many operations of the peer have not ended; receives that may be unmatched (and `cancel`: cancels them) are not
 * counted. */
int actor_pending(struct actor *actor, struct actor_peer *peer);
int actor_receives(struct actor *actor, struct actor_peer *peer, bool cancel);
void actor_print_pending(const struct actor_peer *peer);
/* Takes out what came and nobody received: messages of this peer, data of active messages. */
void actor_drain(struct actor *actor, struct actor_peer *peer);
/* Closes the endpoint; a request is freed at once. */
ucs_status_t actor_close_ep(struct actor *actor, struct actor_peer *peer, bool force, ucs_status_ptr_t *closing);
/* Everything that is left of a peer whose endpoint is closed and whose operations have ended. */
void actor_forget(struct actor *actor, struct actor_peer *peer);

#endif
