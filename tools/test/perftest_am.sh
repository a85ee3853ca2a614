#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Active messages between two processes: sizes, headers, lists, protocols, asleep; every byte checked.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport tcp
need_test ucp_am_lat

for transport in tcp shm; do
    export UCX_TLS=$transport
    for test in ucp_am_lat ucp_am_bw; do
        pair -t $test -s 0 -n 60 -w 10
        pair -t $test -s 8 -n 100 -w 10 -H 24
        pair -t $test -s 20000 -n 40 -w 10 -y
        pair -t $test -s 1000,0,3,30000 -n 40 -w 10 -D iov,iov
        pair -t $test -s 8 -n 60 -w 10 -E sleep
        pair -t $test -s 3000000 -n 5 -w 1 -E sleep
        UCX_RNDV_THRESH=100 pair -t $test -s 20000 -n 40 -w 10 -H 1
        UCX_RNDV_THRESH=inf pair -t $test -s 300000 -n 40 -w 10 -H 1
    done
done

# The box names the header; a header too long is a sentence.
export UCX_TLS=self
expect_status 0 "$perftest" -l -t ucp_am_lat -n 10 -w 0 -H 12
grep -q '^| AM header size: 12 *|$' "$work/out" || fail "the box does not name the header"
[ "$(sed -n 9p "$work/out" | wc -c)" = 109 ] || fail "the line of the header is not 108 columns wide"
expect_status 255 "$perftest" -l -t ucp_am_lat -n 10 -w 0 -H 1000000
grep -q 'header (-H)' "$work/err" || fail "no sentence on the header"
finish
