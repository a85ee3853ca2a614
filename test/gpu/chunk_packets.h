/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of chunks for tests with standin_memory.h and standin_peer.h that are linked with --wrap=cw_op_packet: they
 * are counted when they arrive, and changed or lost before they are handled.
 */
#ifndef CW_TEST_GPU_CHUNK_PACKETS_H
#define CW_TEST_GPU_CHUNK_PACKETS_H

#include <endian.h>

#include "api/dispatch.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "wire/packet.h"

#define CHUNK ((size_t)512 << 10) /* of a message of LENGTH bytes */

enum { CHUNKS = LENGTH / CHUNK };

/* What arrives is counted, and changed before it is handled. 0: it is lost. */
static unsigned arrived[CW_PACKET_COUNT];
static int (*change_chunk)(struct cw_conn *conn, struct cw_wire_rndv_chunk *packet);
static int (*change_taken)(struct cw_conn *conn, struct cw_wire_rndv_taken *packet);
static size_t cut;

void __real_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);

void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct cw_wire_rndv_chunk chunk;
    struct cw_wire_rndv_taken taken;

    arrived[id]++;
    if (id == CW_PACKET_RNDV_CHUNK) {
        assert_int_equal(length, sizeof(chunk));
        memcpy(&chunk, data, sizeof(chunk));
        if (change_chunk == NULL || change_chunk(conn, &chunk)) {
            __real_cw_op_packet(conn, id, &chunk, sizeof(chunk) - cut);
        }
    } else if (id == CW_PACKET_RNDV_TAKEN) {
        assert_int_equal(length, sizeof(taken));
        memcpy(&taken, data, sizeof(taken));
        if (change_taken == NULL || change_taken(conn, &taken)) {
            __real_cw_op_packet(conn, id, &taken, sizeof(taken) - cut);
        }
    } else {
        __real_cw_op_packet(conn, id, data, length);
    }
}

static const struct cw_pair_config peer_mode = {.features = UCP_FEATURE_TAG, .peer_mode = true};

static inline void forget_counts(void)
{
    memset(arrived, 0, sizeof(arrived));
}

static inline void begin_packets(void)
{
    change_chunk = NULL;
    change_taken = NULL;
    cut = 0;
    forget_counts();
}

static inline ucs_status_t move_some(struct cw_pair *pair, const char *from, char *to, size_t length,
                                     ucs_status_t *sent_p)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sent, received;

    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, length, 1, &param);
    *sent_p = cw_pair_wait(pair, sent, "a send");
    return cw_pair_wait(pair, received, "a receive");
}

static inline ucs_status_t move(struct cw_pair *pair, const char *from, char *to, ucs_status_t *sent_p)
{
    return move_some(pair, from, to, LENGTH, sent_p);
}

static inline void no_bytes_in_packets(void)
{
    assert_int_equal(arrived[CW_PACKET_RNDV_DATA], 0);
    assert_int_equal(arrived[CW_PACKET_GET_DATA], 0);
    assert_int_equal(arrived[CW_PACKET_PUT], 0);
    assert_int_equal(arrived[CW_PACKET_RNDV_NAME], 0);
}

static inline unsigned waits(void)
{
    return standin_calls("cuStreamSynchronize") + standin_calls("cuEventSynchronize");
}

/* The message goes by chunks, and progress waits for no copy. */
static inline void moves(struct cw_pair *pair, const char *from, char *to, uint64_t seed)
{
    const unsigned copies = standin_calls("cuMemcpyAsync"), before = waits();
    ucs_status_t sent;

    forget_counts();
    fill((char *)(uintptr_t)from, seed);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    assert_int_equal(sent, UCS_OK);
    check(to, seed);
    no_bytes_in_packets();
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], CHUNKS);
    assert_int_equal(arrived[CW_PACKET_RNDV_TAKEN], CHUNKS);
    assert_int_equal(standin_calls("cuMemcpyAsync") - copies, 2 * CHUNKS);
    assert_int_equal(waits(), before);
}

static struct cw_wire_rndv_chunk lie;
static unsigned lies_from; /* the chunk with which the lies begin */

static inline int send_lie(struct cw_conn *conn, struct cw_wire_rndv_chunk *packet)
{
    (void)conn;
    if (arrived[CW_PACKET_RNDV_CHUNK] > lies_from) {
        packet->receive_id = htole64(le64toh(packet->receive_id) + lie.receive_id);
        packet->send_id = htole64(le64toh(packet->send_id) + lie.send_id);
        packet->offset = htole64(le64toh(packet->offset) + lie.offset);
        packet->chunk = htole64(le64toh(packet->chunk) + lie.chunk);
        packet->passed = htole64(le64toh(packet->passed) + lie.passed);
        packet->length = htole32(le32toh(packet->length) + lie.length);
        packet->size = htole32(le32toh(packet->size) + lie.size);
    }
    return 1;
}

static int setup(void **state)
{
    begin();
    begin_packets();
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state);

    end();
    return status;
}

#endif
