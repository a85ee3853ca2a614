/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of a test in which one side acts on the other's memory.
 *
 * Callers: test_rma.c, test_amo.c.
 * The client reports to the server four times a second that it is alive, for the server sees nothing of what is done to
 * its memory. A question is three numbers of 8 bytes in the order of the processor, its answer is one: both sides are
 * the same release, and memory that both change atomically has one order anyway.
 */
#include "origin.h"

#include <stdlib.h>
#include <string.h>

#define ALIVE_NS   250000000.0
#define MOST_POSTS 1024u

/*
 * Where messages of the warm-up took less than SHORT_NS, reading the clock for each would be a good part of what is
 * measured: it is read for STRIDE of them together.
 */
#define SHORT_NS     200.0
#define STRIDE       16u
#define LEAST_SAMPLE 100u

#define TOUCH_EVERY 32u

/* A round of one message would be little else than questions. */
#define LEAST_ROUND 8u

/* ---- set-up ---- */

static void on_done(void *request, ucs_status_t status, void *user_data);

static void cut_slots(struct cw_origin *origin, char *buffers, bool shared)
{
    const struct cw_perf_params *params = &origin->run->params;

    for (size_t i = 0; i < origin->window; i++) {
        struct cw_origin_slot *slot = &origin->slots[i];
        ucp_dt_iov_t *iov = params->send_iov ? origin->iovs + i * params->part_count : NULL;
        *slot = (struct cw_origin_slot){
            .origin = origin,
            .next_free = origin->free,
            .buffer = buffers + (shared ? 0 : i * origin->room),
            .target = origin->region.remote,
            .param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .cb.send = on_done,
                .user_data = slot,
            },
        };
        if (iov != NULL) {
            cw_layout_list(params, slot->buffer, iov);
        }
        cw_region_apply(&origin->region, params, &slot->param);
        slot->data = cw_layout_apply(&slot->param, iov, params->part_count, slot->buffer, origin->size, &slot->count);
        if (origin->ops->prepare != NULL) {
            origin->ops->prepare(origin, slot);
        }
        origin->free = slot;
    }
}

