/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and datagrams of the verbs transport, the choice of GIDs, and repetition. */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "transport/verbs/verbs_wire.h"

static const uint8_t ipv4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 9, [14] = 1, [15] = 1};
static const uint8_t ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 7};
static const uint8_t local[16] = {0xfe, 0x80, [15] = 1};

static struct cw_verbs_address ethernet(const uint8_t *first, const uint8_t *second)
{
    struct cw_verbs_address address = {.ethernet = 1,
                                     .mtu = 3,
                                     .watch_port = 0xabcd,
                                     .pkey = 0xffff,
                                     .qp = 0x123456,
                                     .key = 0x0123456789abcdef,
                                     .num_gids = 1};

    memcpy(address.gids[0], first, 16);
    if (second != NULL) {
        memcpy(address.gids[address.num_gids++], second, 16);
    }
    return address;
}

static struct cw_verbs_address infiniband(uint16_t lid, uint16_t pkey)
{
    struct cw_verbs_address address = {.mtu = 5, .lid = lid, .pkey = pkey, .qp = 9, .key = 1, .num_gids = 1};

    memcpy(address.gids[0], local, 16);
    return address;
}

TEST(test_address)
{
    struct cw_verbs_address address = ethernet(ipv4, ipv6), back;
    uint8_t bytes[CW_VERBS_ADDRESS_MAX + 1];
    const size_t length = cw_verbs_address_encode(&address, bytes);
    uint8_t *copy;
    size_t i;

    assert_int_equal(length, CW_VERBS_ADDRESS_HEAD + 32);
    assert_null(cw_verbs_address_decode(bytes, length, &back));
    assert_memory_equal(&address, &back, sizeof(back));
    for (i = 0; i < length; i++) { /* in memory of exactly that size */
        copy = malloc(i + 1);
        memcpy(copy, bytes, i);
        assert_non_null(cw_verbs_address_decode(copy, i, &back));
        free(copy);
    }
    assert_non_null(cw_verbs_address_decode(bytes, length + 1, &back));
    bytes[9] = 200;
    assert_non_null(cw_verbs_address_decode(bytes, length, &back));
    bytes[9] = 2;
    bytes[1] = 6;
    assert_non_null(cw_verbs_address_decode(bytes, length, &back));
    bytes[1] = 3;
    bytes[0] = 1; /* another version */
    assert_non_null(cw_verbs_address_decode(bytes, length, &back));
    bytes[0] = 3;
    memset(bytes + 6, 0, 3);
    assert_non_null(cw_verbs_address_decode(bytes, length, &back));
}

TEST(test_datagram)
{
    static const uint8_t words[CW_VERBS_WORDS_MAX] = {1, 2, 3};
    struct cw_verbs_datagram hello = {.kind = CW_VERBS_HELLO,
                                  .key = 5,
                                  .from = 7,
                                  .mtu = 3,
                                  .reads = 16,
                                  .gid_from = 1,
                                  .gid_to = 2,
                                  .qp = 0xabcdef,
                                  .psn = 0xfedcba,
                                  .epoch = 0x12345678,
                                  .handled = 0x9abcdef0,
                                  .is_refused = 1,
                                  .address = ethernet(ipv4, ipv6),
                                  .words = words,
                                  .length = sizeof(words)};
    struct cw_verbs_datagram back;
    uint8_t bytes[CW_VERBS_DATAGRAM_MAX + 1];
    const size_t length = cw_verbs_datagram_encode(&hello, bytes);
    uint8_t *copy;
    size_t i;

    assert_true(length <= CW_VERBS_DATAGRAM_MAX);
    assert_null(cw_verbs_datagram_decode(bytes, length, &back));
    assert_int_equal(back.qp, hello.qp);
    assert_int_equal(back.psn, hello.psn);
    assert_int_equal(back.epoch, hello.epoch);
    assert_int_equal(back.handled, hello.handled);
    assert_int_equal(back.is_refused, 1);
    assert_int_equal(back.gid_from, 1);
    assert_int_equal(back.gid_to, 2);
    assert_int_equal(back.key, 5);
    assert_int_equal(back.from, 7);
    assert_int_equal(back.length, sizeof(words));
    assert_memory_equal(back.words, words, sizeof(words));
    assert_memory_equal(&back.address, &hello.address, sizeof(back.address));
    for (i = 0; i < length; i++) {
        copy = malloc(i + 1);
        memcpy(copy, bytes, i);
        assert_non_null(cw_verbs_datagram_decode(copy, i, &back));
        free(copy);
    }
    assert_non_null(cw_verbs_datagram_decode(bytes, length + 1, &back));
    bytes[31] = 0x22; /* a GID that the sender does not have */
    assert_non_null(cw_verbs_datagram_decode(bytes, length, &back));
    bytes[31] = 0x21;
    bytes[48] = 2; /* neither 0 nor 1 */
    assert_non_null(cw_verbs_datagram_decode(bytes, length, &back));
    bytes[48] = 1;
    bytes[3] = 9;
    assert_non_null(cw_verbs_datagram_decode(bytes, length, &back));
}

