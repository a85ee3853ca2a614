/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time keeping of one measurement: the duration of every iteration goes into a histogram, and about once per
 * second an intermediate row is printed (PRF-23).
 *
 * Callers: the test families (begin, step, end), run.c (results), report.c (numbers of a row).
 */
#ifndef CW_PERF_METER_H
#define CW_PERF_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "hist.h"
#include "ticks.h"

/* Numbers of one result row; times are per message: of a latency test half of the iteration (PRF-27). */
struct cw_meter_row {
    uint64_t iterations;
    double percentile_usec; /* of all iterations so far */
    double average_usec;    /* since the previous row */
    double overall_usec;    /* since the start */
    double average_mbps;    /* 2^20 bytes per second */
    double overall_mbps;
    double average_rate; /* messages per second */
    double overall_rate;
};

struct cw_meter {
    struct cw_hist hist; /* ticks per iteration */
    double rank;
    unsigned parts; /* messages per iteration one after the other: 2 in a latency test, else 1 */
    uint64_t size;
    uint64_t iterations;
    uint64_t start;
    uint64_t previous;
    uint64_t row_start;
    uint64_t row_iterations;
    uint64_t row_ticks; /* distance between intermediate rows */
    double tick_ns;     /* nanoseconds of a tick, as well as they are known */
    uint64_t row_due;
    void (*print)(void *arg, const struct cw_meter_row *row); /* NULL: no intermediate rows */
    void *print_arg;
    void (*ready)(void *arg); /* NULL, or called before the clock starts: several threads start together */
    void *ready_arg;
};

/* Starts the clock. The configuration fields (hist, rank, parts, size, print, ready) are the caller's. */
void cw_meter_begin(struct cw_meter *meter);

/* Prints an intermediate row and starts the next interval. */
void cw_meter_interval(struct cw_meter *meter, uint64_t now);

/* Numbers from the last row to `meter->previous`. */
struct cw_meter_row cw_meter_row(const struct cw_meter *meter);

/* Ends the measurement at the present moment, which may be later than the last step. */
void cw_meter_end(struct cw_meter *meter);

/* Time of one message in microseconds at a percentile. */
double cw_meter_percentile(const struct cw_meter *meter, double percent);

/* `count` iterations are over that are too short for a reading of the clock each: their mean is taken for all. */
static inline void cw_meter_step_many(struct cw_meter *meter, unsigned count)
{
    uint64_t now = cw_ticks_now();

    cw_hist_add_many(&meter->hist, (now - meter->previous) / count, count);
    meter->previous = now;
    meter->iterations += count;
    if (__builtin_expect(now >= meter->row_due, 0)) {
        cw_meter_interval(meter, now);
    }
}

/* One iteration is over. */
static inline void cw_meter_step(struct cw_meter *meter)
{
    cw_meter_step_many(meter, 1);
}

#endif
