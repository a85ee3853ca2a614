/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which message meets which receive, over the simulated network, against a model that is two lists in order. The test
 * checks the packets as they are handed up, so it knows the true order of arrival; everything else follows from the
 * calls: TAG-1, TAG-4..7, TAG-10, TAG-15, TAG-16, TAG-21, TAG-31..35, TPR-1..9, REQ-24. Sends are taken back, too: such
 * a message is seen by nobody, any other one by exactly one receive, and its sender learns which of the two it was.
 * CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many follow.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "api/dispatch.h"
#include "base/hash.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "series.h"
#include "cluster.h"
#include "wire/packet.h"

enum { MAX_LINES = 32, MAX_MESSAGES = 300, MAX_RECEIVES = 600, MAX_LENGTH = 20000, QUIET_STEPS = 200 };
#define HANDSHAKE UINT64_C(0xfe11000000000000)

enum message_state { UNDER_WAY, UNEXPECTED, REMOVED, MATCHED, DROPPED };

struct message {
    unsigned line;
    uint64_t tag;
    size_t length;
    uint8_t *buffer;
    int sync;
    ucs_status_ptr_t request;
    int done;
    ucs_status_t status;
    int cancel_asked;
    enum message_state state;
    int announced;              /* by rendezvous */
    uint64_t wire_id;           /* by which its sender would take it back */
    uint64_t arrival;
    ucp_tag_message_h handle;   /* REMOVED */
};

struct receive {
    unsigned worker;
    uint64_t tag;
    uint64_t mask;
    size_t space;
    uint8_t *buffer;
    ucs_status_ptr_t request;
    int done;
    ucs_status_t status;
    ucp_tag_recv_info_t info;
    struct message *message;    /* as the model says */
    int gone;                   /* cancelled, checked or never posted */
};

/* An endpoint and what was sent on it. */
struct line {
    unsigned from;
    unsigned to;
    ucp_ep_h ep;
    const struct cw_conn *conn; /* the receiver's end */
    unsigned queue[MAX_MESSAGES];
    unsigned sent;
    unsigned arrived;
};

struct play {
    struct cw_cluster *cluster;
    struct line lines[MAX_LINES];
    unsigned num_lines;
    struct message messages[MAX_MESSAGES];
    unsigned num_messages;
    struct receive receives[MAX_RECEIVES];
    unsigned num_receives;
    uint64_t arrivals;
    uint64_t tags[6];
    uint64_t masks[5];
    unsigned weights[7];        /* of enum action */
    int handshake;
    int current_ok;             /* a callback may come now, outside of progress */
};

enum action { SEND, RECEIVE, PROBE, PROBE_REMOVE, RECEIVE_REMOVED, CANCEL_RECEIVE, CANCEL_SEND, STEP };

static struct play play;
/* What all seeds together met. */
static struct {
    unsigned long matched, unexpected, removed, announced, dropped_inside, dropped_by_peer, truncated;
} totals;

static unsigned below(unsigned limit)
{
    return (unsigned)cw_cluster_random(play.cluster, limit);
}

/* ---- the model ---- */

static uint8_t byte_of(const struct message *message, size_t i)
{
    uint64_t word = cw_hash_mix((uint64_t)(message - play.messages) + 0x6d61u);

    return (uint8_t)(word >> (i % 8 * 8)) ^ (uint8_t)(i >> 3);
}

static struct receive *first_receive(unsigned worker, uint64_t tag)
{
    for (unsigned i = 0; i < play.num_receives; i++) {
        struct receive *receive = &play.receives[i];

        if (receive->worker == worker && receive->message == NULL && !receive->gone &&
            ((receive->tag ^ tag) & receive->mask) == 0) {
            return receive;
        }
    }
    return NULL;
}

static struct message *first_message(unsigned worker, uint64_t tag, uint64_t mask)
{
    struct message *first = NULL;

    for (unsigned i = 0; i < play.num_messages; i++) {
        struct message *message = &play.messages[i];

        if (message->state == UNEXPECTED && play.lines[message->line].to == worker &&
            ((message->tag ^ tag) & mask) == 0 && (first == NULL || message->arrival < first->arrival)) {
            first = message;
        }
    }
    return first;
}

static void pair_up(struct message *message, struct receive *receive)
{
    message->state = MATCHED;
    receive->message = message;
    totals.matched++;
}

