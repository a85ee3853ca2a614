/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory in which packets of the transport self wait: that of long ones is used again instead of being asked for
 * anew, what is kept is bounded, and nothing of it is left in the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/lane.h"
#include "os/poll.h"
#include "transport/self/self_transport.h"

enum { KIB = 1024, LONG = 130, MOST_BLOCKS = 20000 };

static struct {
    void *at;
    size_t size;
} blocks[MOST_BLOCKS];          /* those of more than LONG bytes that are in use */
static size_t num_blocks, live_bytes;
static unsigned asked;          /* how often for one of them */
static unsigned arrived, bytes_wrong;
static struct cw_conn *dialled, *accepted;
static struct cw_iface *iface;
static struct cw_poller *poller;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);

    if (memory != NULL && size > LONG && num_blocks < MOST_BLOCKS) {
        asked++;
        live_bytes += size;
        blocks[num_blocks].at     = memory;
        blocks[num_blocks++].size = size;
    }
    return memory;
}

void __wrap_free(void *memory)
{
    size_t i;

    for (i = 0; i < num_blocks && memory != NULL; i++) {
        if (blocks[i].at == memory) {
            live_bytes -= blocks[i].size;
            blocks[i]   = blocks[--num_blocks];
        }
    }
    __real_free(memory);
}

static uint8_t byte_of(unsigned number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + at / 256);
}

static void packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    size_t i;

    (void)conn;
    for (i = 0; i < length; i++) {
        bytes_wrong += bytes[i] != byte_of(id, i);
    }
    arrived++;
}

static ucs_status_t accept_it(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    (void)owner, (void)hello, (void)hello_length, (void)reply;
    *reply_length = 0;
    accepted      = conn;
    return UCS_OK;
}

static void opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)conn, (void)reply, (void)reply_length;
    assert_int_equal(status, UCS_OK);
}

static void nothing(struct cw_conn *conn)
{
    (void)conn;
}

static void closed(struct cw_conn *conn, ucs_status_t status)
{
    (void)conn, (void)status;
}

static const struct cw_upcalls upcalls = {
    .packet = packet, .accept = accept_it, .opened = opened, .room = nothing, .closed = closed};

static int connect_both(void **state)
{
    struct cw_iface_params params = {.upcalls = &upcalls, .worker_uid = 7};
    uint8_t address[8];

    (void)state;
    num_blocks = live_bytes = 0;
    arrived = bytes_wrong = 0;
    assert_int_equal(cw_poller_new(0, &poller), UCS_OK);
    params.poller = poller;
    assert_int_equal(cw_iface_open(&cw_self_transport, &params, &iface), UCS_OK);
    assert_int_equal(cw_iface_address(iface, address, sizeof(address)), sizeof(address));
    assert_int_equal(cw_self_transport.connect->dial(iface, address, sizeof(address), "", 0, NULL, &dialled), UCS_OK);
    cw_self_transport.progress(iface);
    assert_non_null(accepted);
    return 0;
}

static int end(void **state)
{
    (void)state;
    cw_self_transport.connect->close_conn(dialled);
    cw_self_transport.connect->close_conn(accepted);
    cw_self_transport.close(iface);
    cw_poller_free(poller);
    return live_bytes != 0;
}

struct filling {
    unsigned number;
    size_t length;
};

static size_t fill(void *dest, size_t max, void *arg)
{
    const struct filling *filling = arg;
    uint8_t *bytes                = dest;
    size_t i;

    assert_true(filling->length <= max);
    for (i = 0; i < filling->length; i++) {
        bytes[i] = byte_of(filling->number, i);
    }
    return filling->length;
}

/* So many packets before a progress; as many as find room. Returns how often memory was asked for. */
static unsigned burst(unsigned count, size_t length)
{
    const unsigned asked_before = asked, arrived_before = arrived;
    unsigned sent;

    for (sent = 0; sent < count; sent++) {
        struct filling filling = {.number = (uint8_t)sent, .length = length};
        ucs_status_t status    = cw_self_transport.packets->send_bcopy(dialled, (uint8_t)sent, length, fill, &filling);

        if (status != UCS_OK) {
            assert_int_equal(status, CW_AGAIN);
            break;
        }
    }
    cw_self_transport.progress(iface);
    assert_int_equal(arrived - arrived_before, sent);
    assert_int_equal(bytes_wrong, 0);
    return asked - asked_before;
}

static void long_packets_lie_in_memory_that_was_used_before(void **state)
{
    static const size_t lengths[] = {100, 1000, 4 * KIB, 16 * KIB, 32 * KIB};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        burst(32, lengths[i]);
        assert_int_equal(burst(32, lengths[i]), 0);
        assert_int_equal(burst(31, lengths[i] - 1), 0);
    }
    assert_int_equal(burst(32, 2 * KIB), 0); /* what is longer than necessary serves, too */
}

/* Short ones that fill what may be kept make room for long ones. */
static void what_is_kept_follows_the_lengths(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 3; i++) {
        burst(10000, 128);
    }
    for (i = 0; i < 1000 && burst(16, 32 * KIB) > 0; i++) {
    }
    assert_true(i < 1000);
    for (i = 0; i < 1000 && burst(1, 384 * KIB) > 0; i++) {
    }
    assert_true(i < 1000);
}

/* A queue has 1 MiB and what is added last, at most 384 KiB; as much may be kept. */
static void what_is_kept_is_bounded(void **state)
{
    const size_t before = live_bytes, bound = (1024 + 384) * KIB;
    unsigned i;

    (void)state;
    for (i = 0; i < 40; i++) {
        burst(10000, 128u << i % 12);
        assert_true(live_bytes - before <= bound + bound / 2); /* heads of 64 bytes on packets of 128 */
    }
    burst(4, 384 * KIB);
    assert_true(live_bytes > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_packets_lie_in_memory_that_was_used_before, connect_both, end),
        cmocka_unit_test_setup_teardown(what_is_kept_follows_the_lengths, connect_both, end),
        cmocka_unit_test_setup_teardown(what_is_kept_is_bounded, connect_both, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
