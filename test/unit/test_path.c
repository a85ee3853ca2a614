/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths between hosts that have several interfaces (connect/path.h): their order, and that the search for the next one
 * tries each path that is there once and ends.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "connect/connect.h"
#include "connect/path.h"
#include "test_log_lines.h"

/* Of an address's entry: its only byte is the number of the network that it lies in. */
static int same_network(struct cw_iface *iface, const void *address, size_t length, const char **why);

static const struct cw_transport card = {.name = "card", .wire_id = 40, .reachable = same_network};
static const struct cw_transport wire = {.name = "wire", .wire_id = 41, .reachable = same_network};

struct host_iface {
    struct cw_iface super;
    uint8_t network; /* 0: any */
};

static int same_network(struct cw_iface *iface, const void *address, size_t length, const char **why)
{
    const struct host_iface *own = cw_container_of(iface, struct host_iface, super);

    *why = "it lies in another network";
    return length == 1 && (own->network == 0 || *(const uint8_t *)address == own->network);
}

#define MAX_IFACES 10u

struct host {
    struct ucp_worker worker;
    struct host_iface ifaces[MAX_IFACES];
    struct cw_iface *list[MAX_IFACES];
};

static struct host *host_new(void)
{
    struct host *host = calloc(1, sizeof(*host));

    assert_non_null(host);
    host->worker.ifaces = host->list;
    return host;
}

static void add(struct host *host, const struct cw_transport *transport, uint8_t network, double latency_ns,
                double bandwidth_bps)
{
    const unsigned i = host->worker.num_ifaces++;

    host->ifaces[i].super =
        (struct cw_iface){.transport = transport, .limits = {.latency_ns = latency_ns, .bandwidth_bps = bandwidth_bps}};
    host->ifaces[i].super.name = transport->name;
    host->ifaces[i].network = network;
    host->list[i] = &host->ifaces[i].super;
}

/* An address with such entries: pairs of wire id and network. */
static void address_of(const uint8_t (*entries)[2], unsigned count, uint8_t blob[CW_ADDRESS_MAX],
                       struct cw_address *address)
{
    struct cw_address_writer writer;
    uint8_t *place;
    size_t max;

    cw_address_begin(&writer, blob, 9);
    for (unsigned i = 0; i < count; i++) {
        place = cw_address_entry(&writer, &max);
        assert_non_null(place);
        *place = entries[i][1];
        cw_address_entry_done(&writer, entries[i][0], 1);
    }
    (void)cw_address_end(&writer);
    assert_int_equal(cw_address_decode(blob, address), UCS_OK);
}

/* All paths in their order, as "index of the interface, network of the entry" pairs. */
static unsigned walk(struct host *host, const struct cw_address *address, const struct cw_iface *except,
                     uint8_t (*found)[2], unsigned max)
{
    struct cw_path path = {.number = 0};
    unsigned count = 0, i;

    while (cw_path_next(&host->worker, address, path.number, except, &path)) {
        assert_true(count < max);
        for (i = 0; host->list[i] != path.iface; i++) {
        }
        found[count][0] = (uint8_t)i;
        found[count][1] = *(const uint8_t *)path.address;
        count++;
    }
    return count;
}

/* {v0, v1, tcp} and {v1, tcp}: the card in the common network is first, the wire comes behind. */
TEST(hosts_with_unlike_cards)
{
    static const uint8_t entries[][2] = {{40, 2}, {41, 7}};
    struct host *host = host_new();
    uint8_t blob[CW_ADDRESS_MAX], found[8][2];
    struct cw_address address;

    add(host, &wire, 0, 9000, 1e9);
    add(host, &card, 1, 900, 1e10);
    add(host, &card, 2, 900, 1e10);
    address_of(entries, 2, blob, &address);
    assert_int_equal(walk(host, &address, NULL, found, 8), 2);
    assert_memory_equal(found, ((const uint8_t[][2]){{2, 2}, {0, 7}}), 4);
    assert_int_equal(walk(host, &address, host->list[2], found, 8), 1);
    assert_memory_equal(found, ((const uint8_t[][2]){{0, 7}}), 2);
    free(host);
}

/* Every pair is a path: lower latency first, then bandwidth, then the place in the lists. */
TEST(every_pair_once)
{
    static const uint8_t entries[][2] = {{40, 1}, {40, 2}, {41, 3}, {40, 4}};
    static const uint8_t order[][2] = {{1, 1}, {1, 2}, {1, 4}, {0, 1}, {0, 2}, {0, 4}, {3, 1}, {3, 2}, {3, 4}, {2, 3}};
    struct host *host = host_new();
    uint8_t blob[CW_ADDRESS_MAX], found[16][2];
    struct cw_address address;

    add(host, &card, 0, 900, 1e10);
    add(host, &card, 0, 900, 2e10);
    add(host, &wire, 0, 9000, 1e9);
    add(host, &card, 0, 1000, 9e10);
    address_of(entries, 4, blob, &address);
    assert_int_equal(walk(host, &address, NULL, found, 16), 10);
    assert_memory_equal(found, order, sizeof(order));
    free(host);
}

