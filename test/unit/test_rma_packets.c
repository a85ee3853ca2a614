/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of puts and gets (docs/WIRE.md, rows 20 to 23) from an owner and from an origin that keep to no rules. They
 * are handed to an endpoint whose connection only records what is sent. What breaks the protocol costs the connection,
 * what asks for memory that is not to be had is refused, and no byte is touched beside what was allowed: RMA-1, RMA-2,
 * RMA-5, RMA-8, RMA-12, RMA-14, MEM-16, FLU-1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ep.h"
#include "core/rkey.h"
#include "op/op.h"
#include "op/rma.h"

enum { MAX_RECORDS = 600, MAX_BYTES = 70000, GUARD = 64, ROOM = 3000, ROUNDS = 100000, SEND_ID = 4711 };

struct record {
    uint8_t id;
    size_t length;
    uint8_t bytes[64];
};

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;
static struct cw_iface *real_iface;
static struct cw_iface fake_iface;
static struct cw_transport fake_transport;
static struct cw_protocol_plan fake_plan;
static struct cw_completion *kept; /* of a send that the fake transport does not give back */
static struct record records[MAX_RECORDS];
static unsigned num_records;
static int blocked, keeps;
static uint8_t memory[GUARD + ROOM + GUARD]; /* what the peer may reach begins and ends at the guards */
static uint8_t local[ROOM], sent[ROOM];
static const ucp_request_param_t none;

/* ---- a connection that records ---- */

/* The bytes of RNDV_DATA are kept by their offset. */
static ucs_status_t record(uint8_t id, const uint8_t *bytes, size_t length)
{
    struct record *entry = &records[num_records % MAX_RECORDS];
    uint64_t offset;

    num_records++;
    entry->id     = id;
    entry->length = length;
    memcpy(entry->bytes, bytes, (length < sizeof(entry->bytes)) ? length : sizeof(entry->bytes));
    if (id == CW_PACKET_RNDV_DATA) {
        memcpy(&offset, bytes + 8, sizeof(offset));
        assert_true(le64toh(offset) + length - 16 <= sizeof(sent));
        memcpy(sent + le64toh(offset), bytes + 16, length - 16);
    }
    return UCS_OK;
}

static ucs_status_t fake_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    uint8_t bytes[400];

    (void)conn;
    if (blocked) {
        return CW_AGAIN;
    }
    assert_true(length <= sizeof(bytes) - sizeof(header));
    memcpy(bytes, &header, sizeof(header));
    if (length > 0) {
        memcpy(bytes + sizeof(header), payload, length);
    }
    return record(id, bytes, sizeof(header) + length);
}

static ucs_status_t fake_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    static uint8_t bytes[MAX_BYTES];

    (void)conn;
    if (blocked) {
        return CW_AGAIN;
    }
    assert_true(max <= sizeof(bytes));
    return record(id, bytes, pack(bytes, max, arg));
}

static ucs_status_t fake_placed(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion)
{
    static uint8_t bytes[MAX_BYTES];
    size_t length = CW_PLACE_HEADER;

    (void)conn;
    memcpy(bytes, header, CW_PLACE_HEADER);
    for (unsigned i = 0; i < iov_count; i++) {
        memcpy(bytes + length, iov[i].iov_base, iov[i].iov_len);
        length += iov[i].iov_len;
    }
    record(id, bytes, length);
    kept = keeps ? completion : NULL;
    return keeps ? UCS_INPROGRESS : UCS_OK;
}

static unsigned count_packets(uint8_t id)
{
    unsigned count = 0;

    for (unsigned i = 0; i < num_records; i++) {
        count += records[i % MAX_RECORDS].id == id;
    }
    return count;
}

/* The last packet with this id; ends the test if none was sent. */
static const uint8_t *sent_packet(uint8_t id)
{
    for (unsigned i = num_records; i-- > 0;) {
        if (records[i % MAX_RECORDS].id == id) {
            return records[i % MAX_RECORDS].bytes;
        }
    }
    fail_msg("no packet %u was sent", id);
    return NULL;
}

static uint64_t word_of(const uint8_t *bytes, size_t offset)
{
    uint64_t word;

    memcpy(&word, bytes + offset, sizeof(word));
    return le64toh(word);
}

