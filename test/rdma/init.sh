#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash
# The first program of the virtual machine (vm.sh): loads modules, mounts the file tree of the other side, changes into
# it and ends the machine when guest.sh has ended.

b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
# The list is in the order of need.
for module in $($b cat /modules/list); do
    $b insmod "/modules/$module"
done
guest='' tree='' out=''
# shellcheck disable=SC1091 # vm.sh writes it
. /settings

# mount_9p TAG DIRECTORY OPTIONS
mount_9p()
{
    $b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2"
}

mount_9p host /host cache=loose,ro
$b mount -t proc proc /host/proc
$b mount -t sysfs sys /host/sys
$b mount -t devtmpfs dev /host/dev
$b mkdir -p /host/dev/shm /host/dev/pts
$b mount -t devpts pts /host/dev/pts
for directory in dev/shm run tmp var/tmp; do
    $b mount -t tmpfs tmpfs /host/$directory
done
# A tree below a directory that is hidden by now.
if [ ! -e "/host$guest/guest.sh" ]; then
    $b mkdir -p "/host$tree"
    mount_9p tree "/host$tree" cache=loose,ro
fi
if [ -n "$out" ]; then
    $b mkdir -p /host/run/out
    mount_9p out /host/run/out rw
fi
$b cp /settings /host/run/settings
$b chroot /host /bin/sh "$guest/guest.sh"
# Without waiting for disks, of which there are none.
echo b >/proc/sysrq-trigger
$b poweroff -f
