/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages over a simulated network, for many seeds: messages of all kinds to handlers of all kinds, which take,
 * keep, fetch, refuse and answer by chance, and take care of earlier ones; each byte is checked, and each message comes
 * once, in the order of its endpoint. CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "core/worker.h"
#include "generic.h"
#include "series.h"
#include "cluster.h"

enum { MAX_MESSAGES = 400, MAX_RETAINED = 30, MAX_IOV = 3, PLAIN = 3, KEEPING = 60000, OLD = 255 };

/* One message, from its sending to the end of both sides. */
struct message {
    uint8_t *header, *data;
    size_t header_length, length;
    ucp_dt_iov_t iov[MAX_IOV];
    unsigned from, to;
    unsigned id;
    uint32_t flags;
    uint64_t number;
    ucs_status_t expected;      /* of the send, when `answered` */
    int answered;
    int sent;
};

/* What a handler kept. */
struct retained {
    struct message *message;
    void *data;
    int rndv;
};

struct fetch {
    struct message *message;
    uint8_t *buffer;
    size_t space;
    ucp_dt_iov_t iov[MAX_IOV];
    int calls;
    int returned;
};

static struct cw_cluster *cluster;
static struct message *messages[CW_MAX_WORKERS][CW_MAX_WORKERS][MAX_MESSAGES];
static uint64_t posted[CW_MAX_WORKERS][CW_MAX_WORKERS], delivered[CW_MAX_WORKERS][CW_MAX_WORKERS];
static struct retained retained[MAX_RETAINED];
static unsigned num_retained;
static struct cw_op *closes[CW_MAX_WORKERS * CW_MAX_WORKERS];
static unsigned num_closes;
static size_t largest;
static size_t max_header;
static int faulty;
static int quiet;               /* no more answers */
static ucp_datatype_t generic;  /* of plain bytes */

static void send_message(unsigned from, unsigned to, ucp_ep_h ep);

static uint8_t byte_of(const struct message *message, size_t position)
{
    return (uint8_t)(cw_hash_mix((position >> 3) + (message->number << 32) + message->from * 8 + message->to) >>
                     (position % 8 * 8));
}

static void check_bytes(const struct message *message, const uint8_t *bytes, size_t length, size_t shift)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != byte_of(message, i + shift)) {
            cw_cluster_fail(cluster, "byte %zu of %zu of message %llu from %u to %u is wrong", i, length,
                            (unsigned long long)message->number, message->from, message->to);
        }
    }
}

static size_t random_length(size_t most)
{
    switch (cw_cluster_random(cluster, 8)) {
    case 0:
        return 0;
    case 1:
        return cw_cluster_random(cluster, most);
    case 2:
        return cw_cluster_random(cluster, 3000);
    default:
        return cw_cluster_random(cluster, 100);
    }
}

static void fetched(struct fetch *fetch, ucs_status_t status, size_t length)
{
    const struct message *message = fetch->message;
    size_t stored = 0;

    if (++fetch->calls > 1) {
        cw_cluster_fail(cluster, "a fetch completes twice");
    }
    if (status == UCS_OK) {
        stored = (fetch->space == 0) ? 0 : message->length;
        if (length != stored) {
            cw_cluster_fail(cluster, "a fetch of %zu bytes ends with %zu", message->length, length);
        }
        check_bytes(message, fetch->buffer, stored, 0);
    } else if (!faulty && (status != UCS_ERR_MESSAGE_TRUNCATED || fetch->space >= message->length)) {
        cw_cluster_fail(cluster, "a fetch ends with %s on a healthy network", ucs_status_string(status));
    }
    for (size_t i = stored; status == UCS_OK && i <= fetch->space; i++) {
        if (fetch->buffer[i] != 0xcc) {
            cw_cluster_fail(cluster, "a fetch of %zu bytes wrote byte %zu", stored, i);
        }
    }
    cluster->num_done++;
    if (fetch->returned) {
        free(fetch->buffer);
        free(fetch);
    }
}

static void on_fetched(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucp_request_free(request);
    fetched(user_data, status, length);
}

