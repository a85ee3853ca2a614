/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A delivered eager message is copied at most once between the transport's buffer and the callback: every byte that is
 * copied while packets are handed up is counted, and over shared memory the handler gets the ring itself.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "am/am.h"
#include "am/desc.h"
#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "wire/packet.h"

enum { PLAIN = 7, KEEPER = 8, OLD = 9, LOOSE = 256 /* what a packet costs beside its bytes: headers, structures */ };

static int counting;
static size_t copied, allocations;

void *__real_memcpy(void *to, const void *from, size_t length);
void *__wrap_memcpy(void *to, const void *from, size_t length);
void *__real_memmove(void *to, const void *from, size_t length);
void *__wrap_memmove(void *to, const void *from, size_t length);
void __real_cw_bytes_copy_near(void *to, const void *from, size_t length);
void __wrap_cw_bytes_copy_near(void *to, const void *from, size_t length);
void __real_cw_bytes_copy_long(void *to, const void *from, size_t length);
void __wrap_cw_bytes_copy_long(void *to, const void *from, size_t length);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_memcpy(void *to, const void *from, size_t length)
{
    copied += counting ? length : 0;
    return __real_memcpy(to, from, length);
}

void *__wrap_memmove(void *to, const void *from, size_t length)
{
    copied += counting ? length : 0;
    return __real_memmove(to, from, length);
}

void __wrap_cw_bytes_copy_near(void *to, const void *from, size_t length)
{
    const int before = counting;

    copied += counting ? length : 0;
    counting = 0;
    __real_cw_bytes_copy_near(to, from, length);
    counting = before;
}

void __wrap_cw_bytes_copy_long(void *to, const void *from, size_t length)
{
    const int before = counting;

    copied += counting ? length : 0;
    counting = 0;
    __real_cw_bytes_copy_long(to, from, length);
    counting = before;
}

void *__wrap_malloc(size_t size)
{
    allocations += (size_t)counting;
    return __real_malloc(size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    allocations += (size_t)counting;
    return __real_aligned_alloc(alignment, size);
}

/* What libc cannot leave where it is, and whose pages the system does not move, it copies. */
void *__wrap_realloc(void *memory, size_t size)
{
    const uintptr_t page = (uintptr_t)memory % 4096;
    const size_t before = (memory == NULL) ? 0 : malloc_usable_size(memory);
    const uintptr_t place = (uintptr_t)memory;
    void *moved = __real_realloc(memory, size);

    if (counting && (uintptr_t)moved != place && (uintptr_t)moved % 4096 != page) {
        copied += before;
    }
    return moved;
}

static ucp_context_h context;
static ucp_worker_h worker, peer;
static ucp_ep_h ep;
static unsigned calls;
static size_t last_length;
static void *last_data;
static uint64_t last_attr;

static void note(void *data, size_t length, uint64_t attr)
{
    counting = 0;
    last_data = data;
    last_length = length;
    last_attr = attr;
    calls++;
}

static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    note(data, length, param->recv_attr);
    return UCS_OK;
}

static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    (void)arg;
    (void)reply_ep;
    note(data, length, flags);
    return UCS_OK;
}

static void set(unsigned id, uint32_t flags)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = id,
                                    .cb = handler,
                                    .flags = flags};

    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
}

static void send_and_wait(unsigned id, const void *data, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    ucs_status_ptr_t sent = ucp_am_send_nbx(ep, id, NULL, 0, data, length, &param);

    for (unsigned before = calls; calls == before;) {
        ucp_worker_progress(peer);
        ucp_worker_progress(worker);
    }
    if (UCS_PTR_IS_PTR(sent)) {
        ucp_request_free(sent);
    }
}

static void open_over(const char *tls)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};

    counting = 0;
    setenv("UCX_TLS", tls, 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    peer = worker;
    if (strcmp(tls, "self") != 0) {
        assert_int_equal(ucp_worker_create(context, &worker_params, &peer), UCS_OK);
    }
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    ep_params.address = attr.address;
    assert_int_equal(ucp_ep_create(peer, &ep_params, &ep), UCS_OK);
    ucp_worker_release_address(worker, attr.address);
    set(PLAIN, 0);
    set(KEEPER, UCP_AM_FLAG_PERSISTENT_DATA);
    assert_int_equal(ucp_worker_set_am_handler(worker, OLD, old_handler, NULL, 0), UCS_OK);
    send_and_wait(PLAIN, NULL, 0);
}

