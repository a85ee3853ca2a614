#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a program where there is no device but lo, 64 KiB of /dev/shm and no right of root, and holds that it works
# there and that the library warns of nothing (APP-9).
#
#     container.sh PROGRAM [ARGUMENT]...
#
# Status: 0, 1, 77 where no such place can be made.
if [ "$1" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo "only root makes such a place"; exit 77; }
    unshare -n -m true 2>/dev/null || { echo "the system makes no name spaces"; exit 77; }
    for tool in ip setpriv; do
        command -v $tool >/dev/null || { echo "there is no $tool"; exit 77; }
    done
    exec unshare -n -m sh "$0" inside "$@"
fi
shift
setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$1" || { echo "nobody may not run $1"; exit 77; }
mount -t tmpfs -o size=64k tmpfs /dev/shm && ip link set lo up || exit 77
out=$(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all env UCX_LOG_LEVEL=warn "$@" 2>&1)
status=$?
printf '%s\n' "$out"
[ $status = 0 ] || { echo "the program ended with status $status"; exit 1; }
case $out in
*" WARN "*|*" ERROR "*) echo "the library complains"; exit 1 ;;
esac
