/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams over a simulated network, for many seeds: sends and receives of random kinds in random order; each byte that
 * is received is the one that stands at this place of the stream. CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many
 * follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "generic.h"
#include "series.h"
#include "cluster.h"

enum { MAX_IOV = 3, MAX_HELD_DATA = 20 };

struct link;

/* A send or a receive. Freed when it is done and its call has returned. */
struct move {
    struct link *link;
    uint8_t *buffer;
    size_t length;              /* of the buffer, which has one byte more */
    size_t element;             /* of receives: completes with a multiple of this ... */
    uint64_t turn;              /* ... and in this turn */
    ucp_dt_iov_t iov[MAX_IOV];
    int is_recv;
    int calls;
    int returned;
};

/* The stream from one worker to another. */
struct link {
    unsigned from;
    unsigned to;
    uint64_t sent;              /* bytes */
    uint64_t received;
    uint64_t wanted;            /* by receives that are not done, at most */
    uint64_t posted;            /* receives */
    uint64_t served;
    int broken;
};

static struct cw_cluster *cluster;
static struct link links[CW_MAX_WORKERS][CW_MAX_WORKERS];
static struct {
    void *data;
    ucp_ep_h ep;
} held[MAX_HELD_DATA];
static unsigned num_held;
static struct cw_op *closes[CW_MAX_WORKERS * CW_MAX_WORKERS];
static unsigned num_closes;
static size_t largest;          /* send */
static int faulty;              /* errors may happen */
static ucp_datatype_t generic;  /* of plain bytes */

static uint8_t byte_at(const struct link *link, uint64_t position)
{
    return (uint8_t)(cw_hash_mix((position >> 3) * 64 + link->from * 8 + link->to) >> (position % 8 * 8));
}

static void check_bytes(struct link *link, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != byte_at(link, link->received + i)) {
            cw_cluster_fail(cluster, "byte %llu of the stream from %u to %u is wrong, the %zuth of %zu",
                            (unsigned long long)(link->received + i), link->from, link->to, i, length);
        }
    }
    link->received += length;
}

static void done(struct move *move, ucs_status_t status, size_t length)
{
    struct link *link = move->link;

    if (++move->calls > 1) {
        cw_cluster_fail(cluster, "an operation completes twice");
    }
    cluster->num_done++;
    if (status != UCS_OK && !faulty) {
        cw_cluster_fail(cluster, "an operation ends with %s on a healthy network", ucs_status_string(status));
    }
    link->broken |= status != UCS_OK;
    if (!move->is_recv) {
        memset(move->buffer, 0xee, move->length); /* ours again (STR-2) */
    } else {
        if (move->length > 0 && move->turn != link->served++) {
            cw_cluster_fail(cluster, "a receive overtakes another one"); /* STR-9 */
        }
        link->wanted -= move->length;
        if (status == UCS_OK) {
            if (length > move->length || (move->length > 0 && length == 0) || length % move->element != 0) {
                cw_cluster_fail(cluster, "a receive of %zu bytes in elements of %zu ends with %zu", move->length,
                                move->element, length);
            }
            check_bytes(link, move->buffer, length);
            for (size_t i = length; i <= move->length; i++) {
                if (move->buffer[i] != 0xcc) {
                    cw_cluster_fail(cluster, "a receive of %zu bytes that got %zu wrote byte %zu", move->length, length,
                                    i);
                }
            }
        }
    }
    if (move->returned) {
        free(move->buffer);
        free(move);
    }
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    done(user_data, status, 0);
}

static void received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucp_request_free(request);
    done(user_data, status, length);
}

static void returned(struct move *move, ucs_status_ptr_t result, size_t length)
{
    if (!UCS_PTR_IS_PTR(result)) {
        if (move->calls > 0) {
            cw_cluster_fail(cluster, "the callback was called although the call returned a result");
        }
        done(move, UCS_PTR_STATUS(result), length);
    }
    move->returned = 1;
    if (move->calls > 0) {
        free(move->buffer);
        free(move);
    }
}

