#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names of UCX_TLS for RDMA, and what users are shown of a device: its port, GIDs, link layer, speed and MTU.
#
# Usage: names.sh UCX_INFO-PROGRAM

info=$1
result=0
export UCX_NET_DEVICES=rxe0:1,rxe1:1

fail()
{
    echo "$*"
    result=1
}

# way NAME WARNING: a message to another worker uses the device, and there is that line at WARN, or none.
way()
{
    UCX_TLS=$1 "$info" --why >/tmp/out 2>&1 || fail "UCX_TLS=$1: no transport: $(cat /tmp/out)"
    grep -q '^#   verbs (rxe0:1): CHOSEN$' /tmp/out || fail "UCX_TLS=$1 does not choose the device"
    UCX_TLS=$1,self "$info" -e -u t >/tmp/out 2>&1
    if [ -n "$2" ]; then
        [ "$(grep -c ' WARN ' /tmp/out)" = 1 ] || fail "UCX_TLS=$1 is not answered by one warning"
        grep -qF "$2" /tmp/out || fail "UCX_TLS=$1 is not answered by '$2'"
    elif grep ' WARN ' /tmp/out; then
        fail "UCX_TLS=$1 is answered by a warning"
    fi
}

for name in ib rc rc_v rc_x rc_verbs rc_mlx5 verbs; do
    way $name ''
done
for name in ud ud_v ud_x ud_verbs ud_mlx5 dc dc_x dc_mlx5 srd; do
    way $name "transport '$name': RDMA messages use reliable connections (rc), the only kind supported"
done
# A name of no transport, as in UCX.
way mlx5,rc "transport 'mlx5' is not available, please use one or more of: "
UCX_TLS=mlx5 "$info" --why >/dev/null 2>&1 && fail "UCX_TLS=mlx5 finds a transport"
UCX_TLS=mlx5 "$info" -e -u t >/tmp/out 2>&1
grep -qF "transport 'mlx5' is not available" /tmp/out || fail "UCX_TLS=mlx5 is not answered"

# shows TEXT
shows()
{
    grep -qE "$1" /tmp/out || fail "nothing shows '$1'"
}

for option in -d --why; do
    UCX_TLS=rc "$info" $option >/tmp/out 2>&1
    for number in 0 1; do
        shows "^# +rxe$number:1: RoCE, MTU [0-9]+, LID 0, P_Key 0xffff, [0-9.]+ Gbit/s$"
        shows "^# +rxe$number:1: GID [0-9]+: 10\.9\.1\.$((number + 1))$"
    done
done
[ $result -eq 0 ] || cat /tmp/out
exit $result
