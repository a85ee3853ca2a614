/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses of the verbs transport that the target's device refuses (docs/why/refused.md): each costs one operation, and
 * everything else on its connection is carried out once and in order.
 */
#include "test_verbs_sides.h"

#include "core/ep.h"
#include "core/lanes.h"

enum { WORDS = 64, CONNS = 4 };

static ucp_ep_h eps[CONNS], back[CONNS];

/* ---- accesses by a connection itself, of both sides ---- */

/* Memory of a side: its first word counts, the second is constant, and each connection writes one behind them. */
static uint64_t memory[2][WORDS];
static struct ibv_mr *mrs[2], *unwritable[2];

static struct access {
    struct cw_completion completion;
    ucs_status_t status;
    unsigned done;
    uint64_t result;
} accesses[1024];

static void on_done(struct cw_completion *completion, ucs_status_t status)
{
    struct access *access = cw_container_of(completion, struct access, completion);

    access->done++;
    access->status = status;
}

static struct access *begin_access(unsigned number)
{
    accesses[number] = (struct access){.completion.done = on_done, .result = UINT64_MAX};
    return &accesses[number];
}

static void register_memory(void)
{
    const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    unsigned i;

    memset(memory, 0, sizeof(memory));
    for (i = 0; i < 2; i++) {
        memory[i][1] = 77;
        mrs[i] = iface_of(i)->lib->reg_mr(iface_of(i)->pd, memory[i], sizeof(memory[i]),
                                          rights | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
        unwritable[i] = iface_of(i)->lib->reg_mr(iface_of(i)->pd, memory[i], sizeof(memory[i]), rights);
        assert_true(mrs[i] != NULL && unwritable[i] != NULL);
    }
}

static void deregister_memory(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        (void)iface_of(i)->lib->dereg_mr(mrs[i]);
        (void)iface_of(i)->lib->dereg_mr(unwritable[i]);
    }
}

static struct cw_access_target target_at(unsigned side, unsigned word)
{
    return (struct cw_access_target){.address = (uintptr_t)&memory[side][word], .key.word[0] = mrs[side]->rkey};
}

static size_t pack_word(void *dest, size_t max, void *arg)
{
    (void)max;
    memcpy(dest, arg, 8);
    return 8;
}

static void unpack_word(const void *data, size_t length, void *arg)
{
    memcpy(arg, data, length);
}

enum kind { PUT_SHORT, PUT_BCOPY, GET, ADD, KINDS };

static ucs_status_t start(struct cw_conn *conn, enum kind kind, uint64_t value, const struct cw_access_target *target,
                          struct access *access)
{
    struct cw_completion *completion = (access != NULL) ? &access->completion : NULL;

    switch (kind) {
    case PUT_SHORT:
        return cw_verbs_access.put_short(conn, &value, 8, target, 0, completion);
    case PUT_BCOPY:
        return cw_verbs_access.put_bcopy(conn, 8, pack_word, &value, target, 0, completion);
    case GET:
        return cw_verbs_access.get_bcopy(conn, 8, unpack_word, &access->result, target, 0, completion);
    default:
        return cw_verbs_access.atomic(conn, CW_ACCESS_ADD, 1, 0, (access != NULL) ? &access->result : NULL, target, 0,
                                      completion);
    }
}

/* As soon as the connection takes it. */
static void start_when_possible(struct cw_conn *conn, enum kind kind, uint64_t value,
                                const struct cw_access_target *target, struct access *access)
{
    unsigned rounds = ROUNDS_HANG;
    ucs_status_t status;

    while ((status = start(conn, kind, value, target, access)) == CW_AGAIN) {
        progress();
        assert_true(rounds-- > 0);
    }
    assert_int_equal(status, UCS_INPROGRESS);
}

static struct access *start_soon(struct cw_conn *conn, enum kind kind, uint64_t value,
                                 const struct cw_access_target *target, unsigned number)
{
    struct access *access = begin_access(number);

    start_when_possible(conn, kind, value, target, access);
    return access;
}

