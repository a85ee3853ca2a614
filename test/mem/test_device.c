/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages and one-sided operations from and to memory of a device (device.h), at either end and at both. A touch of
 * it by the processor ends the program, and the test of that shows it, so what passes here was moved by the domain's
 * copy; that copies were made at all is counted.
 */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "sim.h"

#define LARGEST ((size_t)4 << 20)

static const size_t sizes[] = {0, 1, 8, 200, 4096, 8193, 65536, 300001, (size_t)1 << 20, LARGEST};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

enum place { HOST, GPU, MANAGED, PLACES };

/* A pair of places: the memory of the sending end, or of the origin, and that of the other one. */
enum { TX = GPU, RX = GPU * PLACES, PAIRS = PLACES * PLACES };

#define LONGEST_MANAGED ((size_t)400000)

/* A buffer of either kind. */
struct memory {
    char *ptr;
    enum place place;
};

static struct cw_sim_network *network;
static char *scratch;

/* The simulated RDMA device reaches memory of the GPU by itself. */
static int takes_dmabuf(void)
{
    return getenv("CW_TEST_DMABUF") != NULL;
}

static int setup(void **state)
{
    struct cw_sim_knobs knobs;

    scratch = malloc(LARGEST + 1);
    device_open();
    if (cw_test_tls_has("sim")) {
        cw_sim_knobs_default(&knobs);
        if (cw_test_tls_has("simrdma")) { /* whose packets are as long as those of such a device */
            knobs.rdma = 1;
            knobs.dmabuf = takes_dmabuf();
            knobs.max_bcopy = 8 << 10;
            knobs.window = 256 << 10;
        }
        network = cw_sim_network_new(1, &knobs);
    }
    return (scratch == NULL) ? -1 : cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state);

    if (network != NULL) {
        cw_sim_network_free(network);
        network = NULL;
    }
    device_close();
    free(scratch);
    return status;
}

static void open_pair(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
                                                      UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                                                      UCP_FEATURE_AMO64};

    cw_pair_open(pair, &config);
}

static enum place from_of(int pair)
{
    return (enum place)(pair % PLACES);
}

static enum place to_of(int pair)
{
    return (enum place)(pair / PLACES);
}

/* The next pair for transfers of that length. Pairs with managed memory are left out where the device has none, and, to
 * save time, for the longest transfers. */
static int next_pair(int pair, size_t length)
{
    do {
        pair++;
    } while (pair < PAIRS && (from_of(pair) == MANAGED || to_of(pair) == MANAGED) &&
             (device_other_types == 0 || length > LONGEST_MANAGED));
    return pair;
}

static ucs_memory_type_t type_of(const struct memory *memory)
{
    static const ucs_memory_type_t types[PLACES] = {UCS_MEMORY_TYPE_HOST, DEVICE_TYPE, DEVICE_MANAGED_TYPE};

    return types[memory->place];
}

static struct memory memory_new(size_t length, enum place place)
{
    struct memory memory = {.place = place};

    if (place == GPU) {
        memory.ptr = device_alloc(length + 1);
    } else if (place == MANAGED) {
        memory.ptr = device_alloc_managed(length + 1);
    } else {
        memory.ptr = malloc(length + 1);
    }
    assert_non_null(memory.ptr);
    return memory;
}

static void memory_free(struct memory *memory)
{
    if (memory->place == GPU) {
        device_free(memory->ptr);
    } else if (memory->place == MANAGED) {
        device_free_managed(memory->ptr);
    } else {
        free(memory->ptr);
    }
}

static void fill(const struct memory *memory, size_t length, uint64_t seed)
{
    cw_pattern_fill(scratch, length, seed);
    device_write(memory->ptr, scratch, length); /* which moves bytes of the host as well */
}

/* The bytes are those of the pattern, and the one behind them was left alone. */
static void check(const struct memory *memory, size_t length, uint64_t seed)
{
    device_write(scratch, memory->ptr, length + 1);
    cw_pattern_check(scratch, length, seed);
    assert_int_equal(scratch[length], 0x77);
}

static void blank(const struct memory *memory, size_t length)
{
    memset(scratch, 0x77, length + 1);
    device_write(memory->ptr, scratch, length + 1);
}

/* Says of which type the memory is, or leaves it to the library, in turn. */
static ucp_request_param_t param_of(const struct memory *memory, size_t turn)
{
    ucp_request_param_t param = cw_param_none();

    if (turn % 2 != 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = type_of(memory);
    }
    return param;
}