static struct line *line_of(const struct cw_conn *conn)
{
    for (unsigned i = 0; i < play.num_lines; i++) {
        if (play.lines[i].conn == conn) {
            return &play.lines[i];
        }
    }
    cw_cluster_fail(play.cluster, "a message arrives on a connection that no endpoint uses");
}

/* What a worker sent to itself and took back, when it had left already: its id names nothing any more. */
static int is_dropped(const struct cw_conn *conn, uint64_t wire_id)
{
    const struct line *line = line_of(conn);

    return wire_id != 0 && line->from == line->to &&
           cw_idmap_get(&play.cluster->nodes[line->from].worker->ids, wire_id) == NULL;
}

static void message_arrives(const struct cw_conn *conn, uint64_t tag, uint64_t length, uint64_t wire_id, int announced)
{
    struct line *line = line_of(conn);
    struct message *message;
    struct receive *receive;

    if (is_dropped(conn, wire_id)) {
        return;
    }
    do {
        if (line->arrived == line->sent) {
            cw_cluster_fail(play.cluster, "a message arrives that was not sent, or was taken back");
        }
        message = &play.messages[line->queue[line->arrived++]];
    } while (message->state == DROPPED);
    if (message->tag != tag || message->length != length) { /* TAG-10 */
        cw_cluster_fail(play.cluster, "message %u on its endpoint overtakes: tag %llx, %llu bytes instead of %llx, %zu",
                        line->arrived, (unsigned long long)tag, (unsigned long long)length,
                        (unsigned long long)message->tag, message->length);
    }
    message->wire_id = wire_id;
    message->announced = announced;
    message->arrival = play.arrivals++;
    totals.announced += announced != 0;
    receive = first_receive(line->to, tag);
    if (receive != NULL) {
        pair_up(message, receive); /* TAG-4, TAG-7 */
    } else {
        message->state = UNEXPECTED;
        totals.unexpected++;
    }
}

/* The sender wants it back: it gets it unless it is matched or taken out. */
static void cancel_arrives(const struct cw_conn *conn, uint64_t wire_id)
{
    struct line *line = line_of(conn);

    for (unsigned i = 0; i < line->arrived; i++) {
        struct message *message = &play.messages[line->queue[i]];

        if (message->wire_id == wire_id && message->state == UNEXPECTED) {
            message->state = DROPPED;
            totals.dropped_by_peer++;
            return;
        }
    }
}

static uint64_t word_at(const void *data, size_t length, size_t offset)
{
    uint64_t word = 0;

    if (offset + sizeof(word) > length) {
        cw_cluster_fail(play.cluster, "a packet is cut short");
    }
    memcpy(&word, (const char *)data + offset, sizeof(word));
    return le64toh(word);
}

static void see_packet(const struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    switch (id) {
    case CW_PACKET_TAG_EAGER:
        message_arrives(conn, word_at(data, length, 0), length - sizeof(struct cw_wire_tag), 0, 0);
        break;
    case CW_PACKET_TAG_SYNC:
        message_arrives(conn, word_at(data, length, 0), length - sizeof(struct cw_wire_tag_sync),
                        word_at(data, length, offsetof(struct cw_wire_tag_sync, sync_id)), 0);
        break;
    case CW_PACKET_TAG_FIRST:
        message_arrives(conn, word_at(data, length, 0),
                        word_at(data, length, offsetof(struct cw_wire_tag_first, total)),
                        word_at(data, length, offsetof(struct cw_wire_tag_first, sync_id)), 0);
        break;
    case CW_PACKET_TAG_RTS:
        message_arrives(conn, word_at(data, length, 0), word_at(data, length, offsetof(struct cw_wire_tag_rts, rts)),
                        word_at(data, length, offsetof(struct cw_wire_tag_rts, rts.send_id)), 1);
        break;
    case CW_PACKET_TAG_CANCEL:
        cancel_arrives(conn, word_at(data, length, 0));
        break;
    default:
        break;
    }
}

void __real_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);

void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    if (!play.handshake) {
        see_packet(conn, id, data, length);
    } else if (id == CW_PACKET_TAG_EAGER || id == CW_PACKET_TAG_RTS) {
        play.lines[word_at(data, length, 0) & 0xffff].conn = conn;
    }
    __real_cw_op_packet(conn, id, data, length);
}

/* ---- the calls ---- */

