/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbered packets, see stream.h. The memory of a zcopy send is poisoned as soon as its completion has come. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_HEADER 64u
#define MAX_IOV    8u

/* Memory of one zcopy send. */
struct loan {
    struct cw_completion completion;
    struct cw_stream *stream;
    struct cw_packet_plan plan;
    char data[];
};

struct pack_state {
    const void *data;
    size_t length;
    unsigned calls;
};

static uint64_t pattern_word(uint64_t seed, size_t index)
{
    return (seed + index) * 0x9e3779b97f4a7c15u ^ (seed >> 7);
}

void cw_pattern_fill(void *data, size_t length, uint64_t seed)
{
    char *bytes = data;
    uint64_t mix = cw_hash_mix(seed);
    uint64_t word;
    size_t i;

    for (i = 0; i < length; i += sizeof(word)) {
        word = pattern_word(mix, i);
        memcpy(bytes + i, &word, (length - i < sizeof(word)) ? length - i : sizeof(word));
    }
}

void cw_stream_init(struct cw_stream *stream, uint64_t seed, const struct cw_side *sender, uint64_t count)
{
    *stream = (struct cw_stream){.seed = seed, .limits = sender->iface->limits, .count = count, .done = count == 0};
}

static size_t pick_length(const struct cw_stream *stream, uint64_t chance, size_t low, size_t high)
{
    size_t typical = (stream->typical > 0) ? stream->typical : 256;

    if (high <= low) {
        return high;
    }
    switch (chance % 16) {
    case 0:
        return high; /* the limit itself */
    case 1:
        return low;
    case 2:
        return low + (size_t)(chance >> 8) % (high - low + 1);
    default:
        typical = (typical < high - low) ? typical : high - low;
        return low + (size_t)(chance >> 8) % (typical + 1);
    }
}

void cw_stream_plan(const struct cw_stream *stream, uint64_t number, struct cw_packet_plan *plan)
{
    const struct cw_limits *limits = &stream->limits;
    uint64_t chance = cw_hash_mix(stream->seed ^ (number * 0x9e3779b97f4a7c15u));
    uint64_t more = cw_hash_mix(chance);
    int can_zcopy = cw_subject.transport->packets->send_zcopy != NULL && limits->max_zcopy > 0;
    int can_short = cw_subject.transport->packets->send_short != NULL;

    *plan = (struct cw_packet_plan){.id = (uint8_t)(1 + (chance >> 32) % 255), .seed = chance ^ more};
    plan->slot = (enum cw_slot)(more % 3);
    if ((plan->slot == CW_SLOT_ZCOPY && !can_zcopy) || (plan->slot == CW_SLOT_SHORT && !can_short)) {
        plan->slot = CW_SLOT_BCOPY;
    }
    switch (plan->slot) {
    case CW_SLOT_SHORT:
        plan->length = pick_length(stream, more >> 8, sizeof(uint64_t), sizeof(uint64_t) + limits->max_short);
        break;
    case CW_SLOT_BCOPY:
        plan->length = pick_length(stream, more >> 8, 0, limits->max_bcopy);
        break;
    case CW_SLOT_ZCOPY:
        plan->length = pick_length(stream, more >> 8, 0, limits->max_zcopy);
        plan->header_length = (chance >> 40) % (MAX_HEADER + 1);
        plan->header_length = (plan->header_length < plan->length) ? plan->header_length : plan->length;
        plan->iov_count = 1 + (unsigned)(chance >> 48) % ((limits->max_iov < MAX_IOV) ? limits->max_iov : MAX_IOV);
        break;
    }
}

static size_t pack(void *dest, size_t max, void *arg)
{
    struct pack_state *state = arg;

    state->calls++;
    if (!cw_check(state->length <= max, "pack is offered %zu bytes instead of %zu", max, state->length)) {
        return 0;
    }
    memcpy(dest, state->data, state->length);
    return state->length;
}

static void loan_done(struct cw_completion *completion, ucs_status_t status)
{
    struct loan *loan = cw_container_of(completion, struct loan, completion);
    size_t length = loan->plan.length;
    char *expected = malloc(length + 1);

    cw_check(cw_rig_may_complete(), "the completion of a zcopy send was called from inside another call");
    cw_check(status != UCS_INPROGRESS, "the completion of a zcopy send got UCS_INPROGRESS");
    cw_pattern_fill(expected, length, loan->plan.seed);
    cw_check(memcmp(expected, loan->data, length) == 0, "a zcopy send changed its payload");
    free(expected);
    loan->stream->outstanding--;
    loan->stream->canceled += status != UCS_OK;
    memset(loan->data, 0xee, length);
    free(loan);
}

static ucs_status_t send_zcopy(struct cw_end *end, struct cw_stream *stream, const struct cw_packet_plan *plan)
{
    struct loan *loan = malloc(sizeof(*loan) + plan->length);
    char header[MAX_HEADER];
    struct iovec iov[MAX_IOV];
    size_t rest = plan->length - plan->header_length;
    char *next;
    ucs_status_t status;
    unsigned i;

    *loan = (struct loan){.completion = {.done = loan_done}, .stream = stream, .plan = *plan};
    cw_pattern_fill(loan->data, plan->length, plan->seed);
    memcpy(header, loan->data, plan->header_length);
    next = loan->data + plan->header_length;
    for (i = 0; i < plan->iov_count; i++) {
        iov[i].iov_base = next;
        iov[i].iov_len = (i + 1 == plan->iov_count) ? rest : rest / 2;
        next += iov[i].iov_len;
        rest -= iov[i].iov_len;
    }
    stream->outstanding++;
    status = cw_subject.transport->packets->send_zcopy(end->conn, plan->id, header, plan->header_length, iov,
                                                       plan->iov_count, &loan->completion);
    memset(header, 0xee, sizeof(header));
    memset(iov, 0xee, sizeof(iov));
    if (status != UCS_INPROGRESS) {
        stream->outstanding--;
        memset(loan->data, 0xee, plan->length);
        free(loan);
    }
    return status;
}

