/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of a test whose receiver counts arrivals.
 *
 * Callers: test_am.c, test_stream.c.
 * Latency: the client sends and awaits the answer; in loopback both directions are this process's. Bandwidth: up to
 * `window` sends unfinished; the receiver acknowledges the last message, so that the measured time covers arrival.
 */
#include "drive.h"

#include <assert.h>
#include <stdlib.h>

static void cut_slots(struct cw_drive *drive, size_t room, bool shared)
{
    const struct cw_perf_params *params = &drive->run->params;
    size_t window = drive->window;

    for (size_t i = 0; i < 2 * window + 1; i++) {
        struct cw_drive_slot *slot = &drive->slots[i];
        struct cw_drive_slot **list = i < window ? &drive->free_sends : &drive->free_recvs;
        bool sends = i < window;
        size_t buffer = sends ? i : i - window;

        *slot = (struct cw_drive_slot){
            .drive = drive,
            .next_free = *list,
            .buffer = (sends ? drive->buffers.base : drive->buffers.receives) + (shared ? 0 : room * buffer),
        };
        if (i < window ? params->send_iov : params->recv_iov) {
            slot->iov = drive->iovs + i * params->part_count;
            cw_layout_list(params, slot->buffer, slot->iov);
        }
        *list = slot;
    }
}

int cw_drive_open(struct cw_drive *drive, struct cw_perf_run *run)
{
    const struct cw_perf_params *params = &run->params;
    bool shared = !params->verify;
    size_t slots = 2 * (size_t)params->window + 1;
    size_t room = (cw_layout_extent(params) + 63) / 64 * 64 + 64;

    *drive = (struct cw_drive){
        .run = run,
        .link = run->link,
        .size = params->size,
        .window = (unsigned)params->window,
    };
    drive->slots = calloc(slots, sizeof(*drive->slots));
    drive->iovs = calloc(slots * params->part_count, sizeof(*drive->iovs));
    if (drive->slots == NULL || drive->iovs == NULL) {
        cw_drive_close(drive);
        return cw_link_fail(run->link, "out of memory");
    }
    if (cw_buffers_open(&drive->buffers, run, shared ? 1 : drive->window, shared ? 1 : drive->window + 1, room) != 0) {
        return -1;
    }
    cut_slots(drive, room, shared);
    return 0;
}

void cw_drive_close(struct cw_drive *drive)
{
    free(drive->slots);
    free(drive->iovs);
    cw_buffers_close(&drive->buffers);
}

struct cw_drive_slot *cw_drive_take(struct cw_drive *drive)
{
    struct cw_drive_slot *slot = drive->free_recvs;

    if (slot == NULL) {
        cw_link_fail(drive->link, "more messages are in flight than the peer may send at once");
        return NULL;
    }
    drive->free_recvs = slot->next_free;
    slot->filled = 0;
    return slot;
}

void cw_drive_check(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, const char *data, size_t size)
{
    if (size != cw_drive_size(drive, kind)) {
        cw_link_fail(drive->link, "message %llu: received %zu bytes instead of %zu", (unsigned long long)message, size,
                     cw_drive_size(drive, kind));
    } else if (kind != CW_KIND_ACK && data != NULL) {
        size_t at = cw_buffers_search(&drive->buffers, data, size, cw_pattern_key(message, kind));
        if (at != size) {
            cw_link_fail(drive->link, "message %llu: byte %zu of %zu is wrong", (unsigned long long)message, at, size);
        }
        drive->run->verified++;
    }
}

/* ---- one message ---- */

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct cw_drive_slot *slot = user_data;
    struct cw_drive *drive = slot->drive;

    ucp_request_free(request);
    drive->sends_pending--;
    slot->next_free = drive->free_sends;
    drive->free_sends = slot;
    if (status != UCS_OK) {
        cw_link_fail(drive->link, "a send failed: %s", ucs_status_string(status));
    }
}

