/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of an actor. An operation is known to its callback by a token of place and generation, so that a
 * second completion, or one of a request that was freed, is noticed whenever it comes. What is sent is a part of one
 * pattern, and the tag (header, position in the stream) says which.
 */
#define _GNU_SOURCE
#include "actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OFFSETS = 4096, AM_ID = 3, CLASSES = 3 };

struct am_header {
    uint32_t id;
    uint32_t offset;
    uint8_t more[200];
};

const char *const actor_names[ACTOR_KINDS] = {
    "tag send", "tag send sync", "tag receive", "probe and receive", "active message", "active message to reply_ep",
    "receive of an announced active message", "stream send", "stream receive", "put", "get", "fetching atomic",
    "posted atomic", "flush", "flush of the worker", "fence", "cancel"};

static struct actor *self; /* one per process */
static char pattern[ACTOR_MOST + OFFSETS];

const char *actor_pattern(void)
{
    if (pattern[1] == 0) {
        for (size_t i = 0; i < sizeof(pattern); i++) {
            pattern[i] = (char)(i * 167 + (i >> 8) * 13 + 1);
        }
    }
    return pattern;
}

/* The stream is the pattern, again and again. */
static bool stream_is_right(uint64_t at, const char *bytes, size_t length)
{
    size_t from = at % ACTOR_MOST, part = (length < ACTOR_MOST - from) ? length : ACTOR_MOST - from;

    return memcmp(bytes, pattern + from, part) == 0 && memcmp(bytes + part, pattern, length - part) == 0;
}

static size_t some_length(struct actor *actor)
{
    static const size_t limits[] = {8, 64, 64, 1500, 8192, 40000, 100000, 300000, ACTOR_MOST - 1};
    size_t most = limits[cw_random_below(&actor->random, sizeof(limits) / sizeof(limits[0]))];

    return cw_random_below(&actor->random, most) + !cw_one_in(&actor->random, 4);
}

static struct actor_op *token_op(void *token, struct actor_peer **peer_p)
{
    uintptr_t value = (uintptr_t)token;
    size_t peer = value >> 8 & 0xff, index = value & 0xff;
    struct actor_op *op;

    cw_check(peer <= ACTOR_PEERS && index < ACTOR_OPS);
    *peer_p = peer < ACTOR_PEERS ? &self->peers[peer] : NULL;
    op = peer < ACTOR_PEERS ? &self->peers[peer].ops[index] : &self->flushes[index];
    if (op->generation != value >> 16 || op->state == ACTOR_FREE || op->state == ACTOR_DONE) {
        cw_fail("%s is completed again, or was freed (generation %u, now %u)", actor_names[op->kind],
                   (unsigned)(value >> 16), op->generation);
    }
    if (op->state == ACTOR_STARTING && !op->inside) {
        cw_fail("%s called back inside of the call that started it", actor_names[op->kind]);
    }
    return op;
}

/* What a receive brought that ended well. */
static void check_data(struct actor_peer *peer, struct actor_op *op)
{
    bool right = true;

    switch (op->kind) {
    case ACTOR_TAG_RECV:
    case ACTOR_PROBE:
        right = (op->tag & 0xffff) < OFFSETS && memcmp(op->buffer, pattern + (op->tag & 0xffff), op->length) == 0;
        break;
    case ACTOR_AM_RECV:
        right = memcmp(op->buffer, pattern + op->tag, op->length) == 0;
        break;
    case ACTOR_STREAM_RECV:
        right = stream_is_right(peer->got, op->buffer, op->length);
        peer->got += op->length;
        break;
    default:
        break;
    }
    if (!right) {
        cw_fail("wrong data came by a %s of %zu bytes that ended well", actor_names[op->kind], op->length);
    }
}

static void free_op(struct actor_op *op)
{
    free(op->buffer);
    op->buffer = NULL;
    op->request = NULL;
    op->state = ACTOR_FREE;
}

static void finish(struct actor_peer *peer, struct actor_op *op, ucs_status_t status)
{
    bool inside = op->state == ACTOR_STARTING;

    op->status = status;
    op->state = ACTOR_DONE;
    if (status == UCS_OK) {
        check_data(peer, op);
    }
    if (op->generation % 3 == 0 && !inside) { /* in the callback already */
        ucp_request_free(op->request);
        free_op(op);
    }
}

