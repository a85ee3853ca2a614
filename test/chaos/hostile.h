/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hostile peers of all transports share: a server, a client that it must go on serving, the packets that break
 * the protocol, and what is checked after each connection: it alone is lost, at most one line in the log, nothing held,
 * nothing spinning. For bodies of children.
 */
#ifndef CW_CHAOS_HOSTILE_H
#define CW_CHAOS_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

#include "chaos.h"
#include "wire/hello.h"

enum { CW_MAX_BAD_PACKET = 300 };

#define CW_SILENCE_NS UINT64_C(4000000000) /* well before silent connections are closed with a line in the log: 10 s */

/* A hostile connection: a valid handshake was answered; packets can be sent. */
struct cw_hostile_conn;

struct cw_hostile_ops {
    /* Ends the child unless the server accepted. */
    struct cw_hostile_conn *(*open)(void);
    void (*send)(struct cw_hostile_conn *conn, uint8_t id, const void *data, size_t length);
    int (*ended)(struct cw_hostile_conn *conn);
    void (*leave)(struct cw_hostile_conn *conn);
};

extern struct cw_party cw_server, cw_client;

/* Opens both, connected both ways, and notes what the process holds. */
void cw_hostile_begin(void);
void cw_server_progress(void);
/* Progresses until done(argument); ends the child if that takes too long. */
void cw_server_until(int (*done)(void *), void *argument);
/* Before a hostile connection, and after it: at most `lines` lines were logged, and the client is still served. */
void cw_log_mark(void);
void cw_check_served(unsigned lines);
/* All connections are closed: descriptors and memory are back, and the server can sleep. Closes both. */
void cw_hostile_end(void);

/* The server's address has this transport's entry. */
const void *cw_server_entry(uint8_t wire_id, size_t *length_p);
/* A valid hello to the server from an unknown worker. */
struct cw_hello cw_hostile_hello(void);

/* Between begin and end: three processes call `attempt` without pause, with the number of the call. It connects, if it
 * can, sends something wrong, and closes; returns whether it connected. Progress of the server counts none of that. */
void cw_hostile_flood(int (*attempt)(unsigned number));

/* Between begin and end: each kind of broken packet on a connection of its own, messages that never end or claim to be
 * as long as may be, forged acknowledgements, random packets. */
void cw_hostile_packets(const struct cw_hostile_ops *ops);

#endif