static void check_received(struct receive *receive)
{
    const struct message *message = receive->message;

    if (message == NULL) {
        cw_cluster_fail(play.cluster, "a receive ends with %s although no message is its own",
                        ucs_status_string(receive->status));
    }
    if (receive->status != (message->length > receive->space ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK)) {
        cw_cluster_fail(play.cluster, "a receive of %zu bytes for %zu ends with %s", receive->space, message->length,
                        ucs_status_string(receive->status));
    }
    totals.truncated += receive->status != UCS_OK;
    if (receive->request != NULL || receive->status == UCS_OK) {
        if (receive->info.sender_tag != message->tag || receive->info.length != message->length) {
            cw_cluster_fail(play.cluster, "a receive got tag %llx, %zu bytes instead of %llx, %zu",
                            (unsigned long long)receive->info.sender_tag, receive->info.length,
                            (unsigned long long)message->tag, message->length);
        }
    }
    for (size_t i = 0; receive->status == UCS_OK && i < message->length; i++) {
        if (receive->buffer[i] != byte_of(message, i)) {
            cw_cluster_fail(play.cluster, "byte %zu of %zu of a message is wrong, or it is another message", i,
                            message->length);
        }
    }
    for (size_t i = receive->status == UCS_OK ? message->length : receive->space; i < receive->space + 8; i++) {
        if (receive->buffer[i] != 0xcc) {
            cw_cluster_fail(play.cluster, "a byte behind a message was written");
        }
    }
}

/* TAG-16, TAG-21: who waits for the match is not notified before. */
static void check_sent(const struct message *message)
{
    if (message->status == UCS_OK) {
        if ((message->sync || message->announced) && message->state != MATCHED) {
            cw_cluster_fail(play.cluster, "a send of %zu bytes is complete and was not matched", message->length);
        }
    } else if (message->status != UCS_ERR_CANCELED || !message->cancel_asked || message->state != DROPPED) {
        cw_cluster_fail(play.cluster, "a send of %zu bytes ends with %s%s", message->length,
                        ucs_status_string(message->status), message->state == MATCHED ? ", it was matched" : "");
    }
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    struct message *message = user_data;
    const struct line *line = &play.lines[message->line];

    (void)request;
    if (message->done++ != 0) {
        cw_cluster_fail(play.cluster, "a send completes twice");
    }
    message->status = status;
    if (play.current_ok && status == UCS_ERR_CANCELED &&
        (message->state == UNDER_WAY || (message->state == UNEXPECTED && line->from == line->to))) {
        message->state = DROPPED; /* inside the cancel call: it has not left, or not the worker */
        totals.dropped_inside++;
    }
    check_sent(message);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct receive *receive = user_data;

    receive->request = request;
    if (receive->done++ != 0) {
        cw_cluster_fail(play.cluster, "a receive completes twice");
    }
    receive->status = status;
    receive->info = *info;
    if (!receive->gone) {
        check_received(receive);
    }
}

static size_t some_length(void)
{
    switch (below(8)) {
    case 0:
        return 0;
    case 1:
        return below(MAX_LENGTH);
    case 2:
    case 3:
        return below(3000);
    default:
        return below(100);
    }
}

static uint64_t some_tag(void)
{
    return play.tags[below(6)] ^ (below(16) == 0 ? UINT64_C(1) << below(64) : 0);
}

static void do_send(unsigned number)
{
    struct message *message = &play.messages[play.num_messages];
    struct line *line = &play.lines[number];
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = sent, .user_data = message};
    uint32_t flags[] = {0, 0, UCP_OP_ATTR_FLAG_NO_IMM_CMPL, UCP_OP_ATTR_FLAG_FAST_CMPL,
                        UCP_OP_ATTR_FLAG_MULTI_SEND};
    ucs_status_ptr_t result;

    if (play.num_messages == MAX_MESSAGES) {
        return;
    }
    line->queue[line->sent++] = play.num_messages++;
    *message = (struct message){.line = number, .tag = some_tag(), .length = some_length(), .sync = !below(4)};
    message->buffer = malloc(message->length + 1);
    for (size_t i = 0; i < message->length; i++) {
        message->buffer[i] = byte_of(message, i);
    }
    param.op_attr_mask |= flags[below(5)];
    result = message->sync ?
                 ucp_tag_send_sync_nbx(line->ep, message->buffer, message->length, message->tag, &param) :
                 ucp_tag_send_nbx(line->ep, message->buffer, message->length, message->tag, &param);
    if (UCS_PTR_IS_ERR(result)) {
        cw_cluster_fail(play.cluster, "a send answers %s", ucs_status_string(UCS_PTR_STATUS(result)));
    }
    if (result == NULL) {
        message->done++;
        if (message->done > 1 || message->sync) {
            cw_cluster_fail(play.cluster, "a send returns NULL and completes as well, or is synchronous");
        }
    } else {
        message->request = result;
    }
}