static int32_t status_of(uint8_t id)
{
    return (int32_t)(uint32_t)word_of(sent_packet(id), 8);
}

/* ---- a fresh endpoint for each breach ---- */

static void progress(void)
{
    for (int i = 0; i < 20; i++) {
        ucp_worker_progress(worker);
    }
}

static ucs_status_t finish(ucs_status_ptr_t result)
{
    ucs_status_t status = UCS_PTR_STATUS(result);

    if (!UCS_PTR_IS_PTR(result)) {
        return status;
    }
    for (int i = 0; (status = ucp_request_check_status(result)) == UCS_INPROGRESS; i++) {
        assert_true(i < ROUNDS);
        ucp_worker_progress(worker);
    }
    ucp_request_free(result);
    return status;
}

static int is_pending(ucs_status_ptr_t request)
{
    return UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS;
}

static ucp_ep_h connected(void)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode   = UCP_ERR_HANDLING_MODE_PEER};
    ucs_status_ptr_t receive;
    char byte = 0;
    ucp_ep_h made;

    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    params.address = attr.address;
    assert_int_equal(ucp_ep_create(worker, &params, &made), UCS_OK);
    ucp_worker_release_address(worker, attr.address);
    receive = ucp_tag_recv_nbx(worker, &byte, 1, 0, UINT64_MAX, &none);
    assert_int_equal(finish(ucp_tag_send_nbx(made, "x", 1, 0, &none)), UCS_OK);
    assert_int_equal(finish(receive), UCS_OK);
    return made;
}

static void map(unsigned prot)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_PROT,
                                   .address    = memory + GUARD,
                                   .length     = ROOM,
                                   .prot       = prot};
    size_t length;
    void *bytes;

    assert_int_equal(ucp_mem_map(context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, memh, &bytes, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, bytes, &rkey), UCS_OK);
    ucp_rkey_buffer_release(bytes);
    rkey->local      = NULL; /* by packets only */
    rkey->key.beacon = 0;
}

static void unmap(void)
{
    if (memh != NULL) {
        assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
        memh = NULL;
    }
}

/* `placed`: whether the connection can place packets. Announced is what has 500 bytes or more, then. */
static void begin_with(unsigned prot, int placed)
{
    ep             = connected();
    real_iface     = ep->conn->iface;
    fake_iface     = *real_iface;
    fake_transport = *real_iface->transport;
    fake_plan      = *real_iface->plan;
    fake_transport.send_short    = fake_short;
    fake_transport.send_bcopy    = fake_bcopy;
    fake_transport.send_zcopy    = NULL;
    fake_transport.send_placed   = placed ? fake_placed : NULL;
    fake_transport.peer_ready    = NULL;
    fake_transport.peer_read     = NULL;
    fake_transport.peer_write    = NULL;
    fake_transport.board         = NULL;
    fake_plan.zcopy_min          = CW_PLAN_NEVER;
    fake_plan.rndv_min           = 500;
    fake_iface.limits.max_bcopy  = 400;
    fake_iface.limits.max_zcopy  = 0;
    fake_iface.limits.max_placed = placed ? 1000 : 0;
    fake_iface.limits.max_iov    = 4;
    fake_iface.plan              = &fake_plan;
    fake_iface.transport         = &fake_transport;
    ep->conn->iface              = &fake_iface;
    num_records = 0;
    blocked = keeps = 0;
    kept = NULL;
    memset(memory, 0x5a, sizeof(memory));
    for (size_t i = 0; i < ROOM; i++) {
        memory[GUARD + i] = (uint8_t)(i * 7 + (i >> 8));
        local[i]          = 0x11;
        sent[i]           = 0;
    }
    map(prot);
}

static void begin(void)
{
    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
}

/* Whatever the peer did, the worker still serves others. `lives`: the connection was worth keeping. */
static void end(int lives)
{
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    int failed                = ep->state == CW_EP_FAILED;
    ucp_ep_h other;

    if (ep->conn != NULL) {
        ep->conn->iface = real_iface;
    }
    progress();
    assert_int_equal(failed, !lives);
    assert_true(ep->rma == NULL || lives);
    (void)finish(ucp_ep_close_nbx(ep, &force));
    ucp_rkey_destroy(rkey);
    unmap();
    other = connected();
    (void)finish(ucp_ep_close_nbx(other, &force));
}

