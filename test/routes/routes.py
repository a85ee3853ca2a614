#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios of docs/operate/routes.md between hosts that are network namespaces.

    routes.py --program BUILD/bin/routes_peer [--more] [NAME...]
    routes.py --list

runs the named scenarios, or all; without --more not those that only repeat others or take long. Status 77: this system
does not let us make namespaces.
"""

import argparse
import re
import sys
import time
import traceback

import bed

SCENARIOS = []


def scenario(function):
    function.more = False
    SCENARIOS.append(function)
    return function


def more(function):
    """Only with --more."""
    scenario(function)
    function.more = True
    return function


def check(condition, what):
    if not condition:
        raise bed.Failed(what)


def equal(got, expected, what):
    check(got == expected, "%s: %r instead of %r" % (what, got, expected))


def ok(answer, what):
    check(answer.split()[0] == "ok", "%s: %s" % (what, answer))


# --- what peers do ---

def join(left, right):
    """An endpoint at each side, from worker addresses."""
    for here, there in ((left, right), (right, left)):
        equal(here.ask("connect " + there.ask("address")), "ok", "connect")


def talk(client, server, seconds=30, sizes=(8, 100000, 3000000)):
    """Round trips that either side begins, of messages of several sizes."""
    for here, there in ((client, server), (server, client)):
        for size in sizes:
            there.order("echo 2")
            ok(here.ask("ping 2 %d" % size, seconds), "%s pings" % here.host.name)
            ok(there.hear(seconds), "%s answers" % there.host.name)


def reach_memory(here, there, size=200000):
    address, key = there.ask("expose %d" % size).split()
    there.order("recv 7")  # it makes progress meanwhile
    ok(here.ask("rma %s %s %d" % (address, key, size)), "put and get")
    ok(here.ask("send 7 8"), "send")
    ok(there.hear(), "recv")


def uses(peer, *remote):
    """Every connection of the peer leads to one of these addresses."""
    found = {there.rsplit(":", 1)[0] for _, there in peer.connections()}
    check(found and found <= set(remote), "%s is connected to %s instead of %s" % (peer.host.name, found, remote))


def both_ways(left, right, seconds=30):
    join(left, right)
    talk(left, right, seconds)
    equal(set(left.ask("transport").split()), {"tcp"}, "transport of every lane")


def logs_nothing(peer):
    """Of two hosts that dial each other at once, one drops its connection, which the other one logs."""
    lines = [line for line in peer.log_text().splitlines()
             if "it closed the connection before its handshake was complete" not in line]
    equal(lines, [], "log")


def meet(client, server, address, port=0, source="::"):
    """A client and a server; `address` is what the client dials."""
    port = server.ask("listen %s %d" % (source, port)) if port == 0 else port
    equal(client.ask("dial %s %s" % (address, port)), "ok", "dial")
    talk(client, server)


# --- where they are ---

def lan(the_bed, *names, net="10.1.0"):
    """Hosts at one switch: NAME has device e0 and the address net.(1 + its place)."""
    switch = the_bed.host("switch")
    switch.ip("link add br0 type bridge", "link set br0 up")
    hosts = []
    for number, name in enumerate(names):
        host = the_bed.host(name)
        the_bed.link(host, "e0", switch, "p%d" % number)
        switch.ip("link set p%d master br0" % number)
        host.address("e0", "%s.%d/24" % (net, number + 1))
        hosts.append(host)
    return hosts


def cables(the_bed, count):
    """Two hosts with that many cables; cable I has the subnet 10.I.0.0/24, a's address ends with 1, b's with 2."""
    a, b = the_bed.host("a"), the_bed.host("b")
    for i in range(count):
        the_bed.link(a, "e%d" % i, b, "e%d" % i)
        a.address("e%d" % i, "10.%d.0.1/24" % i)
        b.address("e%d" % i, "10.%d.0.2/24" % i)
    return a, b


def routed(the_bed, inner="10.1.0", outer="10.2.0"):
    """a at `inner`, b at `outer`, a router between them."""
    a, router, b = the_bed.host("a"), the_bed.host("router"), the_bed.host("b")
    for host, net, device in ((a, inner, "r0"), (b, outer, "r1")):
        the_bed.link(host, "e0", router, device)
        host.address("e0", net + ".2/24")
        router.address(device, net + ".1/24")
        host.ip("route add default via %s.1" % net)
    router.sysctl("ipv4/ip_forward", 1)
    return a, router, b


# --- scenarios ---

@scenario
def one_subnet(the_bed):
    """Two hosts at one switch: TCP although the machine is one, since shared memory does not cross."""
    a, b = lan(the_bed, "a", "b")
    left, right = a.peer(), b.peer(sleeps=True)
    check("7f000001" not in right.ask("address"), "loopback is offered")
    both_ways(left, right)
    reach_memory(left, right)
    uses(left, "10.1.0.2")


@scenario
def one_host(the_bed):
    """Within one namespace loopback is used, though the host has other addresses; and shared memory first."""
    a, _ = lan(the_bed, "a", "b")
    left, right = a.peer(TLS="tcp"), a.peer(TLS="tcp")
    both_ways(left, right)
    uses(left, "127.0.0.1")
    left, right = a.peer(), a.peer()
    join(left, right)
    talk(left, right)
    check("tcp" not in left.ask("transport"), "one host uses TCP")


@scenario
def router(the_bed):
    """Two subnets; worker addresses and a listener."""
    a, _, b = routed(the_bed)
    left, right = a.peer(sleeps=True), b.peer()
    both_ways(left, right)
    client, server = a.peer(), b.peer(sleeps=True)
    meet(client, server, "10.2.0.2")
    reach_memory(client, server)
    reach_memory(server, client)


@scenario
def interface_without_route(the_bed):
    """b has a further network, which a has no route to: it is never tried."""
    a, b = cables(the_bed, 1)
    other = the_bed.host("other")
    the_bed.link(b, "e9", other, "e9")
    b.address("e9", "10.200.0.2/24", "fd99::2/64")
    left, right = a.peer(), b.peer(NET_DEVICES="e9,e0")
    both_ways(left, right)
    uses(left, "10.0.0.2")
    logs_nothing(left)


@scenario
def dropped_silently(the_bed):
    """The first candidate is silent: the next one has its turn after about a second."""
    a, b = cables(the_bed, 3)
    b.firewall("iif { e0, e1 } drop")
    left, right = a.peer(sleeps=True), b.peer()
    join(left, right)
    milliseconds = int(left.ask("send 1 8").split()[1])
    check(milliseconds < 4000, "it took %d ms to find the third address" % milliseconds)
    talk(left, right)
    uses(left, "10.2.0.2")


@scenario
def rejected(the_bed):
    """The first candidates answer with a reset and with an ICMP message."""
    a, b = cables(the_bed, 3)
    b.firewall("iif e0 tcp flags syn reject with tcp reset", "iif e1 reject")
    left, right = a.peer(), b.peer()
    join(left, right)
    milliseconds = int(left.ask("send 1 8").split()[1])
    check(milliseconds < 500, "it took %d ms to find the third address" % milliseconds)
    talk(left, right)
    uses(left, "10.2.0.2")


@scenario
def all_silent(the_bed):
    """No candidate answers: an error at the deadline, and one line that names them all."""
    a, b = cables(the_bed, 3)
    b.firewall("iif { e0, e1, e2 } drop")
    for sleeps in (False, True):
        left, right = a.peer(sleeps=sleeps, CONNECT_TIMEOUT="2s"), b.peer()
        join(left, right)
        status, milliseconds = left.ask("send 1 8").rsplit(" ", 1)
        left.wait_event("failed")
        check("timeout" in status.lower(), "status: " + status)
        check(1900 <= int(milliseconds) < 2600, "it took %s ms" % milliseconds)
        lines = left.log_text().splitlines()
        equal(len(lines), 1, "lines in the log: %s" % lines)
        for address in ("10.0.0.2", "10.1.0.2", "10.2.0.2"):
            check(address in lines[0], "%s is not named: %s" % (address, lines[0]))


@scenario
def silent_server(the_bed):
    """A client of a silent address."""
    a, b = cables(the_bed, 1)
    b.firewall("drop")
    for sleeps in (False, True):
        client = a.peer(sleeps=sleeps, CONNECT_TIMEOUT="1500ms")
        equal(client.ask("dial 10.0.0.2 4711"), "ok", "dial")
        status, milliseconds = client.ask("send 1 8").rsplit(" ", 1)
        check("unreachable" in status.lower(), "status: " + status)
        check(1400 <= int(milliseconds) < 2100, "it took %s ms" % milliseconds)


@scenario
def bridges_alike(the_bed):
    """Both hosts have an inner bridge with one address, as docker makes them: it is not offered."""
    a, b = lan(the_bed, "a", "b")
    for host in (a, b):
        host.bridge("docker0", "172.17.0.1/16", "fd17::1/64")
    left, right = a.peer(), b.peer()
    check("ac110001" not in right.ask("address"), "the bridge's address is offered")
    both_ways(left, right)
    uses(left, "10.1.0.2")
    logs_nothing(left)


@scenario
def addresses_alike(the_bed):
    """Both hosts have one address in common that is offered: nobody connects to himself."""
    a, b = lan(the_bed, "a", "b")
    for host in (a, b):
        host.bridge("docker0", "172.17.0.1/16", "fd17::1/64")
    left, right = a.peer(TCP_BRIDGE_ENABLE="y"), b.peer(TCP_BRIDGE_ENABLE="y")
    check("ac110001" in right.ask("address"), "the bridge's address is not offered")
    both_ways(left, right)
    uses(left, "10.1.0.2")
    logs_nothing(left)


@scenario
def bridge_to_the_world(the_bed):
    """A host whose only way out is a bridge, as hosts of virtual machines have it."""
    a, router_host, b = routed(the_bed)
    a.ip("addr flush dev e0", "link add br0 type bridge", "link set e0 master br0", "link set br0 up")
    a.address("br0", "10.1.0.2/24")
    a.ip("route add default via 10.1.0.1")
    check(router_host is not None, "no router")
    left, right = a.peer(), b.peer()
    join(left, right)
    talk(right, left)
    uses(right, "10.1.0.2")


@scenario
def ipv6_only(the_bed):
    a, b = lan(the_bed, "a", "b")
    for number, host in enumerate((a, b)):
        host.ip("addr flush dev e0")
        host.address("e0", "fd01::%d/64" % (number + 1))
    left, right = a.peer(), b.peer()
    both_ways(left, right)
    uses(left, "fd01::2")
    client, server = a.peer(), b.peer()
    meet(client, server, "fd01::2")


@scenario
def link_local(the_bed):
    """A client that dials a link-local address with its scope."""
    a, b = lan(the_bed, "a", "b")
    a.address("e0", "fe80::a/64")
    b.address("e0", "fe80::b/64")
    client, server = a.peer(), b.peer()
    meet(client, server, "fe80::b%e0")


@scenario
def ipv6_broken(the_bed):
    """IPv6 is preferred and offered, and every packet of it is lost."""
    a, b = lan(the_bed, "a", "b")
    for number, host in enumerate((a, b)):
        host.address("e0", "fd01::%d/64" % (number + 1), "fd02::%d/64" % (number + 1))
    b.firewall("ip6 daddr { fd01::2, fd02::2 } drop")
    left, right = a.peer(TCP_AF_PRIO="inet6,inet"), b.peer()
    join(left, right)
    milliseconds = int(left.ask("send 1 8").split()[1])
    check(milliseconds < 2500, "it took %d ms" % milliseconds)
    talk(left, right)
    uses(left, "10.1.0.2")


def natted(the_bed):
    """a behind a router that masquerades and lets nothing in; b behind another that forwards port 4000 to its 5000."""
    a, b = the_bed.host("a"), the_bed.host("b")
    home, office = the_bed.host("home"), the_bed.host("office")
    the_bed.link(a, "e0", home, "in")
    the_bed.link(b, "e0", office, "in")
    the_bed.link(home, "out", office, "out")
    for host, gate, last in ((a, home, 1), (b, office, 2)):
        host.address("e0", "192.168.0.2/24")  # both inner networks are alike
        gate.address("in", "192.168.0.1/24")
        gate.address("out", "100.64.0.%d/24" % last)
        host.ip("route add default via 192.168.0.1")
        gate.sysctl("ipv4/ip_forward", 1)
        gate.nft("add table ip nat\nadd chain ip nat post { type nat hook postrouting priority 100; }\n"
                 "add rule ip nat post oif out masquerade\n")
        gate.firewall("iif out ct status dnat accept", "iif out ct state established,related accept", "iif out drop",
                      hook="forward")
    office.nft("add chain ip nat pre { type nat hook prerouting priority -100; }\n"
               "add rule ip nat pre iif out tcp dport 4000 dnat to 192.168.0.2:5000\n")
    return a, b


@scenario
def nat(the_bed):
    """Client behind masquerade, server behind a forwarded port: everything stays on the one connection."""
    a, b = natted(the_bed)
    client, server = a.peer(MAX_RNDV_RAILS="4"), b.peer(MAX_RNDV_RAILS="4")
    equal(server.ask("listen :: 5000"), "5000", "listen")
    meet(client, server, "100.64.0.2", 4000)
    reach_memory(client, server, 3000000)
    reach_memory(server, client, 3000000)
    equal(len(client.connections()), 1, "connections of the client")
    equal(len(server.connections()), 1, "connections of the server")
    ok(client.ask("close"), "close")
    server.wait_event("failed Connection reset")


@scenario
def port_range(the_bed):
    """A firewall that lets only UCX_TCP_PORT_RANGE pass, in both directions."""
    a, b = lan(the_bed, "a", "b")
    for host in (a, b):
        host.firewall("ct state established accept", "tcp dport 7000-7003 accept", "ip protocol tcp drop")
    left, right = a.peer(TCP_PORT_RANGE="7000-7003"), b.peer(TCP_PORT_RANGE="7000-7003")
    both_ways(left, right)
    reach_memory(left, right, 3000000)


@scenario
def chosen_devices(the_bed):
    """UCX_NET_DEVICES: others are neither offered nor gone by."""
    a, b = cables(the_bed, 3)
    left, right = a.peer(NET_DEVICES="e2"), b.peer()
    both_ways(left, right)
    uses(left, "10.2.0.2")
    uses(right, "10.2.0.1")
    left, right = a.peer(NET_DEVICES="e0"), b.peer(NET_DEVICES="e1", CONNECT_TIMEOUT="2s")
    join(left, right)
    status = left.ask("send 1 8")
    check("unreachable" in status.lower(), "status: " + status)
    check("NET_DEVICES" in left.log_text(), "log: " + left.log_text())


@scenario
def link_goes_down(the_bed):
    """The cable is pulled: both endpoints fail in bounded time, and a new one takes the other cable."""
    a, b = cables(the_bed, 2)
    settings = {"TCP_KEEPIDLE": "1s", "TCP_KEEPINTVL": "1s", "TCP_KEEPCNT": "2", "KEEPALIVE_INTERVAL": "2s",
                "MAX_RNDV_RAILS": "1"}  # further lanes would take the other cable from the beginning
    left, right = a.peer(sleeps=True, **settings), b.peer(**settings)
    both_ways(left, right)
    uses(left, "10.0.0.2")
    start = time.monotonic()
    b.ip("link set e0 down")
    left.wait_event("failed", 15)
    right.wait_event("failed", 15)
    check(time.monotonic() - start < 10, "it took %g s" % (time.monotonic() - start))
    ok(left.ask("close 1"), "close")
    ok(right.ask("close 1"), "close")
    join(left, right)
    talk(left, right)
    uses(left, "10.1.0.2")


def narrow(the_bed, **settings):
    """Two hosts and a router that drops what is longer than 1280 bytes in silence."""
    a, router, b = routed(the_bed)
    router.ip("link set r1 mtu 1280")
    router.firewall("icmp type destination-unreachable drop", hook="output")
    left, right = a.peer(sleeps=True, **settings), b.peer(sleeps=True, **settings)
    join(left, right)
    ok(left.ask("send 1 8"), "short message")
    return a, b, left, right


@scenario
def black_hole(the_bed):
    """Long packets are dropped on the way without a notice: the sender's endpoint ends in time, with a sentence."""
    _, _, left, right = narrow(the_bed, KEEPALIVE_INTERVAL="2s")
    start = time.monotonic()
    right.order("echo 2")
    left.order("ping 2 1000000")
    left.wait_event("failed", 60)
    right.wait_event("failed", 60)
    check(time.monotonic() - start < 30, "it took %g s" % (time.monotonic() - start))
    check("tcp_mtu_probing" in left.log_text(), "the log does not say what it may be: " + left.log_text())


