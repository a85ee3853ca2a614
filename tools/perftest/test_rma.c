/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of put and get: ucp_put_lat, ucp_put_bw, ucp_get, ucp_get_bw.
 *
 * ucp_put_lat is a ping-pong: each side puts into the other's memory and watches the last byte of its own, which is
 * another one in each message. The others act on the server's memory alone (origin.c).
 *
 * Callers: run.c through the table.
 */
#include "origin.h"

#include <stdlib.h>
#include <string.h>

/* ---- put latency ---- */

/* How often the last byte is checked for each call of the worker's progress. */
#define POLLS 16

/* The bytes of a message may come in any order (RMA-6): how long after the last one the others may take. */
#define STRAGGLE_NS UINT64_C(2000000000)

enum { PING, PONG, DIRECTIONS };

struct pingpong {
    struct cw_perf_run *run;
    struct cw_link *link;
    struct cw_region region;
    size_t size;
    size_t room;
    bool pending;
    char *send_buffer[DIRECTIONS];
    uint8_t *arrival[DIRECTIONS]; /* where messages of the peer arrive */
    uint64_t target[DIRECTIONS];  /* where they arrive at the peer */
    ucp_dt_iov_t iov[DIRECTIONS][CW_PERF_MAX_PARTS];
};

static uint8_t mark_of(uint64_t message)
{
    return (uint8_t)(message + 1);
}

static void on_put(void *request, ucs_status_t status, void *user_data)
{
    struct pingpong *test = user_data;

    ucp_request_free(request);
    test->pending = false;
    if (status != UCS_OK) {
        cw_link_fail(test->link, "a put failed: %s", ucs_status_string(status));
    }
}