/* Exactly as long as it is, so that a sanitizer sees a byte too much being read. */
static void feed(uint8_t id, const void *packet, size_t length)
{
    uint8_t *copy = malloc(length + (length == 0));

    assert_non_null(copy);
    memcpy(copy, packet, length);
    if (ep->conn != NULL) {
        cw_op_packet(ep->conn, id, copy, length);
    }
    free(copy);
}

/* All but [first, first + length) is as `begin` left it. */
static void check_rest(size_t first, size_t length)
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

static uint64_t base(void)
{
    return (uint64_t)(uintptr_t)(memory + GUARD);
}

static void feed_put(uint64_t token, uint64_t address, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_put) + 2 * ROOM];
    const struct cw_wire_put header = {.token = htole64(token), .address = htole64(address)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_PUT, packet, sizeof(header) + length);
}

static void feed_put_rts(uint64_t token, uint64_t address, uint64_t length)
{
    const struct cw_wire_put_rts packet = {.token   = htole64(token),
                                           .address = htole64(address),
                                           .rts     = {.length = htole64(length), .send_id = htole64(SEND_ID)}};

    feed(CW_PACKET_PUT_RTS, &packet, sizeof(packet));
}

static void feed_get(uint64_t token, uint64_t address, uint64_t length, uint32_t piece)
{
    const struct cw_wire_get packet = {.token      = htole64(token),
                                       .address    = htole64(address),
                                       .length     = htole64(length),
                                       .receive_id = htole64(SEND_ID),
                                       .piece      = htole32(piece)};

    feed(CW_PACKET_GET, &packet, sizeof(packet));
}

static void feed_data(uint64_t id, uint64_t offset, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_rndv_data) + 2 * ROOM];
    const struct cw_wire_rndv_data header = {.receive_id = htole64(id), .offset = htole64(offset)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_RNDV_DATA, packet, sizeof(header) + length);
}

static ucs_status_t ask_what_was_refused(void)
{
    const uint64_t id = htole64(99);

    feed(CW_PACKET_FLUSH, &id, sizeof(id));
    assert_int_equal(word_of(sent_packet(CW_PACKET_FLUSHED), 0), 99);
    return (ucs_status_t)status_of(CW_PACKET_FLUSHED);
}

/* ---- as owner ---- */

struct range {
    uint64_t before; /* the region */
    uint64_t offset;
    uint64_t length;
};

/* Beside the region, at both ends, and around. */
static const struct range outside[] = {{1, 0, 1},    {1, 0, 8},        {0, ROOM, 1}, {0, ROOM - 7, 8}, {0, 0, ROOM + 1},
                                       {0, 4096, 4}, {1, 0, ROOM + 1}, {0, ROOM, 8}, {4096, 0, 100}};
enum { OUTSIDE = sizeof(outside) / sizeof(outside[0]) };

static uint64_t address_of(const struct range *range)
{
    return base() - range->before + range->offset;
}

static void test_put(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 255, 1000, ROOM};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        begin();
        feed_put(rkey->key.token, base() + ROOM - lengths[i], lengths[i]);
        check_rest(ROOM - lengths[i], lengths[i]);
        assert_int_equal(memory[GUARD + ROOM - 1], 0xee);
        assert_int_equal(memory[GUARD + ROOM - lengths[i]], 0xee);
        assert_int_equal(ask_what_was_refused(), UCS_OK);
        end(1);
    }
}