static struct move *move_new(struct link *link, unsigned poster, size_t length)
{
    struct move *move = calloc(1, sizeof(*move));

    move->link = link;
    move->length = length;
    move->buffer = malloc(length + 1);
    cluster->nodes[poster].asleep = 0;
    cluster->num_ops++;
    memset(move->buffer, 0xcc, length + 1);
    return move;
}

/* Contiguous, cut in three, or of a type of its own. */
static const void *describe(struct move *move, ucp_request_param_t *param, size_t *count)
{
    size_t first = cw_cluster_random(cluster, move->length + 1),
           second = cw_cluster_random(cluster, move->length - first + 1);

    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    if (move->element == 1 && cw_cluster_random(cluster, 4) == 0) {
        param->datatype = generic;
        *count = move->length;
        return move->buffer;
    }
    if (move->element != 1 || cw_cluster_random(cluster, 3) != 0) {
        param->datatype = ucp_dt_make_contig(move->element);
        *count = move->length / move->element;
        return move->buffer;
    }
    move->iov[0] = (ucp_dt_iov_t){move->buffer, first};
    move->iov[1] = (ucp_dt_iov_t){move->buffer + first, second};
    move->iov[2] = (ucp_dt_iov_t){move->buffer + first + second, move->length - first - second};
    param->datatype = ucp_dt_make_iov();
    *count = MAX_IOV;
    return move->iov;
}

static void send_bytes(struct link *link, size_t length)
{
    struct move *move = move_new(link, link->from, length);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = sent,
                                 .user_data = move};
    const void *buffer;
    size_t count;

    move->element = 1;
    for (size_t i = 0; i < length; i++) {
        move->buffer[i] = byte_at(link, link->sent + i);
    }
    link->sent += length;
    buffer = describe(move, &param, &count);
    if (cw_cluster_random(cluster, 5) == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    returned(move, ucp_stream_send_nbx(cluster->nodes[link->from].eps[link->to], buffer, count, &param), 0);
}

static void recv_bytes(struct link *link, size_t element, size_t length, int all)
{
    struct move *move = move_new(link, link->to, length);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                               .cb.recv_stream = received,
                               .flags = all ? UCP_STREAM_RECV_FLAG_WAITALL : 0,
                               .user_data = move};
    size_t count, got = 0;
    void *buffer;
    void *result;

    move->is_recv = 1;
    move->element = element;
    move->turn = link->posted;
    link->posted += length > 0; /* nothing to wait for: its turn is at once */
    link->wanted += length;
    buffer = (void *)describe(move, &param, &count);
    move->element = (all && length > 0) ? length : element;
    if (cw_cluster_random(cluster, 5) == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    result = ucp_stream_recv_nbx(cluster->nodes[link->to].eps[link->from], buffer, count, &got, &param);
    if (UCS_PTR_IS_PTR(result) && move->calls == 0 && cw_cluster_random(cluster, 4) == 0) {
        ucp_request_cancel(cluster->nodes[link->to].worker, result); /* without effect (STR-19) */
    }
    returned(move, result, got);
}

static void release_one(void)
{
    unsigned i = (unsigned)cw_cluster_random(cluster, num_held);

    ucp_stream_data_release(held[i].ep, held[i].data);
    held[i] = held[--num_held];
}

/* Library-owned data, kept for a while. Returns the length. */
static size_t recv_data(struct link *link)
{
    ucp_ep_h ep = cluster->nodes[link->to].eps[link->from];
    size_t length = 0;
    void *data = ucp_stream_recv_data_nb(ep, &length);

    cluster->nodes[link->to].asleep = 0;
    if (!UCS_PTR_IS_PTR(data)) {
        return 0;
    }
    if (length == 0) {
        cw_cluster_fail(cluster, "library-owned data of no length");
    }
    check_bytes(link, data, length);
    if (num_held == MAX_HELD_DATA) {
        release_one();
    }
    held[num_held].ep = ep;
    held[num_held++].data = data;
    return length;
}