TEST(nothing_in_common)
{
    static const uint8_t entries[][2] = {{40, 1}, {99, 2}};
    struct host *host = host_new();
    uint8_t blob[CW_ADDRESS_MAX], found[2][2];
    struct cw_address address;
    const char *why;

    add(host, &card, 3, 900, 1e10);
    add(host, &wire, 0, 900, 1e10);
    address_of(entries, 2, blob, &address);
    assert_int_equal(walk(host, &address, NULL, found, 2), 0);
    assert_false(cw_path_exists(host->list[0], &address, &why));
    assert_string_equal(why, "it lies in another network");
    assert_false(cw_path_exists(host->list[1], &address, &why));
    assert_string_equal(why, "the peer's address has no entry for it");
    free(host);
}

/* Eight cards and a wire: the address names all of them, the best first. */
TEST(interfaces_by_rank)
{
    struct host *host = host_new();
    struct cw_iface *iface = NULL;
    unsigned count = 0;
    double last_ns = 0;

    add(host, &wire, 0, 9000, 1e9);
    for (unsigned i = 0; i < 8; i++) {
        add(host, &card, 0, 900 + (i * 5) % 8, 1e10);
    }
    while ((iface = cw_path_next_iface(&host->worker, iface)) != NULL) {
        assert_true(iface->limits.latency_ns >= last_ns);
        last_ns = iface->limits.latency_ns;
        count++;
    }
    assert_int_equal(count, 9);
    free(host);
}

enum { LONG_ADDRESS = 150, FIT = 6 };

static size_t long_address(struct cw_iface *iface, void *buffer, size_t max)
{
    if (max < LONG_ADDRESS) {
        return 0;
    }
    memset(buffer, cw_container_of(iface, struct host_iface, super)->network, LONG_ADDRESS);
    return LONG_ADDRESS;
}

/* R14: cards for which the address has no room are those of the lowest rank, and the log names each of them once. */
TEST(cards_without_room_are_left_out_and_named)
{
    static const struct cw_transport wide = {
        .name = "wide", .wire_id = 42, .address = long_address, .reachable = same_network};
    static const uint8_t by_rank[FIT] = {5, 2, 7, 4, 1, 6}; /* of networks 1 to 9 */
    static struct cw_device devices[9];
    struct host *host = host_new();
    uint8_t blob[CW_ADDRESS_MAX];
    struct cw_address_entry entry;
    struct cw_address address;
    unsigned left_out = 0;

    for (uint8_t i = 0; i < 9; i++) {
        add(host, &wide, (uint8_t)(i + 1), 900, 1e10);
        for (uint8_t rank = 0; rank < FIT; rank++) {
            host->ifaces[i].super.limits.latency_ns -= (by_rank[rank] == i + 1) ? 100 - rank : 0;
        }
        snprintf(devices[i].name, sizeof(devices[i].name), "card%u", i + 1);
        host->ifaces[i].super.device = &devices[i];
    }
    log_count_begin();
    assert_true(cw_worker_address(&host->worker, CW_ADDRESS_ALL, blob) <= CW_ADDRESS_MAX);
    assert_int_equal(log_lines, 9 - FIT);
    assert_non_null(strstr(log_text, "is full: wide/card"));
    assert_non_null(strstr(log_text, "UCX_NET_DEVICES"));
    (void)cw_worker_address(&host->worker, CW_ADDRESS_ALL, blob);
    assert_int_equal(log_lines, 9 - FIT);
    log_count_end();
    assert_int_equal(cw_address_decode(blob, &address), UCS_OK);
    for (unsigned i = 0; i < FIT; i++) {
        assert_true(cw_address_get(&address, i, &entry));
        assert_int_equal(entry.bytes[0], by_rank[i]);
    }
    assert_false(cw_address_get(&address, FIT, &entry));
    for (unsigned i = 0; i < 9; i++) {
        left_out += host->ifaces[i].super.left_out;
    }
    assert_int_equal(left_out, 9 - FIT);
    free(host);
}

/* {v0, v1, tcp} and {tcp}: no card is in common. */
TEST(a_host_without_cards)
{
    static const uint8_t entries[][2] = {{41, 7}};
    struct host *host = host_new();
    uint8_t blob[CW_ADDRESS_MAX], found[8][2];
    struct cw_address address;

    add(host, &card, 1, 900, 1e10);
    add(host, &card, 2, 900, 1e10);
    add(host, &wire, 0, 9000, 1e9);
    address_of(entries, 1, blob, &address);
    assert_int_equal(walk(host, &address, NULL, found, 8), 1);
    assert_memory_equal(found, ((const uint8_t[][2]){{2, 7}}), 2);
    free(host);
}