/* A receive by tag and mask, or of a message that was taken out. */
static void do_receive(unsigned worker, uint64_t tag, uint64_t mask, struct message *removed, size_t space)
{
    struct receive *receive = &play.receives[play.num_receives];
    ucp_worker_h handle = play.cluster->nodes[worker].worker;
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .cb.recv = received, .user_data = receive, .recv_info.tag_info = &info};
    struct message *message = removed != NULL ? removed : first_message(worker, tag, mask);
    ucs_status_ptr_t result;

    if (play.num_receives == MAX_RECEIVES) {
        return;
    }
    play.num_receives++;
    *receive =
        (struct receive){.worker = worker, .tag = tag, .mask = mask, .space = space, .buffer = malloc(space + 8)};
    memset(receive->buffer, 0xcc, space + 8);
    if (message != NULL) {
        pair_up(message, receive); /* TAG-5 */
    }
    result = removed != NULL ? ucp_tag_msg_recv_nbx(handle, receive->buffer, space, removed->handle, &param) :
                               ucp_tag_recv_nbx(handle, receive->buffer, space, tag, mask, &param);
    if (UCS_PTR_IS_PTR(result)) {
        receive->request = result;
        return;
    }
    if (receive->done++ != 0) {
        cw_cluster_fail(play.cluster, "a receive returns no request and completes as well");
    }
    receive->status = UCS_PTR_STATUS(result);
    receive->info = info;
    check_received(receive);
}

static void do_probe(unsigned worker, uint64_t tag, uint64_t mask, int remove)
{
    struct message *message = first_message(worker, tag, mask);
    ucp_tag_recv_info_t info = {.sender_tag = 0x77, .length = 0x77};
    ucp_tag_message_h handle = ucp_tag_probe_nb(play.cluster->nodes[worker].worker, tag, mask, remove, &info);

    if ((handle != NULL) != (message != NULL)) {
        cw_cluster_fail(play.cluster, "a probe finds %s message", handle == NULL ? "no" : "a");
    }
    if (message == NULL) {
        if (info.sender_tag != 0x77 || info.length != 0x77) {
            cw_cluster_fail(play.cluster, "a probe that finds nothing writes info"); /* TPR-1 */
        }
        return;
    }
    if (info.sender_tag != message->tag || info.length != message->length) {
        cw_cluster_fail(play.cluster, "a probe finds tag %llx, %zu bytes instead of %llx, %zu",
                        (unsigned long long)info.sender_tag, info.length, (unsigned long long)message->tag,
                        message->length);
    }
    if (remove) { /* TPR-6 */
        message->state = REMOVED;
        message->handle = handle;
        totals.removed++;
    }
}

static struct message *some_removed(void)
{
    unsigned start = below(play.num_messages + 1);

    for (unsigned i = 0; i < play.num_messages; i++) {
        struct message *message = &play.messages[(start + i) % play.num_messages];

        if (message->state == REMOVED) {
            return message;
        }
    }
    return NULL;
}

static void do_receive_removed(struct message *message)
{
    if (message != NULL) {
        do_receive(play.lines[message->line].to, 0, 0, message, below(4) == 0 ? below(50) : message->length + 20);
    }
}

static void do_cancel_receive(struct receive *receive)
{
    if (receive->done || receive->gone) {
        return;
    }
    receive->gone = receive->message == NULL;
    ucp_request_cancel(play.cluster->nodes[receive->worker].worker, receive->request);
    if (receive->gone && (!receive->done || receive->status != UCS_ERR_CANCELED)) {
        cw_cluster_fail(play.cluster, "an unmatched receive is not cancelled inside the call: %s",
                        receive->done ? ucs_status_string(receive->status) : "it goes on"); /* REQ-24 */
    }
}

