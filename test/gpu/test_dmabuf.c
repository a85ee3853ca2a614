/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs that the device of a fabric, here the simulated RDMA device, reaches by itself through dma-bufs: no
 * copy is made by either GPU. Where there is no dma-buf the bytes go through the host, and the log says so once.
 */
#include "harness.h"

#include "../unit/test_log_lines.h"
#include "sim.h"

#define LENGTH ((size_t)3 << 20)
#include "standin_memory.h"

#define PAGE    ((size_t)4096)
#define ROOM    (LENGTH + 2 * PAGE)

enum { MOST_RETAINED = 256 };

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA,
                                            .peer_mode = true};

static struct cw_sim_network *network;

static int setup(void **state)
{
    begin();
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state);

    if (network != NULL) {
        cw_sim_network_free(network);
        network = NULL;
    }
    unsetenv("UCX_RNDV_SCHEME");
    unsetenv("UCX_RCACHE_ENABLE");
    end();
    return status;
}

static void open_world(struct cw_pair *pair, struct cw_sim_knobs *knobs)
{
    knobs->rdma = (knobs->rdma == 0) ? 1 : knobs->rdma;
    knobs->max_bcopy = 8 << 10;
    knobs->window = 256 << 10;
    network = cw_sim_network_new(1, knobs);
    cw_pair_open(pair, &config);
    cw_pair_ping(pair, 77);
}

/* Devices that take dma-bufs. */
static void open_plain(struct cw_pair *pair)
{
    struct cw_sim_knobs knobs;

    cw_sim_knobs_default(&knobs);
    knobs.dmabuf = CW_SIM_TAKES_DMABUF;
    open_world(pair, &knobs);
}

static struct cw_sim_stats stats(void)
{
    struct cw_sim_stats now;

    cw_sim_get_stats(network, &now);
    return now;
}

static unsigned copies(void)
{
    return standin_copies() + standin_calls("cuMemcpy");
}

static char *pool_new(size_t length)
{
    cuda_ptr ptr = 0;

    ok(cuMemAllocAsync(&ptr, length, NULL));
    return (char *)(uintptr_t)ptr;
}

/* ---- operations ---- */

enum operation { TAG, AM, PUT, GET, OPERATIONS };

struct am {
    struct cw_pair *pair;
    char *to;
    ucs_status_ptr_t received;
    int calls;
};

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *recv_param)
{
    const ucp_request_param_t param = cw_param_none();
    struct am *am = arg;

    (void)header, (void)header_length;
    assert_true(recv_param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    am->received = ucp_am_recv_data_nbx(am->pair->rx->worker, data, am->to, length, &param);
    am->calls++;
    return UCS_OK;
}

static void send_tag(struct cw_pair *pair, const char *from, char *to)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sent, received;

    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
}