static void sent(void *request, ucs_status_t status, void *token)
{
    struct actor_peer *peer;
    struct actor_op *op = token_op(token, &peer);

    cw_check(request == op->request || op->state == ACTOR_STARTING);
    finish(peer, op, status);
}

static void tag_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *token)
{
    struct actor_peer *peer;
    struct actor_op *op = token_op(token, &peer);

    cw_check(request == op->request || op->state == ACTOR_STARTING);
    if (status == UCS_OK) {
        cw_check(info->length <= op->length);
        op->length = info->length;
        op->tag = info->sender_tag;
    }
    finish(peer, op, status);
}

static void bytes_received(void *request, ucs_status_t status, size_t length, void *token)
{
    struct actor_peer *peer;
    struct actor_op *op = token_op(token, &peer);

    cw_check(request == op->request || op->state == ACTOR_STARTING);
    cw_check(status != UCS_OK || length <= op->length);
    op->length = length;
    finish(peer, op, status);
}

/* A free place, or NULL. */
static struct actor_op *new_op(struct actor_peer *peer, enum actor_kind kind, ucp_request_param_t *param)
{
    struct actor_op *ops = peer == NULL ? self->flushes : peer->ops;
    size_t count = peer == NULL ? sizeof(self->flushes) / sizeof(self->flushes[0]) : ACTOR_OPS;
    size_t number = peer == NULL ? ACTOR_PEERS : (size_t)(peer - self->peers), i = 0;

    while (i < count && ops[i].state != ACTOR_FREE) {
        i++;
    }
    if (i == count) {
        return NULL;
    }
    ops[i].generation++;
    ops[i].state = ACTOR_STARTING;
    ops[i].kind = (uint8_t)kind;
    ops[i].inside = ops[i].canceled = false;
    *param = (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                   .cb.send = sent,
                                   .user_data = (void *)((uintptr_t)ops[i].generation << 16 | number << 8 | i)};
    if (cw_one_in(&self->random, 4)) {
        param->op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        ops[i].inside = true;
    }
    return &ops[i];
}

/* What the starting call said. A send is sometimes given up at once: nobody hears of its end then. */
static ucs_status_t started(struct actor_peer *peer, struct actor_op *op, ucs_status_ptr_t result)
{
    bool given_up = op->buffer == NULL && op->iov[0].buffer == NULL && cw_one_in(&self->random, 9);
    ucs_status_t status = UCS_PTR_RAW_STATUS(result);

    self->counts[op->kind]++;
    if (op->state == ACTOR_DONE) {
        cw_check(UCS_PTR_IS_PTR(result));
        op->request = result;
        return op->status;
    }
    cw_check(op->state == ACTOR_STARTING);
    if (UCS_PTR_IS_PTR(result)) {
        op->request = result;
        op->state = ACTOR_PENDING;
        if (given_up) {
            ucp_request_free(result);
            free_op(op);
        }
        return UCS_INPROGRESS;
    }
    if (status == UCS_OK) {
        if (op->kind == ACTOR_TAG_RECV || op->kind == ACTOR_PROBE) {
            op->length = op->info.tag_info.length;
            op->tag = op->info.tag_info.sender_tag;
        } else if (op->kind == ACTOR_STREAM_RECV || op->kind == ACTOR_AM_RECV) {
            op->length = op->info.came;
        }
        check_data(peer, op);
    }
    free_op(op);
    return status;
}