/* ---- the proof ---- */

TEST_WITH(test_a_touch_ends_the_program, setup, teardown)
{
    char *ptr = device_alloc(100);
    int status;
    pid_t pid;

    if (!device_is_apart) {
        skip();
    }
    assert_non_null(ptr);
    for (int writes = 0; writes < 2; writes++) {
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)signal(SIGSEGV, SIG_DFL); /* the handler of cmocka would make an exit of it */
            if (writes) {
                *(volatile char *)ptr = 1;
            } else {
                (void)*(volatile char *)ptr;
            }
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    device_free(ptr);
}

/* ---- messages ---- */

enum order { POSTED, UNEXPECTED };

static void exchange_tag(struct cw_pair *pair, size_t length, int ends, enum order order, size_t turn)
{
    struct memory from = memory_new(length, from_of(ends)), to = memory_new(length, to_of(ends));
    ucp_request_param_t send = param_of(&from, turn), recv = param_of(&to, turn / 2);
    const uint64_t copies = device_copies();
    ucs_status_ptr_t sent = NULL, received = NULL;
    ucp_tag_recv_info_t info;

    fill(&from, length, turn);
    blank(&to, length);
    if (order == POSTED) {
        received = ucp_tag_recv_nbx(pair->rx->worker, to.ptr, length, 9, CW_TAG_ALL, &recv);
    }
    sent = (turn % 3 == 0) ? ucp_tag_send_sync_nbx(pair->tx->ep, from.ptr, length, 9, &send) :
                             ucp_tag_send_nbx(pair->tx->ep, from.ptr, length, 9, &send);
    if (order == UNEXPECTED) {
        cw_pair_wait_probe(pair, 9, CW_TAG_ALL, &info);
        received = ucp_tag_recv_nbx(pair->rx->worker, to.ptr, length, 9, CW_TAG_ALL, &recv);
    }
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    check(&to, length, turn);
    assert_true(length == 0 || takes_dmabuf() || device_copies() > copies);
    memory_free(&from);
    memory_free(&to);
}

/* TAG-10 */
API_TEST_WITH(test_tag_messages_of_all_sizes, setup, teardown)
{
    size_t turn = 0;

    open_pair(pair);
    for (size_t i = 0; i < NUM_SIZES; i++) {
        for (int ends = TX; ends < PAIRS; ends = next_pair(ends, sizes[i])) {
            exchange_tag(pair, sizes[i], ends, POSTED, turn++);
            exchange_tag(pair, sizes[i], ends, UNEXPECTED, turn++);
        }
    }
    cw_pair_close(pair);
}

enum { ENTRIES = 5 };

/* The length of entry k, of `left` bytes: entry `empty` has none, the last one the rest, any other a share. */
static size_t part_of(size_t left, size_t k, size_t empty, size_t shares)
{
    if (k == empty) {
        return 0;
    }
    return k == ENTRIES - 1 ? left : left / shares;
}

/* OPA-19: several entries of one message, of the GPU all of them. */
API_TEST_WITH(test_tag_messages_of_several_entries, setup, teardown)
{
    ucp_dt_iov_t from_iov[ENTRIES], to_iov[ENTRIES];
    ucp_request_param_t send, recv;
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    for (size_t i = 1; i < NUM_SIZES; i++) {
        struct memory from = memory_new(sizes[i], GPU), to = memory_new(sizes[i], (i % 2 != 0) ? GPU : HOST);
        size_t a = 0, b = 0;

        for (size_t k = 0; k < ENTRIES; k++) { /* other borders here than there, and some of no bytes */
            size_t left = sizes[i] - a, part = part_of(left, k, 1, 3);

            from_iov[k] = (ucp_dt_iov_t){.buffer = part > 0 ? from.ptr + a : NULL, .length = part};
            a += part;
            left = sizes[i] - b;
            part = part_of(left, k, 2, 2);
            to_iov[k] = (ucp_dt_iov_t){.buffer = to.ptr + b, .length = part};
            b += part;
        }
        fill(&from, sizes[i], i);
        blank(&to, sizes[i]);
        send = param_of(&from, i);
        recv = param_of(&to, i / 2);
        send.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        recv.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        send.datatype = recv.datatype = ucp_dt_make_iov();
        sent = ucp_tag_send_nbx(pair->tx->ep, from_iov, ENTRIES, 3, &send);
        memset(from_iov, 0xff, sizeof(from_iov)); /* the program may use the array again */
        received = ucp_tag_recv_nbx(pair->rx->worker, to_iov, ENTRIES, 3, CW_TAG_ALL, &recv);
        memset(to_iov, 0xff, sizeof(to_iov));
        assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        check(&to, sizes[i], i);
        memory_free(&from);
        memory_free(&to);
    }
    cw_pair_close(pair);
}

