/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the TCP transport: round trip, bytes of any kind from a peer, order of candidates, devices.
 */
#include "test_random.h"
#include "test_tcp.h"

static struct cw_net_address v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    return (struct cw_net_address){.family = CW_NET_IPV4, .port = 4711, .bytes = {a, b, c, d}};
}

static struct cw_net_address v6(uint8_t first, uint8_t last)
{
    return (struct cw_net_address){.family = CW_NET_IPV6, .port = 4711, .bytes = {[0] = first, [15] = last}};
}

static struct cw_net_interface interface(struct cw_net_address address, unsigned bits)
{
    return (struct cw_net_interface){.name = "n", .prefix_bits = bits, .address = address};
}

static struct cw_tcp_address sample(void)
{
    return (struct cw_tcp_address){.port = 4711,
                              .netns = 0x0102030405060708u,
                              .key = 0xa1b2c3d4u,
                              .listens = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6,
                              .num_hosts = 3,
                              .hosts = {v4(10, 0, 0, 5), v4(192, 168, 1, 5), v6(0x20, 5)}};
}

TEST(test_round_trip)
{
    static const uint8_t head[] = {0x12, 0x67, 1,    2,  3, 4, 5, 6,   7,   8, 0xa1, 0xb2, 0xc3,
                                   0xd4, 3,    0x12, 10, 0, 0, 5, 192, 168, 1, 5,    0x20};
    const struct cw_tcp_address address = sample();
    struct cw_tcp_address decoded;
    uint8_t bytes[CW_TCP_ADDRESS_MAX];
    size_t length = cw_tcp_address_encode(&address, bytes);
    unsigned i;

    assert_int_equal(length, CW_TCP_ADDRESS_HEAD + 2 * 4 + 16);
    assert_memory_equal(bytes, head, sizeof(head));
    assert_null(cw_tcp_address_decode(bytes, length, &decoded));
    assert_int_equal(decoded.port, address.port);
    assert_true(decoded.netns == address.netns && decoded.key == address.key && decoded.listens == address.listens);
    assert_int_equal(decoded.num_hosts, 3);
    for (i = 0; i < 3; i++) {
        assert_memory_equal(decoded.hosts[i].bytes, address.hosts[i].bytes, 16);
        assert_int_equal(decoded.hosts[i].port, 4711);
    }
    for (i = 0; i < length; i++) {
        assert_non_null(cw_tcp_address_decode(bytes, i, &decoded));
    }
}

TEST(test_any_bytes)
{
    const struct cw_tcp_local local = {
        .netns = 1, .loopback = 1, .num_hosts = 1, .hosts = {interface(v4(10, 0, 0, 1), 24)}};
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    struct cw_tcp_address decoded;
    const char *why;
    unsigned round, accepted = 0, count, i;
    struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS];
    uint8_t drawn[CW_TCP_ADDRESS_MAX + 20];
    uint8_t *bytes;
    size_t length;

    (void)random_set_up(state);
    for (round = 0; round < 200000; round++) {
        length = next_random() % sizeof(drawn);
        random_bytes(drawn, sizeof(drawn));
        if (next_random() % 2) { /* nearly right ones */
            drawn[15] = (uint8_t)((next_random() % 9) | (next_random() % 9) << 4);
            drawn[14] &= 3;
            i = CW_TCP_ADDRESS_HEAD + 4u * (drawn[15] & 15u) + 16u * (drawn[15] >> 4);
            length = (i <= sizeof(drawn)) ? i : length;
        }
        bytes = malloc(length + (length == 0)); /* its own block, so that a sanitizer sees each byte too many */
        assert_non_null(bytes);
        memcpy(bytes, drawn, length);
        if (cw_tcp_address_decode(bytes, length, &decoded) == NULL) {
            accepted++;
            for (i = 0; i < CW_TCP_ADDRESS_MAX_HOSTS; i++) {
                routes[i] = (struct cw_route){(uint8_t)(next_random() % (CW_ROUTE_EXCLUDED + 1)),
                                              (uint8_t)next_random(), ""};
            }
            assert_true(decoded.num_hosts <= CW_TCP_ADDRESS_MAX_HOSTS && decoded.port != 0);
            why = NULL;
            count = cw_tcp_candidates(&local, &decoded, (round & 1) ? routes : NULL, candidates, &why);
            assert_true(count <= CW_TCP_MAX_CANDIDATES && (count > 0 || why != NULL));
        }
        free(bytes);
    }
    assert_true(accepted > 1000);
}

static void check_routed(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                         const struct cw_route *routes, const char *expected)
{
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    char text[CW_NET_TEXT_MAX], all[CW_NET_TEXT_MAX * CW_TCP_MAX_CANDIDATES] = "";
    const char *why = "";
    unsigned count, i;

    count = cw_tcp_candidates(local, peer, routes, candidates, &why);
    for (i = 0; i < count; i++) {
        cw_net_format(&candidates[i], text);
        strcat(all, text);
        strcat(all, " ");
    }
    assert_string_equal((count > 0) ? all : why, expected);
}

