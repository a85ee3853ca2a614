/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency and bandwidth by message size.
 *
 * The sending side decides how many messages a measurement has, from a short trial, and notifies the receiving side
 * in a message. Latency is half of a round trip (self: a whole send and receive). Bandwidth has several messages
 * under way and ends when the receiving side has acknowledged all of them.
 *
 * Callers: peer.c.
 */
#include "demo.h"

#include "hist.h"
#include "ticks.h"

#include <stdlib.h>
#include <string.h>

#define TAG_COUNT UINT64_C(0x100)
#define TAG_PING  UINT64_C(0x101)
#define TAG_PONG  UINT64_C(0x102)
#define TAG_DATA  UINT64_C(0x103)
#define TAG_ACK   UINT64_C(0x104)

#define WINDOW     16
#define TRIAL      20
#define MOST_TRIPS 200000

const size_t demo_sizes[] = {1, 8, 64, 512, 4096, 32768, 262144, 1048576, 4194304};
const unsigned demo_size_count = sizeof(demo_sizes) / sizeof(demo_sizes[0]);

struct measurement {
    struct demo_side *side;
    size_t size;
    char *out;
    char *in;
    struct cw_hist hist;
};

/* Sends the receiving side how many messages come, or learns it; both are this process with transport self. */
static int agree_count(struct demo_side *side, uint64_t *count)
{
    struct demo_op sent = {.done = true}, got = {.done = true};
    uint64_t number = *count;

    if (side->sends && demo_send(side, &sent, &number, sizeof(number), TAG_COUNT) != 0) {
        return -1;
    }
    if (side->receives && demo_recv(side, &got, count, sizeof(*count), TAG_COUNT) != 0) {
        return -1;
    }
    if (demo_wait(side, &got) != 0 || demo_wait(side, &sent) != 0) {
        return -1;
    }
    if (side->receives && got.length != sizeof(*count)) {
        return cw_link_fail(&side->link, "received a count of messages of %zu bytes", got.length);
    }
    return 0;
}

/* One message there and, with two processes, one back. */
static int trip(struct measurement *m)
{
    struct demo_side *side = m->side;
    struct demo_op sent, got;
    bool self = side->sends && side->receives;

    if (side->sends) {
        if (demo_send(side, &sent, m->out, m->size, TAG_PING) != 0 ||
            demo_recv(side, &got, m->in, m->size, self ? TAG_PING : TAG_PONG) != 0) {
            return -1;
        }
        return demo_wait(side, &got) != 0 || demo_wait(side, &sent) != 0 ? -1 : 0;
    }
    if (demo_recv(side, &got, m->in, m->size, TAG_PING) != 0 || demo_wait(side, &got) != 0) {
        return -1;
    }
    return demo_send(side, &sent, m->out, m->size, TAG_PONG) != 0 || demo_wait(side, &sent) != 0 ? -1 : 0;
}

static int latency(struct measurement *m, uint64_t count, double *usec_per_trip)
{
    uint64_t start;

    if (agree_count(m->side, &count) != 0) {
        return -1;
    }
    cw_hist_reset(&m->hist);
    start = cw_ticks_now();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t before = cw_ticks_now();
        if (trip(m) != 0) {
            return -1;
        }
        cw_hist_add(&m->hist, cw_ticks_now() - before);
    }
    *usec_per_trip = (double)(cw_ticks_now() - start) * cw_ticks_ns() / 1e3 / (double)(count ? count : 1);
    return 0;
}

/* Posts message `i` of `count` in its slot once the slot's previous one is over. */
static int next_send(struct measurement *m, struct demo_op *ops, uint64_t i)
{
    struct demo_op *op = &ops[i % WINDOW];

    return demo_wait(m->side, op) != 0 ? -1 : demo_send(m->side, op, m->out, m->size, TAG_DATA);
}

static int next_recv(struct measurement *m, struct demo_op *ops, uint64_t i)
{
    struct demo_op *op = &ops[i % WINDOW];

    if (demo_wait(m->side, op) != 0) {
        return -1;
    }
    return demo_recv(m->side, op, m->in + (i % WINDOW) * m->size, m->size, TAG_DATA);
}