static ucs_status_t end_access(const struct access *access)
{
    unsigned rounds = ROUNDS_HANG;

    while (access->done == 0) {
        progress();
        assert_true(rounds-- > 0);
    }
    return access->status;
}

static struct cw_conn *conn_of(unsigned side)
{
    return &cw_list_head(&iface_of(side)->conns, struct cw_verbs_conn, link)->super;
}

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_RC_RX_QUEUE_LEN", "64", 1);
    setenv("UCX_IB_SEG_SIZE", "2048", 1);
    unsetenv("UCX_RC_TX_QUEUE_LEN");
    device_is.loses = device_is.acks_late = device_is.is_mute = device_is.has_no_access_events = 0;
    device_is.num_devices = 1;
    device_is.more_inline = 0;
    memset(&device_saw, 0, sizeof(device_saw));
    failures = 0;
    return 0;
}

static void open_pair(unsigned conns, unsigned most_live)
{
    unsigned i;

    open_sides(2, most_live);
    for (i = 0; i < conns; i++) {
        eps[i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
        back[i] = connect_ep(1, 0, UCP_ERR_HANDLING_MODE_PEER);
        (void)send_word(eps[i], &(uint32_t){5}, i);
        expect_word(1, i, 5);
        (void)send_word(back[i], &(uint32_t){6}, i);
        expect_word(0, i, 6);
    }
    register_memory();
}

static void close_pair(void)
{
    deregister_memory();
    device_is.loses = 0;
    close_sides();
}

/* What a device refuses: each kind of access, for each reason. */
TEST_WITH(test_costs_one_operation, setup, NULL)
{
    struct cw_access_target targets[4];
    struct access *refused, *after;
    uint32_t word;
    unsigned i, kind;

    open_pair(1, 256);
    targets[0] = target_at(1, 2);
    targets[0].key.word[0] ^= 0x5a00; /* no such memory */
    targets[1] = target_at(1, WORDS);
    targets[2] = target_at(1, 2);
    targets[2].address = UINT64_MAX - 7;
    targets[3] = target_at(1, 2);
    targets[3].key.word[0] = unwritable[1]->rkey;
    for (kind = 0; kind < KINDS; kind++) {
        for (i = 0; i < 4; i++) {
            if (kind == GET && i == 3) {
                continue;
            }
            word = 10 * kind + i;
            refused = start_soon(conn_of(0), (enum kind)kind, 1, &targets[i], 0);
            (void)send_word(eps[0], &word, 1);
            (void)send_word(back[0], &word, 1);
            assert_int_equal(end_access(refused), UCS_ERR_INVALID_ADDR);
            expect_word(1, 1, word);
            expect_word(0, 1, word);
            after = start_soon(conn_of(0), PUT_BCOPY, word, &(struct cw_access_target){target_at(1, 2).address,
                                                                                       target_at(1, 2).key}, 1);
            assert_int_equal(end_access(after), UCS_OK);
            assert_int_equal(memory[1][2], word);
        }
    }
    assert_int_equal(memory[1][0], 0);
    assert_int_equal(failures, 0);
    close_pair();
}

/* The flush behind it reports an access without a completion, once. */
TEST_WITH(test_flush_reports, setup, NULL)
{
    struct cw_access_target target;
    struct access *flush;
    unsigned i;

    open_pair(1, 256);
    for (i = 0; i < 4; i++) {
        target = target_at(1, WORDS);
        start_when_possible(conn_of(0), (i % 2 == 0) ? PUT_SHORT : ADD, 1, &target, NULL);
        pass(i / 2 * 20); /* the flush begins before, and after it is known */
        flush = begin_access(0);
        assert_int_equal(cw_verbs_access.flush(conn_of(0), &flush->completion), UCS_INPROGRESS);
        assert_int_equal(end_access(flush), UCS_ERR_INVALID_ADDR);
        target = target_at(1, 0);
        start_when_possible(conn_of(0), ADD, 1, &target, NULL);
        flush = begin_access(0);
        assert_int_equal(cw_verbs_access.flush(conn_of(0), &flush->completion), UCS_INPROGRESS);
        assert_int_equal(end_access(flush), UCS_OK);
        assert_int_equal(memory[1][0], i + 1);
    }
    assert_int_equal(failures, 0);
    close_pair();
}

/* The first refused access of an operation ends all of it, and breaks one queue pair. What lies between its accesses is
 * carried out. */
TEST_WITH(test_operation_of_many, setup, NULL)
{
    enum { PIECES = 40 };
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};
    struct cw_access_target good;
    struct access *operation;
    uint32_t words[PIECES];
    unsigned i, round, made, refusals, hang;

    open_pair(1, 256);
    good = target_at(1, 0);
    for (round = 0; round < 6; round++) {
        device_is.acks_late = (int)round % 2;
        made = device_saw.made_qps;
        refusals = device_saw.refusals;
        operation = begin_access(0);
        for (i = 0; i < PIECES; i++) {
            start_when_possible(conn_of(0), (enum kind)(i % ADD), 1, &bad, operation);
            (void)start_soon(conn_of(0), ADD, 1, &good, 1 + i);
            words[i] = 100 * round + i;
            (void)send_word(eps[0], &words[i], 1);
        }
        for (hang = ROUNDS_HANG; operation->done < PIECES && hang > 0; hang--) {
            progress();
        }
        assert_int_equal(operation->done, PIECES);
        assert_int_equal(operation->status, UCS_ERR_INVALID_ADDR);
        for (i = 0; i < PIECES; i++) {
            assert_int_equal(end_access(&accesses[1 + i]), UCS_OK);
            assert_int_equal(accesses[1 + i].result, round * PIECES + i);
            expect_word(1, 1, words[i]);
        }
        assert_int_equal(device_saw.refusals - refusals, 1);
        assert_int_equal(device_saw.made_qps - made, 2);
        pass(200);
        assert_int_equal(operation->done, PIECES);
    }
    assert_int_equal(failures, 0);
    close_pair();
}