static inline int progress(struct cw_drive *drive)
{
    if (cw_link_progress(drive->link) != 0) {
        return -1;
    }
    return drive->poll == NULL ? 0 : drive->poll(drive);
}

static int wait_sends(struct cw_drive *drive, unsigned most)
{
    while (drive->sends_pending > most) {
        unsigned before = drive->sends_pending;
        if (progress(drive) != 0) {
            return -1;
        }
        drive->link->moved += before != drive->sends_pending;
    }
    return drive->link->failed ? -1 : 0;
}

static int send_one(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message)
{
    if (drive->sends_pending >= drive->window && wait_sends(drive, drive->window - 1) != 0) {
        return -1;
    }
    /* Taken before the call into the library, whose callbacks put others back. */
    struct cw_drive_slot *slot = drive->free_sends;
    ucp_request_param_t param;

    assert(slot != NULL);
    cw_layout_begin(&param, slot);
    param.cb.send = on_sent;
    drive->free_sends = slot->next_free;
    slot->kind = kind;
    slot->message = message;
    if (drive->run->params.verify && kind != CW_KIND_ACK) {
        cw_buffers_fill(&drive->buffers, slot->buffer, drive->size, cw_pattern_key(message, kind));
    }
    cw_buffers_apply(&drive->buffers, &param);
    drive->sends_pending++;
    ucs_status_ptr_t request = drive->send(drive, slot, cw_drive_size(drive, kind), &param);
    if (UCS_PTR_IS_PTR(request)) {
        return 0;
    }
    drive->sends_pending--;
    slot->next_free = drive->free_sends;
    drive->free_sends = slot;
    if (request != NULL) {
        return cw_link_fail(drive->link, "a send failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    return 0;
}

static inline int expect(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message)
{
    return drive->expect == NULL ? 0 : drive->expect(drive, kind, message, cw_drive_size(drive, kind));
}

static inline int await(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t count)
{
    while (drive->arrived[kind] < count) {
        if (progress(drive) != 0) {
            return -1;
        }
    }
    drive->link->moved++;
    return drive->link->failed ? -1 : 0;
}

/* ---- latency ---- */

/* In loopback a trip is one message, which is its own answer: so UCX's tool counts. */
static int client_trip(struct cw_drive *drive, uint64_t message)
{
    const enum cw_drive_kind answer = drive->run->role == CW_ROLE_LOOPBACK ? CW_KIND_PING : CW_KIND_PONG;

    if (send_one(drive, CW_KIND_PING, message) != 0 || expect(drive, answer, message) != 0) {
        return -1;
    }
    return await(drive, answer, message + 1);
}

/* All of this is one process's: everything in turn. */
static int latency_loopback(struct cw_drive *drive, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    for (uint64_t i = 0; i < count; i++) {
        if (client_trip(drive, first + i) != 0) {
            return -1;
        }
        cw_meter_step(meter);
    }
    return 0;
}

/* A trip ends where the next one has begun: the clock is read, and the time noted, while that message is on its way. */
static int latency_trips(struct cw_drive *drive, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    if (count > 0 && send_one(drive, CW_KIND_PING, first) != 0) {
        return -1;
    }
    for (uint64_t i = first; i < first + count; i++) {
        if (expect(drive, CW_KIND_PONG, i) != 0 || await(drive, CW_KIND_PONG, i + 1) != 0 ||
            (i + 1 < first + count && send_one(drive, CW_KIND_PING, i + 1) != 0)) {
            return -1;
        }
        cw_meter_step(meter);
    }
    return 0;
}

static int latency_client(struct cw_drive *drive, uint64_t warmup, uint64_t count)
{
    struct cw_meter *meter = drive->run->meter;
    bool loopback = drive->run->role == CW_ROLE_LOOPBACK;

    for (uint64_t i = 0; i < warmup; i++) {
        if (client_trip(drive, i) != 0) {
            return -1;
        }
    }
    cw_meter_begin(meter);
    if ((loopback ? latency_loopback : latency_trips)(drive, warmup, count, meter) != 0) {
        return -1;
    }
    return wait_sends(drive, 0);
}

/* The next receive is posted before the answer goes out. */
static int latency_server(struct cw_drive *drive, uint64_t count)
{
    if (expect(drive, CW_KIND_PING, 0) != 0) {
        return -1;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (await(drive, CW_KIND_PING, i + 1) != 0 || (i + 1 < count && expect(drive, CW_KIND_PING, i + 1) != 0) ||
            send_one(drive, CW_KIND_PONG, i) != 0) {
            return -1;
        }
    }
    return wait_sends(drive, 0);
}

/* ---- bandwidth ---- */

static int bandwidth_send(struct cw_drive *drive, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    bool loopback = drive->run->role == CW_ROLE_LOOPBACK;
    uint64_t acknowledged = drive->arrived[CW_KIND_ACK];

    for (uint64_t i = 0; i < count; i++) {
        /* In loopback the receiver is here: no more than the window may be under way to it. */
        if (loopback && ((i >= drive->window && await(drive, CW_KIND_PING, first + i - drive->window + 1) != 0) ||
                         expect(drive, CW_KIND_PING, first + i) != 0)) {
            return -1;
        }
        if (send_one(drive, CW_KIND_PING, first + i) != 0) {
            return -1;
        }
        drive->link->moved++;
        if (meter != NULL) {
            cw_meter_step(meter);
        }
        /* Sends that finish at once never wait: the worker and the clock still need a check. */
        if ((i & 31) == 31 && cw_link_touch(drive->link) != 0) {
            return -1;
        }
    }
    if (wait_sends(drive, 0) != 0) {
        return -1;
    }
    if (loopback) {
        return await(drive, CW_KIND_PING, first + count);
    }
    if (expect(drive, CW_KIND_ACK, 0) != 0) {
        return -1;
    }
    return await(drive, CW_KIND_ACK, acknowledged + 1);
}

static int bandwidth_recv(struct cw_drive *drive, uint64_t first, uint64_t count)
{
    uint64_t posted = drive->expect == NULL ? count : 0;

    while (drive->arrived[CW_KIND_PING] < first + count) {
        uint64_t before = drive->arrived[CW_KIND_PING];
        while (posted < count && drive->expected_pending < drive->window) {
            if (expect(drive, CW_KIND_PING, first + posted) != 0) {
                return -1;
            }
            posted++;
        }
        if (drive->arrived[CW_KIND_PING] < first + count && progress(drive) != 0) {
            return -1;
        }
        drive->link->moved += before != drive->arrived[CW_KIND_PING];
    }
    if (drive->link->failed || send_one(drive, CW_KIND_ACK, 0) != 0) {
        return -1;
    }
    return wait_sends(drive, 0);
}

static int bandwidth_phase(struct cw_drive *drive, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    return drive->run->role == CW_ROLE_SERVER ? bandwidth_recv(drive, first, count)
                                              : bandwidth_send(drive, first, count, meter);
}

static int run_bandwidth(struct cw_drive *drive)
{
    const struct cw_perf_params *params = &drive->run->params;
    struct cw_meter *meter = drive->run->role == CW_ROLE_SERVER ? NULL : drive->run->meter;

    if (params->warmup > 0 && bandwidth_phase(drive, 0, params->warmup, NULL) != 0) {
        return -1;
    }
    if (meter != NULL) {
        cw_meter_begin(meter);
    }
    if (bandwidth_phase(drive, params->warmup, params->iterations, meter) != 0) {
        return -1;
    }
    if (meter != NULL) {
        cw_meter_end(meter);
    }
    return 0;
}

int cw_drive_run(struct cw_drive *drive)
{
    const struct cw_perf_params *params = &drive->run->params;

    if (!drive->run->test->latency) {
        return run_bandwidth(drive);
    }
    return drive->run->role == CW_ROLE_SERVER ? latency_server(drive, params->warmup + params->iterations)
                                              : latency_client(drive, params->warmup, params->iterations);
}