@scenario
def black_hole_probed(the_bed):
    """The same with systems that look for the size that passes: the message comes."""
    a, b, left, right = narrow(the_bed)
    for host in (a, b):
        host.sysctl("ipv4/tcp_mtu_probing", 1)
    talk(left, right, 60)


@scenario
def one_direction(the_bed):
    """a cannot dial b, and b can dial a: the first message of b connects both, whoever would win if both could."""
    a, b = lan(the_bed, "a", "b")
    a.firewall("ct state new tcp flags syn drop", hook="output")
    left, wins, loses = a.peer(sleeps=True), None, None
    while wins is None or loses is None:
        right = b.peer(sleeps=True)
        if uid_of(left) < uid_of(right):
            loses = right
        else:
            wins = right
    for right in (loses, wins):
        join(left, right)
        left.order("send 5 8")
        time.sleep(0.2)
        ok(right.ask("send 6 8"), "send")
        ok(left.hear(), "what waited")
        talk(left, right)
        ok(left.ask("close"), "close")


@scenario
def stopped_process(the_bed):
    """The machine accepts the connection and its process is stopped for longer than the deadline: no error."""
    a, b = cables(the_bed, 2)
    left, right = a.peer(sleeps=True, CONNECT_TIMEOUT="500ms"), b.peer()
    address = right.ask("address")
    right.stop() # before the endpoint is made, which connects by itself
    equal(left.ask("connect " + address), "ok", "connect")
    left.order("send 1 8")
    time.sleep(1.2)
    left.read(0)
    check(not left.lines and left.events == ["ready"], "it failed early: %s %s" % (left.lines, left.events))
    right.go_on()
    ok(left.hear(), "send")
    equal(right.ask("connect " + left.ask("address")), "ok", "connect")
    talk(left, right)