/* The message as the call wants it: plain, or in three parts. */
static const void *payload(struct actor_op *op, ucp_request_param_t *param, const char *data, size_t length,
                           size_t *count)
{
    *count = length;
    op->iov[0].buffer = NULL;
    if (length < 3 || !cw_one_in(&self->random, 6)) {
        return data;
    }
    for (size_t i = 0, at = 0; i < 3; i++) {
        op->iov[i].buffer = (void *)(uintptr_t)(data + at);
        op->iov[i].length = (i == 2) ? length - at : cw_random_below(&self->random, length - at + 1);
        at += op->iov[i].length;
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = ucp_dt_make_iov();
    *count = 3;
    return op->iov;
}

static uint64_t peer_tag(const struct actor_peer *peer)
{
    return (uint64_t)peer->id << 48;
}

static ucs_status_t tag_send(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param, bool sync)
{
    uint64_t offset = cw_random_below(&self->random, OFFSETS);
    uint64_t tag = peer_tag(peer) | cw_random_below(&self->random, CLASSES) << 40 | offset;
    size_t count;
    const void *data = payload(op, param, pattern + offset, some_length(self), &count);

    return started(peer, op, sync ? ucp_tag_send_sync_nbx(peer->ep, data, count, tag, param) :
                                    ucp_tag_send_nbx(peer->ep, data, count, tag, param));
}

static ucs_status_t tag_recv(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    uint64_t tag = peer_tag(peer) | cw_random_below(&self->random, CLASSES) << 40, mask = UINT64_C(0xffffff) << 40;

    op->length = ACTOR_MOST;
    op->buffer = malloc(op->length);
    cw_check(op->buffer != NULL);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param->cb.recv = tag_received;
    param->recv_info.tag_info = &op->info.tag_info;
    return started(peer, op, ucp_tag_recv_nbx(self->worker, op->buffer, op->length, tag, mask, param));
}

/* Whether something of this peer was there. */
static bool probe(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param, ucs_status_t *status)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;

    message = ucp_tag_probe_nb(self->worker, peer_tag(peer), UINT64_C(0xffff) << 48, 1, &info);
    if (message == NULL) {
        free_op(op);
        return false;
    }
    op->length = info.length;
    op->buffer = malloc(op->length + 1);
    cw_check(op->buffer != NULL);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param->cb.recv = tag_received;
    param->recv_info.tag_info = &op->info.tag_info;
    *status = started(peer, op, ucp_tag_msg_recv_nbx(self->worker, op->buffer, op->length, message, param));
    return true;
}

static ucs_status_t am_send(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param, ucp_ep_h ep)
{
    static const uint32_t flags[] = {0, 0, UCP_AM_SEND_FLAG_REPLY, UCP_AM_SEND_FLAG_REPLY, UCP_AM_SEND_FLAG_EAGER,
                                     UCP_AM_SEND_FLAG_RNDV};
    struct am_header header = {.id = peer->id, .offset = (uint32_t)cw_random_below(&self->random, OFFSETS)};
    size_t header_length = 8 + cw_random_below(&self->random, cw_one_in(&self->random, 3) ? 200 : 1);
    size_t count;
    const void *data = payload(op, param, pattern + header.offset, some_length(self), &count);

    param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param->flags = flags[cw_random_below(&self->random, 6)] | UCP_AM_SEND_FLAG_COPY_HEADER;
    return started(peer, op, ucp_am_send_nbx(ep, AM_ID, &header, header_length, data, count, param));
}

static ucs_status_t keep(const struct actor_retained *retained)
{
    for (int i = 0; i < ACTOR_RETAINED; i++) {
        if (self->retained[i].desc == NULL) {
            self->retained[i] = *retained;
            return UCS_INPROGRESS;
        }
    }
    return UCS_OK;
}

static ucs_status_t am_came(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    struct actor_retained retained = {.desc = data, .length = length};
    struct am_header head;

    (void)arg;
    cw_check(header_length >= 8 && header_length <= sizeof(head));
    memcpy(&head, header, header_length);
    cw_check(head.offset < OFFSETS);
    retained.id = head.id;
    retained.offset = head.offset;
    retained.announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    for (int i = 0; i < ACTOR_PEERS; i++) {
        if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) && self->peers[i].id == head.id &&
            self->peers[i].ep != NULL) {
            self->peers[i].reply_ep = param->reply_ep;
        }
    }
    if (retained.announced) {
        return cw_one_in(&self->random, 8) ? UCS_OK : keep(&retained);
    }
    if (memcmp(data, pattern + head.offset, length) != 0) {
        cw_fail("wrong data came by an active message of %zu bytes", length);
    }
    return (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) && cw_one_in(&self->random, 4) ? keep(&retained) : UCS_OK;
}

void actor_ops_open(struct actor *actor)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .id = AM_ID, .cb = am_came};

    self = actor;
    (void)actor_pattern();
    cw_check(ucp_worker_set_am_recv_handler(actor->worker, &param) == UCS_OK);
}

/* Of this peer, or of a peer that is no more. */
static struct actor_retained *find_retained(uint32_t id)
{
    size_t from = cw_random_below(&self->random, ACTOR_RETAINED);

    for (size_t i = 0; i < ACTOR_RETAINED; i++) {
        struct actor_retained *retained = &self->retained[(from + i) % ACTOR_RETAINED];

        if (retained->desc != NULL && retained->id == id) {
            return retained;
        }
    }
    return NULL;
}