/* The device takes longer requests inline than it was asked for: they are repeated whole, too. */
TEST_WITH(test_generous_device, setup, NULL)
{
    enum { MESSAGES = 32, MOST = 400 };
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};
    char out[MESSAGES][MOST], in[MOST];
    ucs_status_ptr_t requests[MESSAGES];
    struct access *refused;
    unsigned i, round;
    size_t length;

    device_is.more_inline = 300;
    open_pair(1, 256);
    for (round = 0; round < 12; round++) {
        refused = start_soon(conn_of(0), PUT_BCOPY, 1, &bad, 0);
        for (i = 0; i < MESSAGES; i++) {
            length = (37 * i + 11 * round) % MOST;
            memset(out[i], (int)(7 * i + round), length);
            requests[i] = ucp_tag_send_nbx(eps[0], out[i], length, 1, &param);
        }
        assert_int_equal(end_access(refused), UCS_ERR_INVALID_ADDR);
        for (i = 0; i < MESSAGES; i++) {
            length = (37 * i + 11 * round) % MOST;
            assert_int_equal(end_request(ucp_tag_recv_nbx(sides[1].worker, in, MOST, 1, UINT64_MAX, &param)), UCS_OK);
            assert_memory_equal(in, out[i], length);
            assert_int_equal(end_request(requests[i]), UCS_OK);
        }
        pass(200);
    }
    assert_int_equal(failures, 0);
    close_pair();
}

/* ---- random traffic ---- */

struct stream {
    uint32_t sent, came;
    bool is_posted;
    ucs_status_ptr_t receive;
    uint32_t got;
};

/* Messages in order by each endpoint. */
static void receive_all(struct stream streams[2][CONNS], unsigned conns)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    struct stream *stream;
    unsigned side, i;

    for (side = 0; side < 2; side++) {
        for (i = 0; i < conns; i++) {
            stream = &streams[side][i];
            while (!stream->is_posted || !UCS_PTR_IS_PTR(stream->receive) ||
                   ucp_request_check_status(stream->receive) != UCS_INPROGRESS) {
                if (stream->is_posted) {
                    stream->is_posted = false;
                    assert_int_equal(end_request(stream->receive), UCS_OK);
                    assert_int_equal(stream->got, stream->came++);
                }
                stream->is_posted = true;
                stream->receive = ucp_tag_recv_nbx(sides[1 - side].worker, &stream->got, sizeof(stream->got),
                                                   1000 + i, UINT64_MAX, &param);
            }
        }
    }
}