@scenario
def further_sockets_blocked(the_bed):
    """Further sockets for large messages are refused, or get no answer: everything goes by the first one."""
    for verdict in ("drop", "reject with tcp reset"):
        a, b = cables(the_bed, 1)
        left, right = a.peer(MAX_RNDV_RAILS="4"), b.peer(MAX_RNDV_RAILS="4")
        join(left, right)
        ok(left.ask("send 1 8"), "send")
        for host in (a, b):
            host.firewall("tcp flags syn " + verdict)
        talk(left, right)
        equal(len([one for one in left.connections() if one[1].startswith("10.")]), 1, "connections")
        the_bed.end(quietly=True)
        the_bed.hosts.clear()
        the_bed.peers.clear()


def slow_cables(the_bed, *rates, rails=2, mode=1, warm=True):
    a, b = cables(the_bed, len(rates))
    for host in (a, b):
        for number, rate in enumerate(rates):
            host.slow("e%d" % number, rate)
    left, right = (host.peer(TLS="tcp", MAX_RNDV_RAILS=rails, MAX_RMA_RAILS=rails) for host in (a, b))
    for peer in (left, right):
        ok(peer.ask("mode %d" % mode), "mode")
    join(left, right)
    ok(left.ask("send 1 8"), "send")
    message_lane = left.connections()[0][1]
    if warm:
        talk(left, right)  # further lanes are there
    return left, right, message_lane