/* Sometimes with too little room, or none. */
static void start_fetch(struct message *message, void *data)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    size_t length = 0, first, count;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FIELD_DATATYPE,
                             .cb.recv_am = on_fetched,
                             .user_data = fetch,
                             .datatype = ucp_dt_make_contig(1),
                             .recv_info.length = &length};
    void *buffer;
    ucs_status_ptr_t result;

    fetch->message = message;
    fetch->space =
        (cw_cluster_random(cluster, 5) == 0) ? cw_cluster_random(cluster, message->length + 1) : message->length + 3;
    fetch->buffer = malloc(fetch->space + 1);
    memset(fetch->buffer, 0xcc, fetch->space + 1);
    buffer = fetch->buffer;
    count = fetch->space;
    if (cw_cluster_random(cluster, 4) == 0) {
        param.datatype = generic;
    } else if (cw_cluster_random(cluster, 2) == 0 && fetch->space > 0) {
        first = cw_cluster_random(cluster, fetch->space);
        fetch->iov[0] = (ucp_dt_iov_t){fetch->buffer, first};
        fetch->iov[1] = (ucp_dt_iov_t){NULL, 0};
        fetch->iov[2] = (ucp_dt_iov_t){fetch->buffer + first, fetch->space - first};
        param.datatype = ucp_dt_make_iov();
        buffer = fetch->iov;
        count = MAX_IOV;
    }
    if (cw_cluster_random(cluster, 4) == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    cluster->num_ops++;
    result = ucp_am_recv_data_nbx(cluster->nodes[message->to].worker, data, buffer, count, &param);
    if (UCS_PTR_IS_PTR(result) && cw_cluster_random(cluster, 4) == 0 && fetch->calls == 0) {
        ucp_request_cancel(cluster->nodes[message->to].worker, result); /* without effect (REQ-24) */
    }
    if (!UCS_PTR_IS_PTR(result)) {
        fetched(fetch, UCS_PTR_STATUS(result), length);
    }
    fetch->returned = 1;
    if (fetch->calls > 0) {
        free(fetch->buffer);
        free(fetch);
    }
}

static void let_go(unsigned i)
{
    struct retained one = retained[i];

    retained[i] = retained[--num_retained];
    cluster->nodes[one.message->to].asleep = 0;
    if (!one.rndv) {
        check_bytes(one.message, one.data, one.message->length, 0);
    }
    if (cw_cluster_random(cluster, 3) == 0) {
        ucp_am_data_release(cluster->nodes[one.message->to].worker, one.data);
    } else {
        start_fetch(one.message, one.data);
    }
}

static int is_lost(const struct message *message, unsigned id, size_t header_length, size_t length, int replied)
{
    return faulty && num_closes > 0 &&
           (message->id != id || message->header_length != header_length || message->length != length ||
            ((message->flags & UCP_AM_SEND_FLAG_REPLY) != 0) != replied);
}

/* The next message of its direction: in order, with the right bytes. An endpoint that the receiver has closed lets some
 * of them through only (AMR-23). */
static struct message *arrived(unsigned from, unsigned to, unsigned id, const void *header, size_t header_length,
                               size_t length, int replied)
{
    struct message *message = NULL;

    while (delivered[from][to] < posted[from][to]) {
        message = messages[from][to][delivered[from][to]];
        if (!is_lost(message, id, header_length, length, replied)) {
            break;
        }
        delivered[from][to]++;
    }
    if (delivered[from][to] == posted[from][to] || message->header_length != header_length ||
        message->length != length) {
        cw_cluster_fail(cluster,
                        "the handler gets a message of %zu and %zu bytes from %u to %u that is not the next one",
                        header_length, length, from, to);
    }
    check_bytes(message, header, header_length, 1000000);
    delivered[from][to]++;
    cluster->num_done += !faulty;
    return message;
}

static void maybe_answer(const struct message *message, ucp_ep_h reply_ep)
{
    if (reply_ep != NULL && reply_ep != cluster->nodes[message->to].eps[message->from] && !faulty && !quiet) {
        cw_cluster_fail(cluster, "reply_ep is not the endpoint of this worker");
    }
    if (reply_ep != NULL && !quiet && cw_cluster_random(cluster, 3) == 0) {
        send_message(message->to, message->from, reply_ep);
    }
}

/* An earlier message of the same worker, from within the handler of another (AMR-36). */
static void maybe_let_go(unsigned to)
{
    unsigned i = (num_retained == 0) ? 0 : (unsigned)cw_cluster_random(cluster, num_retained);

    if (num_retained > 0 && retained[i].message->to == to && cw_cluster_random(cluster, 3) == 0) {
        let_go(i);
    }
}

