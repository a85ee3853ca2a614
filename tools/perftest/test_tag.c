/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of tag matching: tag_lat, tag_bw and their synchronous forms.
 *
 * Latency: the client sends, the server answers; one iteration is one round trip. A receive is posted while the
 * previous message is on its way, so that posting costs no latency. In loopback both directions are this process's.
 * Bandwidth: the client keeps up to `window` sends unfinished, the server as many receives posted; after the last
 * message the server acknowledges, so that the measured time covers arrival.
 *
 * Callers: run.c through the table.
 * With --verify each slot has a buffer of its own, filled with a pattern that depends on message and position.
 */
#include "buffers.h"
#include "layout.h"
#include "tests.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TAG_PING UINT64_C(0x70696e67)
#define TAG_PONG UINT64_C(0x706f6e67)
#define TAG_ACK  UINT64_C(0x61636b00)

/* A receive in flight, or a send buffer. */
struct slot {
    struct side *side;
    struct slot *next_free;
    char *buffer;
    ucp_dt_iov_t *iov; /* NULL: contiguous */
    uint64_t message;  /* which message of its direction */
    ucp_tag_t tag;
    bool done;
};

struct side {
    struct cw_perf_run *run;
    struct cw_link *link;
    size_t size;
    ucp_tag_t mask;
    bool synchronous;
    bool lacks_recv_info; /* libraries before 1.16 do not store it when a receive completes at once (REQ-4) */
    unsigned window;
    unsigned sends_pending;
    unsigned recvs_pending;
    struct slot *free_sends;
    struct slot *free_recvs;
    struct slot *slots; /* window sends, then window receives */
    struct cw_buffers buffers;
    ucp_dt_iov_t *iovs;
};

static void side_free(struct side *side)
{
    free(side->slots);
    cw_buffers_close(&side->buffers);
    free(side->iovs);
    cw_test_free(side);
}

static void cut_slots(struct side *side, size_t room, bool shared)
{
    const struct cw_perf_params *params = &side->run->params;
    size_t window = side->window;

    for (size_t i = 0; i < 2 * window; i++) {
        struct slot *slot = &side->slots[i];
        struct slot **list = i < window ? &side->free_sends : &side->free_recvs;
        char *base = i < window ? side->buffers.base : side->buffers.receives;
        const size_t place = i < window ? i : i - window;
        *slot = (struct slot){.side = side, .next_free = *list, .buffer = base + (shared ? 0 : room * place)};
        if (i < window ? params->send_iov : params->recv_iov) {
            slot->iov = side->iovs + i * params->part_count;
            cw_layout_list(params, slot->buffer, slot->iov);
        }
        *list = slot;
    }
}

static struct side *side_new(struct cw_perf_run *run, bool synchronous)
{
    struct side *side = cw_test_new(sizeof(*side));
    unsigned major, minor, release;
    const struct cw_perf_params *params = &run->params;
    bool shared = !params->verify;
    size_t window = params->window;
    size_t buffers = shared ? 1 : window;
    size_t room = (cw_layout_extent(params) + 63) / 64 * 64 + 64;

    ucp_get_version(&major, &minor, &release);
    if (side == NULL) {
        cw_link_fail(run->link, "out of memory");
        return NULL;
    }
    *side = (struct side){
        .run = run,
        .link = run->link,
        .size = params->size,
        .mask = params->wildcard_tag ? 0 : UINT64_MAX,
        .synchronous = synchronous,
        .lacks_recv_info = minor < 16,
        .window = (unsigned)window,
    };
    side->slots = calloc(2 * window, sizeof(*side->slots));
    side->iovs = calloc(2 * window * params->part_count, sizeof(*side->iovs));
    if (side->slots == NULL || side->iovs == NULL) {
        cw_link_fail(run->link, "out of memory");
        side_free(side);
        return NULL;
    }
    if (cw_buffers_open(&side->buffers, run, buffers, buffers, room) != 0) {
        return NULL;
    }
    cut_slots(side, room, shared);
    return side;
}

/* ---- one message ---- */

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct slot *slot = user_data;
    struct side *side = slot->side;

    ucp_request_free(request);
    side->sends_pending--;
    slot->next_free = side->free_sends;
    side->free_sends = slot;
    if (status != UCS_OK) {
        cw_link_fail(side->link, "a send failed: %s", ucs_status_string(status));
    }
}

