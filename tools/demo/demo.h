/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The demonstration: a pair of processes moves a file over each transport and measures it.
 *
 * demo.c   the coordinating process: starts the pair, checks what arrived, prints the tables
 * peer.c   one side of the pair: context, worker, endpoint; the file in pieces
 * measure.c  latency and bandwidth by message size
 * show.c   tables and the progress display
 *
 * The sides report to the coordinator through a pipe, in lines (see enum demo_event).
 */
#ifndef CW_DEMO_H
#define CW_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

/* Message sizes of the table; both sides walk through it. */
extern const size_t demo_sizes[];
extern const unsigned demo_size_count;

/* First letter of a line that a side reports, and what follows it. */
enum demo_event {
    DEMO_PROGRESS = 'P', /* fraction done of this transport (0..1), what is going on */
    DEMO_FILE = 'F',     /* bytes, pieces, microseconds */
    DEMO_RESULT = 'R',   /* size, median usec, 99th percentile usec, MB/s */
    DEMO_ERROR = 'E'     /* a sentence */
};

/* What one side of the pair does. For transport self one process does both. */
struct demo_side {
    struct cw_link link;
    bool sends;
    bool receives;
    const char *file;     /* read by the sending side */
    const char *received; /* written by the receiving side */
    int events;           /* pipe to the coordinator */
    double seconds;       /* about how long one measurement takes */
};

/* Entry of a side's process; returns its exit status. */
int demo_side_main(int argc, char **argv);

/* One tagged message in flight. */
struct demo_op {
    struct demo_side *side;
    size_t length; /* received */
    bool done;
};

/* Start one send or receive; 0, or -1 after cw_link_fail(). `op` and `data` must stay until `op->done`. */
int demo_send(struct demo_side *side, struct demo_op *op, const void *data, size_t length, uint64_t tag);
int demo_recv(struct demo_side *side, struct demo_op *op, void *data, size_t length, uint64_t tag);

/* Waits for an operation; 0, or -1 when the link has failed. */
int demo_wait(struct demo_side *side, const struct demo_op *op);

/* Writes one line to the coordinator. */
void demo_report(const struct demo_side *side, enum demo_event event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Measures all sizes; 0, or -1 after cw_link_fail(). */
int demo_measure(struct demo_side *side);

/* Progress display on a terminal (stdout); nothing otherwise. `fraction` is that of the whole demonstration. */
void demo_show_progress(double fraction, const char *transport, const char *text);
void demo_hide_progress(void);

void demo_show_table_head(void);
void demo_show_table_row(size_t size, double median_usec, double p99_usec, double mbps);

/* "4 MiB", "512 B". */
const char *demo_size_text(size_t size, char text[16]);

#endif