/* The buffer is free again when the previous put has ended here. */
static inline int put(struct pingpong *test, int direction, uint64_t message)
{
    const struct cw_perf_params *params = &test->run->params;
    ucp_request_param_t param;
    char *buffer = test->send_buffer[direction];
    size_t count;

    cw_layout_begin(&param, test);
    param.cb.send = on_put;
    while (test->pending) {
        if (cw_link_progress(test->link) != 0) {
            return -1;
        }
    }
    if (params->verify) {
        cw_pattern_fill(buffer, test->size, cw_pattern_key(message, (uint64_t)direction));
    }
    buffer[test->size - 1] = (char)mark_of(message);
    cw_region_apply(&test->region, params, &param);
    const void *data = cw_layout_apply(&param, params->send_iov ? test->iov[direction] : NULL, params->part_count,
                                       buffer, test->size, &count);
    test->pending = true;
    ucs_status_ptr_t request =
        ucp_put_nbx(test->link->ep, data, count, test->target[direction], test->region.rkey, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        test->pending = false;
        if (request != NULL) {
            return cw_link_fail(test->link, "ucp_put_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
        }
    }
    return 0;
}

static int verify(struct pingpong *test, int direction, uint64_t message)
{
    const char *data = (const char *)test->arrival[direction];
    uint64_t deadline_ns = 0, key = cw_pattern_key(message, (uint64_t)direction);
    size_t size = test->size - 1, at;

    while ((at = cw_pattern_search(data, size, key)) != size) {
        if (deadline_ns == 0) {
            deadline_ns = cw_clock_ns() + STRAGGLE_NS;
        } else if (cw_clock_ns() > deadline_ns) {
            return cw_link_fail(test->link, "message %llu: byte %zu of %zu is wrong, long after the last one arrived",
                                (unsigned long long)message, at, test->size);
        }
        if (cw_link_progress(test->link) != 0) {
            return -1;
        }
    }
    test->run->verified++;
    return 0;
}

static inline int await(struct pingpong *test, int direction, uint64_t message)
{
    const uint8_t *last = test->arrival[direction] + test->size - 1;
    uint8_t mark = mark_of(message);

    for (unsigned polls = 1; __atomic_load_n(last, __ATOMIC_ACQUIRE) != mark; polls++) {
        if (polls % POLLS == 0 && cw_link_progress(test->link) != 0) {
            return -1;
        }
    }
    test->link->moved++;
    return test->run->params.verify ? verify(test, direction, message) : 0;
}

static inline int trip(struct pingpong *test, uint64_t message)
{
    if (put(test, PING, message) != 0) {
        return -1;
    }
    /* Messages that come at once never wait: the worker and the clock still need a check. */
    if ((message & 63) == 63 && cw_link_touch(test->link) != 0) {
        return -1;
    }
    /* In loopback the message is its own answer: so UCX's tool counts. */
    return await(test, test->run->role == CW_ROLE_LOOPBACK ? PING : PONG, message);
}

static int play(struct pingpong *test)
{
    uint64_t warmup = test->run->params.warmup, count = test->run->params.iterations;

    if (test->run->role == CW_ROLE_SERVER) {
        for (uint64_t i = 0; i < warmup + count; i++) {
            if (await(test, PING, i) != 0 || put(test, PONG, i) != 0 ||
                ((i & 63) == 63 && cw_link_touch(test->link) != 0)) {
                return -1;
            }
        }
    } else {
        for (uint64_t i = 0; i < warmup; i++) {
            if (trip(test, i) != 0) {
                return -1;
            }
        }
        cw_meter_begin(test->run->meter);
        for (uint64_t i = 0; i < count; i++) {
            if (trip(test, warmup + i) != 0) {
                return -1;
            }
            cw_meter_step(test->run->meter);
        }
    }
    while (test->pending) {
        if (cw_link_progress(test->link) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_put_latency(const struct cw_perf_run *run)
{
    if (run->params.size == 0) {
        return cw_link_fail(run->link, "a put is detected by its last byte: use a size (-s) of at least 1");
    }
    if (run->params.sleep) {
        return cw_link_fail(run->link, "a put causes no event: ucp_put_lat cannot sleep (-E sleep)");
    }
    if (run->params.recv_iov) {
        return cw_link_fail(run->link, "remote memory is contiguous: -D takes one layout in one-sided tests");
    }
    return 0;
}

static int run_put_latency(struct cw_perf_run *run)
{
    size_t room = (cw_layout_extent(&run->params) + 63) / 64 * 64 + 128;
    struct pingpong *test;

    if (check_put_latency(run) != 0) {
        return -1;
    }
    test = cw_test_new(sizeof(*test));
    if (test == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    test->run = run;
    test->link = run->link;
    test->size = run->params.size;
    if (cw_region_open(&test->region, run, 2 * DIRECTIONS * room, 0) != 0) {
        return -1;
    }
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        test->arrival[direction] = (uint8_t *)test->region.base + (size_t)direction * room;
        test->target[direction] = test->region.remote + (size_t)direction * room;
        test->send_buffer[direction] = test->region.base + (size_t)(DIRECTIONS + direction) * room;
        cw_layout_list(&run->params, test->send_buffer[direction], test->iov[direction]);
    }
    if (cw_link_barrier(run->link) != 0 || play(test) != 0 || cw_link_barrier(run->link) != 0 ||
        cw_region_close(&test->region) != 0) {
        return -1;
    }
    cw_test_free(test);
    return 0;
}

/* ---- put bandwidth ---- */

static ucs_status_ptr_t start_put(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    return ucp_put_nbx(origin->link->ep, slot->data, slot->count, slot->target, origin->region.rkey, &slot->param);
}

static void fill_put(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    cw_buffers_fill(&origin->content, slot->buffer, origin->size, cw_pattern_key(slot->message, 0));
}

static int ask_check(struct cw_origin *origin, uint64_t first, uint64_t count)
{
    uint64_t reply;

    return cw_origin_ask(origin, CW_ORIGIN_CHECK, first, count, &reply);
}

static int answer_put(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                      uint64_t *reply)
{
    if (what != CW_ORIGIN_CHECK) {
        return cw_link_fail(origin->link, "the client's request belongs to another test");
    }
    for (uint64_t message = first; message < first + count; message++) {
        char *data = origin->targets + cw_origin_offset(origin, message);
        size_t at = cw_buffers_search(&origin->content, data, origin->size, cw_pattern_key(message, 0));
        if (at != origin->size) {
            return cw_link_fail(origin->link, "message %llu: byte %zu of %zu is wrong after the flush",
                                (unsigned long long)message, at, origin->size);
        }
        cw_buffers_clear(&origin->content, data, origin->size);
        origin->run->verified++;
    }
    *reply = count;
    return 0;
}

/* ---- get ---- */

static ucs_status_ptr_t start_get(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    return ucp_get_nbx(origin->link->ep, (void *)(uintptr_t)slot->data, slot->count, slot->target, origin->region.rkey,
                       &slot->param);
}

static void finish_get(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    size_t at = cw_buffers_search(&origin->content, slot->buffer, origin->size, cw_pattern_key(slot->message, 0));
    if (at != origin->size) {
        cw_link_fail(origin->link, "message %llu: byte %zu of %zu is wrong", (unsigned long long)slot->message, at,
                     origin->size);
    }
    cw_buffers_clear(&origin->content, slot->buffer, origin->size);
    origin->run->verified++;
}

static int ask_prepare(struct cw_origin *origin, uint64_t first, uint64_t count)
{
    uint64_t reply;

    return cw_origin_ask(origin, CW_ORIGIN_PREPARE, first, count, &reply);
}

static int answer_get(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                      uint64_t *reply)
{
    if (what != CW_ORIGIN_PREPARE) {
        return cw_link_fail(origin->link, "the client's request belongs to another test");
    }
    for (uint64_t message = first; message < first + count; message++) {
        cw_buffers_fill(&origin->content, origin->targets + cw_origin_offset(origin, message), origin->size,
                        cw_pattern_key(message, 0));
    }
    *reply = count;
    return 0;
}

static int run_origin(struct cw_perf_run *run, const struct cw_origin_ops *direction)
{
    struct cw_origin *origin = cw_test_new(sizeof(*origin));

    if (origin == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    if (cw_origin_run(origin, direction, run) != 0) {
        return -1;
    }
    cw_test_free(origin);
    return 0;
}

static int run_put(struct cw_perf_run *run)
{
    static const struct cw_origin_ops direction = {
        .start = start_put,
        .fill = fill_put,
        .after = ask_check,
        .answer = answer_put,
    };

    return run_origin(run, &direction);
}

static int run_get(struct cw_perf_run *run)
{
    static const struct cw_origin_ops direction = {
        .start = start_get,
        .finish = finish_get,
        .before = ask_prepare,
        .answer = answer_get,
    };

    return run_origin(run, &direction);
}

const struct cw_perf_test cw_rma_tests[] = {
    {"ucp_put_lat", "put latency", "UCP put latency", UCP_FEATURE_RMA, true, 2, 1, run_put_latency},
    {"ucp_put_bw", "put bandwidth", "UCP put bandwidth, rate", UCP_FEATURE_RMA, false, 1, 32, run_put},
    {"ucp_get", "get latency / bandwidth / message rate", "UCP get latency", UCP_FEATURE_RMA, true, 1, 1, run_get},
    {"ucp_get_bw", "get bandwidth", "UCP get bandwidth, rate", UCP_FEATURE_RMA, false, 1, 32, run_get},
};

const unsigned cw_rma_test_count = sizeof(cw_rma_tests) / sizeof(cw_rma_tests[0]);
