/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous between buffers in memory that the library allocated: memory that is given back and comes again, buffers
 * at the edges of a region, only one side allocated, many regions.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { REGION = 4 << 20, MESSAGE = 1 << 20 };

struct region {
    ucp_context_h context;
    ucp_mem_h handle;
    char *data;
};

static struct region region_new(ucp_context_h context)
{
    struct region region = {.context = context};
    ucp_mem_map_params_t params;
    ucp_mem_attr_t attr;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = REGION;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    assert_int_equal(ucp_mem_map(context, &params, &region.handle), UCS_OK);
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    assert_int_equal(ucp_mem_query(region.handle, &attr), UCS_OK);
    region.data = attr.address;
    return region;
}

static void region_free(struct region *region)
{
    assert_int_equal(ucp_mem_unmap(region->context, region->handle), UCS_OK);
}

static void carry(struct cw_pair *pair, char *from, char *to, size_t length, uint64_t seed)
{
    struct cw_op send = {0}, recv = {0};

    cw_pattern_fill(from, length, seed);
    memset(to, 0, length);
    cw_op_recv(&recv, pair->rx->worker, to, length, 3, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, from, length, 3);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pattern_check(to, length, seed);
}

API_TEST(test_allocated_buffers)
{
    char *plain = malloc(MESSAGE);
    uint64_t seed = 0;
    struct region from, to;

    assert_non_null(plain);
    cw_pair_open(pair, NULL);
    from = region_new(pair->tx->context);
    to = region_new(pair->rx->context);
    for (size_t offset = 0; offset <= REGION - MESSAGE; offset += MESSAGE - 1) {
        carry(pair, from.data + offset, to.data + REGION - MESSAGE - offset, MESSAGE, ++seed);
    }
    carry(pair, from.data, plain, MESSAGE, ++seed);
    carry(pair, plain, to.data, MESSAGE, ++seed);
    carry(pair, from.data, to.data, REGION, ++seed);
    region_free(&from);
    region_free(&to);
    free(plain);
}

/* The addresses come back as other memory: what was mapped of the old must not be used. */
API_TEST(test_given_back)
{
    struct region from, to;

    cw_pair_open(pair, NULL);
    to = region_new(pair->rx->context);
    for (uint64_t round = 0; round < 8; round++) {
        from = region_new(pair->tx->context);
        carry(pair, from.data, to.data, MESSAGE, round);
        region_free(&from);
        from = region_new(pair->tx->context);
        carry(pair, from.data, to.data, MESSAGE, 100 + round);
        region_free(&from);
    }
    region_free(&to);
}

API_TEST(test_many_regions)
{
    enum { MANY = 70 };
    struct region to, from[MANY];

    cw_pair_open(pair, NULL);
    to = region_new(pair->rx->context);
    for (int i = 0; i < MANY; i++) {
        from[i] = region_new(pair->tx->context);
    }
    for (int i = 0; i < 2 * MANY; i++) {
        carry(pair, from[i % MANY].data, to.data, 300000, (uint64_t)i);
    }
    for (int i = 0; i < MANY; i++) {
        region_free(&from[i]);
    }
    region_free(&to);
}
