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
#   wire.sh cut                nothing arrives, and nobody is told
#   wire.sh down, wire.sh up   the ends lose their carrier, as when a cable is pulled, and have it again

set -u

# up HOST OTHER: and the routes to the other one, in a table of the end's own, which are lost with the carrier.
up()
{
    ip link set "wire$1" up
    ip route replace "10.9.1.$(($2 + 1))" dev "wire$1" src "10.9.1.$(($1 + 1))" table $((100 + $1))
    ip -6 route replace "fe80::ff:fe00:$(($2 + 1))" dev "wire$1" table $((100 + $1))
    for address in "10.9.1.$(($2 + 1))" "fe80::ff:fe00:$(($2 + 1))"; do
        ip neigh replace "$address" lladdr "02:00:00:00:00:0$(($2 + 1))" dev "wire$1" nud permanent
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
down)
    ip link set wire0 down
    ip link set wire1 down
    exit
    ;;
up)
    up 0 1
    up 1 0
    exit
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
for end in wire0 wire1; do
    # The queue is long: what is lost by its end would be loss that nobody asked for.
    # shellcheck disable=SC2086 # the words are meant to be split
    tc qdisc replace dev $end root netem limit 100000 $what || exit
done
