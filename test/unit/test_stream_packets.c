/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream packets of a peer that follows no rules, handed to an open endpoint as a transport would: what breaks the
 * protocol costs the connection, what does not is stored, within the window and not beyond.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "stream/stream.h"
#include "test_alone.h"

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static const ucp_request_param_t plain;
static int no_memory;           /* allocations fail from now on */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* An endpoint to itself, connected: what is fed comes on top of what it sends itself. */
static int setup(void **state)
{
    (void)state;
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_true(cw_alone_open(UCP_FEATURE_TAG | UCP_FEATURE_STREAM, &context, &worker));
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    assert_int_equal(ep->state, CW_EP_OPEN);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cw_alone_close(context, worker);
    return 0;
}

/* Of exactly its size, so that a sanitizer sees a read behind it. */
static void feed(uint8_t id, uint64_t header, size_t length)
{
    uint8_t *packet = malloc(length > 0 ? length : 1);

    assert_non_null(packet);
    memset(packet, 0x5a, length);
    header = htole64(header);
    memcpy(packet, &header, (length < sizeof(header)) ? length : sizeof(header));
    cw_op_packet(ep->conn, id, packet, length);
    free(packet);
}

static void must_cost(uint8_t id, uint64_t header, size_t length)
{
    assert_int_equal(ep->state, CW_EP_OPEN);
    feed(id, header, length);
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
    while (ucp_worker_progress(worker) != 0) {
    }
}

TEST_WITH(test_short_data, setup, teardown)
{
    must_cost(CW_PACKET_STREAM_DATA, 0, 7);
}

TEST_WITH(test_no_data, setup, teardown)
{
    must_cost(CW_PACKET_STREAM_DATA, 0, 8);
}

TEST_WITH(test_gap, setup, teardown)
{
    feed(CW_PACKET_STREAM_DATA, 0, 8 + 10);
    must_cost(CW_PACKET_STREAM_DATA, 11, 8 + 10);
}

TEST_WITH(test_repeated, setup, teardown)
{
    feed(CW_PACKET_STREAM_DATA, 0, 8 + 10);
    must_cost(CW_PACKET_STREAM_DATA, 0, 8 + 10);
}

static void fill_window(void)
{
    for (uint64_t offset = 0; offset < CW_STREAM_WINDOW; offset += 65536) {
        feed(CW_PACKET_STREAM_DATA, offset, 8 + 65536);
        assert_int_equal(ep->state, CW_EP_OPEN);
    }
    assert_int_equal(cw_op_ep(ep)->stream->unread, CW_STREAM_WINDOW);
}

TEST_WITH(test_beyond_the_window, setup, teardown)
{
    fill_window();
    must_cost(CW_PACKET_STREAM_DATA, CW_STREAM_WINDOW, 8 + 1);
}

TEST_WITH(test_beyond_a_moved_window, setup, teardown)
{
    static char in[CW_STREAM_WINDOW / 2];
    size_t length = 0;

    fill_window();
    cw_op_ep(ep)->stream->sent = CW_STREAM_WINDOW; /* it gets the credit of what it did not send itself */
    assert_null(ucp_stream_recv_nbx(ep, in, sizeof(in), &length, &plain));
    assert_int_equal(length, sizeof(in));
    feed(CW_PACKET_STREAM_DATA, CW_STREAM_WINDOW, 8 + sizeof(in));
    assert_int_equal(ep->state, CW_EP_OPEN);
    must_cost(CW_PACKET_STREAM_DATA, CW_STREAM_WINDOW + sizeof(in), 8 + 1);
}

