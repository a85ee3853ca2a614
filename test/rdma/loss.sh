#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Counts how often a program gets through over a wire in a bad state (wire.sh), on this library and on the UCX of the
# system in turn, with as many repetitions of a packet as UCX makes by default (7, UCX_RC_RETRY_COUNT).
#
# Usage: loss.sh TIMES WIRE LIBRARY-DIRECTORY PROGRAM [ARGUMENT...]
# WIRE has colons for blanks: loss:5. $CW_REFERENCE is the directory of the other library (/usr/lib/x86_64-linux-gnu).
# Status 0: ours got through as often as the other one; 77: there is no other one.

times=$1 state=$2 ours=$3
shift 3
theirs=${CW_REFERENCE:-/usr/lib/x86_64-linux-gnu}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
[ -e "$theirs/libucp.so.0" ] || exit 77
got_ours=0 got_theirs=0

# through DIRECTORY COMMAND...: whether it gets through. A wire in good order helps none of what went before.
through()
{
    directory=$1
    shift
    sh "$here/with_wire.sh" "$state" env "LD_LIBRARY_PATH=$directory" UCX_LOG_LEVEL=error UCX_RC_TIMEOUT=100ms \
        timeout -k 1 100 "$@" >/tmp/lossy 2>&1
    result=$?
    sh "$here/wire.sh" good
    [ $result -eq 0 ] || sed "s|^|$directory: |" /tmp/lossy | tail -n 3
    return $result
}

for _ in $(seq "$times"); do
    through "$ours" env UCX_TLS=rc "$@" && got_ours=$((got_ours + 1))
    through "$theirs" env UCX_TLS=rc_v,ud_v,self UCX_IB_GID_INDEX=0 "$@" && got_theirs=$((got_theirs + 1))
done
echo "$state: ours got through $got_ours of $times times, UCX of the system $got_theirs"
[ "$got_ours" -ge "$got_theirs" ]