static void do_cancel_send(struct message *message)
{
    if (message->request != NULL && !message->done) {
        message->cancel_asked = 1;
        play.current_ok = 1;
        ucp_request_cancel(play.cluster->nodes[play.lines[message->line].from].worker, message->request);
        play.current_ok = 0;
    }
}

/* ---- a play ---- */

static void open_line(unsigned from, unsigned to)
{
    struct line *line = &play.lines[play.num_lines++];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = play.cluster->nodes[to].address};

    *line = (struct line){.from = from, .to = to, .ep = play.cluster->nodes[from].eps[to]};
    if (play.num_lines > play.cluster->num_workers * play.cluster->num_workers &&
        ucp_ep_create(play.cluster->nodes[from].worker, &params, &line->ep) != UCS_OK) {
        cw_cluster_fail(play.cluster, "ucp_ep_create fails");
    }
}

static void note_handshake(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info;
    if (status != UCS_OK) {
        cw_cluster_fail(play.cluster, "a handshake ends with %s", ucs_status_string(status));
    }
    ++*(unsigned *)user_data;
    ucp_request_free(request);
}

/* One message on each endpoint shows which connection is whose. */
static void identify(void)
{
    unsigned came = 0;
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = note_handshake, .user_data = &came};
    char byte;

    play.handshake = 1;
    for (unsigned i = 0; i < play.num_lines; i++) {
        ucs_status_ptr_t result = ucp_tag_send_nbx(play.lines[i].ep, "g", 1, HANDSHAKE | i, &none);

        if (UCS_PTR_IS_PTR(result)) {
            ucp_request_free(result);
        }
        (void)ucp_tag_recv_nbx(play.cluster->nodes[play.lines[i].to].worker, &byte, 1, HANDSHAKE | i, UINT64_MAX,
                               &param);
    }
    for (unsigned rounds = 0; came < play.num_lines; rounds++) {
        cw_cluster_step(play.cluster);
        if (rounds == CW_MAX_ROUNDS) {
            cw_cluster_fail(play.cluster, "%u of %u handshakes come", came, play.num_lines);
        }
    }
    for (unsigned i = 0; i < QUIET_STEPS; i++) {
        cw_cluster_step(play.cluster);
    }
    play.handshake = 0;
}

static void choose_settings(uint64_t seed)
{
    static const char *const thresholds[] = {"auto", "0", "inf", "1", "100", "1000"};
    static const char *const schemes[] = {"auto", "get_zcopy", "put_zcopy", "am", "get_ppln", "put_ppln"};

    setenv("UCX_RNDV_THRESH", thresholds[cw_hash_mix(seed) % 6], 1);
    setenv("UCX_RNDV_SCHEME", schemes[cw_hash_mix(seed + 1) % 6], 1);
}

static void choose_tags(void)
{
    static const uint64_t masks[] = {UINT64_MAX, 0, 0xffffffff, UINT64_C(0xffff0000ffff0000), 1};
    uint64_t random = play.cluster->seed * 77 + 1;

    for (unsigned i = 0; i < 6; i++) {
        play.tags[i] = i < 3 ? i : cw_hash_mix(random + i);
    }
    for (unsigned i = 0; i < 5; i++) {
        play.masks[i] = i < below(6) ? masks[below(5)] : masks[0];
    }
    for (unsigned i = 0; i < 7; i++) {
        play.weights[i] = 1 + below(8);
    }
    play.weights[SEND] += 6;
    play.weights[RECEIVE] += below(12);
}

static void open_play(uint64_t seed)
{
    struct cw_sim_knobs knobs;

    memset(&play, 0, sizeof(play));
    cw_sim_knobs_random(&knobs, seed);
    choose_settings(seed);
    play.cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_NONE, 0);
    for (unsigned copy = 0; copy < 2; copy++) {
        for (unsigned from = 0; from < play.cluster->num_workers; from++) {
            for (unsigned to = 0; to < play.cluster->num_workers; to++) {
                if (copy == 0 || (below(2) == 0 && play.num_lines < MAX_LINES)) {
                    open_line(from, to);
                }
            }
        }
    }
    identify();
    choose_tags();
}

