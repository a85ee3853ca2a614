/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A talk of a client with a server by every kind of operation, compared byte by byte, over a network that may do
 * anything. Nothing in it fails the program: what became of it is the result.
 */
#ifndef CW_STORM_TALK_H
#define CW_STORM_TALK_H

#include "storm.h"

enum talk_outcome {
    TALK_GOOD = 0,  /* all of it, and right */
    TALK_ERROR,     /* an error was told, and everything ended */
    TALK_SILENT,    /* nothing ended and no error was told within the time of patience */
    TALK_WRONG,     /* wrong data, told to be right */
    TALK_STUCK,     /* an error was told, and something has not ended all the same */
    TALK_CRASH,     /* a process ended by a signal, or otherwise than by its own will */
    TALK_OUTCOMES
};

/* While they meet: longer than a listener waits for a handshake to be complete. */
enum { TALK_PATIENCE_S = 4, TALK_MEETING_S = 14 };

/* Roles: the argument is the port to connect to; the server writes its own to fd as an int. */
int talk_client(int fd, const char *argument);
int talk_server(int fd, const char *argument);

#endif