/* What happens to data of a kind. */
static ucs_status_t decide(struct message *message, void *data, int rndv, int may_keep)
{
    unsigned chance = (unsigned)cw_cluster_random(cluster, 4);

    message->answered = 1;
    message->expected = UCS_OK;
    if (!rndv) {
        check_bytes(message, data, message->length, 0);
    }
    if (chance == 0 && may_keep && num_retained < MAX_RETAINED) {
        retained[num_retained++] = (struct retained){message, data, rndv};
        return UCS_INPROGRESS;
    }
    if (chance == 1) {
        start_fetch(message, data);
        return (cw_cluster_random(cluster, 2) == 0) ? UCS_OK : UCS_INPROGRESS;
    }
    if (chance == 2) {
        message->expected = rndv ? UCS_ERR_NO_RESOURCE : UCS_OK;
        return UCS_ERR_NO_RESOURCE;
    }
    return UCS_OK;
}

/* `arg` is to + 16 * id: the header names the sender, and if there is none, it is the only possible one. */
static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    unsigned to = (unsigned)(uintptr_t)arg % 16, id = (unsigned)(uintptr_t)arg / 16 % 0x10000;
    unsigned from = (unsigned)(uintptr_t)arg >> 24;
    struct message *message = arrived(from, to, id, header, header_length, length, param->reply_ep != NULL);
    int rndv = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    int lent = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;

    if (id != message->id || (!rndv && !lent && id % 4096 == KEEPING % 4096) ||
        (rndv && (message->flags & UCP_AM_SEND_FLAG_EAGER)) || (!rndv && (message->flags & UCP_AM_SEND_FLAG_RNDV))) {
        cw_cluster_fail(cluster, "a message comes by the wrong scheme");
    }
    if (lent && (uintptr_t)data % cluster->nodes[to].worker->am_alignment != 0) {
        cw_cluster_fail(cluster, "data that is lent is not aligned"); /* AMR-20 */
    }
    if (((message->flags & UCP_AM_SEND_FLAG_REPLY) != 0) != (param->reply_ep != NULL)) {
        cw_cluster_fail(cluster, "reply_ep is there although nobody asked, or is not");
    }
    maybe_answer(message, param->reply_ep);
    maybe_let_go(to);
    return decide(message, data, rndv, rndv || lent);
}

/* Every sender has its own ids, 4096 apart, so that messages without a byte have a sender, too. */
static unsigned id_of(unsigned base, unsigned from)
{
    return base % 4096 + from * 4096 * (base == PLAIN ? 0 : 1) + (base == PLAIN ? from * 10 : 0);
}

static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    unsigned to = (unsigned)(uintptr_t)arg % 16, from = (unsigned)(uintptr_t)arg >> 24;
    struct message *message = arrived(from, to, id_of(OLD, from), NULL, 0, length, reply_ep != NULL);

    maybe_answer(message, reply_ep);
    maybe_let_go(to);
    return decide(message, data, 0, (flags & UCP_CB_PARAM_FLAG_DATA) != 0);
}

static void set_handlers(unsigned to)
{
    for (unsigned from = 0; from < cluster->num_workers; from++) {
        static const unsigned bases[] = {PLAIN, KEEPING};
        ucp_worker_h worker = cluster->nodes[to].worker;

        for (unsigned i = 0; i < 2; i++) {
            unsigned id = id_of(bases[i], from);
            ucp_am_handler_param_t param = {
                .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                              UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                .id = id,
                .cb = handler,
                .arg = (void *)(uintptr_t)(to + 16 * id + ((uint64_t)from << 24)),
                .flags = (i == 1) ? UCP_AM_FLAG_PERSISTENT_DATA : 0};

            assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
        }
        assert_int_equal(ucp_worker_set_am_handler(worker, (uint16_t)id_of(OLD, from), old_handler,
                                                   (void *)(uintptr_t)(to + ((uint64_t)from << 24)), 0), UCS_OK);
    }
}

static void done(struct message *message, ucs_status_t status)
{
    if (message->sent++ > 0) {
        cw_cluster_fail(cluster, "a send completes twice");
    }
    if (!faulty && status != UCS_OK && (!message->answered || status != message->expected)) {
        cw_cluster_fail(cluster, "message %llu from %u to %u: the send ends with %s",
                        (unsigned long long)message->number, message->from, message->to, ucs_status_string(status));
    }
    if ((message->flags & UCP_AM_SEND_FLAG_RNDV) && status == UCS_OK &&
        (!message->answered || message->expected != UCS_OK)) {
        cw_cluster_fail(cluster, "a send by rendezvous ends before the receiver said so");
    }
    memset(message->data, 0xee, message->length); /* ours again */
    if (message->header != NULL) {
        memset(message->header, 0xee, message->header_length);
    }
    cluster->num_done++;
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    done(user_data, status);
}