def shares(peer, count, work):
    """The part of each cable of what `work` sends."""
    before = [peer.host.sent("e%d" % number) for number in range(count)]
    work()
    sent = [peer.host.sent("e%d" % number) - before[number] for number in range(count)]
    return [one / sum(sent) for one in sent]


def both_carry(peer, least, work, tries=6):
    """Of `work`, done again where the scheduler of a busy machine held one of the links up, each of two links carries
    at least `least` of the bytes."""
    seen = []
    for _ in range(tries):
        seen.append(min(shares(peer, 2, work)))
        if seen[-1] >= least:
            return
    check(False, "the link that carried less had %s of the bytes, not %s" % (seen, least))


def long_ping(left, right, size=16 << 20):
    right.order("echo 2")
    ok(left.ask("ping 2 %d" % size, 60), "ping")
    ok(right.hear(60), "echo")


@scenario
def two_links(the_bed):
    """Long messages, puts and gets go over both of two links, each by its bandwidth."""
    for rates, least in ((("200mbit", "200mbit"), 0.35), (("300mbit", "100mbit"), 0.12)):
        left, right, _ = slow_cables(the_bed, *rates)
        for work in (lambda: long_ping(left, right), lambda: reach_memory(left, right, 16 << 20)):
            both_carry(left, least, work)
        the_bed.end(quietly=True)
        the_bed.hosts.clear()
        the_bed.peers.clear()