static void finish_recv(struct slot *slot, ucs_status_t status, const ucp_tag_recv_info_t *info)
{
    struct side *side = slot->side;
    size_t expected = slot->tag == TAG_ACK ? 0 : side->size;

    slot->done = true;
    side->recvs_pending--;
    slot->next_free = side->free_recvs;
    side->free_recvs = slot;
    if (status != UCS_OK) {
        cw_link_fail(side->link, "a receive failed: %s", ucs_status_string(status));
        return;
    }
    if (info->length != expected || info->sender_tag != slot->tag) {
        cw_link_fail(side->link, "message %llu: received %zu bytes with tag %llx instead of %zu with tag %llx",
                     (unsigned long long)slot->message, info->length, (unsigned long long)info->sender_tag, expected,
                     (unsigned long long)slot->tag);
        return;
    }
    if (side->run->params.verify && slot->tag != TAG_ACK) {
        size_t at = cw_buffers_search(&side->buffers, slot->buffer, side->size,
                                      cw_pattern_key(slot->message, slot->tag));
        if (at != side->size) {
            cw_link_fail(side->link, "message %llu: byte %zu of %zu is wrong", (unsigned long long)slot->message, at,
                         side->size);
            return;
        }
        /* A message that never arrives must not be taken for the one before. */
        cw_buffers_clear(&side->buffers, slot->buffer, side->size);
        side->run->verified++;
    }
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    finish_recv(user_data, status, info);
    ucp_request_free(request);
}

/* Takes a slot off a list before any call into the library, whose callbacks put others back. */
static inline struct slot *slot_take(struct slot **list)
{
    struct slot *slot = *list;

    assert(slot != NULL);
    *list = slot->next_free;
    return slot;
}

/* Buffer and count of a call; the acknowledgement is contiguous always. */
static inline const void *describe(const struct slot *slot, const struct side *side, ucp_tag_t tag, size_t size,
                                   ucp_request_param_t *param, size_t *count)
{
    cw_buffers_apply(&side->buffers, param);
    return cw_layout_apply(param, tag == TAG_ACK ? NULL : slot->iov, side->run->params.part_count, slot->buffer, size,
                           count);
}