struct sums {
    unsigned added, maybe, refused, reset;
};

/* Ends the accesses of a round; those of even numbers are of side 0. */
static void check_accesses(const enum kind *kinds, const bool *are_bad, unsigned count, struct sums sums[2])
{
    struct sums *sum;
    unsigned i;

    for (i = 0; i < count; i++) {
        (void)end_access(&accesses[i]);
        assert_int_equal(accesses[i].done, 1);
        sum = &sums[i % 2];
        if (are_bad[i]) {
            /* the device need not have checked an atomic operation, which is not repeated */
            assert_true(accesses[i].status == UCS_ERR_INVALID_ADDR ||
                        (accesses[i].status == UCS_ERR_CONNECTION_RESET && (device_is.is_mute || kinds[i] == ADD)));
            sum->refused++;
            continue;
        }
        if (kinds[i] == ADD) {
            sum->added += accesses[i].status == UCS_OK;
            sum->maybe += accesses[i].status != UCS_OK;
        } else if (!device_is.is_mute) {
            assert_int_equal(accesses[i].status, UCS_OK);
        }
        if (accesses[i].status != UCS_OK) {
            assert_int_equal(accesses[i].status, UCS_ERR_CONNECTION_RESET);
            sum->reset++;
        } else if (kinds[i] == GET) {
            assert_int_equal(accesses[i].result, 77);
        }
    }
}

/* Both sides send messages and access memory by one of several connections, while some accesses are refused. */
static void random_traffic(unsigned conns, unsigned most_live, unsigned rounds)
{
    struct stream streams[2][CONNS];
    struct sums sums[2];
    struct cw_access_target target;
    enum kind kinds[16];
    bool are_bad[16];
    uint64_t written[2] = {0};
    unsigned round, side, i, num, count, hang = ROUNDS_HANG;
    ucs_status_ptr_t requests[64];
    static uint32_t words[64];

    memset(streams, 0, sizeof(streams));
    memset(sums, 0, sizeof(sums));
    open_pair(conns, most_live);
    for (round = 0; round < rounds; round++) {
        const unsigned parts = 1 + (unsigned)rand() % 8;

        count = num = 0;
        for (i = 0; i < 2 * parts; i++) {
            const unsigned at = (unsigned)rand() % conns;

            side = i % 2;
            if (rand() % 2 == 0 && num + 3 <= 64) {
                for (unsigned j = 0; j < 3; j++, num++) {
                    words[num] = streams[side][at].sent++;
                    requests[num] = send_word(side == 0 ? eps[at] : back[at], &words[num], 1000 + at);
                }
            }
            kinds[count] = (enum kind)(rand() % KINDS);
            are_bad[count] = rand() % 8 == 0;
            if (kinds[count] == ADD) {
                target = target_at(1 - side, 0);
            } else {
                target = target_at(1 - side, (kinds[count] == GET) ? 1 : 2);
            }
            target.key.word[0] ^= are_bad[count] ? 0x5a00 : 0;
            if (!are_bad[count] && (kinds[count] == PUT_BCOPY || kinds[count] == PUT_SHORT)) {
                written[side]++;
            }
            (void)start_soon(conn_of(side), kinds[count], written[side], &target, count);
            count++;
            if (rand() % 4 == 0) {
                progress();
            }
        }
        check_accesses(kinds, are_bad, count, sums);
        for (i = 0; i < num; i++) {
            assert_int_equal(end_request(requests[i]), UCS_OK);
        }
        receive_all(streams, conns);
        for (side = 0; side < 2; side++) {
            assert_true(memory[1 - side][0] >= sums[side].added);
            assert_true(memory[1 - side][0] <= sums[side].added + sums[side].maybe);
            if (!device_is.is_mute) {
                assert_int_equal(memory[1 - side][2], written[side]);
            }
        }
        pass((unsigned)rand() % 3 * (most_live < conns ? 200 : 1));
    }
    for (side = 0; side < 2; side++) {
        for (i = 0; i < conns; i++) {
            while (streams[side][i].came < streams[side][i].sent) {
                progress();
                receive_all(streams, conns);
                assert_true(hang-- > 0);
            }
        }
    }
    for (i = 0; i < 2 * conns; i++) {
        ucp_request_cancel(sides[1 - i % 2].worker, streams[i % 2][i / 2].receive);
        assert_int_equal(end_request(streams[i % 2][i / 2].receive), UCS_ERR_CANCELED);
    }
    assert_int_equal(failures, 0);
    assert_true(sums[0].refused > 0 && sums[1].refused > 0);
    assert_true(device_saw.refusals > 0);
    close_pair();
}

