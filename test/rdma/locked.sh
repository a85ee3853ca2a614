#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that may lock too little memory for a device, and then enough for it but too little for their messages: one
# line names the limit and what to do, and the program goes on, without the device or by copies.
#
# Usage: locked.sh UCX_INFO UCX_PERFTEST

set -u
if ! output=$(UCX_TLS=rc,self prlimit --memlock=65536 \
    setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$1" -u t -w 2>&1); then
    echo "$output"
    echo "locked.sh: the program did not go on"
    exit 1
fi
lines=$(echo "$output" | grep -c 'cannot register [0-9]* bytes: .*; this process may lock 64 KiB of memory: raise that')
if [ "$lines" -ne 2 ]; then
    echo "$output"
    echo "locked.sh: $lines lines name the limit, instead of one for each device"
    exit 1
fi

# Less than 48 MiB are left for messages of 64 MiB.
limited()
{
    UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1 prlimit --memlock=50331648 \
        setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$@" 2>&1
}
limited "$2" -p 13999 >/tmp/server &
server=$!
sleep 2
output=$(limited "$2" -p 13999 127.0.0.1 -t tag_lat -s 67108864 -n 2 -w 0)
status=$?
wait $server || status=1
lines=$(echo "$output" | grep -c 'cannot register 67108864 bytes of the program: .*locked memory, now 49152 KiB')
if [ $status -ne 0 ] || [ "$lines" -ne 1 ]; then
    echo "$output"
    cat /tmp/server
    echo "locked.sh: status $status, $lines lines name the limit, instead of one"
    exit 1
fi
