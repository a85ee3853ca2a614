/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker addresses: ADR-1..8, ABU-24, ABU-25, R14. Blobs come from peers: whatever is in them must not crash. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

static ucs_status_t create_from(ucp_worker_h worker, const void *blob, ucp_ep_h *ep)
{
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = blob;
    return ucp_ep_create(worker, &params, ep);
}

static uint64_t uid_of(const void *blob)
{
    ucp_worker_address_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID;
    assert_int_equal(ucp_worker_address_query((ucp_address_t *)blob, &attr), UCS_OK);
    return attr.worker_uid;
}

API_TEST(test_adr1_self_delimiting)
{
    struct cw_pair_config config = {.no_endpoints = true};
    char room[ROOM + 16];
    size_t length;
    void *blob;

    cw_pair_open(pair, &config);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    for (int tail = 0; tail < 2; tail++) { /* the length is not passed: what follows may be anything */
        for (int shift = 0; shift < 8; shift++) {
            ucp_request_param_t param = cw_param_none();
            ucp_ep_h ep;

            memset(room, tail == 0 ? 0x00 : 0xff, sizeof(room));
            memcpy(room + shift, blob, length);
            assert_int_equal(create_from(pair->tx->worker, room + shift, &ep), UCS_OK);
            memset(room, 0x5c, sizeof(room)); /* EP-3 */
            cw_pair_ping_on(pair, ep, (ucp_tag_t)shift);
            assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
        }
    }
    free(blob);
    cw_pair_close(pair);
}

API_TEST(test_adr2_adr4_fresh_equal_copies)
{
    ucp_address_t *first, *second;
    ucp_worker_attr_t attr;
    size_t first_length, second_length;

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_worker_get_address(pair->tx->worker, &first, &first_length), UCS_OK);
    cw_pair_ping_on(pair, pair->tx->ep, 1);
    assert_int_equal(ucp_worker_get_address(pair->tx->worker, &second, &second_length), UCS_OK);
    assert_ptr_not_equal(first, second);
    assert_int_equal(first_length, second_length);
    assert_memory_equal(first, second, first_length); /* MPICH hashes it as identity */
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attr.address_flags = 0;
    assert_int_equal(ucp_worker_query(pair->tx->worker, &attr), UCS_OK);
    assert_int_equal(attr.address_length, first_length);
    assert_memory_equal(attr.address, first, first_length);
    ucp_worker_release_address(pair->tx->worker, attr.address);
    ucp_worker_release_address(pair->tx->worker, second);
    assert_int_equal(uid_of(first), uid_of(first));
    ucp_worker_release_address(pair->tx->worker, first);
    cw_pair_close(pair);
}

API_TEST(test_abu20_release_of_null)
{
    cw_pair_open(pair, NULL);
    ucp_worker_release_address(pair->tx->worker, NULL);
    cw_pair_close(pair);
}

API_TEST(test_r14_lengths)
{
    enum { WORKERS = 20 };
    struct cw_side sides[WORKERS];
    size_t lengths[WORKERS];
    void *blobs[WORKERS];

    for (int i = 0; i < WORKERS; i++) {
        struct cw_pair_config config = {.features = UCP_FEATURE_TAG | (i % 2 == 0 ? 0 : UCP_FEATURE_WAKEUP)};

        cw_side_open(&sides[i], &config);
        blobs[i] = cw_test_worker_address(sides[i].worker, &lengths[i]);
        assert_true(lengths[i] > 0 && lengths[i] <= 1024); /* ADR-5 */
        assert_true(lengths[i] == lengths[i % 2]);
        for (int k = 0; k < i; k++) { /* ADR-4, ADR-7 */
            assert_true(lengths[i] != lengths[k] || memcmp(blobs[i], blobs[k], lengths[i]) != 0);
            assert_true(uid_of(blobs[i]) != uid_of(blobs[k]));
        }
    }
    print_message("an address has %zu bytes\n", lengths[0]);
    if (!cw_test_reference()) {
        assert_int_equal(lengths[0], lengths[1]); /* Charm++: all workers, whatever their features */
    }
    for (int i = 0; i < WORKERS; i++) {
        free(blobs[i]);
        cw_side_destroy(&sides[i]);
    }
}

API_TEST(test_r14_four_kilobytes_are_readable)
{
    char copy[ROOM];

    cw_test_skip_reference("it promises the length only; MPICH reads beyond it all the same");
    cw_pair_open(pair, NULL);
    for (int i = 0; i < 50; i++) {
        ucp_address_t *address;
        size_t length;

        assert_int_equal(ucp_worker_get_address(pair->tx->worker, &address, &length), UCS_OK);
        memcpy(copy, address, sizeof(copy));
        assert_memory_equal(copy, address, length);
        ucp_worker_release_address(pair->tx->worker, address);
    }
    cw_pair_close(pair);
}

