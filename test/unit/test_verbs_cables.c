/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path that carries the messages of two workers is cut, and is whole again before the other one is cut, many times:
 * the cables of two RDMA devices in turn, or that of a device and the TCP connections beside it. Messages and puts are
 * under way in both directions. In mode FAILOVER each message arrives once and in order, each put as well, and no
 * endpoint fails (N22-70, N22-71, N22-82). The devices report a cut, or repeat requests until the cable is whole again,
 * and may have carried out what was not acknowledged. The clock stands still within a call, so one that waited for a
 * device would not return.
 */
#define _GNU_SOURCE
#include <stdbool.h>

#include <sys/socket.h>

#include "test_verbs_sides.h"

enum {
    ROUNDS = 50,    /* or CW_CABLE_ROUNDS */
    MESSAGES = 10,  /* of a round, in each direction */
    LONG = 100000,  /* goes by rendezvous, */
    MIDDLE = 20000, /* and this in several packets */
    EXTRA = 500 /* rounds of progress in which a second copy of a message would arrive */
};

static const ucp_request_param_t none = {.op_attr_mask = 0};

/* What goes from one side to the other one. */
static struct flow {
    ucp_ep_h ep;
    uint32_t number; /* of the next message */
    char *out[MESSAGES], *in[MESSAGES];
    size_t length[MESSAGES], received[MESSAGES];
    char *memory; /* of the other side: a slot of MIDDLE bytes for each put */
    ucp_mem_h memh;
    ucp_rkey_h key;
    ucs_status_ptr_t sends[MESSAGES], receives[MESSAGES], puts[MESSAGES];
} flows[2];

static const char *paths[2];
static unsigned under_way; /* rounds in which the cut came before all had arrived */

static int setup(void **state)
{
    (void)state;
    setenv("UCX_KEEPALIVE_INTERVAL", "1000s", 1);
    setenv("UCX_RNDV_THRESH", "50000", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    memset(&device_saw, 0, sizeof(device_saw));
    device_is.num_devices = 2;
    device_is.subnets = 1;
    return 0;
}

static void fill(char *bytes, size_t length, uint32_t number)
{
    for (size_t i = 0; i + sizeof(number) <= length; i += sizeof(number)) {
        memcpy(bytes + i, &number, sizeof(number));
    }
}

static void check(const char *bytes, size_t length, uint32_t number)
{
    uint32_t word;

    for (size_t i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        assert_int_equal(word, number);
    }
}

static void open_flow(unsigned side)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = MESSAGES * MIDDLE};
    struct flow *flow = &flows[side];
    void *packed;
    size_t size;

    *flow = (struct flow){.ep = connect_ep(side, 1 - side, UCP_ERR_HANDLING_MODE_FAILOVER)};
    for (unsigned i = 0; i < MESSAGES; i++) {
        flow->out[i] = malloc(LONG);
        flow->in[i] = malloc(LONG);
        assert_true(flow->out[i] != NULL && flow->in[i] != NULL);
    }
    params.address = flow->memory = calloc(MESSAGES, MIDDLE);
    assert_non_null(flow->memory);
    assert_int_equal(ucp_mem_map(sides[1 - side].context, &params, &flow->memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(sides[1 - side].context, flow->memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(flow->ep, packed, &flow->key), UCS_OK);
    ucp_rkey_buffer_release(packed);
}

static void close_flow(unsigned side)
{
    struct flow *flow = &flows[side];

    ucp_rkey_destroy(flow->key);
    assert_int_equal(ucp_mem_unmap(sides[1 - side].context, flow->memh), UCS_OK);
    for (unsigned i = 0; i < MESSAGES; i++) {
        free(flow->out[i]);
        free(flow->in[i]);
    }
    free(flow->memory);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *length)
{
    (void)request;
    (void)status;
    *(size_t *)length = info->length;
}

/* Messages of all kinds, and puts. */
static void begin(unsigned side)
{
    static const size_t lengths[] = {4, 3000, MIDDLE, LONG};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = on_received};
    struct flow *flow = &flows[side];

    for (unsigned i = 0; i < MESSAGES; i++) {
        flow->length[i] = lengths[(unsigned)rand() % 4];
        flow->received[i] = 0;
        memset(flow->in[i], 0, LONG);
        param.user_data = &flow->received[i];
        flow->receives[i] = ucp_tag_recv_nbx(sides[1 - side].worker, flow->in[i], LONG, side, UINT64_MAX, &param);
    }
    for (unsigned i = 0; i < MESSAGES; i++) {
        fill(flow->out[i], LONG, flow->number + i);
        flow->sends[i] = ucp_tag_send_nbx(flow->ep, flow->out[i], flow->length[i], side, &none);
        flow->puts[i] = ucp_put_nbx(flow->ep, flow->out[i], MIDDLE, (uintptr_t)(flow->memory + i * MIDDLE), flow->key,
                                    &none);
    }
}

