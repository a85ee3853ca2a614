/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of one-sided packets share: an endpoint to the worker itself whose connection only records what is
 * sent, and registered memory between guards that its key reaches by packets only.
 */
#ifndef CW_TEST_UNIT_TEST_RMA_H
#define CW_TEST_UNIT_TEST_RMA_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/ep.h"
#include "core/rkey.h"
#include "core/worker.h"
#include "msg/msg.h"
#include "msg/op_ep.h"
#include "rma/rma.h"
#include "test_alone.h"
#include "test_fake.h"
#include "test_recorder.h"

enum { GUARD = 64, ROOM = 70000, SEND_ID = 4711 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;
static struct cw_iface *real_iface;
static struct cw_iface fake_iface;
static struct cw_protocol_plan fake_plan;
static uint8_t memory[GUARD + ROOM + GUARD]; /* what the peer may reach begins and ends at the guards */
static uint8_t local[ROOM];
static const ucp_request_param_t none;

/* ---- a fresh endpoint for each breach ---- */

static inline void progress(void)
{
    for (int i = 0; i < 20; i++) {
        ucp_worker_progress(worker);
    }
}

static inline ucs_status_t finish(ucs_status_ptr_t result)
{
    return cw_alone_wait(worker, result);
}

static inline int is_pending(ucs_status_ptr_t request)
{
    return UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS;
}

static inline ucp_ep_h connected(void)
{
    return cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                      .err_mode = UCP_ERR_HANDLING_MODE_PEER});
}

static inline void map(unsigned prot)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_PROT,
                                   .address = memory + GUARD,
                                   .length = ROOM,
                                   .prot = prot};
    size_t length;
    void *bytes;

    assert_int_equal(ucp_mem_map(context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, memh, &bytes, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, bytes, &rkey), UCS_OK);
    ucp_rkey_buffer_release(bytes);
    cw_rkey_set_local(rkey, NULL); /* by packets only */
    rkey->key.validity = 0;
}

static inline void unmap(void)
{
    if (memh != NULL) {
        assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
        memh = NULL;
    }
}

/* `placed`: whether the connection can place packets. Announced is what has 500 bytes or more, then. */
static inline void begin_with(unsigned prot, int placed)
{
    ep = connected();
    real_iface = ep->conn->iface;
    fake_iface = *real_iface;
    fake_plan = *real_iface->plan;
    fake_tables(real_iface, &fake_iface);
    fake_packets.send_short = fake_short;
    fake_packets.send_bcopy = fake_bcopy;
    fake_packets.send_zcopy = NULL;
    fake_packets.send_placed = placed ? fake_placed : NULL;
    fake_transport.copies = NULL;
    fake_transport.device_class = CW_DEVICE_NET; /* a peer that could not reach this memory by itself */
    fake_plan.zcopy_min = CW_PLAN_NEVER;
    fake_plan.rndv_min = 500;
    fake_iface.limits.max_bcopy = 400;
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_placed = placed ? 1000 : 0;
    fake_iface.limits.max_iov = 4;
    fake_iface.plan = &fake_plan;
    ep->conn->iface = &fake_iface;
    free(worker->msg->choices_rma); /* of another test, whose interface had the same address */
    worker->msg->choices_rma = NULL;
    num_records = 0;
    blocked = keeps = 0;
    retained = NULL;
    memset(sent, 0, sizeof(sent));
    memset(memory, 0x5a, sizeof(memory));
    for (size_t i = 0; i < ROOM; i++) {
        memory[GUARD + i] = (uint8_t)(i * 7 + (i >> 8));
        local[i] = 0x11;
    }
    map(prot);
}

static inline void begin(void)
{
    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
}

/* Whatever the peer did, the worker still serves others. `lives`: the connection was worth keeping. */
static inline void end(int lives)
{
    int failed = ep->state == CW_EP_FAILED;

    if (ep->conn != NULL) {
        ep->conn->iface = real_iface;
    }
    progress();
    assert_int_equal(failed, !lives);
    assert_true(cw_op_ep(ep)->rma == NULL || lives);
    cw_alone_end(worker, ep);
    ucp_rkey_destroy(rkey);
    unmap();
    cw_alone_end(worker, connected());
}

static inline void feed(uint8_t id, const void *packet, size_t length)
{
    cw_alone_feed(ep, id, packet, length);
}

/* All but [first, first + length) is as `begin` left it. */
static inline void check_rest(size_t first, size_t length)
{
    for (size_t i = 0; i < sizeof(memory); i++) {
        size_t at = i - GUARD;

        if (i < GUARD || at >= ROOM) {
            assert_int_equal(memory[i], 0x5a);
        } else if (at < first || at >= first + length) {
            assert_int_equal(memory[i], (uint8_t)(at * 7 + (at >> 8)));
        }
    }
}

static inline uint64_t base(void)
{
    return (uint64_t)(uintptr_t)(memory + GUARD);
}

static inline void feed_data(uint64_t id, uint64_t offset, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_rndv_data) + 2 * ROOM];
    const struct cw_wire_rndv_data header = {.receive_id = htole64(id), .offset = htole64(offset)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_RNDV_DATA, packet, sizeof(header) + length);
}

static inline void feed_whole(uint64_t id, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_get_data) + 2 * ROOM];
    const struct cw_wire_get_data header = {.receive_id = htole64(id)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_GET_DATA, packet, sizeof(header) + length);
}

static inline int setup(void **state)
{
    (void)state;
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_true(cw_alone_open(UCP_FEATURE_TAG | UCP_FEATURE_RMA, &context, &worker));
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    cw_alone_close(context, worker);
    return 0;
}

#endif