API_TEST(test_adr3_net_only)
{
    struct cw_pair_config config = {.no_endpoints = true};
    ucp_worker_attr_t attr;
    size_t full;
    void *blob;
    ucp_ep_h ep;
    ucp_request_param_t param = cw_param_none();

    cw_pair_open(pair, &config);
    blob = cw_test_worker_address(pair->rx->worker, &full);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attr.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    assert_int_equal(ucp_worker_query(pair->rx->worker, &attr), UCS_OK); /* also with no network at all */
    assert_true(attr.address_length > 0 && attr.address_length <= full);
    assert_true(uid_of(attr.address) == uid_of(blob));
    if (cw_test_tls_has("tcp")) { /* same node, and yet a network transport can reach it */
        assert_int_equal(create_from(pair->tx->worker, attr.address, &ep), UCS_OK);
        cw_pair_ping_on(pair, ep, 1);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
    }
    ucp_worker_release_address(pair->rx->worker, attr.address);
    free(blob);
    cw_pair_close(pair);
}

API_TEST(test_adr6_used_before_the_owner_made_any_call)
{
    ucp_ep_h eps[10];
    ucp_request_param_t param = cw_param_none();
    size_t length;
    void *blob;

    cw_pair_open(pair, NULL);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    for (int i = 0; i < 10; i++) { /* any number of times, early and late */
        assert_int_equal(create_from(pair->tx->worker, blob, &eps[i]), UCS_OK);
        cw_pair_ping_on(pair, eps[i], (ucp_tag_t)i);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(eps[i], &param), "close"), UCS_OK);
    }
    free(blob);
    cw_pair_close(pair);
}

/* The endpoint is never used: a blob that happens to be valid may name any host in the world. */
static ucs_status_t try_blob(ucp_worker_h worker, const char *blob)
{
    ucp_request_param_t param = cw_param_none();
    ucp_worker_address_attr_t attr;
    ucs_status_t status;
    ucp_ep_h ep = NULL;

    attr.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID;
    (void)ucp_worker_address_query((ucp_address_t *)blob, &attr);
    status = create_from(worker, blob, &ep);
    if (status == UCS_OK) {
        ucs_status_ptr_t closing = ucp_ep_close_nbx(ep, &param);

        if (UCS_PTR_IS_PTR(closing)) {
            ucp_request_free(closing);
        }
        ucp_worker_progress(worker);
    } else if (status != UCS_ERR_INVALID_PARAM && status != UCS_ERR_UNREACHABLE) {
        fail_msg("A damaged address gives %s", ucs_status_string(status));
    }
    return status;
}

API_TEST(test_abu24_damaged_blobs_do_not_crash)
{
    struct cw_pair_config config = {.no_endpoints = true};
    uint64_t seed = 4711;
    long rounds = cw_test_scaled(6000), accepted = 0;
    char *room = malloc(ROOM);
    size_t length;
    char *blob;

    cw_test_skip_reference("about one of ten aborts it");
    cw_pair_open(pair, &config);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    for (long round = 0; round < rounds; round++) {
        uint64_t dice = cw_random_next(&seed);
        int changes = 1 + (int)(dice % 4);

        for (size_t i = 0; i < ROOM; i++) {
            room[i] = (char)(dice >> 8 & 1 ? cw_random_next(&seed) : 0);
        }
        memcpy(room, blob, length);
        if ((dice >> 16) % 4 == 0) { /* truncated: the rest is zero or noise */
            size_t keep = (size_t)(cw_random_next(&seed) % length);

            memset(room + keep, (dice >> 9 & 1) ? 0xff : 0, length - keep);
        }
        for (int i = 0; i < changes; i++) {
            uint64_t spot = cw_random_next(&seed);

            if (spot >> 63) {
                room[spot % length] = (char)(spot >> 32);
            } else {
                room[spot % length] ^= (char)(1 << (spot >> 32) % 8);
            }
        }
        accepted += try_blob(pair->tx->worker, room) == UCS_OK;
    }
    print_message("%ld of %ld damaged addresses were accepted\n", accepted, rounds);
    memset(room, 0, ROOM);
    try_blob(pair->tx->worker, room);
    memset(room, 0xff, ROOM);
    try_blob(pair->tx->worker, room);
    memcpy(room, blob, length); /* the sound one still works */
    assert_int_equal(create_from(pair->tx->worker, room, &pair->tx->ep), UCS_OK);
    cw_pair_ping_on(pair, pair->tx->ep, 1);
    free(room);
    free(blob);
    cw_pair_close(pair);
}

API_TEST(test_adr8_readers_configuration_may_differ)
{
    ucp_config_t *config;
    ucp_params_t params;
    ucp_worker_params_t worker_params;
    struct cw_pair_config plain = {.no_endpoints = true};

    cw_test_need_two_workers();
    cw_side_open(&pair->sides[1], &plain);
    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "TLS", "all"), UCS_OK);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                        UCP_PARAM_FIELD_ESTIMATED_NUM_PPN;
    params.features = UCP_FEATURE_TAG;
    params.estimated_num_eps = 1000; /* CTX-6 */
    params.estimated_num_ppn = 64;
    assert_int_equal(ucp_init(&params, config, &pair->sides[0].context), UCS_OK);
    ucp_config_release(config);
    worker_params.field_mask = 0;
    assert_int_equal(ucp_worker_create(pair->sides[0].context, &worker_params, &pair->sides[0].worker), UCS_OK);
    pair->count = 2;
    pair->tx = &pair->sides[0];
    pair->rx = &pair->sides[1];
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    pair->rx->ep = cw_side_connect(pair->rx, pair->tx->worker, NULL);
    cw_pair_ping_on(pair, pair->tx->ep, 1);
    cw_pair_close(pair);
}
