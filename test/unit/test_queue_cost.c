/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a packet does not grow with what its peer has waiting here: none walks along the queue. A trap in the
 * middle of the endpoint's list ends this program if one does. Ids that a table is kept by are each used once.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>

#include "test_alone.h"
#include "test_under.h"

#include "api/dispatch.h"
#include "core/ep_retained.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "rndv/shares.h"
#include "tag/desc.h"
#include "tag/tag.h"
#include "wire/rma.h"

enum { MANY = 10000, SYNCED = 200, LONG = 100, WAITING = 1, NUMBER = 7 };

static const ucp_request_param_t plain;

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static struct cw_reassembly *middle; /* of what waits: its link leads nowhere while the trap is set */
static struct cw_list middle_link;

static int set_up(void **state)
{
    (void)state;
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    put_under(ep);
    return 0;
}

static int tear_down(void **state)
{
    ucp_tag_recv_info_t info;
    uint8_t in[LONG];

    (void)state;
    take_away(ep);
    cw_alone_end(worker, ep);
    while (ucp_worker_progress(worker) > 0) {
    }
    assert_int_equal(worker->tag->revocable.count, 0); /* nobody takes back what is left */
    while (ucp_tag_probe_nb(worker, WAITING, UINT64_MAX, 0, &info) != NULL) { /* what came as a whole is left */
        assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), WAITING, UINT64_MAX, &plain));
    }
    return 0;
}

static void announce(uint64_t id)
{
    const struct cw_wire_tag_rts rts = {.tag = htole64(WAITING),
                                        .rts = {.length = htole64(LONG), .send_id = htole64(id)}};

    cw_op_packet(ep->conn, CW_PACKET_TAG_RTS, &rts, sizeof(rts));
}

static void take_back(uint64_t id)
{
    const struct cw_wire_tag_cancel cancel = {.send_id = htole64(id)};

    cw_op_packet(ep->conn, CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
}

static void synced(uint64_t id, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_tag_sync) + LONG] = {0};
    const struct cw_wire_tag_sync sync = {.tag = htole64(WAITING), .sync_id = htole64(id)};

    memcpy(packet, &sync, sizeof(sync));
    memset(packet + sizeof(sync), (int)id, length);
    cw_op_packet(ep->conn, CW_PACKET_TAG_SYNC, packet, sizeof(sync) + length);
}

/* One byte of two. */
static void first_piece(uint32_t number, uint64_t sync_id)
{
    uint8_t packet[sizeof(struct cw_wire_tag_first) + 1] = {0};
    const struct cw_wire_tag_first first = {.tag = htole64(WAITING),
                                        .total = htole64(2),
                                        .sync_id = htole64(sync_id),
                                        .message = htole32(number)};

    memcpy(packet, &first, sizeof(first));
    cw_op_packet(ep->conn, CW_PACKET_TAG_FIRST, packet, sizeof(packet));
}

static void last_piece(uint32_t number)
{
    uint8_t packet[sizeof(struct cw_wire_next) + 1] = {0};
    const struct cw_wire_next next = {.message = htole32(number), .offset = htole64(1)};

    memcpy(packet, &next, sizeof(next));
    cw_op_packet(ep->conn, CW_PACKET_NEXT, packet, sizeof(packet));
}

static void set_trap(void)
{
    struct cw_list *link = &cw_op_ep(ep)->reassembly.receiving;

    for (unsigned i = 0; i <= MANY / 2; i++) {
        link = link->next;
    }
    middle = cw_container_of(link, struct cw_reassembly, link);
    middle_link = middle->link;
    middle->link.next = middle->link.prev = (struct cw_list *)(uintptr_t)sizeof(struct cw_list);
}

static void take_trap(void)
{
    middle->link = middle_link;
}

static void pile_up(void)
{
    for (uint64_t id = 1; id <= MANY; id++) {
        announce(id);
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
    set_trap();
}

TEST_WITH(test_packets_walk_along_nothing, set_up, tear_down)
{
    pile_up();
    first_piece(NUMBER, 0);
    last_piece(NUMBER);
    take_back(MANY / 4);      /* before the trap */
    take_back(MANY - 1);      /* behind it */
    take_back(3 * MANY);      /* nowhere */
    take_trap();
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), 2);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), MANY - 1);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_ERR_CANCELED);
    assert_int_equal(worker->tag->matcher.num_unexpected, MANY - 2 + 1);
}