static const char *pair(struct cw_verbs_address ours, struct cw_verbs_address theirs, unsigned *left, unsigned *right)
{
    return cw_verbs_pair(&ours, &theirs, left, right);
}

TEST(test_pair)
{
    unsigned left, right;

    assert_null(pair(ethernet(ipv4, NULL), ethernet(ipv4, NULL), &left, &right));
    assert_null(pair(ethernet(ipv4, ipv6), ethernet(ipv6, NULL), &left, &right));
    assert_int_equal(left, 1);
    assert_int_equal(right, 0);
    assert_non_null(pair(ethernet(ipv4, NULL), ethernet(ipv6, NULL), &left, &right));
    assert_non_null(pair(ethernet(ipv6, NULL), ethernet(local, NULL), &left, &right));
    assert_non_null(pair(infiniband(3, 0xffff), ethernet(local, NULL), &left, &right));
    assert_null(pair(infiniband(3, 0xffff), infiniband(4, 0xffff), &left, &right));
    assert_null(pair(infiniband(3, 0xffff), infiniband(4, 0x7fff), &left, &right));
    assert_non_null(pair(infiniband(3, 0x7fff), infiniband(4, 0x7fff), &left, &right));
    assert_non_null(pair(infiniband(3, 0xffff), infiniband(4, 0x8001), &left, &right));
    assert_non_null(pair(infiniband(3, 0xffff), infiniband(0, 0xffff), &left, &right));
    assert_non_null(pair(infiniband(3, 0xffff), infiniband(0xc001, 0xffff), &left, &right));
}

/* The GIDs fit the route: those of the network device, such as a VLAN, through which the peer is reached. */
TEST(test_pair_on_a_device)
{
    const struct cw_verbs_address ours = ethernet(ipv4, ipv6), theirs = ethernet(ipv6, ipv4);
    static const struct {
        uint32_t ours[CW_VERBS_MAX_GIDS], theirs[CW_VERBS_MAX_GIDS];
        int fits;
        unsigned left, right;
    } cases[] = {
        {{3, 4}, {4, 0}, 1, 1, 0}, /* only IPv6 has a route through a device of ours */
        {{3, 4}, {0, 3}, 1, 0, 1}, {{3, 3}, {3, 3}, 1, 0, 1}, {{3, 4}, {3, 4}, 0, 9, 9}, /* another family each */
        {{3, 4}, {7, 7}, 0, 9, 9}, {{0, 0}, {0, 0}, 0, 9, 9},
    };
    unsigned left, right;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        left = right = 9;
        assert_int_equal(cw_verbs_pair_on(&ours, cases[i].ours, &theirs, cases[i].theirs, &left, &right),
                         cases[i].fits);
        assert_int_equal(left, cases[i].left);
        assert_int_equal(right, cases[i].right);
    }
}

/* 20 ms, 40, 80 .. a second, until the end; an end beyond all numbers never comes. */
TEST(test_retry)
{
    struct cw_verbs_retry retry;
    uint64_t now = 1000, last = now;
    unsigned sent = 0;

    cw_verbs_retry_begin(&retry, now, 20000000, 3000000000u);
    assert_int_equal(retry.next_ns, now + 20000000);
    while (now = retry.next_ns, cw_verbs_retry_step(&retry, now)) {
        assert_true(retry.next_ns > now);
        assert_true(retry.next_ns - now <= 1000000000u);
        last = now;
        sent++;
    }
    assert_int_equal(now, 1000 + 3000000000u);
    assert_true(last < now);
    assert_true(sent >= 6 && sent <= 12);
    cw_verbs_retry_begin(&retry, now, 20000000, UINT64_MAX);
    for (sent = 0; sent < 1000; sent++) {
        assert_true(cw_verbs_retry_step(&retry, retry.next_ns));
    }
}