static void test_put_refused(void **state)
{
    (void)state;
    for (int i = 0; i < OUTSIDE + 3; i++) {
        begin_with((i == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_READ :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        if (i < OUTSIDE) {
            feed_put(rkey->key.token, address_of(&outside[i]), (size_t)outside[i].length);
        } else if (i == OUTSIDE) {
            feed_put(rkey->key.token, base(), 8);
        } else {
            feed_put((i == OUTSIDE + 1) ? 0 : rkey->key.token ^ 1, base(), 8);
        }
        check_rest(0, 0);
        assert_int_equal(ask_what_was_refused(), (i == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        assert_int_equal(ask_what_was_refused(), UCS_OK); /* once */
        end(1);
    }
    begin();
    unmap(); /* RMA-12 */
    feed_put(rkey->key.token, base(), 8);
    check_rest(0, 0);
    assert_int_equal(ask_what_was_refused(), UCS_ERR_INVALID_ADDR);
    end(1);
}

static void test_cut_short(void **state)
{
    static const struct {
        uint8_t id;
        size_t length;
    } kinds[] = {{CW_PACKET_PUT, sizeof(struct cw_wire_put) + 1},
                 {CW_PACKET_PUT_RTS, sizeof(struct cw_wire_put_rts)},
                 {CW_PACKET_GET, sizeof(struct cw_wire_get)},
                 {CW_PACKET_GET_REFUSED, sizeof(struct cw_wire_get_refused)}};
    uint8_t bytes[100];

    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (size_t length = 0; length < kinds[k].length; length++) {
            begin();
            feed(kinds[k].id, bytes, length);
            end(0);
        }
        if (kinds[k].id != CW_PACKET_PUT) {
            begin();
            feed(kinds[k].id, bytes, kinds[k].length + 1);
            end(0);
        }
    }
    begin();
    feed_put_rts(rkey->key.token, base(), 0);
    end(0);
    begin();
    feed_get(rkey->key.token, base(), 0, 100);
    end(0);
    begin();
    feed_get(rkey->key.token, base(), 100, 0);
    end(0);
}

static uint64_t accept_put(size_t offset, size_t length)
{
    feed_put_rts(rkey->key.token, base() + offset, length);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_READY), 0), SEND_ID);
    return word_of(sent_packet(CW_PACKET_RNDV_READY), offsetof(struct cw_wire_rndv_ready, receive_id));
}

static void test_announced_put(void **state)
{
    uint64_t id;

    (void)state;
    begin();
    id = accept_put(100, 900);
    feed_data(id, 400, 500);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), 0);
    feed_data(id, 0, 400);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), SEND_ID);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_OK);
    check_rest(100, 900);
    assert_int_equal(memory[GUARD + 100], 0xee);
    assert_int_equal(memory[GUARD + 999], 0xee);
    assert_int_equal(ep->rma->serving, 0);
    feed_data(id, 0, 1);
    check_rest(100, 900);
    end(0);
}

static void test_announced_put_out_of_bounds(void **state)
{
    static const uint64_t wrong[][2] = {{0, 0}, {0, 901}, {900, 1}, {899, 2}, {UINT64_MAX, 1}, {UINT64_MAX - 3, 8}};
    struct cw_wire_rndv_copied copied = {0};
    uint64_t id;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        begin();
        id = accept_put(100, 900);
        feed_data(id, wrong[i][0], (size_t)wrong[i][1]);
        check_rest(0, 0);
        end(0);
    }
    begin(); /* it was not asked to copy */
    id = accept_put(100, 900);
    copied.receive_id = htole64(id);
    feed(CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
    end(0);
}

static void test_announced_put_refused(void **state)
{
    (void)state;
    for (int i = 0; i < OUTSIDE + 2; i++) {
        begin_with((i == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_READ :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        if (i < OUTSIDE) {
            feed_put_rts(rkey->key.token, address_of(&outside[i]), outside[i].length);
        } else {
            feed_put_rts(rkey->key.token, (i == OUTSIDE) ? base() : UINT64_MAX - 2, 100);
        }
        assert_int_equal(count_packets(CW_PACKET_RNDV_READY), 0);
        assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), SEND_ID);
        assert_int_equal(status_of(CW_PACKET_RNDV_DONE), (i == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        assert_int_equal(ep->rma->serving, 0);
        end(1);
    }
}

static void test_get(void **state)
{
    static const size_t lengths[] = {1, 8, 9, 300, 384, 385, 1000, ROOM};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int small = 0; small < 2; small++) {
            begin();
            feed_get(rkey->key.token, base(), lengths[i], small ? 50 : UINT32_MAX);
            progress();
            assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DATA), 0), SEND_ID);
            for (unsigned k = 0; k < num_records; k++) {
                assert_int_equal(records[k].id, CW_PACKET_RNDV_DATA);
                assert_in_range(records[k].length, 17, small ? 66 : 400);
            }
            assert_memory_equal(sent, memory + GUARD, lengths[i]);
            assert_true(ep->rma == NULL || ep->rma->serving == 0);
            end(1);
        }
    }
}