/* A sender of single bytes costs their number, not an allocation for each; what is in them stays in order. */
TEST_WITH(test_flood_of_single_bytes, setup, teardown)
{
    enum { BYTES = 100000 };
    const struct cw_stream_segment *segment;
    static unsigned char in[BYTES];
    size_t segments = 0, memory = 0, length = 0;
    uint8_t packet[9];
    uint64_t header;

    for (uint64_t offset = 0; offset < BYTES; offset++) {
        header = htole64(offset);
        memcpy(packet, &header, sizeof(header));
        packet[8] = (uint8_t)(offset * 7);
        cw_op_packet(ep->conn, CW_PACKET_STREAM_DATA, packet, sizeof(packet));
    }
    for (segment = cw_op_ep(ep)->stream->first; segment != NULL; segment = segment->next) {
        segments++;
        memory += sizeof(*segment) + ((segment->size > 0) ? segment->size : segment->length);
    }
    assert_int_equal(cw_op_ep(ep)->stream->segments, segments);
    assert_in_range(memory, BYTES, 3 * BYTES + BYTES / 8);
    cw_op_ep(ep)->stream->sent = BYTES; /* it gets the credit of what it did not send itself */
    assert_null(ucp_stream_recv_nbx(ep, in, sizeof(in), &length, &plain));
    assert_int_equal(length, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(in[i], (unsigned char)(i * 7));
    }
    assert_int_equal(cw_op_ep(ep)->stream->segments, 0);
}

/* Reading needs no memory, however the bytes lie and wherever a receive ends; to hand packets out does. */
TEST_WITH(test_read_without_memory, setup, teardown)
{
    enum { PACKETS = 400 };
    static const size_t sizes[] = {1, 3, 0, 2, 700, 64, 5, 1000}, elements[] = {1, 1, 1, 2, 1, 8, 5, 1};
    uint8_t packet[8 + 17], in[1000];
    uint64_t header, offset = 0, at = 0;
    size_t length, size;
    unsigned i;

    for (i = 0; i < PACKETS; i++) {
        size = 1 + i % 17;
        header = htole64(offset);
        memcpy(packet, &header, sizeof(header));
        for (size_t k = 0; k < size; k++) {
            packet[8 + k] = (uint8_t)((offset + k) * 7);
        }
        cw_op_packet(ep->conn, CW_PACKET_STREAM_DATA, packet, 8 + size);
        offset += size;
    }
    cw_op_ep(ep)->stream->sent = offset; /* it gets the credit of what it did not send itself */
    no_memory = 1;
    for (i = 0; at < offset; i++) {
        const size_t element = (offset - at < 1000) ? 1 : elements[i % 8];
        ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                     .datatype = ucp_dt_make_contig(element)};

        length = 7777;
        assert_null(ucp_stream_recv_nbx(ep, in, sizes[i % 8] / element, &length, &param));
        size = (sizes[i % 8] < offset - at) ? sizes[i % 8] / element * element : (size_t)(offset - at);
        assert_int_equal(length, size);
        for (size_t k = 0; k < length; k++) {
            assert_int_equal(in[k], (uint8_t)((at + k) * 7));
        }
        at += length;
        assert_int_equal(cw_op_ep(ep)->stream->unread, offset - at);
        if (i % 16 == 7 && cw_op_ep(ep)->stream->segments > 0 && cw_op_ep(ep)->stream->first->size > 0) {
            assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_recv_data_nb(ep, &length)), UCS_ERR_NO_MEMORY);
        }
    }
    no_memory = 0;
    assert_int_equal(cw_op_ep(ep)->stream->segments, 0);
    assert_null(ucp_stream_recv_data_nb(ep, &length));
}

