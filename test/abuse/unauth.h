/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is common to unauthenticated peers of all transports: a server that they come to, a friend that it must go on
 * serving, the packets that break the protocol, and what is checked after each visit: one connection lost, at most one
 * line in the log, nothing held, nothing spinning. For bodies of children.
 */
#ifndef CW_ABUSE_UNAUTH_H
#define CW_ABUSE_UNAUTH_H

#include <stddef.h>
#include <stdint.h>

#include "abuse.h"
#include "wire/hello.h"

enum { CW_MAX_BAD_PACKET = 300 };

#define CW_SILENCE_NS UINT64_C(4000000000) /* well before silent ones are shown out with a line in the log: 10 s */

/* One visit: a valid handshake was answered; packets can be sent. */
struct cw_visit;

struct cw_visitor {
    /* Ends the child unless the server accepted. */
    struct cw_visit *(*open)(void);
    void (*send)(struct cw_visit *visit, uint8_t id, const void *data, size_t length);
    int (*ended)(struct cw_visit *visit);
    void (*leave)(struct cw_visit *visit);
};

extern struct cw_party cw_server, cw_friend;

/* Opens both, connected both ways, and notes what the process holds. */
void cw_unauth_begin(void);
void cw_server_progress(void);
/* Progresses until done(argument); ends the child if that takes too long. */
void cw_server_until(int (*done)(void *), void *argument);
/* Before a visit, and after it: at most `lines` lines were logged, and the friend is still served. */
void cw_visit_begins(void);
void cw_visit_is_over(unsigned lines);
/* All unauthenticated peers left: descriptors and memory are back, and the server can sleep. Closes both. */
void cw_unauth_end(void);

/* The server's address has this transport's entry. */
const void *cw_server_entry(uint8_t wire_id, size_t *length_p);
/* A hello to the server from somebody it never heard of. */
struct cw_hello cw_unauth_hello(void);

/* Between begin and end: three processes call `come` without pause, with the number of the call. It connects, if it
 * can, says something wrong, and leaves; returns whether it came. Progress of the server counts none of that. */
void cw_unauth_flood(int (*come)(unsigned number));

/* Between begin and end: each kind of broken packet on a connection of its own, messages that never end or claim to be
 * as long as may be, forged acknowledgements, random packets. */
void cw_unauth_packets(const struct cw_visitor *visitor);

#endif