static void poll_worker(unsigned worker)
{
    ucp_stream_poll_ep_t polled[2];
    ssize_t count = ucp_stream_worker_poll(cluster->nodes[worker].worker, polled, 2, 0);
    unsigned from;

    for (ssize_t i = 0; i < count; i++) {
        for (from = 0; from < cluster->num_workers && cluster->nodes[worker].eps[from] != polled[i].ep; from++) {
        }
        if (from == cluster->num_workers) {
            cw_cluster_fail(cluster, "poll reports an endpoint that this worker does not have");
        }
        if (links[from][worker].posted != links[from][worker].served || recv_data(&links[from][worker]) == 0) {
            cw_cluster_fail(cluster, "poll reports the stream from %u to %u, where nothing is to be read", from,
                            worker);
        }
    }
}

static size_t random_length(void)
{
    switch (cw_cluster_random(cluster, 12)) {
    case 0:
        return 0;
    case 1:
        return cw_cluster_random(cluster, largest);
    case 2:
    case 3:
        return cw_cluster_random(cluster, 3000);
    default:
        return cw_cluster_random(cluster, 100);
    }
}

static void random_recv(struct link *link)
{
    static const size_t elements[] = {1, 1, 2, 8, 13, 300};
    size_t element = elements[cw_cluster_random(cluster, 6)];
    size_t length = random_length();

    if (link->posted == link->served && cw_cluster_random(cluster, 4) == 0) {
        recv_data(link);
    } else {
        recv_bytes(link, element, (length + element - 1) / element * element, cw_cluster_random(cluster, 2) != 0);
    }
}

static int is_open(const struct link *link)
{
    return cluster->nodes[link->from].eps[link->to] != NULL && cluster->nodes[link->to].eps[link->from] != NULL;
}

static void talk(unsigned num_moves)
{
    while (num_moves > 0) {
        struct link *link =
            &links[cw_cluster_random(cluster, cluster->num_workers)][cw_cluster_random(cluster, cluster->num_workers)];

        switch (cw_cluster_random(cluster, 4)) {
        case 0:
            send_bytes(link, random_length());
            num_moves--;
            break;
        case 1:
            random_recv(link);
            num_moves--;
            break;
        case 2:
            poll_worker((unsigned)cw_cluster_random(cluster, cluster->num_workers));
            break;
        default:
            cw_cluster_step(cluster);
        }
    }
}

/* Every receive gets its bytes, then every byte its receive. */
static void make_even(void)
{
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        struct link *link = &links[i / cluster->num_workers][i % cluster->num_workers];

        if (is_open(link) && link->wanted > 0) {
            send_bytes(link,
                       link->wanted + link->received > link->sent ? link->wanted + link->received - link->sent : 0);
        }
    }
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        struct link *link = &links[i / cluster->num_workers][i % cluster->num_workers];

        while (link->posted != link->served || link->received < link->sent) {
            if (link->posted == link->served) {
                recv_bytes(link, 1, 1 + cw_cluster_random(cluster, link->sent - link->received), 0);
            }
            cw_cluster_step(cluster);
        }
    }
}

static void start(uint64_t seed, ucp_err_handling_mode_t mode, int sleepers, size_t largest_send)
{
    struct cw_sim_knobs knobs;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, mode, sleepers);
    generic = cw_generic_new();
    largest = largest_send;
    num_held = 0;
    faulty = mode == UCP_ERR_HANDLING_MODE_PEER;
    num_closes = 0;
    memset(links, 0, sizeof(links));
    for (unsigned i = 0; i < CW_MAX_WORKERS; i++) {
        for (unsigned j = 0; j < CW_MAX_WORKERS; j++) {
            links[i][j].from = i;
            links[i][j].to = j;
        }
    }
}

static uint64_t end(void)
{
    uint64_t digest;

    cw_cluster_finish(cluster);
    for (unsigned i = 0; i < num_closes; i++) {
        cw_op_check(cluster, closes[i]);
    }
    while (num_held > 0) {
        release_one();
    }
    cluster->num_ops = cluster->num_done = 0;
    digest = cw_cluster_free(cluster);
    cw_generic_free(generic);
    return digest;
}

