/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs transport over devices that have less than they should: each is used as far as that goes, or left out
 * with a reason, and the program goes on.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "runner.h"
#include "test_log_lines.h"
#include "../devices/verbs_stand_in.h"
#include "os/neighbour.h"
#include "os/route.h"

/* ---- routes of another machine, if the device has a VLAN ---- */

enum { PLAIN_DEVICE = 7, VLAN_DEVICE = 8, OTHER_DEVICE = 9, LONG = 100000 };

static bool has_vlan(void)
{
    return device_is.net_devices[1] != 0;
}

void __real_cw_routes_find(const struct cw_net_address *to, unsigned count, struct cw_route *routes);
void __wrap_cw_routes_find(const struct cw_net_address *to, unsigned count, struct cw_route *routes);

void __wrap_cw_routes_find(const struct cw_net_address *to, unsigned count, struct cw_route *routes)
{
    unsigned i;

    if (!has_vlan()) {
        __real_cw_routes_find(to, count, routes);
        return;
    }
    for (i = 0; i < count; i++) {
        routes[i] = (struct cw_route){.kind = CW_ROUTE_DIRECT};
        strcpy(routes[i].device, (memcmp(to[i].bytes, device_is.vlan_gid + 12, 4) == 0) ? "vlan" : "other");
    }
}

unsigned __real_cw_neighbour_device(const char *name);
unsigned __wrap_cw_neighbour_device(const char *name);

unsigned __wrap_cw_neighbour_device(const char *name)
{
    if (!has_vlan()) {
        return __real_cw_neighbour_device(name);
    }
    return (strcmp(name, "vlan") == 0) ? VLAN_DEVICE : OTHER_DEVICE;
}

int __real_cw_neighbour_is_known(const struct cw_net_address *to, unsigned device);
int __wrap_cw_neighbour_is_known(const struct cw_net_address *to, unsigned device);

int __wrap_cw_neighbour_is_known(const struct cw_net_address *to, unsigned device)
{
    return has_vlan() ? device == VLAN_DEVICE : __real_cw_neighbour_is_known(to, device);
}

static int failures;

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg, (void)ep, (void)status;
    failures++;
}

static ucs_status_t end_request(ucp_worker_h worker, ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);
    unsigned rounds = 10000000;

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS && rounds-- > 0) {
            ucp_worker_progress(worker);
        }
        ucp_request_free(request);
    }
    return status;
}

/* Messages and an atomic operation by a worker to itself, by the transports of UCX_TLS. */
static void use(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AMO64 | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_request_param_t add = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8)};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                .err_handler = {.cb = failed}};
    static uint64_t out[100][32], in[32], memory[512 + LONG], longer[LONG], one = 1;
    ucs_status_ptr_t requests[100];
    ucp_address_t *address;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    ucp_ep_h ep;
    size_t length;
    void *packed;
    unsigned i;

    memory[1] = 0;
    memset(longer, 0x5a, sizeof(longer));
    memset(&memory[512], 0, sizeof(longer));
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
    ep_params.address = address;
    assert_int_equal(ucp_ep_create(worker, &ep_params, &ep), UCS_OK);
    for (i = 0; i < 100; i++) {
        out[i][0] = i;
        requests[i] = ucp_tag_send_nbx(ep, out[i], sizeof(out[i]), 1, &param);
    }
    for (i = 0; i < 100; i++) {
        assert_int_equal(end_request(worker, ucp_tag_recv_nbx(worker, in, sizeof(in), 1, UINT64_MAX, &param)), UCS_OK);
        assert_int_equal(in[0], i);
        assert_int_equal(end_request(worker, requests[i]), UCS_OK);
    }
    map.address = memory;
    map.length = sizeof(memory);
    assert_int_equal(ucp_mem_map(context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, memh, &packed, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, packed, &rkey), UCS_OK);
    for (i = 0; i < 10; i++) {
        assert_int_equal(
            end_request(worker, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, (uintptr_t)&memory[1], rkey, &add)),
            UCS_OK);
    }
    assert_int_equal(
        end_request(worker, ucp_put_nbx(ep, longer, sizeof(longer), (uintptr_t)&memory[512], rkey, &param)), UCS_OK);
    assert_int_equal(end_request(worker, ucp_ep_flush_nbx(ep, &param)), UCS_OK);
    assert_int_equal(memory[1], 10);
    assert_memory_equal(&memory[512], longer, sizeof(longer));
    ucp_rkey_destroy(rkey);
    ucp_rkey_buffer_release(packed);
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
    assert_int_equal(end_request(worker, ucp_ep_close_nbx(ep, &param)), UCS_OK);
    ucp_worker_release_address(worker, address);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    assert_int_equal(failures, 0);
    assert_int_equal(device_saw.qps, 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&device_saw, 0, sizeof(device_saw));
    device_is.is_ethernet = device_is.is_down = device_is.has_no_srq = device_is.has_no_atomics = 0;
    device_is.max_wr = 0;
    device_is.max_mr = 0;
    device_is.vendor = 0;
    device_is.breaks = 0;
    memset(device_is.pkeys, 0, sizeof(device_is.pkeys));
    memset(device_is.net_devices, 0, sizeof(device_is.net_devices));
    memset(device_is.vlan_gid, 0, sizeof(device_is.vlan_gid));
    unsetenv("UCX_IB_PKEY");
    setenv("UCX_TLS", "rc", 1);
    unsetenv("UCX_IB_GID_INDEX");
    return 0;
}