static int wait_all(struct demo_side *side, const struct demo_op *ops)
{
    for (int i = 0; i < WINDOW; i++) {
        if (demo_wait(side, &ops[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int bandwidth(struct measurement *m, uint64_t count, double *mbps)
{
    struct demo_side *side = m->side;
    struct demo_op sends[WINDOW], recvs[WINDOW], ack = {.done = true};
    bool self = side->sends && side->receives;

    for (int i = 0; i < WINDOW; i++) {
        sends[i].done = recvs[i].done = true;
    }
    if (agree_count(side, &count) != 0) {
        return -1;
    }
    uint64_t start = cw_ticks_now();
    for (uint64_t i = 0; i < count; i++) {
        if ((side->receives && next_recv(m, recvs, i) != 0) || (side->sends && next_send(m, sends, i) != 0)) {
            return -1;
        }
    }
    if (wait_all(side, recvs) != 0 || wait_all(side, sends) != 0) {
        return -1;
    }
    if (!self) {
        int result = side->sends ? demo_recv(side, &ack, m->in, 0, TAG_ACK) : demo_send(side, &ack, m->out, 0, TAG_ACK);
        if (result != 0 || demo_wait(side, &ack) != 0) {
            return -1;
        }
    }
    double seconds = (double)(cw_ticks_now() - start) * cw_ticks_ns() / 1e9;
    *mbps = (double)count * (double)m->size / 1048576 / (seconds > 0 ? seconds : 1e-9);
    return 0;
}

static uint64_t count_for(double seconds, double usec_each)
{
    double count = seconds * 1e6 / (usec_each > 0.01 ? usec_each : 0.01);

    if (count < TRIAL) {
        return TRIAL;
    }
    return count > MOST_TRIPS ? MOST_TRIPS : (uint64_t)count;
}

static void report_step(struct demo_side *side, unsigned index, bool second, const char *what)
{
    double step = (2.0 * index + (second ? 1 : 0) + 1) / (2.0 * demo_size_count + 1);

    char text[16];

    if (side->sends) {
        demo_report(side, DEMO_PROGRESS, "%.4f %s, %s", step, what, demo_size_text(demo_sizes[index], text));
    }
}

static int measure_size(struct measurement *m, unsigned index)
{
    struct demo_side *side = m->side;
    double usec, mbps;

    report_step(side, index, false, "latency");
    if (latency(m, TRIAL, &usec) != 0 || latency(m, count_for(side->seconds, usec), &usec) != 0) {
        return -1;
    }
    double parts = side->receives ? 1 : 2;
    double median = (double)cw_hist_percentile(&m->hist, 50) * cw_ticks_ns() / 1e3 / parts;
    double p99 = (double)cw_hist_percentile(&m->hist, 99) * cw_ticks_ns() / 1e3 / parts;

    report_step(side, index, true, "bandwidth");
    if (bandwidth(m, count_for(side->seconds, usec / parts), &mbps) != 0) {
        return -1;
    }
    if (side->sends) {
        demo_report(side, DEMO_RESULT, "%zu %.3f %.3f %.3f", m->size, median, p99, mbps);
    }
    return 0;
}

int demo_measure(struct demo_side *side)
{
    /* After a failure operations may still use the buffers: then they last until the process ends. */
    static struct measurement m;
    size_t largest = demo_sizes[demo_size_count - 1];
    int result = 0;

    m.side = side;
    m.out = calloc(1, largest);
    m.in = calloc(WINDOW, largest);
    if (m.out == NULL || m.in == NULL || !cw_hist_init(&m.hist)) {
        result = cw_link_fail(&side->link, "out of memory for buffers of %zu bytes", largest);
    }
    for (unsigned index = 0; index < demo_size_count && result == 0; index++) {
        m.size = demo_sizes[index];
        result = measure_size(&m, index);
    }
    if (result == 0) {
        free(m.out);
        free(m.in);
        cw_hist_fini(&m.hist);
    }
    return result;
}