struct am {
    struct cw_pair *pair;
    struct memory to;
    size_t length;
    size_t turn;
    ucs_status_ptr_t received;
    int calls;
};

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *recv_param)
{
    struct am *am = arg;
    ucp_request_param_t param = param_of(&am->to, am->turn);

    (void)header, (void)recv_param;
    assert_int_equal(header_length, 3);
    assert_int_equal(length, am->length);
    am->received = ucp_am_recv_data_nbx(am->pair->rx->worker, data, am->to.ptr, length, &param);
    am->calls++;
    return UCS_OK;
}

/* AMR-36 */
API_TEST_WITH(test_active_messages_of_all_sizes, setup, teardown)
{
    struct am am = {.pair = pair};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = 4,
                                      .cb = on_am,
                                      .arg = &am};
    ucs_status_ptr_t sent;

    open_pair(pair);
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    for (size_t i = 0; i < NUM_SIZES; i++) {
        for (int ends = TX; ends < PAIRS; ends = next_pair(ends, sizes[i]), am.turn++) {
            struct memory from = memory_new(sizes[i], from_of(ends));
            ucp_request_param_t param = param_of(&from, am.turn);

            am.to = memory_new(sizes[i], to_of(ends));
            am.length = sizes[i];
            am.received = NULL;
            am.calls = 0;
            fill(&from, sizes[i], am.turn);
            blank(&am.to, sizes[i]);
            sent = ucp_am_send_nbx(pair->tx->ep, 4, "abc", 3, from.ptr, sizes[i], &param);
            cw_pair_wait_count(pair, &am.calls, 1, "the handler");
            assert_int_equal(cw_pair_wait(pair, am.received, "the data"), UCS_OK);
            assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
            check(&am.to, sizes[i], am.turn);
            memory_free(&from);
            memory_free(&am.to);
        }
    }
    cw_pair_close(pair);
}

API_TEST_WITH(test_streams_of_all_sizes, setup, teardown)
{
    size_t turn = 0, length;

    open_pair(pair);
    for (size_t i = 1; i < NUM_SIZES; i++) {
        for (int ends = TX; ends < PAIRS; ends = next_pair(ends, sizes[i]), turn++) {
            struct memory from = memory_new(sizes[i], from_of(ends)), to = memory_new(sizes[i], to_of(ends));
            ucp_request_param_t send = param_of(&from, turn), recv = param_of(&to, turn / 2);
            ucs_status_ptr_t sent, received;

            fill(&from, sizes[i], turn);
            blank(&to, sizes[i]);
            recv.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
            recv.flags = UCP_STREAM_RECV_FLAG_WAITALL;
            sent = ucp_stream_send_nbx(pair->tx->ep, from.ptr, sizes[i], &send);
            received = ucp_stream_recv_nbx(pair->rx->ep, to.ptr, sizes[i], &length, &recv);
            assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
            assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
            check(&to, sizes[i], turn);
            memory_free(&from);
            memory_free(&to);
        }
    }
    cw_pair_close(pair);
}

/* ---- one-sided ---- */

static ucp_rkey_h key_of(struct cw_pair *pair, const struct memory *memory, size_t length, ucp_mem_h *memh)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory->ptr,
                                   .length = length};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    ucp_rkey_h rkey;
    void *packed;
    size_t size;

    assert_int_equal(ucp_mem_map(pair->rx->context, &params, memh), UCS_OK);
    assert_int_equal(ucp_mem_query(*memh, &attr), UCS_OK);
    assert_int_equal(attr.mem_type, type_of(memory));
    assert_int_equal(ucp_rkey_pack(pair->rx->context, *memh, &packed, &size), UCS_OK);
    assert_true(size <= 64);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    return rkey;
}

static void flush(struct cw_pair *pair)
{
    const ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
}

