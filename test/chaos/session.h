/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session of a client with a server: messages by every kind of operation, compared byte by byte, over a network that
 * may do anything. Nothing in it fails the program: what became of it is the result.
 */
#ifndef CW_CHAOS_SESSION_H
#define CW_CHAOS_SESSION_H

#include "chaos.h"

enum session_outcome {
    SESSION_GOOD = 0,  /* all of it, and right */
    SESSION_ERROR,     /* an error was reported, and everything ended */
    SESSION_SILENT,    /* nothing ended and no error was reported within the time of patience */
    SESSION_WRONG,     /* wrong data, reported as right */
    SESSION_STUCK,     /* an error was reported, and something has not ended all the same */
    SESSION_CRASH,     /* a process ended by a signal, or otherwise than by its own will */
    SESSION_OUTCOMES
};

/* While they meet: longer than a listener waits for a handshake to be complete. */
enum { SESSION_PATIENCE_S = 4, SESSION_MEETING_S = 14 };

/* Roles: the argument is the port to connect to; the server writes its own to fd as an int. */
int session_client(int fd, const char *argument);
int session_server(int fd, const char *argument);

#endif
