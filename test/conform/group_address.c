/* SPDX-License-Identifier: BSD-3-Clause */
/* The table itself, devices, limits, addresses, and addresses that are none. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "stream.h"

RIG_TEST(test_table_is_complete)
{
    const struct cw_transport *transport = cw_subject.transport;

    assert_non_null(transport->name);
    assert_true(strlen(transport->name) > 0 && strlen(transport->name) < CW_DEVICE_NAME_MAX);
    assert_int_not_equal(transport->wire_id, 0);
    assert_true(transport->open != NULL ? transport->close != NULL : transport->iface_size >= sizeof(struct cw_iface));
    assert_int_equal(transport->address != NULL, transport->reachable != NULL);
    assert_non_null(transport->progress);
    assert_non_null(transport->connect->dial);
    assert_non_null(transport->connect->close_conn);
    assert_non_null(transport->packets->send_bcopy);
}

RIG_TEST(test_devices)
{
    struct cw_device devices[CW_MAX_DEVICES];
    unsigned count, i, j;

    (void)rig;
    memset(devices, 0xff, sizeof(devices));
    count = cw_transport_devices(cw_subject.transport, cw_rig_config(), devices, 0);
    assert_true(count > 0);
    for (i = 0; i < sizeof(devices); i++) {
        cw_check(((unsigned char *)devices)[i] == 0xff, "query_devices wrote beyond its limit of 0 devices");
    }
    assert_int_equal(cw_transport_devices(cw_subject.transport, cw_rig_config(), devices, CW_MAX_DEVICES), count);
    for (i = 0; i < count && i < CW_MAX_DEVICES; i++) {
        cw_check(memchr(devices[i].name, '\0', CW_DEVICE_NAME_MAX) != NULL && devices[i].name[0] != '\0',
                 "device %u has no proper name", i);
        for (j = 0; j < i; j++) {
            cw_check(strcmp(devices[i].name, devices[j].name) != 0, "two devices are called %s", devices[i].name);
        }
    }
}

RIG_TEST(test_limits)
{
    const struct cw_limits *limits = &rig->a->iface->limits;

    /* what the core sends in one piece whatever the transport: a hello's worth of bcopy */
    assert_true(limits->max_bcopy >= 64);
    assert_true(limits->max_zcopy == 0 || cw_subject.transport->packets->send_zcopy != NULL);
    assert_true(limits->max_zcopy == 0 || limits->max_iov >= 1);
    assert_true(limits->max_short == 0 || cw_subject.transport->packets->send_short != NULL);
    assert_true(limits->latency_ns >= 0 && limits->overhead_ns >= 0 && limits->bandwidth_bps > 0);
    assert_ptr_equal(rig->a->iface->transport, cw_subject.transport);
    assert_ptr_equal(rig->a->iface->owner, rig->a);
    assert_non_null(rig->a->iface->upcalls);
}

RIG_TEST(test_address_is_constant)
{
    struct cw_side *a = rig->a;
    uint8_t buffer[CW_ADDRESS_MAX];
    struct cw_end *one, *other;
    size_t max, i;

    assert_int_equal(cw_iface_address(a->iface, buffer, sizeof(buffer)), a->address_length);
    assert_memory_equal(buffer, a->address, a->address_length);
    cw_rig_connect(rig, a, rig->b, &one, &other);
    assert_int_equal(cw_iface_address(a->iface, buffer, a->address_length), a->address_length);
    assert_memory_equal(buffer, a->address, a->address_length);
    for (max = 0; max < a->address_length; max++) {
        memset(buffer, 0x5a, sizeof(buffer));
        cw_check(cw_iface_address(a->iface, buffer, max) == 0, "an address fits into %zu bytes", max);
        for (i = max; i < sizeof(buffer); i++) {
            cw_check(buffer[i] == 0x5a, "the address was written beyond its limit of %zu bytes", max);
        }
    }
}

RIG_TEST(test_reachable)
{
    const char *why = NULL;
    uint8_t *copy = malloc(rig->b->address_length);

    /* at an odd place, as inside a worker address */
    memcpy(copy, rig->b->address, rig->b->address_length);
    cw_check(cw_iface_reachable(rig->a->iface, copy, rig->b->address_length, &why),
             "the other side is not reachable: %s", (why != NULL) ? why : "no reason given");
    free(copy);
    cw_check(cw_iface_reachable(rig->b->iface, rig->a->address, rig->a->address_length, &why),
             "the side is not reachable from the other: %s", (why != NULL) ? why : "no reason given");
}

/* Hands these bytes, in memory of exactly that size, to reachable and dial. Returns 1 when a dial is under way. */
static int try_address(struct cw_rig *rig, const uint8_t *bytes, size_t length)
{
    struct cw_bytes hello = cw_bytes_unique(8);
    const char *why = NULL;
    uint8_t *copy = malloc(length > 0 ? length : 1);
    struct cw_end *end = NULL;
    ucs_status_t status;
    int reachable;

    memcpy(copy, bytes, length);
    reachable = cw_iface_reachable(rig->a->iface, copy, length, &why);
    cw_check(reachable || (why != NULL && why[0] != '\0'), "an address is refused without a reason");
    if (!reachable || !(cw_subject.traits & CW_SUBJECT_DIALS_OUT)) {
        end = cw_end_dial_raw(rig->a, copy, length, &hello, &status);
        cw_check(reachable || end == NULL || !end->opened, "an unreachable address was dialled");
    }
    free(copy);
    return end != NULL;
}

static void close_dials(struct cw_rig *rig)
{
    struct cw_end *end;
    uint64_t deadline = cw_deadline();

    cw_list_for_each(end, &rig->a->ends, struct cw_end, link) {
        while (end->conn != NULL && !end->opened) {
            cw_rig_progress(rig);
            cw_deadline_check(deadline, "the outcome of a dial to a damaged address");
        }
        cw_end_close(end);
    }
    cw_rig_settle(rig);
}

RIG_TEST(test_truncated_addresses)
{
    uint8_t longer[CW_ADDRESS_MAX];
    size_t length;

    for (length = 0; length < rig->b->address_length; length++) {
        try_address(rig, rig->b->address, length);
    }
    memset(longer, 0, sizeof(longer));
    memcpy(longer, rig->b->address, rig->b->address_length);
    try_address(rig, longer, rig->b->address_length + 1);
    try_address(rig, longer, sizeof(longer));
    close_dials(rig);
}

RIG_TEST(test_random_addresses)
{
    uint8_t bytes[300];
    uint64_t seed;
    size_t length;

    for (seed = 1; seed <= 3000; seed++) {
        cw_pattern_fill(bytes, sizeof(bytes), seed);
        length = (seed % 3 == 0) ? rig->b->address_length : bytes[0];
        try_address(rig, bytes, (length < sizeof(bytes)) ? length : sizeof(bytes));
    }
    memset(bytes, 0xff, sizeof(bytes));
    for (length = 0; length < sizeof(bytes); length++) {
        try_address(rig, bytes, length);
    }
    close_dials(rig);
}

RIG_TEST(test_damaged_addresses)
{
    uint8_t bytes[CW_ADDRESS_MAX];
    unsigned under_way = 0;
    size_t i, bit;

    for (i = 0; i < rig->b->address_length; i++) {
        for (bit = 0; bit < 8; bit++) {
            memcpy(bytes, rig->b->address, rig->b->address_length);
            bytes[i] ^= (uint8_t)(1u << bit);
            under_way += (unsigned)try_address(rig, bytes, rig->b->address_length);
            if (under_way == 32) {
                close_dials(rig);
                under_way = 0;
            }
        }
    }
    close_dials(rig);
}
