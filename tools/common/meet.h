/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes of a job find each other: each one listens and leaves, under a name, a card with what it takes to
 * connect to it: a token that the other side must know, the machine, the port, and the addresses of all its interfaces.
 *
 * Callers: group.c of the performance tool. Functions return 0, or -1 after cw_oob_error() was set.
 */
#ifndef CW_TOOLS_MEET_H
#define CW_TOOLS_MEET_H

#include "oob.h"

#define CW_MEET_CARD 2048

struct cw_meet {
    int listener;
    uint8_t token[16];
    char card[CW_MEET_CARD];
};

/* Listens and writes the card. */
int cw_meet_open(struct cw_meet *meet);

/* Waits for one process that has the card. */
int cw_meet_accept(struct cw_meet *meet, struct cw_oob *oob, int timeout_ms);

/* Connects to the process that wrote the card: within this machine, or by any of its addresses that works. */
int cw_meet_connect(const char *card, struct cw_oob *oob, int timeout_ms);

/* The name of the machine on a card. */
void cw_meet_host(const char *card, char *host, size_t room);

void cw_meet_close(struct cw_meet *meet);

#endif