TEST_WITH(test_random, setup, NULL)
{
    random_traffic(1, 256, 300);
}

/* A request is carried out before its sender knows. */
TEST_WITH(test_random_late_acks, setup, NULL)
{
    device_is.acks_late = 1;
    random_traffic(1, 256, 1000);
    setup(state);
    device_is.acks_late = device_is.has_no_access_events = 1;
    random_traffic(1, 256, 300);
}

/* Datagrams get lost; connections are parked meanwhile. */
TEST_WITH(test_random_parked, setup, NULL)
{
    device_is.acks_late = 1;
    device_is.loses = 10;
    random_traffic(CONNS, 1, 300);
}

TEST_WITH(test_random_short_queue, setup, NULL)
{
    setenv("UCX_RC_TX_QUEUE_LEN", "16", 1);
    device_is.acks_late = 1;
    random_traffic(1, 256, 300);
}

/* The initiator's device says nothing: the target's does. */
TEST_WITH(test_random_mute, setup, NULL)
{
    device_is.acks_late = device_is.is_mute = 1;
    random_traffic(1, 256, 300);
}

/* ---- by the calls of a program ---- */

/* The owner unmaps memory under gets of a peer, some of which the device reads in place. */
TEST_WITH(test_unmapped, setup, NULL)
{
    enum { GETS = 8, LONG = 1 << 16 };
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    char *from = calloc(1, LONG), *to = calloc(GETS, LONG);
    ucs_status_ptr_t requests[GETS];
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    void *packed;
    size_t size;
    uint32_t word;
    unsigned i, round;

    assert_true(from != NULL && to != NULL);
    map.address = from;
    open_pair(1, 256);
    for (round = 0; round < 20; round++) {
        assert_int_equal(ucp_mem_map(sides[1].context, &map, &memh), UCS_OK);
        assert_int_equal(ucp_rkey_pack(sides[1].context, memh, &packed, &size), UCS_OK);
        assert_int_equal(ucp_ep_rkey_unpack(eps[0], packed, &rkey), UCS_OK);
        ucp_rkey_buffer_release(packed);
        for (i = 0; i < GETS; i++) {
            requests[i] = ucp_get_nbx(eps[0], to + i * LONG, (i % 2 == 0) ? LONG : 100, (uintptr_t)from, rkey, &param);
        }
        for (i = 0; i < round; i++) {
            progress();
        }
        assert_int_equal(ucp_mem_unmap(sides[1].context, memh), UCS_OK);
        for (i = 0; i < GETS; i++) {
            const ucs_status_t status = end_request(requests[i]);

            assert_true(status == UCS_OK || status == UCS_ERR_INVALID_ADDR);
        }
        assert_int_equal(end_request(ucp_get_nbx(eps[0], to, LONG, (uintptr_t)from, rkey, &param)),
                         UCS_ERR_INVALID_ADDR);
        word = round;
        (void)send_word(eps[0], &word, 3);
        (void)send_word(back[0], &word, 3);
        expect_word(1, 3, word);
        expect_word(0, 3, word);
        ucp_rkey_destroy(rkey);
    }
    assert_int_equal(failures, 0);
    free(from);
    free(to);
    close_pair();
}

