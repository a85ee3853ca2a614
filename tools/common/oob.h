/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-band connection between the two sides of a tool: one stream socket, mostly TCP, that carries
 * parameters, worker addresses, barriers and the reason of a failure. Every wait has a deadline.
 *
 * Message: type (4 bytes), payload length (4 bytes), payload; all numbers little-endian. The first message of
 * either side is CW_OOB_HELLO with magic and protocol version, so that another program is recognised at once.
 *
 * Callers: link.c, the performance tool, the demonstration (over a socket pair). All functions return 0 or -1;
 * after -1 cw_oob_error() is a sentence.
 */
#ifndef CW_TOOLS_OOB_H
#define CW_TOOLS_OOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CW_OOB_VERSION     2
#define CW_OOB_MAX_PAYLOAD (1u << 20)

enum cw_oob_type {
    CW_OOB_HELLO = 1, /* magic (8), version (4), token (16), release */
    CW_OOB_PARAMS,    /* see options.h */
    CW_OOB_ADDRESS,   /* worker address */
    CW_OOB_BARRIER,   /* empty */
    CW_OOB_ERROR,     /* a sentence */
    CW_OOB_END,       /* empty: no further test */
    CW_OOB_MEMORY,    /* memory of a one-sided test: see region.c of the performance tool */
    CW_OOB_ALIVE,     /* empty: this side moves although the peer sees nothing of it */
    CW_OOB_ASK,       /* question about the memory of a one-sided test, and its answer: see origin.c */
    CW_OOB_CHANNEL,   /* bytes between two threads, or the end of them: see fan.c */
    CW_OOB_LAST = CW_OOB_CHANNEL
};

struct cw_oob {
    int fd;
    int timeout_ms; /* of every single wait; -1: none */
    void (*idle)(void *arg); /* NULL, or called again and again while a message is awaited */
    void *idle_arg;
    uint8_t token[16]; /* of the job: the peer's must be the same */
};

/* Listens on `port` of all addresses of the family and waits for one client. Prints the two lines of PRF-4. */
int cw_oob_accept(struct cw_oob *oob, int family, unsigned port, int wait_timeout_ms, int timeout_ms);

/* The same in steps: a socket that listens (port 0: any), its port, and one client of it. */
int cw_oob_listen(int family, unsigned port);
unsigned cw_oob_port(int listener);
int cw_oob_accept_at(struct cw_oob *oob, int listener, int wait_timeout_ms, int timeout_ms, bool announce);

/* Connects to a server; tries each address of the name once. */
int cw_oob_connect(struct cw_oob *oob, int family, const char *host, unsigned port, int timeout_ms);

void cw_oob_close(struct cw_oob *oob);

int cw_oob_send(struct cw_oob *oob, enum cw_oob_type type, const void *payload, size_t length);

/*
 * Waits for the next message. Any type but those in `types` (bits 1 << type) is an error; CW_OOB_ERROR makes
 * the peer's sentence the error. The payload is the caller's (free()), zero-terminated beyond its length.
 */
int cw_oob_recv(struct cw_oob *oob, unsigned types, enum cw_oob_type *type, void **payload, size_t *length);

/* Sends and awaits a barrier message. */
int cw_oob_barrier(struct cw_oob *oob);

/*
 * Checks, without blocking, whether the peer is gone or has reported an error: -1 then. `*readable` says whether
 * some message waits.
 */
int cw_oob_check(struct cw_oob *oob, bool *readable);

/* Whether the peer runs on this machine, as far as its address says. */
bool cw_oob_is_local(const struct cw_oob *oob);

/* Sends the peer the reason why this side gives up, and lets the text arrive before the connection is closed (<= 1 s).
 * */
void cw_oob_give_up(struct cw_oob *oob, const char *sentence);

/* Sets the sentence of a failure; always returns -1. */
int cw_oob_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sentence of the last failure in this thread. */
const char *cw_oob_error(void);

#endif