static struct message *message_new(unsigned from, unsigned to)
{
    static const unsigned bases[] = {PLAIN, PLAIN, KEEPING, OLD};
    static const uint32_t kinds[] = {0, 0, UCP_AM_SEND_FLAG_EAGER, UCP_AM_SEND_FLAG_RNDV};
    struct message *message = calloc(1, sizeof(*message));
    unsigned base = bases[cw_cluster_random(cluster, 4)];

    *message = (struct message){.from = from,
                              .to = to,
                              .id = id_of(base, from),
                              .length = random_length(largest),
                              .number = posted[from][to]};
    if (base == OLD) {
        message->flags = UCP_AM_SEND_FLAG_EAGER;
    } else {
        message->flags = kinds[cw_cluster_random(cluster, 4)];
        message->header_length = (cw_cluster_random(cluster, 2) == 0) ? 0 : cw_cluster_random(cluster, max_header + 1);
        message->header_length = (cw_cluster_random(cluster, 8) == 0) ? max_header : message->header_length;
    }
    message->flags |= (cw_cluster_random(cluster, 2) == 0) ? UCP_AM_SEND_FLAG_REPLY : 0;
    message->header = malloc(message->header_length + 1);
    message->data = malloc(message->length + 1);
    for (size_t i = 0; i < message->header_length; i++) {
        message->header[i] = byte_of(message, i + 1000000);
    }
    for (size_t i = 0; i < message->length; i++) {
        message->data[i] = byte_of(message, i);
    }
    return message;
}

static void send_message(unsigned from, unsigned to, ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE,
                                 .cb.send = on_sent,
                                 .datatype = ucp_dt_make_contig(1)};
    struct message *message;
    ucs_status_ptr_t result;
    uint8_t *header;
    size_t first;

    if (posted[from][to] == MAX_MESSAGES) {
        return;
    }
    message = message_new(from, to);
    messages[from][to][posted[from][to]++] = message;
    cluster->nodes[from].asleep = 0;
    cluster->num_ops += faulty ? 1 : 2; /* the send, and its arrival */
    param.user_data = message;
    param.flags = message->flags;
    header = message->header;
    if (cw_cluster_random(cluster, 3) == 0) {
        param.flags |= UCP_AM_SEND_FLAG_COPY_HEADER;
    }
    if (cw_cluster_random(cluster, 5) == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    if (cw_cluster_random(cluster, 4) == 0) {
        param.datatype = generic;
    }
    if (param.datatype != generic && cw_cluster_random(cluster, 3) == 0) {
        first = cw_cluster_random(cluster, message->length + 1);
        message->iov[0] = (ucp_dt_iov_t){message->data, first};
        message->iov[1] = (ucp_dt_iov_t){message->data + first, message->length - first};
        param.datatype = ucp_dt_make_iov();
        result = ucp_am_send_nbx(ep, message->id, header, message->header_length, message->iov, 2, &param);
    } else {
        result = ucp_am_send_nbx(ep, message->id, header, message->header_length, message->data, message->length,
                                 &param);
    }
    if (param.flags & UCP_AM_SEND_FLAG_COPY_HEADER) {
        free(header);
        message->header = NULL;
    }
    if (!UCS_PTR_IS_PTR(result)) {
        done(message, UCS_PTR_STATUS(result));
    } else if (message->sent == 0 && cw_cluster_random(cluster, 4) == 0) {
        ucp_request_cancel(cluster->nodes[from].worker, result); /* without effect (REQ-24) */
    }
}

static void talk(unsigned num_messages)
{
    while (num_messages > 0) {
        unsigned from = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        unsigned to = (unsigned)cw_cluster_random(cluster, cluster->num_workers);

        switch (cw_cluster_random(cluster, 4)) {
        case 0:
            send_message(from, to, cluster->nodes[from].eps[to]);
            num_messages--;
            break;
        case 1:
            if (num_retained > 0) {
                let_go((unsigned)cw_cluster_random(cluster, num_retained));
            }
            break;
        default:
            cw_cluster_step(cluster);
        }
    }
}

