#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A process that may lock too little memory for a device: one line names the limit and what to do, and the program goes
# on without the device.
#
# Usage: locked.sh UCX_INFO

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