static void test_get_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * (OUTSIDE + 2); i++) {
        int k = i % (OUTSIDE + 2), placed = i >= OUTSIDE + 2;

        begin_with((k == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_WRITE :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, placed);
        if (k < OUTSIDE) {
            feed_get(rkey->key.token, address_of(&outside[k]), outside[k].length, UINT32_MAX);
        } else {
            feed_get(rkey->key.token, (k == OUTSIDE) ? base() : UINT64_MAX - 2, 1000, UINT32_MAX);
        }
        progress();
        assert_int_equal(count_packets(CW_PACKET_RNDV_DATA), 0);
        assert_int_equal(word_of(sent_packet(CW_PACKET_GET_REFUSED), 0), SEND_ID);
        assert_int_equal(status_of(CW_PACKET_GET_REFUSED),
                         (k == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        end(1);
    }
}

/* A peer that asks and does not listen. */
static void test_too_many_answers(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (unsigned more = 0; more < 2; more++) {
            begin();
            blocked = 1;
            for (unsigned i = 0; i < CW_RMA_WINDOW + more; i++) {
                assert_int_equal(ep->state, CW_EP_OPEN);
                if (kind == 0) {
                    feed_get(rkey->key.token, base(), 8, 100);
                } else if (kind == 1) {
                    feed_get(rkey->key.token ^ 1, base(), 8, 100);
                } else if (kind == 2) {
                    feed_put_rts(rkey->key.token, base(), 800);
                } else {
                    feed_put_rts(rkey->key.token ^ 1, base(), 800);
                }
            }
            assert_int_equal(ep->state, more ? CW_EP_FAILED : CW_EP_OPEN);
            blocked = 0;
            cw_ep_drain(ep);
            assert_int_equal(num_records, more ? 0 : CW_RMA_WINDOW);
            end(!more);
        }
    }
}

/* MEM-16: the memory is the program's again, whatever the peer does. */
static void test_unmapped_in_the_middle(void **state)
{
    uint64_t id;

    (void)state;
    begin();
    id = accept_put(100, 900);
    unmap();
    assert_int_equal(ep->state, CW_EP_FAILED);
    feed_data(id, 0, 900);
    check_rest(0, 0);
    end(0);
    begin();
    blocked = 1;
    feed_get(rkey->key.token, base(), 1000, UINT32_MAX);
    unmap();
    assert_int_equal(ep->state, CW_EP_FAILED);
    blocked = 0;
    end(0);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DATA), 0);
}

/* ---- as origin ---- */

static void feed_done(uint64_t id, int32_t status)
{
    const struct cw_wire_rndv_done done = {.send_id = htole64(id), .status = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_RNDV_DONE, &done, sizeof(done));
}

static void feed_ready(uint64_t id, uint32_t piece)
{
    const struct cw_wire_rndv_ready ready = {.send_id    = htole64(id),
                                             .receive_id = htole64(77),
                                             .mode       = htole32(CW_WIRE_RNDV_SEND),
                                             .piece      = htole32(piece)};

    feed(CW_PACKET_RNDV_READY, &ready, sizeof(ready));
}

static void feed_refused(uint64_t id, int32_t status)
{
    const struct cw_wire_get_refused packet = {.receive_id = htole64(id),
                                               .status     = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_GET_REFUSED, &packet, sizeof(packet));
}

static ucs_status_ptr_t start_flush(void)
{
    return ucp_ep_flush_nbx(ep, &none);
}

static void feed_flushed(int32_t status)
{
    const struct cw_wire_flushed packet = {.flush_id = htole64(word_of(sent_packet(CW_PACKET_FLUSH), 0)),
                                           .status   = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_FLUSHED, &packet, sizeof(packet));
}