static int open_origin(struct cw_origin *origin, const struct cw_origin_ops *ops, struct cw_perf_run *run)
{
    const struct cw_perf_params *params = &run->params;
    size_t window = params->window;
    size_t round = window > LEAST_ROUND ? window : LEAST_ROUND;
    size_t targets = params->verify && !ops->one_word ? round : 1;
    size_t buffers = params->verify || ops->one_word ? window : 1;

    *origin = (struct cw_origin){
        .run = run,
        .link = run->link,
        .ops = ops,
        .size = params->size,
        .window = (unsigned)window,
        .round = (unsigned)round,
        .stride = 1,
        .room = (cw_layout_extent(params) + 63) / 64 * 64 + 64,
    };
    if (params->recv_iov) {
        return cw_link_fail(run->link, "remote memory is contiguous: -D takes one layout in one-sided tests");
    }
    if (origin->room > SIZE_MAX / 2 / (targets + buffers)) {
        return cw_link_fail(run->link, "out of memory for %zu buffers of %zu bytes", targets + buffers, origin->room);
    }
    origin->slots = calloc(window, sizeof(*origin->slots));
    origin->iovs = calloc(window * params->part_count, sizeof(*origin->iovs));
    if (origin->slots == NULL || origin->iovs == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    if (cw_region_open(&origin->region, run, origin->room * targets, origin->room * buffers) != 0 ||
        cw_buffers_over(&origin->content, run, origin->region.base, origin->room * targets, origin->region.local,
                        origin->room * buffers, origin->room) != 0) {
        return -1;
    }
    origin->targets = origin->region.base;
    cut_slots(origin, origin->region.local, buffers == 1);
    return 0;
}

/* ---- the server's part ---- */

/* Waits for the next word of the client, in progress or, with -o, not. */
static int hear(struct cw_origin *origin, enum cw_oob_type *type, uint64_t question[3])
{
    const unsigned types = 1u << CW_OOB_ALIVE | 1u << CW_OOB_ASK | 1u << CW_OOB_END;
    struct cw_link *link = origin->link;
    unsigned calls = 0;
    void *payload;
    size_t length;

    while (!origin->run->params.idle_target && !link->oob_waits) {
        if (cw_link_progress(link) != 0) {
            return -1;
        }
        if ((++calls & 1023) == 0 && !link->oob_waits && cw_oob_check(link->oob, &link->oob_waits) != 0) {
            return cw_link_fail(link, "%s", cw_oob_error());
        }
    }
    link->oob_waits = false;
    if (cw_oob_recv(link->oob, types, type, &payload, &length) != 0) {
        return cw_link_fail(link, "%s", cw_oob_error());
    }
    int result = 0;
    if (length != (*type == CW_OOB_ASK ? 3 * sizeof(uint64_t) : 0)) {
        result = cw_link_fail(link, "invalid request of %zu bytes from the client", length);
    } else {
        memcpy(question, payload, length);
        link->moved++;
    }
    free(payload);
    return result;
}

static int serve(struct cw_origin *origin)
{
    enum cw_oob_type type;
    uint64_t question[3] = {0}, reply = 0;

    for (;;) {
        if (hear(origin, &type, question) != 0) {
            return -1;
        }
        if (type == CW_OOB_END) {
            return 0;
        }
        if (type == CW_OOB_ALIVE) {
            continue;
        }
        if (question[2] > origin->round) {
            return cw_link_fail(origin->link, "the client requested more messages than a round has");
        }
        if (origin->ops->answer(origin, (enum cw_origin_question)question[0], question[1], question[2], &reply) != 0) {
            return -1;
        }
        if (cw_oob_send(origin->link->oob, CW_OOB_ASK, &reply, sizeof(reply)) != 0) {
            return cw_link_fail(origin->link, "%s", cw_oob_error());
        }
    }
}

/* ---- the client's part ---- */

int cw_origin_ask(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                  uint64_t *reply)
{
    struct cw_oob *oob = origin->link->oob;
    uint64_t question[3] = {what, first, count};
    enum cw_oob_type type;
    void *payload;
    size_t length;

    if (oob == NULL) {
        return origin->ops->answer(origin, what, first, count, reply);
    }
    if (cw_oob_send(oob, CW_OOB_ASK, question, sizeof(question)) != 0 ||
        cw_oob_recv(oob, 1u << CW_OOB_ASK, &type, &payload, &length) != 0) {
        return cw_link_fail(origin->link, "%s", cw_oob_error());
    }
    origin->link->oob_waits = false;
    bool sound = length == sizeof(*reply);
    if (sound) {
        memcpy(reply, payload, sizeof(*reply));
    }
    free(payload);
    return sound ? 0 : cw_link_fail(origin->link, "received a reply of %zu bytes from the server instead of 8", length);
}

static int send_alive(struct cw_origin *origin, uint64_t now)
{
    origin->alive_due = now + (uint64_t)(ALIVE_NS / cw_ticks_ns());
    if (origin->link->oob != NULL && cw_oob_send(origin->link->oob, CW_OOB_ALIVE, NULL, 0) != 0) {
        return cw_link_fail(origin->link, "%s", cw_oob_error());
    }
    return 0;
}

static void on_done(void *request, ucs_status_t status, void *user_data)
{
    struct cw_origin_slot *slot = user_data;
    struct cw_origin *origin = slot->origin;

    ucp_request_free(request);
    if (status != UCS_OK) {
        cw_link_fail(origin->link, "an operation failed: %s", ucs_status_string(status));
    } else if (origin->run->params.verify && origin->ops->finish != NULL) {
        origin->ops->finish(origin, slot);
    }
    slot->next_free = origin->free;
    origin->free = slot;
    origin->pending--;
}

static int await_pending(struct cw_origin *origin, unsigned most)
{
    while (origin->pending > most) {
        if (cw_link_progress(origin->link) != 0) {
            return -1;
        }
    }
    return origin->link->failed ? -1 : 0;
}

static void on_flushed(void *request, ucs_status_t status, void *user_data)
{
    struct cw_origin *origin = user_data;

    ucp_request_free(request);
    origin->flushes--;
    if (status != UCS_OK) {
        cw_link_fail(origin->link, "a flush failed: %s", ucs_status_string(status));
    }
}

/* Begins a flush and waits until at most `most` are unfinished. */
static int flush(struct cw_origin *origin, unsigned most)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_flushed,
        .user_data = origin,
    };
    ucs_status_ptr_t request = ucp_ep_flush_nbx(origin->link->ep, &param);

    origin->posted = 0;
    if (UCS_PTR_IS_ERR(request)) {
        return cw_link_fail(origin->link, "ucp_ep_flush_nbx failed: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    origin->flushes += request != NULL;
    while (origin->flushes > most) {
        if (cw_link_progress(origin->link) != 0) {
            return -1;
        }
    }
    origin->link->moved++;
    return origin->link->failed ? -1 : 0;
}

/* The operation is not over in its call, or failed. Its callback may have come already. */
static int set_aside(struct cw_origin *origin, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        return cw_link_fail(origin->link, "starting an operation failed: %s",
                            ucs_status_string(UCS_PTR_STATUS(request)));
    }
    origin->next = NULL;
    origin->pending++;
    return 0;
}

static struct cw_origin_slot *take_slot(struct cw_origin *origin)
{
    if (await_pending(origin, origin->window - 1) != 0) {
        return NULL;
    }
    origin->next = origin->free;
    origin->free = origin->next->next_free;
    return origin->next;
}