static ucs_status_t am_recv(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    struct actor_retained *retained = find_retained(peer->id);
    void *desc = retained == NULL ? NULL : retained->desc;

    if (retained == NULL || !retained->announced || cw_one_in(&self->random, 5)) {
        free_op(op);
        if (retained != NULL) {
            cw_check(retained->announced || memcmp(desc, pattern + retained->offset, retained->length) == 0);
            retained->desc = NULL;
            ucp_am_data_release(self->worker, desc);
        }
        return UCS_OK;
    }
    op->length = retained->length;
    op->buffer = malloc(retained->length + 1);
    op->tag = retained->offset;
    cw_check(op->buffer != NULL);
    retained->desc = NULL;
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param->cb.recv_am = bytes_received;
    param->recv_info.length = &op->info.came;
    return started(peer, op, ucp_am_recv_data_nbx(self->worker, desc, op->buffer, op->length, param));
}

static ucs_status_t stream_send(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    size_t from = peer->sent % ACTOR_MOST, length = some_length(self), count;
    const void *data;
    ucs_status_t status;

    length = (length < ACTOR_MOST - from) ? length : ACTOR_MOST - from;
    data = payload(op, param, pattern + from, length, &count);
    status = started(peer, op, ucp_stream_send_nbx(peer->ep, data, count, param));
    peer->sent += (status == UCS_OK || status == UCS_INPROGRESS) ? length : 0;
    return status;
}

static ucs_status_t stream_recv(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    op->length = 1 + some_length(self);
    op->buffer = malloc(op->length);
    cw_check(op->buffer != NULL);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_RECV_INFO;
    param->flags = cw_one_in(&self->random, 2) ? UCP_STREAM_RECV_FLAG_WAITALL : 0;
    param->cb.recv_stream = bytes_received;
    param->recv_info.length = &op->info.came;
    return started(peer, op, ucp_stream_recv_nbx(peer->ep, op->buffer, op->length, &op->info.came, param));
}

static ucs_status_t one_sided(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    size_t which = cw_random_below(&self->random, 2), length = some_length(self) % (ACTOR_REGION / 2);
    uint64_t address = peer->addresses[which] + cw_random_below(&self->random, ACTOR_REGION / 16) * 8;
    ucp_rkey_h key = peer->keys[which];
    const void *data;
    size_t count;

    op->scalar = 1;
    switch (op->kind) {
    case ACTOR_PUT:
        data = payload(op, param, pattern, length, &count);
        return started(peer, op, ucp_put_nbx(peer->ep, data, count, address, key, param));
    case ACTOR_GET:
        op->buffer = malloc(length + 1);
        cw_check(op->buffer != NULL);
        return started(peer, op, ucp_get_nbx(peer->ep, op->buffer, length, address, key, param));
    case ACTOR_FETCH:
        op->buffer = malloc(16); /* for the operand and the reply */
        cw_check(op->buffer != NULL);
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param->reply_buffer = op->buffer;
        break;
    default:
        op->iov[0].buffer = &op->scalar; /* not to be given up: the operand stays in use */
        break;
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = ucp_dt_make_contig(8);
    return started(peer, op, ucp_atomic_op_nbx(peer->ep, UCP_ATOMIC_OP_ADD, &op->scalar, 1, address, key, param));
}

static ucs_status_t worker_flush(void)
{
    ucp_request_param_t param;
    struct actor_op *op = new_op(NULL, ACTOR_WORKER_FLUSH, &param);

    return op == NULL ? UCS_OK : started(NULL, op, ucp_worker_flush_nbx(self->worker, &param));
}

static ucs_status_t cancel(struct actor_peer *peer)
{
    struct actor_op *op = &peer->ops[cw_random_below(&self->random, ACTOR_OPS)];

    /* a part of a stream that is canceled would leave nobody knowing where it goes on */
    if (op->state == ACTOR_PENDING && op->kind != ACTOR_STREAM_SEND && op->kind != ACTOR_STREAM_RECV) {
        op->canceled = true;
        ucp_request_cancel(self->worker, op->request);
    }
    return UCS_OK;
}

static ucs_status_t start_op(struct actor_peer *peer, struct actor_op *op, ucp_request_param_t *param)
{
    ucs_status_t status = UCS_OK;

    switch (op->kind) {
    case ACTOR_TAG_SEND:
    case ACTOR_TAG_SYNC:
        return tag_send(peer, op, param, op->kind == ACTOR_TAG_SYNC);
    case ACTOR_TAG_RECV:
        return tag_recv(peer, op, param);
    case ACTOR_PROBE:
        (void)probe(peer, op, param, &status);
        return UCS_OK;
    case ACTOR_AM_SEND:
        return am_send(peer, op, param, peer->ep);
    case ACTOR_AM_REPLY:
        return am_send(peer, op, param, peer->reply_ep == NULL ? peer->ep : peer->reply_ep);
    case ACTOR_AM_RECV:
        return am_recv(peer, op, param);
    case ACTOR_STREAM_SEND:
        return stream_send(peer, op, param);
    case ACTOR_STREAM_RECV:
        return stream_recv(peer, op, param);
    case ACTOR_FLUSH:
        op->iov[0].buffer = NULL;
        return started(peer, op, ucp_ep_flush_nbx(peer->ep, param));
    default:
        return one_sided(peer, op, param);
    }
}

ucs_status_t actor_start(struct actor *actor, struct actor_peer *peer, enum actor_kind kind)
{
    ucp_request_param_t param;
    struct actor_op *op;

    switch (kind) {
    case ACTOR_WORKER_FLUSH:
        return worker_flush();
    case ACTOR_FENCE:
        return ucp_worker_fence(actor->worker);
    case ACTOR_CANCEL:
        return cancel(peer);
    default:
        op = new_op(peer, kind, &param);
        if (op == NULL) {
            return UCS_OK;
        }
        op->iov[0].buffer = NULL;
        return start_op(peer, op, &param);
    }
}

static void collect(struct actor_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i].state == ACTOR_DONE) {
            cw_check(ucp_request_check_status(ops[i].request) == ops[i].status);
            ucp_request_free(ops[i].request);
            free_op(&ops[i]);
        }
    }
}