static int setup(void **state)
{
    (void)state;
    open_over("self");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (peer != worker) {
        ucp_worker_destroy(peer);
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

/* The transport's buffer, as long as the longest packet. */
static uint8_t packet[400000];

static void hand_up(uint8_t id, const void *fixed, size_t fixed_length, size_t length)
{
    memcpy(packet, fixed, fixed_length);
    counting = 1;
    cw_op_packet(ep->conn, id, packet, fixed_length + length);
    counting = 0;
}

static void begin(void)
{
    copied = 0;
    allocations = 0;
    calls = 0;
}

static void whole(unsigned id, size_t header_length, size_t length)
{
    const struct cw_wire_am am = {.handler = htole16((uint16_t)id), .header_length = htole32((uint32_t)header_length)};

    begin();
    hand_up(CW_PACKET_AM_EAGER, &am, sizeof(am), header_length + length);
    assert_int_equal(calls, 1);
    assert_int_equal(last_length, length);
}

static const size_t lengths[] = {0, 1, 8, 48, 49, 200, 1000, 8192, 65536, 390000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

TEST_WITH(test_handed_over_where_it_lies, setup, teardown)
{
    for (unsigned i = 0; i < LENGTHS; i++) {
        for (size_t header = 0; header < 40; header += 13) {
            whole(PLAIN, header, lengths[i]);
            assert_ptr_equal(last_data, packet + sizeof(struct cw_wire_am) + header);
            assert_int_equal(last_attr, 0);
            assert_in_range(copied, 0, LOOSE);
            assert_int_equal(allocations, 0);
        }
        whole(OLD, 0, lengths[i]);
        assert_ptr_equal(last_data, packet + sizeof(struct cw_wire_am));
        assert_in_range(copied, 0, LOOSE);
        assert_int_equal(allocations, 0);
    }
}

TEST_WITH(test_copied_once_to_be_kept, setup, teardown)
{
    static const size_t alignments[] = {1, 64, 4096};

    for (unsigned i = 0; i < 3 * LENGTHS; i++) {
        worker->am_alignment = alignments[i % 3];
        whole(KEEPER, 13, lengths[i / 3]);
        assert_int_equal(last_attr, UCP_AM_RECV_ATTR_FLAG_DATA);
        assert_in_range(copied, (lengths[i / 3] > LOOSE) ? lengths[i / 3] : 0, lengths[i / 3] + LOOSE);
        assert_int_equal(allocations, 1);
    }
}

/* In packets of `part`: handed up, or placed as they come where the transport can do that. */
static void in_pieces(unsigned id, size_t total, size_t part, int placed)
{
    const struct cw_wire_am_first first = {.am = {.handler = htole16((uint16_t)id), .header_length = htole32(13)},
                                        .total = htole64(total), .message = htole32(1)};
    struct cw_wire_next next = {.message = htole32(1)};
    struct iovec iov;
    size_t at, length;

    begin();
    hand_up(CW_PACKET_AM_FIRST, &first, sizeof(first), 13 + part);
    for (at = part; at < total; at += length) {
        length = (part < total - at) ? part : total - at;
        next.offset = htole64(at);
        if (!placed) {
            hand_up(CW_PACKET_NEXT, &next, sizeof(next), length);
            continue;
        }
        counting = 1;
        assert_int_equal(cw_op_place(ep->conn, CW_PACKET_NEXT, &next, length, &iov), 1);
        counting = 0;
        memset(iov.iov_base, 0x64, iov.iov_len);
        counting = 1;
        cw_op_placed(ep->conn, CW_PACKET_NEXT, &next, length);
        counting = 0;
    }
    assert_int_equal(calls, 1);
    assert_int_equal(last_length, total);
    assert_int_equal(last_attr, UCP_AM_RECV_ATTR_FLAG_DATA);
}

TEST_WITH(test_pieces_are_copied_once, setup, teardown)
{
    static const size_t totals[] = {100, 20000, CW_AM_AT_ONCE, CW_AM_AT_ONCE + 1, 5000000};

#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* as it is before anything long was freed */
#endif
    for (unsigned i = 0; i < 5; i++) {
        const size_t part = (totals[i] < 60000) ? totals[i] / 2 : 60000;

        for (size_t alignment = 1; alignment <= 4096; alignment *= 64) {
            worker->am_alignment = alignment;
            in_pieces(PLAIN, totals[i], part, 0);
            assert_in_range(copied, totals[i], totals[i] + LOOSE * (totals[i] / part + 1));
            in_pieces(KEEPER, totals[i], part, 1);
            assert_in_range(copied, part, part + LOOSE * (totals[i] / part + 1)); /* the first packet alone */
        }
    }
}

/* Whether other processes see these bytes as well. */
static int is_shared(const void *data)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char line[512], rights[5] = "";

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && (uintptr_t)data >= from && (uintptr_t)data < to) {
            fclose(maps);
            return rights[3] == 's';
        }
    }
    fclose(maps);
    return 0;
}

TEST_WITH(test_the_ring_itself, NULL, teardown)
{
    static uint8_t out[300000];

    open_over("shm");
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 1; i < LENGTHS - 1; i++) { /* one packet each, whatever the ring is like */
            const size_t length = (lengths[i] > 8000) ? 8000 : lengths[i];

            memset(out, (int)(round + i), length);
            send_and_wait(PLAIN, out, length);
            assert_int_equal(last_length, length);
            assert_true(is_shared(last_data));
            send_and_wait(KEEPER, out, length);
            assert_false(is_shared(last_data));
        }
    }
}