static inline int issue(struct cw_origin *origin, uint64_t message, bool verify)
{
    const struct cw_origin_ops *ops = origin->ops;
    struct cw_origin_slot *slot = origin->next;

    if (__builtin_expect(slot == NULL, 0)) {
        slot = take_slot(origin);
        if (slot == NULL) {
            return -1;
        }
    }
    slot->message = message;
    if (verify) {
        slot->target = origin->region.remote + cw_origin_offset(origin, message);
        if (ops->fill != NULL) {
            ops->fill(origin, slot);
        }
    }
    ucs_status_ptr_t request = ops->start(origin, slot);
    if (__builtin_expect(request != NULL, 0)) {
        return set_aside(origin, request);
    }
    if (verify && ops->finish != NULL) {
        ops->finish(origin, slot);
    }
    return 0;
}

/* A few messages, for which the clock is read once. */
static int issue_all(struct cw_origin *origin, uint64_t first, unsigned count)
{
    if (origin->run->params.verify) {
        for (unsigned i = 0; i < count; i++) {
            if (issue(origin, first + i, true) != 0) {
                return -1;
            }
        }
    } else {
        for (unsigned i = 0; i < count; i++) {
            if (issue(origin, first + i, false) != 0) {
                return -1;
            }
        }
    }
    origin->link->moved += count;
    origin->posted += count;
    return origin->ops->posts && origin->posted >= MOST_POSTS ? flush(origin, 1) : 0;
}

static inline uint64_t read_clock(struct cw_meter *meter, unsigned messages)
{
    if (meter == NULL) {
        return cw_ticks_now();
    }
    cw_meter_step_many(meter, messages);
    return meter->previous;
}

/* One round: all messages of a phase where they are not verified. */
static int run_round(struct cw_origin *origin, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    unsigned untouched = 0;

    for (uint64_t done = 0; done < count;) {
        unsigned part = count - done < origin->stride ? (unsigned)(count - done) : origin->stride;
        if (issue_all(origin, first + done, part) != 0 ||
            (origin->pending >= origin->window && await_pending(origin, origin->window - 1) != 0)) {
            return -1;
        }
        done += part;
        untouched += part;
        uint64_t now = read_clock(meter, part);
        if (__builtin_expect(now >= origin->alive_due, 0) && send_alive(origin, now) != 0) {
            return -1;
        }
        /* Operations that finish at once never wait: the worker and the clock still need a check. */
        if (untouched >= TOUCH_EVERY) {
            untouched = 0;
            if (cw_link_touch(origin->link) != 0) {
                return -1;
            }
        }
    }
    return await_pending(origin, 0);
}

static int run_verified(struct cw_origin *origin, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    const struct cw_origin_ops *ops = origin->ops;

    for (uint64_t done = 0; done < count;) {
        uint64_t part = count - done < origin->round ? count - done : origin->round;
        if ((ops->before != NULL && ops->before(origin, first + done, part) != 0) ||
            run_round(origin, first + done, part, meter) != 0 || flush(origin, 0) != 0 ||
            (ops->after != NULL && ops->after(origin, first + done, part) != 0)) {
            return -1;
        }
        done += part;
    }
    return 0;
}

static int run_phase(struct cw_origin *origin, uint64_t first, uint64_t count, struct cw_meter *meter)
{
    if (origin->run->params.verify) {
        return run_verified(origin, first, count, meter);
    }
    return run_round(origin, first, count, meter) != 0 ? -1 : flush(origin, 0);
}

static int act(struct cw_origin *origin)
{
    const struct cw_perf_params *params = &origin->run->params;
    struct cw_meter *meter = origin->run->meter;
    uint64_t start = cw_ticks_now();

    if (run_phase(origin, 0, params->warmup, NULL) != 0) {
        return -1;
    }
    double warmup_ns = (double)(cw_ticks_now() - start) * cw_ticks_ns();
    if (params->warmup >= LEAST_SAMPLE && warmup_ns < SHORT_NS * (double)params->warmup) {
        origin->stride = STRIDE;
    }
    cw_meter_begin(meter);
    if (run_phase(origin, params->warmup, params->iterations, meter) != 0) {
        return -1;
    }
    if (!origin->run->test->latency) {
        cw_meter_end(meter);
    }
    if (origin->link->oob != NULL && cw_oob_send(origin->link->oob, CW_OOB_END, NULL, 0) != 0) {
        return cw_link_fail(origin->link, "%s", cw_oob_error());
    }
    return 0;
}

int cw_origin_run(struct cw_origin *origin, const struct cw_origin_ops *ops, struct cw_perf_run *run)
{
    if (open_origin(origin, ops, run) != 0 || cw_link_barrier(run->link) != 0) {
        return -1;
    }
    if ((run->role == CW_ROLE_SERVER ? serve(origin) : act(origin)) != 0) {
        return -1;
    }
    if (cw_link_barrier(run->link) != 0 || cw_region_close(&origin->region) != 0) {
        return -1;
    }
    cw_buffers_leave(&origin->content);
    free(origin->slots);
    free(origin->iovs);
    return 0;
}