static void close_eps(uint32_t flags)
{
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        if (cluster->nodes[i / cluster->num_workers].eps[i % cluster->num_workers] != NULL) {
            closes[num_closes++] =
                cw_cluster_close_ep(cluster, i / cluster->num_workers, i % cluster->num_workers, flags);
        }
    }
}

static uint64_t run_healthy(uint64_t seed, int sleepers)
{
    const size_t most = cw_cluster_is_simulated() ? 300000 : 6000000; /* of the system there are longer packets */

    start(seed, UCP_ERR_HANDLING_MODE_NONE, sleepers, (seed % 10 == 0) ? most : 20000);
    talk(120);
    make_even();
    return end();
}

/* EP-41. */
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

/* More than the window holds, beside tag messages that fill the queue, so that sends wait in both places. */
SERIES_TEST(test_full_window, 15, NULL)
{
    struct link *link = &links[0][1];
    struct cw_op *ops[200];
    unsigned num_ops = 0;

    start(seed, UCP_ERR_HANDLING_MODE_NONE, 0, 300000);
    for (unsigned i = 0; i < 100 || link->received < link->sent; i++) {
        if (i < 100) {
            send_bytes(link, (i < 4) ? 300000 : random_length());
            ops[num_ops++] = cw_cluster_send(cluster, 0, 1);
            ops[num_ops++] = cw_cluster_recv(cluster, 0, 1);
        }
        if (i > 20 && link->posted == link->served && link->received < link->sent) {
            recv_bytes(link, 1, 1 + cw_cluster_random(cluster, link->sent - link->received), 0);
        }
        for (unsigned steps = (unsigned)cw_cluster_random(cluster, 100); steps > 0; steps--) {
            cw_cluster_step(cluster);
        }
    }
    cw_cluster_finish(cluster);
    for (unsigned i = 0; i < num_ops; i++) {
        cw_op_check(cluster, ops[i]);
    }
    end();
}

/* Senders close behind the last byte; receivers read all of it (CLS-4). */
SERIES_TEST(test_close_loses_nothing, 30, NULL)
{
    start(seed, UCP_ERR_HANDLING_MODE_NONE, 0, (seed % 10 == 0) ? 1000000 : 20000);
    for (unsigned i = 0; i < 40; i++) {
        send_bytes(&links[0][1 + cw_cluster_random(cluster, cluster->num_workers - 1)], random_length());
        cw_cluster_step(cluster);
    }
    for (unsigned to = 1; to < cluster->num_workers; to++) {
        closes[num_closes++] = cw_cluster_close_ep(cluster, 0, to, 0);
    }
    for (unsigned to = 1; to < cluster->num_workers; to++) {
        while (links[0][to].received < links[0][to].sent) {
            if (cw_cluster_random(cluster, 3) == 0 && links[0][to].posted == links[0][to].served) {
                recv_bytes(&links[0][to], 1, 1 + cw_cluster_random(cluster, links[0][to].sent - links[0][to].received),
                           0);
            }
            cw_cluster_step(cluster);
        }
    }
    end();
}

/* Connections break: every operation ends once, what was received before is right; a close ends the rest. */
SERIES_TEST(test_broken_connections, 100, NULL)
{
    start(seed, UCP_ERR_HANDLING_MODE_PEER, 0, 20000);
    talk(50);
    cw_sim_set_fault(cluster->network, (seed % 2 == 0) ? CW_SIM_RESET : CW_SIM_GARBAGE, 3000);
    talk(60);
    if (seed % 3 == 0) {
        cw_sim_reset_all(cluster->network, (unsigned)cw_cluster_random(cluster, cluster->num_workers));
    }
    cw_sim_set_fault(cluster->network, (seed % 2 == 0) ? CW_SIM_RESET : CW_SIM_GARBAGE, 0);
    for (unsigned i = 0; i < 2000; i++) {
        cw_cluster_step(cluster);
    }
    close_eps((seed % 4 < 2) ? UCP_EP_CLOSE_FLAG_FORCE : 0);
    end();
}
