/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side's whole work: the server that serves one client, the client (or both in one process) with its tests: those
 * of batch files and the sizes of a sweep.
 *
 * Callers: main.c, group.c.
 */
#ifndef CW_PERF_SESSION_H
#define CW_PERF_SESSION_H

#include "oob.h"
#include "options.h"
#include "report.h"

struct cw_session {
    const struct cw_perf_options *options;
    struct cw_oob oob;
    struct cw_report report;
    bool header_done;
    bool box; /* the client prints the information box, too: no server does */
    /* Runs one test of the client; NULL: as a client or in loopback, with rows on stdout. 0 or -1. */
    int (*run)(struct cw_session *session, const struct cw_perf_params *params);
    void *arg; /* of run */
};

/* Waits for a client and does what it asks for. 0, or -1 after an error line. */
int cw_session_serve(struct cw_session *session);

/* Does what a client asks for over a connection that exists. 0, or -1 after an error line. */
int cw_session_answer(struct cw_session *session);

/* Meets the server, if there is one, and runs all tests. 0, or -1 after an error line. */
int cw_session_run(struct cw_session *session);

/* The same over a connection that exists, which it closes; in loopback without one. 0, or -1 after an error line. */
int cw_session_tests(struct cw_session *session);

/* Calls session->run for every line of the batch files and every size of the sweep. 0 or -1. */
int cw_session_each(struct cw_session *session);

/* Sends the parameters of a test to the server. 0, or -1 after an error line. */
int cw_session_ask(struct cw_session *session, const struct cw_perf_params *params);

/* How long, in milliseconds, the other side may take for its first words. */
int cw_session_hello_ms(const struct cw_perf_options *options);

#endif
