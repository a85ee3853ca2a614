#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the virtual machine (vm.sh) as root of the other side's file tree: makes two hosts out of one, each a device
# of RDMA in software on one end of a virtual wire, then runs the command.
#
# This kernel's rxe routes in the initial name space only, so routing tells the two apart: what leaves
# through one end (a device of RDMA names its own) uses that end's table, before addresses are looked up that belong to
# this machine. So packets between the two pass the wire instead of the loopback device, as do connections whose
# program binds the address of its host.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 TMPDIR=/tmp
guest='' directory='' mtu='' wire=''
# shellcheck disable=SC1091 # vm.sh writes it
. /run/settings
# The ports to vm.sh by their names; each can be opened by one program only, so that all output goes through pipes.
for port in /sys/class/virtio-ports/*; do
    ln -s "/dev/${port##*/}" "/run/port.$(cat "$port/name")"
done
mkfifo /run/stdout /run/stderr
cat /run/stdout >/run/port.stdout &
cat /run/stderr >/run/port.stderr &
exec 3>/dev/console >/run/stdout 2>/run/stderr </dev/null

set_up()
{
    hostname vm
    ip link set lo up
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    # The answer to a read of 1 MiB is more packets than the end of a cable takes by default.
    echo 100000 >/proc/sys/net/core/netdev_max_backlog
    for family in -4 -6; do
        ip $family rule add pref 100 table local
        ip $family rule del pref 0
    done
    sh "$guest/wire.sh" lay "$mtu"
}

if set_up >&3 2>&1; then
    export OUT=/run/out
    cd "$directory" 2>/dev/null || cd /
    # shellcheck disable=SC2086 # the words are meant to be split
    if [ -z "$wire" ] || sh "$guest/wire.sh" $wire; then
        (run) 3>&-
    else
        false
    fi
    status=$?
else
    status=125
fi
exec >&3 2>&3
wait
echo $status >/run/port.status