/* Local completion is not the end: the flush waits for the owner, who may say that something was refused. */
static void test_sent_puts(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin();
        assert_int_equal(finish(ucp_put_nbx(ep, local, 1000, base() + 50, rkey, &none)), UCS_OK);
        assert_int_equal(num_records, 3);
        assert_int_equal(records[0].id, CW_PACKET_PUT);
        assert_int_equal(word_of(records[0].bytes, 0), rkey->key.token);
        assert_true(word_of(records[1].bytes, 8) == base() + 50 + records[0].length - 16);
        assert_int_equal(records[0].length + records[1].length + records[2].length, 1000 + 3 * 16);
        flush = start_flush();
        progress();
        assert_true(is_pending(flush));
        feed_flushed((i == 0) ? UCS_OK : UCS_ERR_INVALID_ADDR);
        assert_int_equal(finish(flush), (i == 0) ? UCS_OK : UCS_ERR_INVALID_ADDR);
        assert_null(start_flush());
        end(1);
    }
}

static uint64_t announce(ucs_status_ptr_t *put)
{
    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 1);
    *put = ucp_put_nbx(ep, local, 2000, base(), rkey, &none);
    assert_true(is_pending(*put));
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 0), rkey->key.token);
    assert_true(word_of(sent_packet(CW_PACKET_PUT_RTS), 8) == base());
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 16), 2000);
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 32), 0); /* no address of ours */
    return word_of(sent_packet(CW_PACKET_PUT_RTS), 24);
}

static void test_announced_put_ends(void **state)
{
    ucs_status_ptr_t put, flush;
    uint64_t id;

    (void)state;
    id = announce(&put); /* refused */
    feed_done(id, UCS_ERR_INVALID_ADDR);
    assert_int_equal(finish(put), UCS_ERR_INVALID_ADDR);
    assert_null(start_flush());
    end(1);
    for (int late = 0; late < 2; late++) { /* the transport gives the memory back before, or after */
        id    = announce(&put);
        keeps = late;
        feed_ready(id, UINT32_MAX);
        flush = start_flush();
        progress();
        assert_int_equal(count_packets(CW_PACKET_RNDV_DATA), 2);
        assert_memory_equal(sent, local, 2000);
        assert_true(is_pending(put) && is_pending(flush));
        feed_done(id, UCS_OK);
        progress();
        assert_int_equal(is_pending(put), late);
        if (late) { /* both pieces have this one */
            kept->done(kept, UCS_OK);
            kept->done(kept, UCS_OK);
        }
        assert_int_equal(finish(put), UCS_OK);
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(ep->rma->replies + ep->rma->async_puts, 0);
        feed_done(id, UCS_OK); /* twice */
        end(0);
    }
}

static void test_announced_put_answered_wrongly(void **state)
{
    ucs_status_ptr_t put;
    uint64_t id;

    (void)state;
    for (int i = 0; i < 5; i++) {
        id = announce(&put);
        if (i == 0) { /* before anything is sent */
            feed_ready(id, UINT32_MAX);
            feed_done(id, UCS_OK);
        } else if (i == 1) { /* not a status */
            feed_done(id, 1);
        } else if (i == 2) { /* after all was taken */
            feed_ready(id, UINT32_MAX);
            progress();
            feed_done(id, UCS_ERR_INVALID_ADDR);
        } else if (i == 3) {
            feed_ready(id, UINT32_MAX);
            progress();
            feed_ready(id, UINT32_MAX);
        } else {
            feed_ready(id, 0);
        }
        end(0);
        assert_true(finish(put) < 0);
    }
}

static uint64_t ask(ucs_status_ptr_t *get, size_t length)
{
    *get = ucp_get_nbx(ep, local, length, base() + 10, rkey, &none);
    assert_true(is_pending(*get));
    assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 0), rkey->key.token);
    assert_true(word_of(sent_packet(CW_PACKET_GET), 8) == base() + 10);
    assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 16), length);
    return word_of(sent_packet(CW_PACKET_GET), 24);
}

static void check_local(size_t length)
{
    for (size_t i = 0; i < ROOM; i++) {
        assert_int_equal(local[i], (i < length) ? 0xee : 0x11);
    }
}

