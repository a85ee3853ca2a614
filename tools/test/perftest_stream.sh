#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Streams between two processes: both receive modes, sizes, lists, asleep; every byte checked.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport tcp
need_test stream_lat

for transport in tcp shm; do
    export UCX_TLS=$transport
    for test in stream_lat stream_bw; do
        for mode in recv recv_data; do
            pair -t $test -s 1 -n 100 -w 10 -r $mode
            pair -t $test -s 20000 -n 40 -w 10 -r $mode
            pair -t $test -s 8 -n 60 -w 10 -E sleep -r $mode
            pair -t $test -s 3000000 -n 5 -w 1 -r $mode
        done
        pair -t $test -s 1000,0,3,30000 -n 40 -w 10 -D iov,iov
    done
done

export UCX_TLS=self
expect_status 255 "$perftest" -l -t stream_lat -n 10 -w 0 -s 0
grep -q 'no empty messages' "$work/err" || fail "no sentence on the empty message"
finish