ucs_status_t cw_packet_send(struct cw_end *end, struct cw_stream *stream, const struct cw_packet_plan *plan)
{
    const struct cw_transport *transport = cw_subject.transport;
    struct pack_state state = {.length = plan->length};
    ucs_status_t status;
    uint64_t header;
    char *data;

    if (plan->slot == CW_SLOT_ZCOPY) {
        return send_zcopy(end, stream, plan);
    }
    data = malloc(plan->length + 1);
    cw_pattern_fill(data, plan->length, plan->seed);
    if (plan->slot == CW_SLOT_SHORT) {
        memcpy(&header, data, sizeof(header));
        status = transport->packets->send_short(end->conn, plan->id, header, data + sizeof(header),
                                       plan->length - sizeof(header));
    } else {
        state.data = data;
        status = transport->packets->send_bcopy(end->conn, plan->id, plan->length, pack, &state);
        /* a connection that is found broken while the packet is handed to the system may have packed it */
        cw_check(state.calls == (status == UCS_OK) || (state.calls == 1 && status != CW_AGAIN),
                 "a send_bcopy that answers %d called pack %u times", status, state.calls);
    }
    memset(data, 0xee, plan->length);
    free(data);
    cw_check(status != UCS_INPROGRESS, "send_%s answers UCS_INPROGRESS",
             (plan->slot == CW_SLOT_SHORT) ? "short" : "bcopy");
    return status;
}

int cw_packet_check(const struct cw_packet_plan *plan, uint8_t id, const void *data, size_t length)
{
    const char *bytes = data;
    char *expected;
    size_t i = 0;

    if (!cw_check(length == plan->length, "a packet of %zu bytes came instead of one of %zu (slot %d)", length,
                  plan->length, plan->slot) ||
        !cw_check(id == plan->id, "a packet came with id %u instead of %u", id, plan->id)) {
        return 0;
    }
    expected = malloc(length + 1);
    cw_pattern_fill(expected, length, plan->seed);
    if (length > 0 && memcmp(expected, bytes, length) != 0) {
        while (expected[i] == bytes[i]) {
            i++;
        }
        cw_check(0, "byte %zu of a packet of %zu is wrong (slot %d)", i, length, plan->slot);
    }
    free(expected);
    return 1;
}

unsigned cw_stream_push(struct cw_end *end, unsigned max)
{
    struct cw_stream *stream = end->sending;
    struct cw_packet_plan plan;
    unsigned taken = 0;
    ucs_status_t status;

    while (taken < max && !stream->blocked && !stream->done && end->conn != NULL) {
        cw_stream_plan(stream, stream->next, &plan);
        status = cw_packet_send(end, stream, &plan);
        if (status == CW_AGAIN) {
            stream->blocked = 1;
            stream->again++;
        } else if (status == UCS_OK || status == UCS_INPROGRESS) {
            taken++;
            stream->next++;
            stream->done = stream->next == stream->count;
        } else {
            stream->status = status;
            stream->done = 1;
        }
    }
    return taken;
}

void cw_stream_room(struct cw_end *end)
{
    end->sending->blocked = 0;
}

void cw_stream_receive(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    struct cw_stream *stream = end->receiving;
    struct cw_packet_plan plan;

    if (!cw_check(stream->next < stream->count, "a packet came after the last one")) {
        return;
    }
    cw_stream_plan(stream, stream->next, &plan);
    if (!cw_packet_check(&plan, id, data, length)) {
        cw_check(0, "number %llu is wrong", (unsigned long long)stream->next);
    }
    stream->next++;
    stream->done = stream->next == stream->count;
}

static int is_done(const struct cw_end *from, const struct cw_end *to)
{
    return from == NULL || from->sending == NULL ||
           (from->sending->done && from->sending->outstanding == 0 && to->receiving->done);
}

void cw_stream_run(struct cw_rig *rig, struct cw_end *one, struct cw_end *other)
{
    uint64_t deadline = cw_deadline();
    uint64_t last = 0;
    uint64_t now;

    while (!is_done(one, other) || !is_done(other, one)) {
        if (one->sending != NULL) {
            cw_stream_push(one, 64);
        }
        if (other->sending != NULL) {
            cw_stream_push(other, 64);
        }
        cw_rig_progress(rig);
        now = (one->receiving != NULL) ? one->receiving->next : 0;
        now += (other->receiving != NULL) ? other->receiving->next : 0;
        if (now != last) { /* slow is no failure, standing still is */
            last = now;
            deadline = cw_deadline();
        }
        cw_check((one->sending == NULL || one->sending->status == UCS_OK) &&
                 (other->sending == NULL || other->sending->status == UCS_OK), "a send failed on a healthy connection");
        cw_deadline_check(deadline, "the rest of a stream (all sent and acknowledged by `room`?)");
    }
}