static void check_lanes(struct cw_conn *conns[2])
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        assert_int_equal(eps[0]->lanes->further[i].state, CW_FURTHER_OPEN);
        assert_true(conns[i] == NULL || eps[0]->lanes->further[i].conn == conns[i]);
        conns[i] = eps[0]->lanes->further[i].conn;
    }
}

/* Two devices share a put or a get. That it is refused closes none of their lanes. */
TEST_WITH(test_shared_by_two_devices, setup, NULL)
{
    enum { LONG = 8 << 20 };
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    char *there = calloc(1, LONG), *here = calloc(1, LONG);
    struct cw_conn *conns[2] = {NULL, NULL};
    ucs_status_ptr_t request;
    unsigned i, refusals;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    void *packed;
    size_t size;

    assert_true(there != NULL && here != NULL);
    setenv("UCX_MAX_RMA_RAILS", "2", 1);
    device_is.num_devices = 2;
    map.address = there;
    open_pair(1, 256);
    call_ns = 1000;
    for (i = 0; i < 6; i++) {
        assert_int_equal(ucp_mem_map(sides[1].context, &map, &memh), UCS_OK);
        assert_int_equal(ucp_rkey_pack(sides[1].context, memh, &packed, &size), UCS_OK);
        assert_int_equal(ucp_ep_rkey_unpack(eps[0], packed, &rkey), UCS_OK);
        ucp_rkey_buffer_release(packed);
        memset(here, (int)i, LONG);
        assert_int_equal(end_request(ucp_put_nbx(eps[0], here, LONG, (uintptr_t)there, rkey, &param)), UCS_OK);
        assert_int_equal(end_request(ucp_ep_flush_nbx(eps[0], &param)), UCS_OK);
        assert_memory_equal(here, there, LONG);
        pass(100);
        check_lanes(conns);
        assert_int_equal(ucp_mem_unmap(sides[1].context, memh), UCS_OK);
        refusals = device_saw.refusals;
        request = (i % 2 == 0) ? ucp_put_nbx(eps[0], here, LONG, (uintptr_t)there, rkey, &param)
                               : ucp_get_nbx(eps[0], here, LONG, (uintptr_t)there, rkey, &param);
        assert_int_equal(end_request(request), UCS_ERR_INVALID_ADDR);
        assert_int_equal(device_saw.refusals - refusals, 3); /* once by each lane that shared it, then by the first */
        pass(500);
        check_lanes(conns);
        ucp_rkey_destroy(rkey);
    }
    assert_int_equal(failures, 0);
    close_pair();
    call_ns = 0;
    unsetenv("UCX_MAX_RMA_RAILS");
    free(there);
    free(here);
}

/* ---- peers that do as they please ---- */

/* Queue pairs that a peer breaks all the time cost a bounded number of new ones. */
TEST_WITH(test_peer_that_refuses_all, setup, NULL)
{
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};
    struct access *access;
    unsigned count = 0, made;
    uint64_t end;

    open_pair(1, 256);
    made = device_saw.made_qps;
    end = now_ns + UINT64_C(2000000000);
    while (now_ns < end) {
        access = start_soon(conn_of(0), PUT_BCOPY, 1, &bad, 0);
        assert_int_equal(end_access(access), UCS_ERR_INVALID_ADDR);
        count++;
    }
    assert_true(count >= 16); /* the first ones at once, */
    assert_true(device_saw.made_qps - made <= 2 * (16 + 2000 / 50 + 2)); /* and then one each 50 ms */
    assert_true(device_saw.most_qps <= 2 + 2 * (16 + 4));
    assert_int_equal(failures, 0);
    close_pair();
}

static void forge(const struct cw_verbs_conn *conn, uint32_t epoch)
{
    static char bytes[CW_VERBS_DATAGRAM_MAX];
    struct cw_verbs_datagram hello = {.kind = CW_VERBS_HELLO,
                                      .key = iface_of(1)->key,
                                      .to = conn->id,
                                      .from = conn->peer_id,
                                      .epoch = epoch,
                                      .handled = conn->packets,
                                      .mtu = 3,
                                      .reads = 16,
                                      .qp = 5,
                                      .psn = 6,
                                      .address = iface_of(0)->local};
    const size_t length = cw_verbs_datagram_encode(&hello, (uint8_t *)bytes);

    (void)stand_in_datagram(conn->peer.qp, iface_of(1)->ud, bytes, (uint32_t)length);
}