@scenario
def two_links_at_once(the_bed):
    """Both links are used from the beginning: what opens the further lanes does not wait behind the first messages."""
    seen = []
    for _ in range(4):  # a busy machine may hold one link up
        left, right, _ = slow_cables(the_bed, "200mbit", "200mbit", warm=False)

        def burst():
            right.order("sink 8")
            ok(left.ask("burst 8 %d" % (8 << 20), 60), "burst")
            ok(right.hear(60), "sink")

        seen.append(min(shares(left, 2, burst)))
        if seen[-1] >= 0.3:
            return
        the_bed.end(quietly=True)
        the_bed.hosts.clear()
        the_bed.peers.clear()
    check(False, "the link that carried less had %s of the bytes" % seen)


@scenario
def two_links_met(the_bed):
    """An endpoint by socket address uses both of two links as well."""
    a, b = cables(the_bed, 2)
    for host in (a, b):
        for number in range(2):
            host.slow("e%d" % number, "200mbit")
    left, right = (host.peer(TLS="tcp", MAX_RNDV_RAILS=2, MAX_RMA_RAILS=2) for host in (a, b))
    meet(left, right, "10.0.0.2")
    for here, there in ((left, right), (right, left)):
        both_carry(here, 0.35, lambda here=here, there=there: long_ping(here, there))


