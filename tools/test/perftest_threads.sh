#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several threads (-T): every family of tests in one process and between two, every byte checked; the final row of
# PRF-26; a side that vanishes ends all threads of the other one.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport shm

# PRF-26: of the final row iterations, time, bandwidth and rate are left, in their columns.
export UCX_TLS=self,shm
expect_status 0 "$perftest" -l -t tag_lat -n 1000 -w 10 -T 2
tail -n 1 "$work/out" |
    grep -q '^Final:    .\{14\}1000 \{21\} *[0-9]*\.[0-9]\{3\} \{13\} *[0-9]*\.[0-9]\{2\} \{13\} *[0-9]*$' ||
    fail "final row: $(tail -n 1 "$work/out")"
[ "$(tail -n 1 "$work/out" | wc -c)" = 106 ] || fail "the final row is not 105 columns wide"
expect_status 0 "$perftest" -l -t tag_bw -n 1000 -w 10 -T 3 -v
tail -n 1 "$work/out" | grep -qx '1000,[0-9]*\.[0-9]\{3\},[0-9]*\.[0-9]\{2\},[0-9]*,[a-z+]*,[^,]*,,-l -t tag_bw .*' ||
    fail "CSV row: $(tail -n 1 "$work/out")"
expect_status 0 "$perftest" -l -t tag_bw -n 1000 -w 10 -T 3 --json --verify
grep -q '"iterations": 1000, "threads": 3, .*"verified": 3030, "transport": "[a-z]' "$work/out" ||
    fail "JSON: $(cat "$work/out")"

for test in tag_sync_bw ucp_am_lat ucp_am_bw stream_bw ucp_put_lat ucp_put_bw ucp_get ucp_fadd ucp_add; do
    expect_status 0 "$perftest" -l -t $test -n 60 -w 10 -T 3 --verify --timeout 20
done
for test in tag_lat tag_bw ucp_am_bw stream_bw ucp_put_lat ucp_get ucp_add; do
    UCX_TLS=shm pair -t $test -n 40 -w 5 -T 2
done
for mode in single serialized multi; do
    UCX_TLS=tcp pair -t tag_bw -s 20000 -n 40 -w 5 -T 2 -M $mode
done
UCX_TLS=tcp pair -t ucp_put_bw -s 20000 -n 40 -w 5 -T 2
UCX_TLS=shm pair -t tag_lat -n 60 -w 10 -T 2 -E sleep
UCX_TLS=tcp pair -t ucp_am_bw -s 100000 -n 20 -w 2 -T 2 -E sleep
UCX_TLS=shm pair -t tag_bw -s 300000 -n 20 -w 2 -T 2 -z

# A thread that fails stops the others, here and at the peer: both name the reason.
export UCX_TLS=shm
start_server --timeout 20 && {
    expect_status 255 "$perftest" -p "$port" 127.0.0.1 -t ucp_put_lat -s 0 -n 10 -T 4 --timeout 20
    grep -q 'ERROR test .* failed: .*detected by its last byte' "$work/err" || fail "no sentence: $(cat "$work/err")"
    wait "$server"
    [ $? = 255 ] || fail "the server does not end with 255"
    grep -q 'detected by its last byte' "$work/server.err" ||
        fail "no sentence at the server: $(cat "$work/server.err")"
}
expect_status 255 "$perftest" -l -t stream_bw -s 0 -n 10 -T 3 --timeout 20
grep -q 'no empty messages' "$work/err" || fail "no sentence in one process: $(cat "$work/err")"

# The server dies, or stops, in the middle.
for signal in KILL STOP; do
    export UCX_TLS=tcp
    start_server || continue
    "$perftest" -p "$port" 127.0.0.1 -t tag_lat -n 100000000 -T 2 --timeout 2 >"$work/out" 2>"$work/err" &
    client=$!
    pids="$pids $client"
    sleep 0.7
    kill -$signal "$server"
    wait "$client"
    [ $? = 255 ] || fail "the client of a server that got SIG$signal does not end with 255"
    grep -q ERROR "$work/err" || fail "no sentence about the server that got SIG$signal"
    kill -9 "$server" 2>/dev/null
done
finish
