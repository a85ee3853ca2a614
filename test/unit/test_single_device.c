/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX_SINGLE_NET_DEVICE (N22-62): which devices are left of a list, by the rank of the process on its machine.
 */
#include <stdio.h>
#include <string.h>

#include "runner.h"
#include "core/context.h"

static const struct cw_transport self = {.name = "self", .device_class = CW_DEVICE_SELF};
static const struct cw_transport rdma = {.name = "rdma", .device_class = CW_DEVICE_NET};
static const struct cw_transport tcp = {.name = "tcp", .device_class = CW_DEVICE_NET};

static void check(uint64_t id, const char *expected)
{
    struct cw_resource list[] = {{.transport = &self, .device = {.name = "memory"}},
                                 {.transport = &rdma, .device = {.name = "r0"}},
                                 {.transport = &rdma, .device = {.name = "r1"}},
                                 {.transport = &tcp, .device = {.name = "e0"}},
                                 {.transport = &tcp, .device = {.name = "e1"}},
                                 {.transport = &tcp, .device = {.name = "e2"}},
                                 {.transport = &tcp, .device = {.name = "lo", .is_local = 1}}};
    unsigned count = sizeof(list) / sizeof(list[0]);
    char names[100] = "";

    cw_resources_keep_single(list, &count, id);
    for (unsigned i = 0; i < count; i++) {
        strcat(strcat(names, " "), list[i].device.name);
    }
    assert_string_equal(names, expected);
}

TEST(test_n22_62_one_of_each_transport)
{
    check(0, " memory r0 e0 lo");
    check(1, " memory r1 e1 lo");
    check(2, " memory r0 e2 lo");
    check(3, " memory r1 e0 lo");
    check(UINT64_MAX, " memory r1 e0 lo"); /* 2^64 - 1: odd, and a multiple of 3 */
}

TEST(test_n22_62_nothing_to_choose)
{
    struct cw_resource list[] = {{.transport = &self, .device = {.name = "memory"}},
                                 {.transport = &tcp, .device = {.name = "lo", .is_local = 1}}};
    unsigned count = 2;

    cw_resources_keep_single(list, &count, 7);
    assert_int_equal(count, 2);
    count = 0;
    cw_resources_keep_single(list, &count, 7);
    assert_int_equal(count, 0);
}