@scenario
def link_cut(the_bed):
    """One of two links is cut under way, without a word: the transfer goes on over the other one."""
    left, right, message_lane = slow_cables(the_bed, "100mbit", "100mbit")
    cut = "e1" if message_lane.startswith("10.0.") else "e0"
    right.order("echo 2")
    left.order("ping 2 %d" % (16 << 20))
    time.sleep(0.3)
    for host in (left.host, right.host):
        host.firewall('meta iifname "%s" drop' % cut)
    ok(left.hear(60), "ping")
    ok(right.hear(60), "echo")
    talk(left, right)
    check(re.search(r"lane( \d+)? of endpoint .* failed: ", left.log_text() + right.log_text()), "no lane was lost")


def short_pings(left, right, count=50):
    for _ in range(count):
        long_ping(left, right, 64)


@scenario
def message_lane_cut(the_bed):
    """Mode FAILOVER (2): each of two links is cut in turn under way, without a word, and mended. Messages go on over
    the other one soon, and none is lost (N22-70, N22-71); the lane that was lost is made again (N22-82)."""
    left, right, _ = slow_cables(the_bed, "100mbit", "100mbit", mode=2)
    for size in (64, 16 << 20):
        parts = shares(left, 2, lambda: short_pings(left, right))
        cut = parts.index(max(parts))
        right.order("echo 2")
        left.order("ping 2 %d" % size)
        for host in (left.host, right.host):
            host.firewall('meta iifname "e%d" drop' % cut)
        begin = time.monotonic()
        ok(left.hear(60), "ping")
        ok(right.hear(60), "echo")
        short_pings(left, right, 5)
        check(size > 64 or time.monotonic() - begin < 3, "it took %.1f s" % (time.monotonic() - begin))
        talk(left, right)
        parts = shares(left, 2, lambda: short_pings(left, right))
        check(parts.index(max(parts)) != cut, "messages still go by the link that was cut: %s" % parts)
        for host in (left.host, right.host):
            host.nft("delete table inet wall")
        time.sleep(12)
        short_pings(left, right, 5)
    check("move to lane" in left.log_text() + right.log_text(), "messages did not move")