/* Who reads by segments sees packets as they came, those that share memory as well (STR-11): programs count on it. */
TEST_WITH(test_packets_stay_apart, setup, teardown)
{
    enum { PACKETS = 5000, LONGEST = 700 };
    static uint8_t packet[8 + LONGEST];
    uint64_t offset = 0, header;
    size_t length = 0, sizes[] = {1, 7, 510, 511, 512, 513, LONGEST, 2}, size;
    ucs_status_ptr_t held[16] = {NULL};

    for (unsigned i = 0; i < PACKETS && offset + LONGEST < CW_STREAM_WINDOW; i++) {
        size = sizes[i % 8];
        header = htole64(offset);
        memcpy(packet, &header, sizeof(header));
        memset(packet + 8, (int)i, size);
        cw_op_packet(ep->conn, CW_PACKET_STREAM_DATA, packet, 8 + size);
        offset += size;
    }
    cw_op_ep(ep)->stream->sent = offset;
    for (unsigned i = 0; offset > 0; i++) {
        ucs_status_ptr_t data = ucp_stream_recv_data_nb(ep, &length);

        assert_true(UCS_PTR_IS_PTR(data));
        assert_int_equal(length, sizes[i % 8]);
        assert_int_equal(((const uint8_t *)data)[0], (uint8_t)i);
        assert_int_equal(((const uint8_t *)data)[length - 1], (uint8_t)i);
        offset -= length;
        if (held[i % 16] != NULL) { /* kept by the program while others are read */
            assert_int_equal(((const uint8_t *)held[i % 16])[0], (uint8_t)(i - 16));
            ucp_stream_data_release(ep, held[i % 16]);
        }
        held[i % 16] = data;
    }
    for (unsigned i = 0; i < 16; i++) {
        ucp_stream_data_release(ep, held[i]);
    }
    assert_null(ucp_stream_recv_data_nb(ep, &length));
    assert_int_equal(cw_op_ep(ep)->stream->segments, 0);
}

static void drain_unread(void)
{
    size_t length = 0;
    char in[8];

    cw_op_ep(ep)->stream->sent = 8;
    assert_null(ucp_stream_recv_nbx(ep, in, sizeof(in), &length, &plain));
    assert_int_equal(length, 8);
}

/* CTX-14: who asked for no streams keeps nothing of one, and lets the sender go on. */
TEST_WITH(test_nobody_asked_for_streams, setup, teardown)
{
    feed(CW_PACKET_STREAM_DATA, 0, 8 + 8); /* makes the stream */
    drain_unread();
    worker->features &= ~(uint64_t)UCP_FEATURE_STREAM;
    cw_op_ep(ep)->stream->sent = 4 * CW_STREAM_WINDOW; /* it gets the credit of what it did not send itself */
    for (uint64_t offset = 8; offset < 3 * CW_STREAM_WINDOW;) {
        const size_t length = (offset % 3 == 0) ? 8 : 65536;

        feed(CW_PACKET_STREAM_DATA, offset, 8 + length);
        offset += length;
        assert_int_equal(ep->state, CW_EP_OPEN);
        assert_int_equal(cw_op_ep(ep)->stream->unread, 0);
    }
    worker->features |= UCP_FEATURE_STREAM;
}

TEST_WITH(test_credit_without_a_stream, setup, teardown)
{
    must_cost(CW_PACKET_STREAM_CREDIT, 0, 8);
}

static void send_some(size_t length)
{
    static char out[CW_STREAM_WINDOW];
    ucs_status_ptr_t sent = ucp_stream_send_nbx(ep, out, length, &plain);

    if (UCS_PTR_IS_PTR(sent)) {
        ucp_request_release(sent);
    }
    assert_int_equal(cw_op_ep(ep)->stream->sent, length);
}

TEST_WITH(test_credit_of_wrong_size, setup, teardown)
{
    send_some(100);
    must_cost(CW_PACKET_STREAM_CREDIT, 0, 9);
}

TEST_WITH(test_credit_for_more_than_was_sent, setup, teardown)
{
    send_some(100);
    must_cost(CW_PACKET_STREAM_CREDIT, 101, 8);
}

TEST_WITH(test_credit_that_shrinks, setup, teardown)
{
    send_some(100);
    feed(CW_PACKET_STREAM_CREDIT, 60, 8);
    feed(CW_PACKET_STREAM_CREDIT, 60, 8);
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(cw_op_ep(ep)->stream->credited, 60);
    must_cost(CW_PACKET_STREAM_CREDIT, 59, 8);
}