static void check_order(const struct cw_tcp_local *local, const struct cw_tcp_address *peer, const char *expected)
{
    check_routed(local, peer, NULL, expected);
}

TEST(test_candidates)
{
    struct cw_tcp_address peer = sample();
    struct cw_tcp_local local = {.netns = peer.netns,
                             .loopback = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6,
                             .num_hosts = 2,
                             .hosts = {interface(v4(172, 16, 0, 9), 16), interface(v4(192, 168, 1, 200), 24)}};

    check_order(&local, &peer, "127.0.0.1:4711 [::1]:4711 192.168.1.5:4711 10.0.0.5:4711 ");
    local.ipv6_first = 1;
    check_order(&local, &peer, "[::1]:4711 127.0.0.1:4711 192.168.1.5:4711 10.0.0.5:4711 ");
    local.loopback = 0;
    check_order(&local, &peer, "192.168.1.5:4711 10.0.0.5:4711 ");
    local.netns++;
    local.loopback = 3;
    local.hosts[0] = interface(v6(0x30, 1), 64);
    check_order(&local, &peer, "192.168.1.5:4711 [2000::5]:4711 10.0.0.5:4711 ");
    local.hosts[1] = interface(v6(0x20, 1), 64);
    check_order(&local, &peer, "[2000::5]:4711 ");
    peer.listens = CW_TCP_LISTENS_IPV4;
    check_order(&local, &peer, "no network device here has the family of any of its addresses");
    local.num_hosts = 0;
    check_order(&local, &peer,
                "only loopback is usable here and it is on another host or in another network namespace");
    peer.num_hosts = 0;
    check_order(&local, &peer, "it is on another host or in another network namespace and offers only loopback there");
    /* what a peer must not make us dial */
    peer = sample();
    peer.hosts[0] = v4(127, 0, 0, 1);
    peer.hosts[1] = v4(0, 0, 0, 0);
    peer.hosts[2] = v6(0, 1);
    local.num_hosts = 1;
    check_order(&local, &peer, "no network device here has the family of any of its addresses");
}

/* N23-17: the address of one device, whose namespace has all bits inverted, is not reached by loopback, but within its
 * namespace also where the system sends to itself. */
TEST(test_n23_17_candidates_of_one_device)
{
    struct cw_tcp_address peer = sample();
    struct cw_tcp_local local = {.netns = peer.netns,
                             .loopback = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6,
                             .num_hosts = 1,
                             .hosts = {interface(v4(192, 168, 1, 5), 24)}};
    struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS];

    for (unsigned i = 0; i < CW_TCP_ADDRESS_MAX_HOSTS; i++) {
        routes[i] = (struct cw_route){CW_ROUTE_OWN, 0, ""};
    }
    check_routed(&local, &peer, routes, "127.0.0.1:4711 [::1]:4711 10.0.0.5:4711 192.168.1.5:4711 ");
    peer.netns = ~peer.netns;
    assert_int_equal(cw_tcp_shared_loopback(&local, &peer), 0);
    check_routed(&local, &peer, routes, "10.0.0.5:4711 192.168.1.5:4711 ");
    check_order(&local, &peer, "192.168.1.5:4711 10.0.0.5:4711 ");
    local.netns++;
    check_routed(&local, &peer, routes, "it is on another host that has the same addresses as this one");
}

TEST(test_candidates_by_route)
{
    struct cw_tcp_address peer = {.port = 4711,
                             .netns = 1,
                             .listens = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6,
                             .num_hosts = 6,
                             .hosts = {v4(10, 0, 0, 5), v4(10, 1, 0, 5), v4(10, 2, 0, 5), v4(10, 3, 0, 5),
                                           v6(0x20, 5), v6(0x30, 5)}};
    struct cw_tcp_local local = {.netns = 2,
                             .loopback = 3,
                             .num_hosts = 2,
                             .hosts = {interface(v4(10, 1, 0, 9), 24), interface(v6(0x40, 1), 64)}};
    struct cw_route routes[6] = {{CW_ROUTE_GATEWAY, 0, ""},  {CW_ROUTE_DIRECT, 16, ""},  {CW_ROUTE_DIRECT, 24, ""},
                                 {CW_ROUTE_GATEWAY, 12, ""}, {CW_ROUTE_GATEWAY, 0, ""}, {CW_ROUTE_DIRECT, 64, ""}};
    unsigned i;

    check_routed(&local, &peer, routes, "10.2.0.5:4711 [3000::5]:4711 10.1.0.5:4711 [2000::5]:4711 10.3.0.5:4711 "
                                        "10.0.0.5:4711 ");
    routes[2].kind = CW_ROUTE_OWN; /* of another host, and one of ours */
    routes[5].kind = CW_ROUTE_NONE;
    check_routed(&local, &peer, routes, "10.1.0.5:4711 [2000::5]:4711 10.3.0.5:4711 10.0.0.5:4711 ");
    routes[1].kind = CW_ROUTE_EXCLUDED; /* in a subnet of a device in use: stays */
    routes[3].kind = CW_ROUTE_EXCLUDED;
    routes[4].kind = CW_ROUTE_DOWN;
    check_routed(&local, &peer, routes, "10.1.0.5:4711 10.0.0.5:4711 [2000::5]:4711 ");
    routes[0].kind = CW_ROUTE_UNKNOWN;
    routes[1].kind = CW_ROUTE_UNKNOWN;
    check_routed(&local, &peer, routes, "10.1.0.5:4711 10.0.0.5:4711 [2000::5]:4711 ");
    peer.netns = 2;
    check_routed(&local, &peer, routes, "127.0.0.1:4711 [::1]:4711 10.2.0.5:4711 10.1.0.5:4711 10.0.0.5:4711 "
                                        "[2000::5]:4711 ");
    peer.netns = 1;
    for (i = 0; i < 6; i++) {
        routes[i].kind = CW_ROUTE_OWN;
    }
    check_routed(&local, &peer, routes, "it is on another host that has the same addresses as this one");
    routes[3].kind = CW_ROUTE_NONE;
    check_routed(&local, &peer, routes, "there is no route to any of its addresses");
    routes[0].kind = CW_ROUTE_EXCLUDED;
    check_routed(&local, &peer, routes, "UCX_NET_DEVICES excludes the device of the route to it");
}

