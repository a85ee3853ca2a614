/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker addresses that hold what one device contributes: N23-10..16; and lists of devices. */
#define _GNU_SOURCE
#include "harness.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNTOUCHED ((ucp_address_t *)(uintptr_t)0x5c5c5c5cu)

static ucs_status_t query(ucp_worker_h worker, uint64_t more, const char *device, ucp_worker_attr_t *attr)
{
    memset(attr, 0xff, sizeof(*attr));
    attr->field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_DEVICE_NAME | more;
    attr->address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    attr->address = UNTOUCHED;
    attr->address_length = 4711;
    attr->address_device_name = device;
    return ucp_worker_query(worker, attr);
}

/* N23-13 */
static void refused(ucp_worker_h worker, uint64_t more, const char *device)
{
    ucp_worker_attr_t attr;

    assert_int_equal(query(worker, more, device, &attr), UCS_ERR_NO_DEVICE);
    assert_ptr_equal(attr.address, UNTOUCHED);
    assert_int_equal(attr.address_length, 4711);
}

static ucp_ep_h ep_to(ucp_worker_h worker, const ucp_address_t *address)
{
    ucp_ep_params_t params;
    ucp_ep_h ep;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = address;
    assert_int_equal(ucp_ep_create(worker, &params, &ep), UCS_OK);
    return ep;
}

static void close_ep(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
}

/* An endpoint to what that device contributes goes by such a transport. */
static void goes_by(struct cw_pair *pair, uint64_t more, const char *device, const char *transport)
{
    ucp_worker_attr_t attr;
    ucp_ep_h ep;

    assert_int_equal(query(pair->rx->worker, more, device, &attr), UCS_OK);
    assert_true(attr.address != UNTOUCHED && attr.address_length < 1024);
    ep = ep_to(pair->tx->worker, attr.address);
    ucp_worker_release_address(pair->rx->worker, attr.address);
    cw_pair_ping_on(pair, ep, 1);
    if (transport != NULL) {
        assert_string_equal(cw_transport_of(ep), transport);
    }
    close_ep(pair, ep);
}

/* N23-10, N23-11, N23-12 */
API_TEST(test_n23_10_n23_11_n23_12_each_device)
{
    struct cw_pair_config config = {.no_endpoints = true};
    const bool has_tcp = cw_test_tls_has("tcp"), has_shm = cw_test_tls_has("shm");
    const uint64_t net_only = UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    struct ifaddrs *list, *next;
    ucp_worker_attr_t attr;
    char name[64];

    cw_test_skip_reference("of level 1.23");
    cw_pair_open(pair, &config);
    if (pair->tx == pair->rx || has_shm) {
        goes_by(pair, 0, "memory", has_shm && pair->tx != pair->rx ? "posix" : NULL);
    }
    refused(pair->rx->worker, net_only, "memory");
    assert_int_equal(getifaddrs(&list), 0);
    for (next = list; next != NULL; next = next->ifa_next) {
        if (!has_tcp) {
            refused(pair->rx->worker, 0, next->ifa_name);
        } else if (query(pair->rx->worker, 0, next->ifa_name, &attr) == UCS_OK) {
            ucp_worker_release_address(pair->rx->worker, attr.address);
            goes_by(pair, 0, next->ifa_name, "tcp");
            goes_by(pair, net_only, next->ifa_name, "tcp");
            (void)snprintf(name, sizeof(name), "%s,memory", next->ifa_name);
            refused(pair->rx->worker, 0, name);
            (void)snprintf(name, sizeof(name), "%s ", next->ifa_name);
            refused(pair->rx->worker, 0, name);
            (void)snprintf(name, sizeof(name), "%.1s", next->ifa_name);
            refused(pair->rx->worker, 0, name);
        }
    }
    freeifaddrs(list);
    if (has_tcp) {
        goes_by(pair, 0, "lo", "tcp");
    }
    cw_pair_close(pair);
}

API_TEST(test_n23_13_no_such_device)
{
    static const char *const names[] = {"",    "l",  "LO",  "lo ",  "lo,eth0", "memory,lo", "Memory",
                                        "mem", "tcp", "all", "^lo", "*",       "\xff\xfe%s%n"};
    struct cw_pair_config config = {.no_endpoints = true};

    cw_test_skip_reference("of level 1.23");
    cw_pair_open(pair, &config);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        refused(pair->rx->worker, 0, names[i]);
        refused(pair->rx->worker, UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS, names[i]);
    }
    cw_pair_close(pair);
}

