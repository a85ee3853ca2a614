/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time keeping of one measurement.
 *
 * Callers: the test families, run.c.
 */
#include "meter.h"

#include <stddef.h>

void cw_meter_begin(struct cw_meter *meter)
{
    if (meter->ready != NULL) {
        meter->ready(meter->ready_arg);
    }
    cw_hist_reset(&meter->hist);
    meter->iterations = 0;
    meter->row_iterations = 0;
    meter->tick_ns = cw_ticks_ns();
    meter->row_ticks = (uint64_t)(1e9 / meter->tick_ns);
    meter->start = cw_ticks_now();
    meter->previous = meter->start;
    meter->row_start = meter->start;
    meter->row_due = meter->start + meter->row_ticks;
}

/* One rate for all numbers of a row: the clock knows it better and better. */
static double usec_of(const struct cw_meter *meter, uint64_t ticks, uint64_t messages)
{
    return messages == 0 ? 0 : (double)ticks * meter->tick_ns / 1e3 / (double)messages;
}

struct cw_meter_row cw_meter_row(const struct cw_meter *meter)
{
    uint64_t in_row = meter->iterations - meter->row_iterations;
    struct cw_meter_row row = {
        .iterations = meter->iterations,
        .percentile_usec = cw_meter_percentile(meter, meter->rank),
        .average_usec = usec_of(meter, meter->previous - meter->row_start, in_row * meter->parts),
        .overall_usec = usec_of(meter, meter->previous - meter->start, meter->iterations * meter->parts),
    };

    if (in_row == 0) {
        row.average_usec = row.overall_usec;
    }
    row.average_rate = row.average_usec > 0 ? 1e6 / row.average_usec : 0;
    row.overall_rate = row.overall_usec > 0 ? 1e6 / row.overall_usec : 0;
    row.average_mbps = row.average_rate * (double)meter->size / 1048576;
    row.overall_mbps = row.overall_rate * (double)meter->size / 1048576;
    return row;
}

void cw_meter_interval(struct cw_meter *meter, uint64_t now)
{
    meter->tick_ns = cw_ticks_ns();
    if (meter->print != NULL) {
        struct cw_meter_row row = cw_meter_row(meter);
        meter->print(meter->print_arg, &row);
    }
    meter->row_start = now;
    meter->row_iterations = meter->iterations;
    meter->row_due = now + meter->row_ticks;
}

void cw_meter_end(struct cw_meter *meter)
{
    meter->previous = cw_ticks_now();
    meter->tick_ns = cw_ticks_ns();
}

double cw_meter_percentile(const struct cw_meter *meter, double percent)
{
    return usec_of(meter, cw_hist_percentile(&meter->hist, percent), meter->parts);
}