/* Puts, flushes, and gets it back from there into other memory. */
static void put_and_get(struct cw_pair *pair, size_t length, int ends, size_t turn)
{
    struct memory from = memory_new(length, from_of(ends)), there = memory_new(length, to_of(ends));
    struct memory back = memory_new(length, from_of(ends));
    ucp_request_param_t put = param_of(&from, turn), get = param_of(&back, turn / 2);
    ucs_status_ptr_t result;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *ptr;

    fill(&from, length, turn);
    blank(&there, length);
    blank(&back, length);
    rkey = key_of(pair, &there, length + 1, &memh);
    if (there.place != HOST) {
        assert_int_equal(ucp_rkey_ptr(rkey, (uintptr_t)there.ptr, &ptr), UCS_ERR_UNREACHABLE); /* KEY-7 */
    }
    result = ucp_put_nbx(pair->tx->ep, from.ptr, length, (uintptr_t)there.ptr, rkey, &put);
    assert_int_equal(cw_pair_wait(pair, result, "a put"), UCS_OK);
    flush(pair);
    check(&there, length, turn);
    result = ucp_get_nbx(pair->tx->ep, back.ptr, length, (uintptr_t)there.ptr, rkey, &get);
    assert_int_equal(cw_pair_wait(pair, result, "a get"), UCS_OK);
    check(&back, length, turn);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    memory_free(&from);
    memory_free(&there);
    memory_free(&back);
}

API_TEST_WITH(test_puts_and_gets_of_all_sizes, setup, teardown)
{
    size_t turn = 0;

    open_pair(pair);
    for (size_t i = 0; i < NUM_SIZES; i++) {
        for (int ends = TX; ends < PAIRS; ends = next_pair(ends, sizes[i])) {
            put_and_get(pair, sizes[i], ends, turn++);
        }
    }
    cw_pair_close(pair);
}

/* An operation on the processor's words is none on the GPU's: every one is refused where the memory is, whoever would
 * carry it out, and where the operand or the reply buffer is. Nothing changes, and the endpoint goes on. */
API_TEST_WITH(test_atomics_are_refused, setup, teardown)
{
    struct memory there = memory_new(64, GPU), operand = memory_new(8, GPU), host = memory_new(64, HOST);
    ucp_request_param_t param = cw_param_none();
    const ucp_request_param_t none = cw_param_none();
    uint64_t reply = 1, one = 1;
    ucs_status_ptr_t result;
    ucp_rkey_h rkey;
    ucp_mem_h memh;

    open_pair(pair);
    fill(&there, 64, 5);
    rkey = key_of(pair, &there, 64, &memh);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(8);
    result = ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, operand.ptr, 1, (uintptr_t)there.ptr, rkey, &param);
    assert_int_equal(UCS_PTR_STATUS(result), UCS_ERR_UNSUPPORTED);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.reply_buffer = &reply;
    result = ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, &one, 1, (uintptr_t)there.ptr, rkey, &param);
    assert_int_equal(cw_pair_wait(pair, result, "an atomic operation"), UCS_ERR_UNSUPPORTED);
    for (int op = UCP_ATOMIC_OP_ADD; op <= UCP_ATOMIC_OP_XOR; op++) {
        for (size_t size = 4; size <= 8; size += 4) {
            param.datatype = ucp_dt_make_contig(size);
            param.reply_buffer = &reply;
            param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
            result = ucp_atomic_op_nbx(pair->tx->ep, (ucp_atomic_op_t)op, &one, 1, (uintptr_t)there.ptr + 8, rkey,
                                       &param);
            assert_int_equal(cw_pair_wait(pair, result, "an atomic operation"), UCS_ERR_UNSUPPORTED);
            param.reply_buffer = operand.ptr;
            result = ucp_atomic_op_nbx(pair->tx->ep, (ucp_atomic_op_t)op, &one, 1, (uintptr_t)there.ptr + 8, rkey,
                                       &param);
            assert_int_equal(UCS_PTR_STATUS(result), UCS_ERR_UNSUPPORTED);
            if (op == UCP_ATOMIC_OP_SWAP || op == UCP_ATOMIC_OP_CSWAP) {
                continue; /* they have a reply */
            }
            param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_REPLY_BUFFER;
            result = ucp_atomic_op_nbx(pair->tx->ep, (ucp_atomic_op_t)op, &one, 1, (uintptr_t)there.ptr + 8, rkey,
                                       &param);
            assert_int_equal(cw_pair_wait(pair, result, "an atomic operation"), UCS_OK);
            result = ucp_ep_flush_nbx(pair->tx->ep, &none); /* which reports it */
            assert_int_equal(cw_pair_wait(pair, result, "a flush"), UCS_ERR_UNSUPPORTED);
        }
    }
    assert_int_equal(reply, 1);
    blank(&host, 64);
    result = ucp_get_nbx(pair->tx->ep, host.ptr, 64, (uintptr_t)there.ptr, rkey, &none);
    assert_int_equal(cw_pair_wait(pair, result, "a get"), UCS_OK);
    check(&host, 64, 5);
    flush(pair);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    memory_free(&host);
    memory_free(&there);
    memory_free(&operand);
    cw_pair_close(pair);
}