static void test_get_answers(void **state)
{
    static const int32_t wrong[] = {0, 1, INT32_MAX, INT32_MIN, -100000};
    ucs_status_ptr_t get;
    uint64_t id;

    (void)state;
    begin();
    id = ask(&get, 1000);
    feed_data(id, 600, 400);
    assert_true(is_pending(get));
    feed_data(id, 0, 600);
    assert_int_equal(finish(get), UCS_OK);
    check_local(1000);
    assert_null(start_flush());
    feed_refused(id, UCS_ERR_INVALID_ADDR); /* too late */
    end(0);
    begin();
    id = ask(&get, 1000);
    feed_refused(id, UCS_ERR_INVALID_PARAM);
    assert_int_equal(finish(get), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ep->rma->replies + ep->rma->num_late, 0);
    check_local(0);
    end(1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]) + 3; i++) {
        begin();
        id = ask(&get, 1000);
        if (i < sizeof(wrong) / sizeof(wrong[0])) {
            feed_refused(id, wrong[i]);
        } else if (i == sizeof(wrong) / sizeof(wrong[0])) {
            feed_data(id, 0, 10);
            feed_refused(id, UCS_ERR_INVALID_ADDR);
        } else if (i == sizeof(wrong) / sizeof(wrong[0]) + 1) {
            feed_data(id, 1, 1000);
        } else {
            feed_refused(id + 1, UCS_ERR_INVALID_ADDR);
        }
        end(0);
        assert_true(finish(get) < 0);
        assert_int_equal(local[1000], 0x11);
    }
}

/* What was announced to us is not refused this way. */
static void test_refused_what_was_announced(void **state)
{
    uint64_t id;

    (void)state;
    begin();
    id = accept_put(0, 900);
    feed_refused(id, UCS_ERR_INVALID_ADDR);
    check_rest(0, 0);
    end(0);
}

/* RMA-14: never more than the owner has to bear, and never an error. */
static void test_window(void **state)
{
    ucs_status_ptr_t gets[CW_RMA_WINDOW + 2];
    unsigned i;

    (void)state;
    begin();
    for (i = 0; i < CW_RMA_WINDOW + 2; i++) {
        gets[i] = ucp_get_nbx(ep, local, 8, base(), rkey, &none);
        assert_true(is_pending(gets[i]));
    }
    progress();
    assert_int_equal(count_packets(CW_PACKET_GET), CW_RMA_WINDOW);
    for (i = 0; i < CW_RMA_WINDOW + 2; i++) {
        feed_data(word_of(records[i].bytes, 24), 0, 8);
        progress();
        assert_int_equal(count_packets(CW_PACKET_GET), (i == 0) ? CW_RMA_WINDOW + 1 : CW_RMA_WINDOW + 2);
        assert_int_equal(finish(gets[i]), UCS_OK);
    }
    end(1);
}

/* R16 */
static void test_put_behind_get(void **state)
{
    ucs_status_ptr_t get, over, beside;
    uint64_t id;

    (void)state;
    begin();
    id     = ask(&get, 100);
    beside = ucp_put_nbx(ep, local + 200, 8, base() + 110, rkey, &none);
    assert_int_equal(finish(beside), UCS_OK);
    over = ucp_put_nbx(ep, local + 200, 8, base() + 109, rkey, &none);
    progress();
    assert_int_equal(count_packets(CW_PACKET_PUT), 1);
    assert_true(is_pending(over));
    feed_data(id, 0, 100);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(over), UCS_OK);
    assert_int_equal(count_packets(CW_PACKET_PUT), 2);
    end(1);
}

static int setup(void **state)
{
    ucp_params_t params               = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                         .features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};

    (void)state;
    setenv("UCX_TLS", "self", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_put_refused),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_announced_put),
        cmocka_unit_test(test_announced_put_out_of_bounds),
        cmocka_unit_test(test_announced_put_refused),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_get_refused),
        cmocka_unit_test(test_too_many_answers),
        cmocka_unit_test(test_unmapped_in_the_middle),
        cmocka_unit_test(test_sent_puts),
        cmocka_unit_test(test_announced_put_ends),
        cmocka_unit_test(test_announced_put_answered_wrongly),
        cmocka_unit_test(test_get_answers),
        cmocka_unit_test(test_refused_what_was_announced),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_put_behind_get),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