void actor_collect(struct actor *actor)
{
    for (int i = 0; i < ACTOR_PEERS; i++) {
        collect(actor->peers[i].ops, ACTOR_OPS);
    }
    collect(actor->flushes, sizeof(actor->flushes) / sizeof(actor->flushes[0]));
}

int actor_pending(struct actor *actor, struct actor_peer *peer)
{
    int count = 0;

    (void)actor;
    for (int i = 0; i < ACTOR_OPS; i++) {
        count += peer->ops[i].state == ACTOR_PENDING && peer->ops[i].kind != ACTOR_TAG_RECV;
    }
    return count;
}

int actor_receives(struct actor *actor, struct actor_peer *peer, bool cancel_them)
{
    int count = 0;

    for (int i = 0; i < ACTOR_OPS; i++) {
        if (peer->ops[i].state == ACTOR_PENDING && peer->ops[i].kind == ACTOR_TAG_RECV) {
            count++;
            if (cancel_them) {
                ucp_request_cancel(actor->worker, peer->ops[i].request);
            }
        }
    }
    return count;
}

void actor_print_pending(const struct actor_peer *peer)
{
    for (int i = 0; i < ACTOR_OPS; i++) {
        const struct actor_op *op = &peer->ops[i];

        if (op->state == ACTOR_PENDING) {
            fprintf(stderr, "    pending: %s, %zu bytes, request %p%s\n", actor_names[op->kind], op->length,
                    op->request, op->canceled ? ", canceled" : "");
        }
    }
}

void actor_drain(struct actor *actor, struct actor_peer *peer)
{
    ucp_request_param_t param;
    ucs_status_t status;
    double end = cw_now_s() + CW_BOUND_S;
    struct actor_op *op;
    bool found = true;

    for (int i = 0; i < ACTOR_RETAINED; i++) {
        struct actor_retained *retained = &actor->retained[i];

        if (retained->desc != NULL && retained->id == peer->id) {
            cw_check(retained->announced ||
                     memcmp(retained->desc, pattern + retained->offset, retained->length) == 0); /* ERR-10 */
            ucp_am_data_release(actor->worker, retained->desc);
            retained->desc = NULL;
        }
    }
    while (found) {
        op = new_op(peer, ACTOR_PROBE, &param);
        cw_check(op != NULL);
        status = UCS_OK;
        found = probe(peer, op, &param, &status);
        while (status == UCS_INPROGRESS && op->state == ACTOR_PENDING) { /* its end may not be known yet */
            actor_step(actor, 1000);
            if (cw_now_s() > end) {
                cw_fail("a message of a peer that is gone is there and cannot be received");
            }
        }
        actor_collect(actor);
    }
}