/* ---- regions and errors ---- */

/* MEM-10, CTX-30 */
API_TEST_WITH(test_mem10_allocated_on_the_gpu, setup, teardown)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .length = 10000,
                                   .flags = UCP_MEM_MAP_ALLOCATE,
                                   .memory_type = DEVICE_TYPE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE | UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_context_attr_t context_attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_request_param_t param = cw_param_none();
    struct memory there = {.place = GPU}, to = memory_new(10000, HOST);
    ucs_status_ptr_t received;
    ucp_mem_h memh;

    open_pair(pair);
    assert_int_equal(ucp_context_query(pair->tx->context, &context_attr), UCS_OK);
    assert_int_equal(context_attr.memory_types,
                     UCS_BIT(UCS_MEMORY_TYPE_HOST) | UCS_BIT(DEVICE_TYPE) | device_other_types);
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
    assert_int_equal(attr.mem_type, DEVICE_TYPE);
    there.ptr = attr.address;
    fill(&there, 10000, 1);
    blank(&to, 10000);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH; /* which names the type */
    param.memh = memh;
    received = ucp_tag_send_nbx(pair->tx->ep, there.ptr, 10000, 2, &param);
    assert_int_equal(cw_pair_wait(pair, received, "a send"), UCS_OK);
    param = cw_param_none();
    received = ucp_tag_recv_nbx(pair->rx->worker, to.ptr, 10000, 2, CW_TAG_ALL, &param);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    check(&to, 10000, 1);
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    params.memory_type = DEVICE_ABSENT_TYPE;
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_ERR_NO_MEMORY); /* N22-24 */
    memory_free(&to);
    cw_pair_close(pair);
}

/* OPA-11: what is said must be so; memory of the host is none of the GPU's, nor is what lies behind its end. */
API_TEST_WITH(test_opa11_memory_of_another_type, setup, teardown)
{
    struct memory host = memory_new(100, HOST), device = memory_new(100, GPU);
    const ucp_dt_iov_t mixed[2] = {{.buffer = device.ptr, .length = 50}, {.buffer = host.ptr, .length = 50}};
    ucp_request_param_t param = param_of(&device, 1);

    open_pair(pair);
    if (device_trusts) {
        param = cw_param_none();
    } else {
        assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(pair->tx->ep, host.ptr, 100, 1, &param)),
                         UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(pair->tx->ep, device.ptr, 16 * LARGEST, 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(pair->tx->ep, mixed, 2, 1, &param)), UCS_ERR_INVALID_PARAM);
    memory_free(&host);
    memory_free(&device);
    cw_pair_close(pair);
}

/* The copy of a receive fails: the receive says so, and the endpoint goes on. */
API_TEST_WITH(test_a_gpu_that_fails, setup, teardown)
{
    struct memory from = memory_new(4096, HOST), to = memory_new(4096, GPU);
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    exchange_tag(pair, 100, RX, POSTED, 1);
    fill(&from, 4096, 1);
    received = ucp_tag_recv_nbx(pair->rx->worker, to.ptr, 4096, 2, CW_TAG_ALL, &param);
    device_fail_after(0);
    sent = ucp_tag_send_nbx(pair->tx->ep, from.ptr, 4096, 2, &param);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_ERR_IO_ERROR);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    device_fail_after(UINT64_MAX);
    exchange_tag(pair, 100, RX, POSTED, 2);
    memory_free(&from);
    memory_free(&to);
    cw_pair_close(pair);
}

int main(void)
{
    if (device_present != NULL && !device_present()) {
        return 77; /* ctest counts it as skipped */
    }
    return cw_tests_run(NULL, NULL);
}
