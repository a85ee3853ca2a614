#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Changes the wire between the two hosts of the virtual machine (vm.sh), both ways, at any time:
#
#   wire.sh good               nothing happens to packets
#   wire.sh loss PERCENT       that share of packets is lost
#   wire.sh delay MS [JITTER]  every packet takes so many milliseconds, give or take JITTER (which reorders)
#   wire.sh reorder PERCENT    that share of packets passes the others, which take a millisecond
#   wire.sh double PERCENT     that share of packets arrives twice
#   wire.sh corrupt PERCENT    one bit of that share of packets is turned
#   wire.sh cut                nothing arrives, and nobody is notified
#   wire.sh mute               nothing of RDMA arrives (UDP), but TCP does
#   wire.sh down, wire.sh up   the ends lose their carrier, as when a cable is pulled, and have it again
#   wire.sh aside              as down, but TCP between the two hosts takes another way: the loopback device
#   wire.sh lay [MTU]          there is a cable with a device on each end; wire.sh take: there is none
#
# With CW_CABLE=2 it is a second cable between the two hosts: rxe2 and rxe3 on wire2 (10.9.2.1) and wire3 (10.9.2.2).

set -u
cable=${CW_CABLE:-1}
left=$((2 * cable - 2)) right=$((2 * cable - 1))

# address END
address()
{
    echo "10.9.$cable.$(($1 % 2 + 1))"
}

# up END OTHER: and the routes to the other one, in a table of the end's own, which are lost with the carrier.
up()
{
    ip link set "wire$1" up
    ip route replace "$(address "$2")" dev "wire$1" src "$(address "$1")" table $((100 + $1))
    ip -6 route replace "fe80::ff:fe00:$(($2 + 1))" dev "wire$1" table $((100 + $1))
    for neighbour in "$(address "$2")" "fe80::ff:fe00:$(($2 + 1))"; do
        ip neigh replace "$neighbour" lladdr "02:00:00:00:00:0$(($2 + 1))" dev "wire$1" nud permanent
    done
}

# down: the ends lose their carrier, and with it their routes.
down()
{
    ip link set "wire$left" down
    ip link set "wire$right" down
}

# rules WORD END OTHER: adds or deletes what sends packets of an end by its table.
rules()
{
    for family in -4 -6; do
        ip $family rule "$1" pref $((10 + $2)) oif "wire$2" table $((100 + $2))
    done
    # `iif lo`: what programs of this machine send, not what arrives.
    ip rule "$1" pref $((20 + $2)) iif lo from "$(address "$2")" to "$(address "$3")" table $((100 + $2))
}

lay()
{
    ip link add "wire$left" mtu "$1" address "02:00:00:00:00:0$((left + 1))" type veth \
        peer name "wire$right" mtu "$1" address "02:00:00:00:00:0$((right + 1))" || return
    for end in $left $right; do
        # Addresses that are checked for doubles first would be there seconds later.
        echo 0 >/proc/sys/net/ipv6/conf/"wire$end"/accept_dad
        echo 0 >/proc/sys/net/ipv4/conf/"wire$end"/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/"wire$end"/accept_local
        echo 1 >/proc/sys/net/ipv4/conf/"wire$end"/arp_ignore
        ip addr add "$(address "$end")/24" dev "wire$end"
    done
    rules add "$left" "$right"
    rules add "$right" "$left"
    up "$left" "$right"
    up "$right" "$left"
    for end in $left $right; do
        rdma link add "rxe$end" type rxe netdev "wire$end" || return
    done
}

case ${1:-} in
good) what='' ;;
loss) what="loss $2%" ;;
delay) what="delay $2ms ${3:+$3ms}" ;;
reorder) what="delay 1ms reorder $2%" ;;
double) what="duplicate $2%" ;;
corrupt) what="corrupt $2%" ;;
cut) what="loss 100%" ;;
mute)
    for end in "wire$left" "wire$right"; do
        tc qdisc replace dev "$end" root handle 1: prio &&
            tc qdisc replace dev "$end" parent 1:3 netem loss 100% &&
            tc filter replace dev "$end" parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff flowid 1:3 || exit
    done
    exit
    ;;
down)
    down
    # Else the loopback device would be the way to an address of this machine.
    ip route replace unreachable "$(address "$right")" table $((100 + left)) &&
        ip route replace unreachable "$(address "$left")" table $((100 + right))
    exit
    ;;
aside)
    down
    exit
    ;;
up)
    up "$left" "$right"
    up "$right" "$left"
    exit
    ;;
lay)
    lay "${2:-1500}"
    exit
    ;;
take)
    rules del "$left" "$right"
    rules del "$right" "$left"
    ip link del "wire$left"
    exit
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
for end in "wire$left" "wire$right"; do
    # The queue is long: what is lost by its end would be loss that nobody asked for.
    # shellcheck disable=SC2086 # the words are meant to be split
    tc qdisc replace dev "$end" root netem limit 100000 $what || exit
done