TEST(test_routes)
{
    const struct cw_net_address to[3] = {v4(127, 0, 0, 1), v4(127, 1, 2, 3), v4(255, 255, 255, 255)};
    struct cw_route routes[3];

    cw_routes_find(to, 3, routes);
    if (routes[0].kind == CW_ROUTE_UNKNOWN) {
        skip();
    }
    assert_int_equal(routes[0].kind, CW_ROUTE_OWN);
    assert_int_equal(routes[1].kind, CW_ROUTE_OWN);
    assert_string_equal(routes[0].device, "lo");
    assert_int_equal(routes[2].kind, CW_ROUTE_NONE);
    cw_routes_find(to, 0, routes);
}

/* One candidate for each device of ours comes first; the others keep their order. */
TEST(test_ways)
{
    static const struct {
        const char *devices[4];
        unsigned paths;
        unsigned order[4];
    } table[] = {
        {{"", "", "", ""}, 1, {0, 1, 2, 3}},
        {{"e0", "e0", "e0", "e0"}, 1, {0, 1, 2, 3}},
        {{"e0", "e0", "e1", "e1"}, 2, {0, 2, 1, 3}},
        {{"e0", "e1", "e0", "e2"}, 3, {0, 1, 3, 2}},
        {{"", "e1", "", "e2"}, 2, {1, 3, 0, 2}},
    };
    struct cw_net_address candidates[4];
    struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS];
    struct cw_tcp_address peer;
    unsigned i, j;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        memset(routes, 0, sizeof(routes));
        peer = (struct cw_tcp_address){.num_hosts = 4};
        for (j = 0; j < 4; j++) {
            peer.hosts[j] = (struct cw_net_address){.family = CW_NET_IPV4, .bytes = {10, 0, 0, (uint8_t)j}};
            candidates[j] = peer.hosts[j];
            routes[j].kind = CW_ROUTE_DIRECT;
            strcpy(routes[j].device, table[i].devices[j]);
        }
        assert_int_equal(cw_tcp_paths_first(&peer, routes, candidates, 4), table[i].paths);
        for (j = 0; j < 4; j++) {
            assert_int_equal(candidates[j].bytes[3], table[i].order[j]);
        }
    }
}

TEST(test_devices)
{
    struct cw_device devices[16];
    struct node node;
    unsigned count, i, loopback = 0;

    node_configure(&node);
    count = cw_tcp_transport.query_devices(&node.config, devices, 16);
    assert_in_range(count, 1, 16);
    for (i = 0; i < count; i++) {
        loopback += strcmp(devices[i].name, "lo") == 0;
        assert_true(cw_net_is_bridge(devices[i].name) == 0);
    }
    if (loopback) {
        assert_string_equal(devices[count - 1].name, "lo");
    }
    assert_int_equal(cw_tcp_transport.query_devices(&node.config, devices, 0), count);
    assert_int_equal(node_try_open(&node, "nosuchdevice"), UCS_ERR_NO_DEVICE);
}

TEST(test_stable_address)
{
    uint8_t again[CW_TCP_ADDRESS_MAX];
    struct node node;
    const char *why = NULL;

    node_open(&node);
    assert_int_equal(cw_tcp_transport.address(node.iface, again, sizeof(again)), node.address_length);
    assert_memory_equal(again, node.address, node.address_length);
    assert_int_equal(cw_tcp_transport.address(node.iface, again, node.address_length - 1), 0);
    assert_true(cw_tcp_transport.reachable(node.iface, node.address, node.address_length, &why));
    assert_false(cw_tcp_transport.reachable(node.iface, node.address, node.address_length - 1, &why));
    assert_non_null(why);
    node_close(&node);
}