static void send_am(struct cw_pair *pair, const char *from, char *to)
{
    const ucp_request_param_t param = cw_param_none();
    struct am am = {.pair = pair, .to = to};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = 4,
        .cb = on_am,
        .arg = &am};
    ucs_status_ptr_t sent;

    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    sent = ucp_am_send_nbx(pair->tx->ep, 4, NULL, 0, from, LENGTH, &param);
    cw_pair_wait_count(pair, &am.calls, 1, "the handler");
    assert_int_equal(cw_pair_wait(pair, am.received, "the data"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
}

/* `here` is the origin's memory, `there` the target's. */
static void access_memory(struct cw_pair *pair, enum operation operation, char *here, char *there)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = there,
                                   .length = LENGTH};
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *packed;
    size_t size;

    assert_int_equal(ucp_mem_map(pair->rx->context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    result = (operation == PUT) ? ucp_put_nbx(pair->tx->ep, here, LENGTH, (uintptr_t)there, rkey, &param)
                          : ucp_get_nbx(pair->tx->ep, here, LENGTH, (uintptr_t)there, rkey, &param);
    assert_int_equal(cw_pair_wait(pair, result, "an access"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
}

/* Moves the bytes, and returns how many copies the GPUs made. */
static unsigned move(struct cw_pair *pair, enum operation operation, char *from, char *to, uint64_t seed)
{
    const unsigned before = copies();

    fill(from, seed);
    if (operation == TAG) {
        send_tag(pair, from, to);
    } else if (operation == AM) {
        send_am(pair, from, to);
    } else {
        access_memory(pair, operation, (operation == PUT) ? from : to, (operation == PUT) ? to : from);
    }
    check(to, seed);
    return copies() - before;
}

/* ---- what goes straight ---- */

/* Every operation, with memory of a GPU at either end and at both: nothing is copied, and no packet carries it. */
API_TEST_WITH(test_no_copies, setup, teardown)
{
    char *gpu[2] = {device_new(LENGTH), device_new(LENGTH)}, *host = malloc(LENGTH);

    open_plain(pair);
    for (enum operation operation = TAG; operation < OPERATIONS; operation++) {
        const uint64_t bytes = stats().bytes;

        assert_int_equal(move(pair, operation, gpu[0], gpu[1], 3 * operation), 0);
        assert_int_equal(move(pair, operation, gpu[1], host, 3 * operation + 1), 0);
        assert_int_equal(move(pair, operation, host, gpu[0], 3 * operation + 2), 0);
        assert_true(stats().bytes - bytes < LENGTH / 100);
    }
    cw_pair_close(pair);
    device_free(gpu[0]);
    device_free(gpu[1]);
    free(host);
}

/* What was registered for a message is there for the next one, wherever that lies in the allocation. */
API_TEST_WITH(test_kept, setup, teardown)
{
    char *from = device_new(ROOM), *to = device_new(ROOM);
    uint64_t registered;

    open_plain(pair);
    assert_int_equal(move(pair, TAG, from, to, 1), 0);
    registered = stats().registered;
    assert_int_equal(move(pair, TAG, from + PAGE + 8, to + 1, 2), 0);
    assert_int_equal(move(pair, AM, from + 2 * PAGE, to + 2 * PAGE - 3, 3), 0);
    assert_int_equal(stats().registered, registered);
    cw_pair_close(pair);
    assert_int_equal(stats().registered, stats().deregistered);
    device_free(from);
    device_free(to);
}

/* An allocation that begins and ends within pages of the host. */
API_TEST_WITH(test_within_pages, setup, teardown)
{
    char *from = device_new(ROOM), *to = device_new(ROOM);

    standin_narrow(512);
    open_plain(pair);
    for (enum operation operation = TAG; operation < OPERATIONS; operation++) {
        assert_int_equal(move(pair, operation, from + 512, to + 512, 2 * operation), 0);
        assert_int_equal(move(pair, operation, from + PAGE + 3, to + 700, 2 * operation + 1), 0);
    }
    cw_pair_close(pair);
    standin_narrow(0);
    device_free(from);
    device_free(to);
}

/* The sender's device writes: the receiver registers the bytes of the message alone, and only for it. */
API_TEST_WITH(test_written_by_the_sender, setup, teardown)
{
    char *from = device_new(ROOM), *to = device_new(ROOM);
    struct cw_sim_stats before, after;

    setenv("UCX_RNDV_SCHEME", "put_zcopy", 1);
    open_plain(pair);
    assert_int_equal(move(pair, TAG, from, to, 1), 0);
    before = stats();
    assert_int_equal(move(pair, TAG, from + 8, to + 24, 2), 0);
    after = stats();
    assert_int_equal(after.registered - before.registered, 1);
    assert_int_equal(after.deregistered - before.deregistered, 1);
    assert_true(after.puts > before.puts);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* UCX_RCACHE_ENABLE=n. No descriptor stays open either. */
API_TEST_WITH(test_nothing_is_kept, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    int fds;

    setenv("UCX_RCACHE_ENABLE", "n", 1);
    open_plain(pair);
    assert_int_equal(move(pair, TAG, from, to, 9), 0);
    fds = cw_process_fds();
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(move(pair, TAG, from, to, i), 0);
        assert_int_equal(stats().registered, stats().deregistered);
    }
    assert_int_equal(cw_process_fds(), fds);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* Two devices share the messages. */
API_TEST_WITH(test_two_devices, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    struct cw_sim_knobs knobs;

    cw_sim_knobs_default(&knobs);
    knobs.dmabuf = CW_SIM_TAKES_DMABUF;
    knobs.rdma = 2;
    open_world(pair, &knobs);
    for (unsigned i = 0; i < 4; i++) {
        for (enum operation operation = TAG; operation < OPERATIONS; operation++) {
            assert_int_equal(move(pair, operation, from, to, 4 * i + operation), 0);
        }
    }
    assert_true(stats().bytes_of[0] > LENGTH && stats().bytes_of[1] > LENGTH);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* A device that wants aligned addresses: bytes before the first such one are copied by the GPU, the rest is not. */
API_TEST_WITH(test_a_device_that_wants_alignment, setup, teardown)
{
    char *from = device_new(ROOM), *to = device_new(ROOM);
    struct cw_sim_knobs knobs;

    cw_sim_knobs_default(&knobs);
    knobs.dmabuf = CW_SIM_TAKES_DMABUF;
    knobs.alignment = 64;
    open_world(pair, &knobs);
    for (enum operation operation = TAG; operation < OPERATIONS; operation++) {
        assert_true(move(pair, operation, from + 8, to + 72, operation) <= 4);
    }
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* ---- lifetime ---- */

/* The program frees memory whose registration is kept, and gets other memory at that address. */
API_TEST_WITH(test_another_allocation_at_the_address, setup, teardown)
{
    open_plain(pair);
    for (unsigned i = 0; i < 3; i++) {
        char *from = device_new(LENGTH), *to, *again;

        to = device_new(LENGTH);
        assert_int_equal(move(pair, TAG, from, to, 4 * i), 0);
        device_free(from);
        standin_reuse_addresses();
        again = device_new(LENGTH);
        assert_ptr_equal(again, from);
        assert_int_equal(move(pair, TAG, again, to, 4 * i + 1), 0);
        device_free(to);
        standin_reuse_addresses();
        to = device_new(LENGTH);
        assert_int_equal(move(pair, TAG, again, to, 4 * i + 2), 0);
        device_free(again);
        device_free(to);
    }
    cw_pair_close(pair);
}

/* A registration keeps freed memory from the system, so it ends when the next one is made. */
API_TEST_WITH(test_freed_memory_is_given_back, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    uint64_t registered;

    open_plain(pair);
    assert_int_equal(move(pair, TAG, from, to, 1), 0);
    registered = stats().registered - stats().deregistered;
    for (unsigned i = 0; i < 10; i++) {
        device_free(from);
        device_free(to);
        from = device_new(LENGTH);
        to = device_new(LENGTH);
        assert_int_equal(move(pair, TAG, from, to, i), 0);
        assert_int_equal(stats().registered - stats().deregistered, registered);
    }
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* What is kept is bounded. */
API_TEST_WITH(test_many_allocations, setup, teardown)
{
    static char *froms[MOST_RETAINED + 20];
    const ucp_request_param_t param = cw_param_none();
    char *to = device_new(LENGTH);
    const size_t length = 64 << 10;
    ucs_status_ptr_t sent, received;
    uint64_t before;

    open_plain(pair);
    assert_int_equal(move(pair, TAG, to, to, 1), 0);
    before = stats().registered - stats().deregistered;
    for (unsigned i = 0; i < MOST_RETAINED + 20; i++) {
        froms[i] = device_new(length);
        received = ucp_tag_recv_nbx(pair->rx->worker, to, length, 1, CW_TAG_ALL, &param);
        sent = ucp_tag_send_nbx(pair->tx->ep, froms[i], length, 1, &param);
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    }
    /* The sender has as many as are kept; the one of its own that was there before is among them. */
    assert_int_equal(stats().registered - stats().deregistered, before + MOST_RETAINED - 1);
    cw_pair_close(pair);
    for (unsigned i = 0; i < MOST_RETAINED + 20; i++) {
        device_free(froms[i]);
    }
    device_free(to);
}

/* ---- where there is no dma-buf ---- */

static void goes_through_the_host(struct cw_pair *pair, char *from, char *to)
{
    for (enum operation operation = TAG; operation < OPERATIONS; operation++) {
        assert_true(move(pair, operation, from, to, operation) > 0);
    }
}

/* Each reason is logged once, with a remedy. Runs first, as it is logged once in a process. */
API_TEST_WITH(test_reasons, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    struct cw_sim_knobs knobs;

    for (unsigned round = 0; round < 2; round++) {
        cw_sim_knobs_default(&knobs);
        open_world(pair, &knobs); /* the devices take memory of the host alone */
        log_count_begin();
        goes_through_the_host(pair, from, to);
        assert_int_equal(log_lines, round == 0);
        assert_true(round > 0 || strstr(log_text, "several times slower") != NULL);
        log_count_end();
        cw_pair_close(pair);
        cw_sim_network_free(network);

        cw_sim_knobs_default(&knobs);
        knobs.dmabuf = CW_SIM_REFUSES_DMABUF;
        open_world(pair, &knobs);
        log_count_begin();
        goes_through_the_host(pair, from, to);
        assert_int_equal(log_lines, round == 0);
        assert_true(round > 0 || strstr(log_text, "nvidia_peermem") != NULL);
        log_count_end();
        cw_pair_close(pair);
        cw_sim_network_free(network);

        open_plain(pair);
        standin_fail("cuMemGetHandleForAddressRange", 0, CUDA_NOT_SUPPORTED);
        log_count_begin();
        goes_through_the_host(pair, from, to);
        assert_int_equal(log_lines, round == 0);
        assert_true(round > 0 || strstr(log_text, "dma-buf needs") != NULL);
        log_count_end();
        standin_fail(NULL, 0, 0);
        assert_int_equal(move(pair, TAG, from, to, 9), 0);
        cw_pair_close(pair);
        cw_sim_network_free(network);
        network = NULL;
    }
    device_free(from);
    device_free(to);
}

/* Memory of pools, managed memory, and several mapped pieces (as far as the stand-in goes) have none. */
API_TEST_WITH(test_memory_without_a_dmabuf, setup, teardown)
{
    char *to = device_new(LENGTH), *pool = pool_new(LENGTH);
    cuda_ptr managed;

    ok(cuMemAllocManaged(&managed, LENGTH, CUDA_MANAGED_GLOBAL));
    open_plain(pair);
    goes_through_the_host(pair, pool, to);
    goes_through_the_host(pair, to, pool);
    goes_through_the_host(pair, (char *)(uintptr_t)managed, to);
    cw_pair_close(pair);
    ok(cuMemFree_v2(managed));
    device_free(to);
    device_free(pool);
}

/* Segments of an allocator that maps pieces: messages within one go straight. */
API_TEST_WITH(test_mapped_pieces, setup, teardown)
{
    const size_t piece = ROOM / STANDIN_GRAIN * STANDIN_GRAIN + STANDIN_GRAIN;
    const int properties[8] = {1, 0, CUDA_LOCATION_DEVICE, 0};
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, 0, CUDA_ACCESS_READ_WRITE};
    char *to = device_new(LENGTH), *from;
    unsigned long long handle;
    cuda_ptr place = 0;

    ok(cuMemAddressReserve(&place, 2 * piece, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++) {
        ok(cuMemCreate(&handle, piece, properties, 0));
        ok(cuMemMap(place + i * piece, piece, 0, handle, 0));
        ok(cuMemSetAccess(place + i * piece, piece, &access, 1));
        ok(cuMemRelease(handle));
    }
    from = (char *)(uintptr_t)place;
    open_plain(pair);
    assert_int_equal(move(pair, TAG, from + 100, to, 1), 0);
    assert_int_equal(move(pair, TAG, from + piece + 8, to, 2), 0);
    assert_true(move(pair, TAG, from + piece - PAGE, to, 3) > 0);
    assert_int_equal(move(pair, TAG, from + 100, to, 4), 0);
    ok(cuMemUnmap(place, piece)); /* other memory at that place */
    ok(cuMemCreate(&handle, piece, properties, 0));
    ok(cuMemMap(place, piece, 0, handle, 0));
    ok(cuMemSetAccess(place, piece, &access, 1));
    ok(cuMemRelease(handle));
    assert_int_equal(move(pair, TAG, from + 100, to, 5), 0);
    cw_pair_close(pair);
    ok(cuMemUnmap(place, 2 * piece));
    ok(cuMemAddressFree(place, 2 * piece));
    device_free(to);
}

/* The device's table is full at one end or at both, at times. */
API_TEST_WITH(test_registrations_that_fail, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);

    setenv("UCX_RCACHE_ENABLE", "n", 1);
    open_plain(pair);
    for (unsigned i = 0; i < 20; i++) {
        cw_sim_set_fault(network, CW_SIM_NO_REGISTER, (i % 5 == 0) ? CW_SIM_ALWAYS : CW_SIM_ALWAYS / 2);
        (void)move(pair, (enum operation)(i % OPERATIONS), from, to, i);
    }
    assert_true(stats().no_register > 0);
    cw_sim_set_fault(network, CW_SIM_NO_REGISTER, 0);
    assert_int_equal(move(pair, TAG, from, to, 99), 0);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}