static void finish(unsigned side)
{
    struct flow *flow = &flows[side];

    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(end_request(flow->sends[i]), UCS_OK);
        assert_int_equal(end_request(flow->puts[i]), UCS_OK);
        assert_int_equal(end_request(flow->receives[i]), UCS_OK);
        assert_int_equal(flow->received[i], flow->length[i]);
        check(flow->in[i], flow->length[i], flow->number + i);
    }
    assert_int_equal(end_request(ucp_ep_flush_nbx(flow->ep, &none)), UCS_OK);
    for (unsigned i = 0; i < MESSAGES; i++) {
        check(flow->memory + i * MIDDLE, MIDDLE, flow->number + i);
    }
    flow->number += MESSAGES;
}

static bool has_ended(ucs_status_ptr_t request)
{
    return !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
}

static bool all_have_arrived(void)
{
    bool all = true;

    for (unsigned i = 0; i < MESSAGES; i++) {
        all = all && has_ended(flows[0].receives[i]) && has_ended(flows[1].receives[i]);
    }
    return all;
}

/* Nothing is left over, as it would be if a message had come twice. */
static void expect_nothing(void)
{
    ucp_tag_recv_info_t info;

    for (unsigned i = 0; i < EXTRA; i++) {
        progress();
    }
    for (unsigned side = 0; side < 2; side++) {
        assert_null(ucp_tag_probe_nb(sides[side].worker, 0, 0, 0, &info));
    }
}

/* ---- paths ---- */

/* Which lane of an endpoint uses that path; the first one carries messages. -1: none. */
static int lane_of(unsigned side, const char *path)
{
    ucp_transport_entry_t entries[8];
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
                          .transports = {.entries = entries, .num_entries = 8, .entry_size = sizeof(entries[0])}};

    assert_int_equal(ucp_ep_query(flows[side].ep, &attr), UCS_OK);
    for (unsigned i = 0; i < attr.transports.num_entries; i++) {
        if (strcmp(entries[i].device_name, path) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A lane that was lost is dialled again after some seconds, for the next long message. */
static void await_lanes(void)
{
    unsigned rounds = 100000;

    round_ns = 20000000;
    while (lane_of(0, paths[0]) < 0 || lane_of(0, paths[1]) < 0 || lane_of(1, paths[0]) < 0 ||
           lane_of(1, paths[1]) < 0) {
        if (rounds % 100 == 0) {
            begin(0);
            begin(1);
            finish(0);
            finish(1);
        }
        progress();
        assert_true(rounds-- > 0);
    }
    round_ns = 20000;
}

/* All connections by TCP of this process: their peers learn of it. */
static void cut_tcp(void)
{
    struct sockaddr_storage address;
    socklen_t length;

    for (int fd = 3; fd < 256; fd++) {
        length = sizeof(address);
        if (getpeername(fd, (struct sockaddr *)&address, &length) == 0 &&
            (address.ss_family == AF_INET || address.ss_family == AF_INET6)) {
            (void)shutdown(fd, SHUT_RDWR);
        }
    }
}

static void cut(unsigned path)
{
    if (strcmp(paths[path], "lo") == 0) {
        cut_tcp();
    } else {
        device_is.cut = 1u << path;
    }
}

static void cut_in_turn(const char *transports, const char *first, const char *second)
{
    const char *text = getenv("CW_CABLE_ROUNDS");
    const unsigned rounds = (text != NULL) ? (unsigned)strtoul(text, NULL, 10) : ROUNDS;
    char devices[64];

    paths[0] = first;
    paths[1] = second;
    snprintf(devices, sizeof(devices), "%s,%s", first, second);
    setenv("UCX_TLS", transports, 1);
    setenv("UCX_NET_DEVICES", devices, 1);
    failures = 0;
    under_way = 0;
    open_sides(2, UINT32_MAX);
    open_flow(0);
    open_flow(1);
    for (unsigned i = 0; i < rounds; i++) {
        unsigned path, before = (unsigned)rand() % 12;

        await_lanes();
        path = (lane_of(0, paths[0]) == 0) ? 0 : 1;
        assert_int_equal(lane_of(1, paths[path]), 0);
        device_is.repeats = rand() % 2;
        device_is.acks_late = rand() % 2;
        begin(0);
        begin(1);
        while (before-- > 0) {
            progress();
        }
        under_way += !all_have_arrived();
        cut(path);
        finish(0);
        finish(1);
        device_is.cut = 0;
        expect_nothing();
        assert_int_equal(failures, 0);
        assert_int_equal(lane_of(0, paths[1 - path]), 0);
    }
    print_message("%u cuts, %u of them before all had arrived\n", rounds, under_way);
    assert_true(under_way > rounds / 4);
    device_is.repeats = 1;
    device_is.acks_late = 0;
    close_flow(0);
    close_flow(1);
    close_sides();
}

TEST_WITH(test_n22_70_cables_of_two_devices, setup, NULL)
{
    cut_in_turn("rc", "stand0:1", "stand1:1");
}

TEST_WITH(test_n22_70_a_device_and_tcp, setup, NULL)
{
    device_is.num_devices = 1;
    setenv("UCX_MAX_RNDV_RAILS", "3", 1); /* on loopback addresses 2 count as 1 */
    cut_in_turn("rc,tcp", "stand0:1", "lo");
}