static void start(uint64_t seed, ucp_err_handling_mode_t mode, int sleepers, size_t largest_message)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    struct cw_sim_knobs knobs;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, mode, sleepers);
    largest = largest_message;
    faulty = mode == UCP_ERR_HANDLING_MODE_PEER;
    quiet = 0;
    num_retained = 0;
    num_closes = 0;
    memset(posted, 0, sizeof(posted));
    memset(delivered, 0, sizeof(delivered));
    assert_int_equal(ucp_worker_query(cluster->nodes[0].worker, &attr), UCS_OK);
    max_header = attr.max_am_header;
    generic = cw_generic_new();
    for (unsigned i = 0; i < cluster->num_workers; i++) {
        set_handlers(i);
        cluster->nodes[i].worker->am_alignment = (size_t)1 << cw_cluster_random(cluster, 13);
    }
}

static uint64_t end(void)
{
    uint64_t digest;

    quiet = 1;
    for (unsigned i = 0; cluster->num_done < cluster->num_ops; i++) {
        if (num_retained > 0) {
            let_go(0);
        }
        cluster->waiting = num_retained == 0;
        cw_cluster_step(cluster);
        if (i == cw_cluster_rounds()) {
            cw_cluster_fail(cluster, "%u of %u operations are not done", cluster->num_ops - cluster->num_done,
                            cluster->num_ops);
        }
    }
    for (unsigned i = 0; i < num_closes; i++) {
        cw_op_check(cluster, closes[i]);
    }
    while (num_retained > 3) { /* the rest ends with the worker */
        let_go(0);
    }
    cluster->num_ops = cluster->num_done = 0;
    digest = cw_cluster_free(cluster);
    cw_generic_free(generic);
    for (unsigned i = 0; i < CW_MAX_WORKERS * CW_MAX_WORKERS; i++) {
        unsigned from = i / CW_MAX_WORKERS, to = i % CW_MAX_WORKERS;

        for (uint64_t k = 0; k < posted[from][to]; k++) {
            free(messages[from][to][k]->header);
            free(messages[from][to][k]->data);
            free(messages[from][to][k]);
        }
    }
    return digest;
}

static uint64_t run_healthy(uint64_t seed, int sleepers)
{
    const size_t most = cw_cluster_is_simulated() ? 300000 : 6000000; /* of the system there are longer packets */

    start(seed, UCP_ERR_HANDLING_MODE_NONE, sleepers, (seed % 10 == 0) ? most : 20000);
    talk(150);
    return end();
}

SERIES_TEST(test_healthy_network, 100, NULL)
{
    run_healthy(seed, 0);
}

SERIES_TEST(test_sleepers, 100, NULL)
{
    run_healthy(seed, 1);
}

SERIES_TEST(test_runs_replay, 5, NULL)
{
    assert_int_equal(run_healthy(seed, 0), run_healthy(seed, 0));
}

/* Senders close behind the last message: all of them are handed over (CLS-4). */
SERIES_TEST(test_close_loses_nothing, 30, NULL)
{
    start(seed, UCP_ERR_HANDLING_MODE_NONE, 0, 20000);
    quiet = 1;
    for (unsigned i = 0; i < 40; i++) {
        unsigned to = 1 + (unsigned)cw_cluster_random(cluster, cluster->num_workers - 1);

        send_message(0, to, cluster->nodes[0].eps[to]);
        cw_cluster_step(cluster);
    }
    for (unsigned to = 1; to < cluster->num_workers; to++) {
        closes[num_closes++] = cw_cluster_close_ep(cluster, 0, to, 0);
    }
    end();
}

/* Connections break: every operation ends once, what was handed over is right. */
SERIES_TEST(test_broken_connections, 100, NULL)
{
    start(seed, UCP_ERR_HANDLING_MODE_PEER, 0, 20000);
    talk(60);
    cw_sim_set_fault(cluster->network, (seed % 2 == 0) ? CW_SIM_RESET : CW_SIM_GARBAGE, 3000);
    talk(80);
    cw_sim_set_fault(cluster->network, (seed % 2 == 0) ? CW_SIM_RESET : CW_SIM_GARBAGE, 0);
    if (seed % 3 == 0) {
        cw_sim_reset_all(cluster->network, (unsigned)cw_cluster_random(cluster, cluster->num_workers));
    }
    quiet = 1;
    for (unsigned i = 0; i < 2000; i++) {
        cw_cluster_step(cluster);
    }
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        closes[num_closes++] = cw_cluster_close_ep(cluster, i / cluster->num_workers, i % cluster->num_workers,
                                                   (seed % 4 < 2) ? UCP_EP_CLOSE_FLAG_FORCE : 0);
    }
    end();
}