TEST_WITH(test_peer_that_reopens_at_will, setup, NULL)
{
    struct cw_verbs_conn *conn;
    unsigned made, i;
    uint32_t word = 9;

    open_pair(2, 256);
    conn = cw_list_head(&iface_of(1)->conns, struct cw_verbs_conn, link);
    made = device_saw.made_qps;
    for (i = 0; i < 2000; i++) {
        forge(conn, conn->epoch + 1);
        pass(1);
    }
    assert_true(device_saw.made_qps - made <= 16 + 2000 / 50 + 2);
    (void)send_word(eps[1], &word, 1);
    expect_word(1, 1, word);
    close_pair();
}

/* A count of packets that cannot be ends the connection: nothing is lost or comes twice unnoticed. */
TEST_WITH(test_wrong_counts, setup, NULL)
{
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};
    static const int wrong[] = {1, 1000, -1000};
    struct cw_verbs_conn *conn;
    unsigned side, i;

    for (i = 0; i < 6; i++) {
        side = i % 2;
        open_pair(1, 256);
        failures = 0;
        conn = cw_container_of(conn_of(side), struct cw_verbs_conn, super);
        conn->handled += (uint32_t)wrong[i / 2];
        assert_int_equal(end_access(start_soon(conn_of(0), PUT_BCOPY, 1, &bad, 0)), UCS_ERR_INVALID_ADDR);
        pass(500);
        assert_true(failures > 0);
        assert_int_equal(failure, UCS_ERR_CONNECTION_RESET);
        close_pair();
    }
}

/* The peer makes no progress any more. Nothing else shows its end than that it does not answer. */
TEST_WITH(test_peer_that_is_gone, setup, NULL)
{
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};

    setenv("UCX_KEEPALIVE_INTERVAL", "1s", 1);
    open_pair(1, 256);
    num_sides = 1;
    assert_int_equal(end_access(start_soon(conn_of(0), PUT_BCOPY, 1, &bad, 0)), UCS_ERR_INVALID_ADDR);
    round_ns = 1000000;
    pass(9000);
    assert_int_equal(failures, 0);
    pass(4000);
    assert_int_equal(failures, 1);
    assert_int_equal(failure, UCS_ERR_ENDPOINT_TIMEOUT);
    num_sides = 2;
    round_ns = 20000;
    close_pair();
    unsetenv("UCX_KEEPALIVE_INTERVAL");
}

/* Either side closes, in each step of the exchange. */
TEST_WITH(test_closed_meanwhile, setup, NULL)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const struct cw_access_target bad = {.address = 8, .key.word[0] = 0x123456};
    struct cw_access_target good;
    ucs_status_ptr_t request;
    unsigned i, j;

    for (i = 0; i < 48; i++) {
        open_pair(1, 256);
        good = target_at(1, 0);
        (void)start_soon(conn_of(0), PUT_BCOPY, 1, &bad, 0);
        (void)start_soon(conn_of(0), ADD, 1, &good, 1);
        (void)start_soon(conn_of(0), GET, 1, &good, 2);
        (void)send_word(eps[0], &(uint32_t){1}, 1);
        (void)send_word(back[0], &(uint32_t){1}, 1);
        for (j = 0; j < i / 4; j++) {
            progress();
        }
        request = ucp_ep_close_nbx((i % 2 == 0) ? eps[0] : back[0], (i / 2 % 2 == 0) ? &force : &param);
        assert_int_equal(end_request(request), UCS_OK);
        pass(200);
        for (j = 0; j < 3; j++) {
            assert_int_equal(end_access(&accesses[j]) == UCS_OK && j == 0, 0);
            assert_int_equal(accesses[j].done, 1);
        }
        close_pair();
    }
}