static void act(void)
{
    unsigned dice = below(60), action = 0, worker = below(play.cluster->num_workers);
    uint64_t mask = play.masks[below(5)];

    while (action < STEP && dice >= play.weights[action]) {
        dice -= play.weights[action++];
    }
    switch ((enum action)action) {
    case SEND:
        do_send(below(play.num_lines));
        break;
    case RECEIVE:
        do_receive(worker, some_tag(), mask, NULL, some_length());
        break;
    case PROBE:
        do_probe(worker, some_tag(), mask, 0);
        break;
    case PROBE_REMOVE:
        do_probe(worker, some_tag(), mask, 1);
        break;
    case RECEIVE_REMOVED:
        do_receive_removed(some_removed());
        break;
    case CANCEL_RECEIVE:
        if (play.num_receives > 0) {
            do_cancel_receive(&play.receives[below(play.num_receives)]);
        }
        break;
    case CANCEL_SEND:
        if (play.num_messages > 0) {
            do_cancel_send(&play.messages[below(play.num_messages)]);
        }
        break;
    case STEP:
        cw_cluster_step(play.cluster);
        break;
    }
}

/* Whether everything that was sent came or was dropped. */
static int all_arrived(void)
{
    for (unsigned i = 0; i < play.num_messages; i++) {
        if (play.messages[i].state == UNDER_WAY) {
            return 0;
        }
    }
    return 1;
}

/* Whoever waits for a match and wants the message back gets it, if it is unmatched. */
static int all_taken_back(void)
{
    int all = 1;

    for (unsigned i = 0; i < play.num_messages; i++) {
        const struct message *message = &play.messages[i];

        if (message->state == UNEXPECTED && message->cancel_asked && (message->sync || message->announced)) {
            all = 0;
        }
    }
    return all;
}

static int all_done(void)
{
    for (unsigned i = 0; i < play.num_messages; i++) {
        if (!play.messages[i].done) {
            return 0;
        }
    }
    for (unsigned i = 0; i < play.num_receives; i++) {
        if (play.receives[i].message != NULL && !play.receives[i].done) {
            return 0;
        }
    }
    return 1;
}

static void step_until(int (*condition)(void), const char *what)
{
    for (unsigned rounds = 0; !condition(); rounds++) {
        cw_cluster_step(play.cluster);
        if (rounds == CW_MAX_ROUNDS) {
            cw_cluster_fail(play.cluster, "%s after %u calls of progress", what, rounds);
        }
    }
}

/* What is left is received in order of arrival (TPR-8), in one way or the other. */
static void receive_rest(void)
{
    struct message *message;

    for (unsigned worker = 0; worker < play.cluster->num_workers; worker++) {
        while (first_message(worker, 0, 0) != NULL) {
            if (below(2) == 0) {
                do_probe(worker, some_tag(), 0, 1);
            } else {
                do_receive(worker, some_tag(), 0, NULL, below(2) == 0 ? MAX_LENGTH : 10);
            }
        }
        do_probe(worker, 0, 0, 0);
    }
    while ((message = some_removed()) != NULL) {
        do_receive_removed(message);
    }
}

static void close_play(void)
{
    for (unsigned i = 0; i < play.num_messages; i++) {
        if (play.messages[i].request != NULL) {
            ucp_request_free(play.messages[i].request);
        }
        free(play.messages[i].buffer);
    }
    for (unsigned i = 0; i < play.num_receives; i++) {
        do_cancel_receive(&play.receives[i]);
        if (play.receives[i].request != NULL) {
            ucp_request_free(play.receives[i].request);
        }
        free(play.receives[i].buffer);
    }
    cw_cluster_free(play.cluster);
}

/* So many seeds meet everything, or the test is not what it should be. */
static void check_totals(uint64_t count)
{
    unsetenv("UCX_RNDV_THRESH");
    unsetenv("UCX_RNDV_SCHEME");
    if (count >= 100) {
        assert_true(totals.matched > 10 * count);
        assert_true(totals.unexpected > count && totals.removed > count && totals.truncated > count);
        assert_true(totals.announced > count && totals.dropped_inside > 0 && totals.dropped_by_peer > 0);
    }
}

SERIES_TEST(test_messages_meet_receives_as_in_the_model, 2000, check_totals)
{
    unsigned num_actions = 300;

    open_play(seed);
    for (unsigned i = 0; i < num_actions; i++) {
        act();
        if (i % 100 == 99) {
            choose_tags();
        }
    }
    step_until(all_arrived, "messages are under way");
    step_until(all_taken_back, "messages that were asked back and are unmatched were not given back");
    receive_rest();
    step_until(all_done, "operations are not done");
    close_play();
}