/* Taken back, or received, they are forgotten in the table as well: tear_down checks. */
TEST_WITH(test_synchronous_messages_are_forgotten, set_up, tear_down)
{
    uint8_t in[LONG];

    for (uint64_t id = 1; id <= SYNCED; id++) {
        synced(id, id % LONG); /* small ones, and others, and such that end at any address */
    }
    for (uint64_t id = 2; id <= SYNCED; id += 2) {
        take_back(id);
    }
    assert_int_equal(worker->tag->revocable.count, SYNCED / 2);
    for (uint64_t id = 1; id <= SYNCED / 2; id += 2) {
        memset(in, 0, sizeof(in));
        assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), WAITING, UINT64_MAX, &plain));
        for (size_t i = 0; i < id % LONG; i++) {
            assert_int_equal(in[i], (uint8_t)id);
        }
        assert_int_equal(word_of(sent_packet(CW_PACKET_TAG_ACK), 0), id);
        take_back(id); /* too late */
    }
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), SYNCED / 2);
    assert_int_equal(worker->tag->revocable.count, SYNCED / 4);
}

/* Messages in pieces of which all pieces came are searched for by no packet, so there may be any number. Only then they
 * can be taken back. */
TEST_WITH(test_complete_messages_are_not_in_the_way, set_up, tear_down)
{
    for (uint32_t number = 1; number <= SYNCED; number++) {
        first_piece(number, number);
        take_back(number);
        assert_false(cw_list_empty(&cw_op_ep(ep)->reassembly.partial));
        last_piece(number);
        assert_true(cw_list_empty(&cw_op_ep(ep)->reassembly.partial));
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), 0);
    for (uint32_t number = 1; number <= SYNCED; number++) {
        take_back(number);
    }
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), SYNCED);
}

/* While pieces are missing the connection is needed, also where nobody holds the endpoint, and its peer gets turns. */
TEST_WITH(test_unfinished_messages_are_expected, set_up, tear_down)
{
    assert_true(cw_ep_turn(ep) == UINT64_MAX);
    first_piece(NUMBER, 0);
    assert_true(cw_ep_turn(ep) < UINT64_MAX);
    last_piece(NUMBER);
    assert_true(cw_ep_turn(ep) == UINT64_MAX);
}

/* A chain of one id would be walked along. What is received may have its id again. */
TEST_WITH(test_ids_are_used_once, set_up, tear_down)
{
    uint8_t in[LONG];

    for (unsigned i = 0; i < 4; i++) {
        announce(5);
        ucp_request_free(ucp_tag_recv_nbx(worker, in, sizeof(in), WAITING, UINT64_MAX, &plain));
        announce(5);
        synced(6, 1);
        first_piece(NUMBER, 8);
        assert_int_equal(ep->state, CW_EP_OPEN);
        switch (i) {
        case 0:
            announce(5);
            break;
        case 1:
            synced(6, 1);
            break;
        case 2:
            first_piece(NUMBER + 1, 8);
            break;
        default:
            announce(8);
        }
        assert_int_equal(ep->state, CW_EP_FAILED);
        assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
        if (i < 3) {
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
        }
    }
}

/* Two peers may use the same ids. */
TEST_WITH(test_ids_are_of_an_endpoint, set_up, tear_down)
{
    const ucp_ep_h first = ep;

    announce(5);
    take_away(ep);
    assert_int_equal(set_up(state), 0);
    announce(5);
    assert_int_equal(ep->state, CW_EP_OPEN);
    take_back(5);
    assert_int_equal(worker->tag->revocable.count, 1);
    assert_ptr_equal(cw_tag_desc_find(first, 5)->in.ep, first);
    take_away(ep);
    cw_alone_end(worker, ep);
    ep = first;
    put_under(ep);
}

int main(void)
{
    int failed;

    if (!cw_alone_open(UCP_FEATURE_TAG, &context, &worker)) {
        return 1;
    }
    failed = cw_tests_run(NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