/* N23-14, N23-15, N23-16 */
API_TEST(test_n23_14_n23_15_n23_16_no_filter)
{
    struct cw_pair_config config = {.no_endpoints = true};
    ucp_worker_attr_t attr;
    ucp_address_t *address;
    size_t length;

    cw_test_skip_reference("of level 1.23");
    cw_pair_open(pair, &config);
    assert_int_equal(ucp_worker_get_address(pair->rx->worker, &address, &length), UCS_OK);
    assert_int_equal(query(pair->rx->worker, 0, NULL, &attr), UCS_OK);
    assert_int_equal(attr.address_length, length);
    assert_memory_equal(attr.address, address, length);
    ucp_worker_release_address(pair->rx->worker, attr.address);
    ucp_worker_release_address(pair->rx->worker, address);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS_DEVICE_NAME | UCP_WORKER_ATTR_FIELD_THREAD_MODE;
    attr.address_device_name = "no such device";
    assert_int_equal(ucp_worker_query(pair->rx->worker, &attr), UCS_OK);
    cw_pair_close(pair);
}

/* N23-75: loopback is taken out, or named by a range, or nothing is left. */
API_TEST(test_n23_75_lists_of_devices)
{
    ucp_worker_attr_t attr;

    cw_test_skip_reference("of level 1.23");
    if (!cw_test_tls_has("tcp")) {
        skip();
    }
    for (int named = 0; named < 2; named++) {
        struct cw_pair_config config = {.no_endpoints = true};

        assert_int_equal(setenv("UCX_NET_DEVICES", named ? "lo,eth[0-3]" : "^lo", 1), 0);
        assert_int_equal(setenv("UCX_WARN_INVALID_CONFIG", "n", 1), 0);
        cw_pair_open(pair, &config);
        assert_int_equal(query(pair->rx->worker, 0, "lo", &attr), named ? UCS_OK : UCS_ERR_NO_DEVICE);
        if (named) {
            ucp_worker_release_address(pair->rx->worker, attr.address);
        }
        cw_pair_close(pair);
    }
    unsetenv("UCX_NET_DEVICES");
    unsetenv("UCX_WARN_INVALID_CONFIG");
}

/* Endpoints to one worker by addresses of several devices, each by its own. */
API_TEST(test_n23_16_beside_each_other)
{
    struct cw_pair_config config = {.no_endpoints = true};
    ucp_worker_attr_t whole, lo, memory;
    ucp_ep_h eps[6];

    cw_test_skip_reference("of level 1.23");
    if (!cw_test_tls_has("tcp") || !cw_test_tls_has("shm")) {
        skip();
    }
    cw_pair_open(pair, &config);
    assert_int_equal(query(pair->rx->worker, 0, NULL, &whole), UCS_OK);
    assert_int_equal(query(pair->rx->worker, 0, "lo", &lo), UCS_OK);
    assert_int_equal(query(pair->rx->worker, 0, "memory", &memory), UCS_OK);
    assert_true(lo.address_length < whole.address_length && memory.address_length < whole.address_length);
    for (int i = 0; i < 6; i++) {
        const ucp_address_t *const addresses[] = {whole.address, lo.address, memory.address};

        eps[i] = ep_to(pair->tx->worker, addresses[i % 3]);
        assert_string_equal(cw_transport_of(eps[i]), i % 3 == 1 ? "tcp" : "posix"); /* that it would take */
    }
    for (int i = 5; i >= 0; i--) {
        cw_pair_ping_on(pair, eps[i], (ucp_tag_t)i);
        assert_string_equal(cw_transport_of(eps[i]), i % 3 == 1 ? "tcp" : "posix");
    }
    for (int i = 0; i < 6; i++) {
        close_ep(pair, eps[i]);
    }
    ucp_worker_release_address(pair->rx->worker, whole.address);
    ucp_worker_release_address(pair->rx->worker, lo.address);
    ucp_worker_release_address(pair->rx->worker, memory.address);
    cw_pair_close(pair);
}