/* Whether the device is used is seen by its queue pairs; another transport carries what it does not. */
static void use_beside_tcp(unsigned made)
{
    setenv("UCX_TLS", "rc,tcp", 1);
    use();
    assert_int_equal(device_saw.made_qps > 0, made);
}

TEST_WITH(test_all_in_order, setup, NULL)
{
    use();
    assert_true(device_saw.made_qps > 0);
}

TEST_WITH(test_no_port_is_up, setup, NULL)
{
    device_is.is_down = 1;
    use_beside_tcp(0);
}

/* RoCE, and each entry of the table of GIDs is free. */
TEST_WITH(test_no_gid, setup, NULL)
{
    device_is.is_ethernet = 1;
    use_beside_tcp(0);
    setenv("UCX_IB_GID_INDEX", "0", 1);
    use_beside_tcp(0);
}

TEST_WITH(test_no_shared_receive_queues, setup, NULL)
{
    device_is.has_no_srq = 1;
    use_beside_tcp(0);
}

TEST_WITH(test_no_atomics, setup, NULL)
{
    device_is.has_no_atomics = 1;
    use();
}

TEST_WITH(test_short_queues, setup, NULL)
{
    for (device_is.max_wr = 4; device_is.max_wr <= 64; device_is.max_wr *= 2) {
        use();
    }
}

/* The device in software counts lost packets until the peer acknowledges a request. */
TEST_WITH(test_short_puts, setup, NULL)
{
    use();
    assert_true(device_saw.largest_put > 16 * 4096);
    device_saw.largest_put = 0;
    device_is.vendor = 0xffffff;
    use();
    assert_in_range(device_saw.largest_put, 4096, 16 * 4096);
}

/* A port without a link may refuse a datagram, and its queue pair breaks; the next one is sent. */
TEST_WITH(test_datagrams_break, setup, NULL)
{
    device_is.breaks = 2;
    log_count_begin();
    use();
    log_count_end();
    assert_int_equal(device_is.breaks, 0);
    assert_non_null(strstr(log_text, "a datagram broke the UD queue pair"));
}

/* A process that may lock a page only. */
TEST_WITH(test_one_page, setup, NULL)
{
    device_is.max_mr = 4096;
    log_count_begin();
    use_beside_tcp(0);
    log_count_end();
    assert_non_null(strstr(log_text, "cannot register"));
}

/* The partition that the setting names, else one with full membership. Limited members do not reach each other. */
TEST_WITH(test_partitions, setup, NULL)
{
    device_is.pkeys[1] = 0x7fff;
    device_is.pkeys[2] = 0x8001;
    device_is.pkeys[0] = 0x0002;
    use();
    assert_int_equal(device_saw.last_pkey_index, 2);
    device_is.pkeys[3] = 0x8003;
    setenv("UCX_IB_PKEY", "0x3", 1);
    use();
    assert_int_equal(device_saw.last_pkey_index, 3);
    device_saw.made_qps = 0;
    setenv("UCX_IB_PKEY", "0x4", 1);
    use_beside_tcp(0);
    device_saw.connected = 0;
    setenv("UCX_IB_PKEY", "0x2", 1);
    use_beside_tcp(1);
    assert_int_equal(device_saw.connected, 0);
}

/* A port with a GID for its network device and one for a VLAN, through which the peer is reached. */
TEST_WITH(test_vlan, setup, NULL)
{
    static const uint8_t plain[16] = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 1};
    static const uint8_t vlan[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 1};

    device_is.is_ethernet = 1;
    memcpy(device_is.gid, plain, sizeof(plain));
    memcpy(device_is.vlan_gid, vlan, sizeof(vlan));
    device_is.net_devices[0] = PLAIN_DEVICE;
    device_is.net_devices[1] = VLAN_DEVICE;
    use();
    assert_true(device_saw.connected > 0);
    assert_int_equal(device_saw.last_gid_index, 1);
    memset(device_is.gid, 0, sizeof(device_is.gid));
}