@scenario
def no_shared_memory(the_bed):
    """Two processes of a host, one of which can make no shared memory: TCP, or the other one's memory if that dials
    first, without an error."""
    a = the_bed.host("a")
    left, right = a.peer(no_files=True), a.peer()
    join(left, right)
    talk(left, right)
    check(set(left.ask("transport").split()) in ({"tcp"}, {"posix"}), "another transport")


@more
def silent_for_ever(the_bed):
    """UCX_CONNECT_TIMEOUT=inf: the addresses are tried again and again, until one answers."""
    a, b = cables(the_bed, 2)
    b.firewall("drop")
    left, right = a.peer(sleeps=True, CONNECT_TIMEOUT="inf"), b.peer()
    join(left, right)
    left.order("send 1 8")
    time.sleep(12)
    left.read(0)
    check(not left.lines and left.events == ["ready"], "it failed: %s %s" % (left.lines, left.events))
    b.nft("delete table inet wall")
    ok(left.hear(), "send")
    talk(left, right)


def uid_of(peer):
    """By which both sides decide whose dial is used (docs/WIRE.md)."""
    return int.from_bytes(bytes.fromhex(peer.ask("address"))[8:16], "little")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--names", action="store_true", help="of the scenarios that always run")
    parser.add_argument("scenarios", nargs="*")
    arguments = parser.parse_args()
    chosen = [one for one in SCENARIOS if (one.__name__ in arguments.scenarios if arguments.scenarios else
                                           arguments.more or arguments.list or not one.more)]
    if arguments.names:
        print("\n".join(one.__name__ for one in SCENARIOS if not one.more))
        return 0
    if arguments.list:
        for one in chosen:
            print("%-24s %s" % (one.__name__, re.sub(r"\s+", " ", one.__doc__ or "")))
        return 0
    if arguments.program is None or (arguments.scenarios and len(chosen) != len(arguments.scenarios)):
        parser.error("a program is needed, and names must be those of scenarios")
    bed.enter()
    failed = sum(run_one(arguments.program, one) for one in chosen)
    print("%d of %d scenarios failed" % (failed, len(chosen)))
    return 1 if failed else 0


def run_one(program, one):
    start, the_bed, wrong, logs = time.monotonic(), bed.Bed(program), None, ""
    try:
        one(the_bed)
    except Exception as error:  # whatever it is, the others still have their turn
        wrong = str(error) if isinstance(error, bed.Failed) else traceback.format_exc()
    try:
        logs = "".join("    %s: %s\n" % (peer.host.name, line) for peer in the_bed.peers
                       for line in peer.log_text().splitlines() + ["event " + event for event in peer.events])
        the_bed.end(quietly=wrong is not None)
    except Exception as error:
        wrong = wrong or str(error)
    print("%-24s %-6s %5.1f s" % (one.__name__, "failed" if wrong else "ok", time.monotonic() - start), flush=True)
    if wrong:
        print("    " + wrong + "\n" + logs, flush=True)
    return wrong is not None


if __name__ == "__main__":
    sys.exit(main())