/* Sends one message; a free send slot must exist. */
static inline int send_one(struct side *side, ucp_tag_t tag, uint64_t message, size_t size)
{
    struct slot *slot = slot_take(&side->free_sends);
    ucp_request_param_t param;

    cw_layout_begin(&param, slot);
    param.cb.send = on_sent;
    if (side->run->params.verify) {
        cw_buffers_fill(&side->buffers, slot->buffer, size, cw_pattern_key(message, tag));
    }
    size_t count;
    const void *buffer = describe(slot, side, tag, size, &param, &count);
    void *request = side->synchronous ? ucp_tag_send_sync_nbx(side->link->ep, buffer, count, tag, &param)
                                      : ucp_tag_send_nbx(side->link->ep, buffer, count, tag, &param);
    if (request != NULL && !UCS_PTR_IS_ERR(request)) {
        side->sends_pending++;
        return 0;
    }
    slot->next_free = side->free_sends;
    side->free_sends = slot;
    if (request != NULL) {
        return cw_link_fail(side->link, "ucp_tag_send_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    return 0;
}

static int wait_unexpected(struct side *side, ucp_tag_t tag)
{
    ucp_tag_recv_info_t info;

    while (ucp_tag_probe_nb(side->link->worker, tag, side->mask, 0, &info) == NULL) {
        if (cw_link_progress(side->link) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Posts one receive; a free receive slot must exist. The slot, or NULL when the link has failed. */
static inline struct slot *recv_one(struct side *side, ucp_tag_t tag, uint64_t message, size_t size)
{
    ucp_tag_recv_info_t info = {.length = side->lacks_recv_info ? size : SIZE_MAX, .sender_tag = tag};
    ucp_request_param_t param;

    if (side->run->params.probe_first && wait_unexpected(side, tag) != 0) {
        return NULL;
    }
    struct slot *slot = slot_take(&side->free_recvs);
    cw_layout_begin(&param, slot);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.cb.recv = on_received;
    param.recv_info.tag_info = &info;
    side->recvs_pending++;
    slot->tag = tag;
    slot->message = message;
    slot->done = false;
    size_t count;
    void *buffer = (void *)(uintptr_t)describe(slot, side, tag, size, &param, &count);
    void *request = ucp_tag_recv_nbx(side->link->worker, buffer, count, tag, side->mask, &param);
    if (request == NULL) {
        finish_recv(slot, UCS_OK, &info);
    } else if (UCS_PTR_IS_ERR(request)) {
        cw_link_fail(side->link, "ucp_tag_recv_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
        return NULL;
    }
    return slot;
}

static inline int wait_recv(struct side *side, const struct slot *slot)
{
    if (slot == NULL) {
        return -1;
    }
    while (!slot->done) {
        if (cw_link_progress(side->link) != 0) {
            return -1;
        }
    }
    side->link->moved++;
    return side->link->failed ? -1 : 0;
}

static int wait_sends(struct side *side, unsigned most)
{
    while (side->sends_pending > most) {
        unsigned before = side->sends_pending;
        if (cw_link_progress(side->link) != 0) {
            return -1;
        }
        side->link->moved += before != side->sends_pending;
    }
    return 0;
}

/* ---- latency ---- */

static inline int send_in_window(struct side *side, ucp_tag_t tag, uint64_t message)
{
    if (side->sends_pending >= side->window && wait_sends(side, side->window - 1) != 0) {
        return -1;
    }
    return send_one(side, tag, message, side->size);
}

/* As UCX's tool counts: a trip is one message, which is its own answer. */
static int loopback_trip(struct side *side, uint64_t message)
{
    if (send_in_window(side, TAG_PING, message) != 0) {
        return -1;
    }
    return wait_recv(side, recv_one(side, TAG_PING, message, side->size));
}

static int client_trip(struct side *side, uint64_t message)
{
    if (send_in_window(side, TAG_PING, message) != 0) {
        return -1;
    }
    return wait_recv(side, recv_one(side, TAG_PONG, message, side->size));
}

static int latency_server(struct side *side, uint64_t count)
{
    struct slot *slot = recv_one(side, TAG_PING, 0, side->size);

    for (uint64_t i = 0; i < count; i++) {
        if (wait_recv(side, slot) != 0 || send_in_window(side, TAG_PONG, i) != 0) {
            return -1;
        }
        slot = i + 1 < count ? recv_one(side, TAG_PING, i + 1, side->size) : NULL;
    }
    return wait_sends(side, 0);
}

static int loopback_trips(struct side *side, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    for (uint64_t i = first; i < first + count; i++) {
        if (loopback_trip(side, i) != 0) {
            return -1;
        }
        cw_meter_step(meter);
    }
    return 0;
}

/* A trip ends where the next one has begun: the clock is read, and the time noted, while that message is on its way. */
static int client_trips(struct side *side, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    if (count > 0 && send_in_window(side, TAG_PING, first) != 0) {
        return -1;
    }
    for (uint64_t i = first; i < first + count; i++) {
        if (wait_recv(side, recv_one(side, TAG_PONG, i, side->size)) != 0 ||
            (i + 1 < first + count && send_in_window(side, TAG_PING, i + 1) != 0)) {
            return -1;
        }
        cw_meter_step(meter);
    }
    return 0;
}

static int latency_client(struct side *side, uint64_t warmup, uint64_t count)
{
    bool loopback = side->run->role == CW_ROLE_LOOPBACK;
    struct cw_meter *meter = side->run->meter;

    for (uint64_t i = 0; i < warmup; i++) {
        if ((loopback ? loopback_trip : client_trip)(side, i) != 0) {
            return -1;
        }
    }
    cw_meter_begin(meter);
    if ((loopback ? loopback_trips : client_trips)(side, warmup, count, meter) != 0) {
        return -1;
    }
    return wait_sends(side, 0);
}

/* After a failure operations may be in flight: `side` and its buffers then last (cw_test_new()). */
static int run_latency(struct cw_perf_run *run, bool synchronous)
{
    struct side *side = side_new(run, synchronous);
    int result;

    if (side == NULL) {
        return -1;
    }
    if (run->role == CW_ROLE_SERVER) {
        result = latency_server(side, run->params.warmup + run->params.iterations);
    } else {
        result = latency_client(side, run->params.warmup, run->params.iterations);
    }
    if (result == 0) {
        side_free(side);
    }
    return result;
}

static int tag_lat(struct cw_perf_run *run)
{
    return run_latency(run, false);
}

static int tag_sync_lat(struct cw_perf_run *run)
{
    return run_latency(run, true);
}

/* ---- bandwidth ---- */

static int bandwidth_send(struct side *side, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    for (uint64_t i = 0; i < count; i++) {
        if (send_in_window(side, TAG_PING, first + i) != 0) {
            return -1;
        }
        side->link->moved++;
        if (meter != NULL) {
            cw_meter_step(meter);
        }
        /* Sends that finish at once never wait: the worker and the clock still need a check. */
        if ((i & 31) == 31 && cw_link_touch(side->link) != 0) {
            return -1;
        }
    }
    if (wait_sends(side, 0) != 0) {
        return -1;
    }
    return wait_recv(side, recv_one(side, TAG_ACK, first, 0));
}

static int bandwidth_recv(struct side *side, uint64_t first, uint64_t count)
{
    uint64_t posted = 0;

    while (posted < count || side->recvs_pending > 0) {
        while (posted < count && side->recvs_pending < side->window) {
            if (recv_one(side, TAG_PING, first + posted, side->size) == NULL) {
                return -1;
            }
            posted++;
            side->link->moved++;
        }
        unsigned before = side->recvs_pending;
        if (side->recvs_pending > 0 && cw_link_progress(side->link) != 0) {
            return -1;
        }
        side->link->moved += before != side->recvs_pending;
    }
    if (side->link->failed || wait_sends(side, 0) != 0 || send_one(side, TAG_ACK, first, 0) != 0) {
        return -1;
    }
    return wait_sends(side, 0);
}

static int bandwidth_loopback(struct side *side, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    for (uint64_t i = 0; i < count; i++) {
        while (side->recvs_pending >= side->window) {
            if (cw_link_progress(side->link) != 0) {
                return -1;
            }
        }
        if (side->run->params.probe_first) {
            if (send_in_window(side, TAG_PING, first + i) != 0 ||
                recv_one(side, TAG_PING, first + i, side->size) == NULL) {
                return -1;
            }
        } else if (recv_one(side, TAG_PING, first + i, side->size) == NULL ||
                   send_in_window(side, TAG_PING, first + i) != 0) {
            return -1;
        }
        side->link->moved++;
        if (meter != NULL) {
            cw_meter_step(meter);
        }
    }
    while (side->recvs_pending > 0) {
        if (cw_link_progress(side->link) != 0) {
            return -1;
        }
    }
    return side->link->failed ? -1 : wait_sends(side, 0);
}

static int bandwidth_phase(struct side *side, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    switch (side->run->role) {
    case CW_ROLE_SERVER:
        return bandwidth_recv(side, first, count);
    case CW_ROLE_CLIENT:
        return bandwidth_send(side, first, count, meter);
    default:
        return bandwidth_loopback(side, first, count, meter);
    }
}

static int run_bandwidth(struct cw_perf_run *run, bool synchronous)
{
    struct side *side = side_new(run, synchronous);
    bool measures = run->role != CW_ROLE_SERVER;

    if (side == NULL || (run->params.warmup > 0 && bandwidth_phase(side, 0, run->params.warmup, NULL) != 0)) {
        return -1;
    }
    if (measures) {
        cw_meter_begin(run->meter);
    }
    if (bandwidth_phase(side, run->params.warmup, run->params.iterations, measures ? run->meter : NULL) != 0) {
        return -1;
    }
    if (measures) {
        cw_meter_end(run->meter);
    }
    side_free(side);
    return 0;
}

static int tag_bw(struct cw_perf_run *run)
{
    return run_bandwidth(run, false);
}

static int tag_sync_bw(struct cw_perf_run *run)
{
    return run_bandwidth(run, true);
}

const struct cw_perf_test cw_tag_tests[] = {
    {"tag_lat", "tag match latency", "UCP tag match latency", UCP_FEATURE_TAG, true, 2, 1, tag_lat},
    {"tag_bw", "tag match bandwidth", "UCP tag match bandwidth", UCP_FEATURE_TAG, false, 1, 32, tag_bw},
    {"tag_sync_lat", "tag sync match latency", "UCP tag sync match latency", UCP_FEATURE_TAG, true, 2, 1, tag_sync_lat},
    {"tag_sync_bw", "tag sync match bandwidth", "UCP tag sync match bandwidth", UCP_FEATURE_TAG, false, 1, 32,
     tag_sync_bw},
};

const unsigned cw_tag_test_count = sizeof(cw_tag_tests) / sizeof(cw_tag_tests[0]);
