#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One-sided tests between two processes: put, get and atomics over shared memory and TCP, on memory of the library and
# on the tool's own; every byte and every sum checked.
. "$(dirname "$0")/lib.sh"
need_perftest

# Skipped only where the library cannot map memory at all; what it maps must work.
export UCX_TLS=self
if ! "$perftest" -l -t ucp_put_bw -n 1 -w 0 --timeout 5 >"$work/need" 2>&1 &&
    grep -q 'ucp_mem_map failed: Function not implemented' "$work/need"; then
    [ "$(grep -c "^[^|+]" "$work/need")" = 1 ] || fail "not one sentence: $(cat "$work/need")"
    expect_status 255 "$perftest" -l -t ucp_fadd -n 1 -w 0 --timeout 5
    echo "skipped: the library at hand has no ucp_mem_map yet"
    [ $failures -eq 0 ] && exit 77
    finish
fi

for test in ucp_put_lat ucp_put_bw ucp_get ucp_get_bw ucp_add ucp_fadd ucp_swap ucp_cswap; do
    expect_status 0 "$perftest" -l -t $test -n 100 -w 10 --verify --timeout 20
    grep -q '^# verified: [1-9][0-9]* messages of 8 bytes' "$work/out" || fail "$test verified nothing"
done

# What --verify is worth: one operation of many gets lost.
lost=$bindir/../lib/lost_operation.so
if [ -e "$lost" ] && ! ldd "$perftest" | grep -q 'asan\|tsan'; then
    for test in ucp_put_bw ucp_get ucp_get_bw ucp_add ucp_fadd ucp_swap ucp_cswap; do
        expect_status 255 env LD_PRELOAD="$lost" "$perftest" -l -t $test -n 100 -w 0 --verify --timeout 20 -O 5
        grep -q 'ERROR test .* failed: ' "$work/err" || fail "$test: no sentence on what is wrong"
        expect_status 255 env LD_PRELOAD="$lost" "$perftest" -l -t $test -n 100 -w 0 --verify --timeout 20
        expect_status 0 env LD_PRELOAD="$lost" "$perftest" -l -t $test -n 100 -w 0
    done
    expect_status 255 env LD_PRELOAD="$lost" "$perftest" -l -t ucp_put_lat -n 100 -w 0 --timeout 1
else
    echo "note: no library to lose operations with"
fi

for transport in tcp shm; do
    export UCX_TLS=$transport
    for memory in '' --user-memory; do
        for test in ucp_put_lat ucp_put_bw ucp_get ucp_get_bw; do
            pair -t $test -s 8 -n 60 -w 10 $memory
            pair -t $test -s 20000 -n 40 -w 10 $memory
        done
        pair -t ucp_fadd -s 8 -n 60 -w 10 $memory
    done
    for test in ucp_put_lat ucp_put_bw ucp_get ucp_get_bw; do
        pair -t $test -s 1 -n 40 -w 10
        pair -t $test -s 3000000 -n 5 -w 1
    done
    for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
        pair -t $test -s 8 -n 40 -w 10
        pair -t $test -s 4 -n 200 -w 0 -O 17
    done
    pair -t ucp_put_bw -s 0 -n 60 -w 10
    pair -t ucp_get_bw -s 300 -n 100 -w 3 -O 7 -z -B
    pair -t ucp_get -s 8 -n 60 -w 10 -E sleep
    pair -t ucp_put_bw -s 5000 -n 60 -w 10 -E sleep
    pair -t ucp_fadd -n 60 -w 10 -E sleep
    # Many posted operations, beyond those after which the tool flushes.
    pair -t ucp_add -n 5000 -w 10 -O 2000
done

# Without --verify nothing is checked; the rows are those of every test.
export UCX_TLS=shm
start_server --timeout 20 && {
    expect_status 0 "$perftest" -p "$port" 127.0.0.1 --timeout 20 -t ucp_get -n 3000 -w 10 --percentiles
    wait "$server" || fail "server status $?"
    tail -n 1 "$work/out" | grep -q '^Final: *3000 ' || fail "no final row: $(tail -n 1 "$work/out")"
    grep -q 'latency (usec)' "$work/out" || fail "ucp_get does not report latency"
    grep -q '^| Test:         get latency / bandwidth / message rate  *|$' "$work/server.out" || fail "no box"
}

# The server outlives a client that works for longer than its time limit, and ends when the client stops.
start_server --timeout 1 && {
    expect_status 0 "$perftest" -p "$port" 127.0.0.1 --timeout 20 -t ucp_get_bw -s 100000 -n 100000 -w 0 -f
    wait "$server" || fail "the server gave up a client at work: $(cat "$work/server.err")"
}
start_server --timeout 1 && {
    "$perftest" -p "$port" 127.0.0.1 -t ucp_get -n 10000000000 --timeout 20 >"$work/out" 2>"$work/err" &
    client=$!
    pids="$pids $client"
    sleep 0.7
    kill -STOP "$client"
    wait "$server"
    [ $? = 255 ] || fail "the server of a stopped client does not end with 255"
    kill -9 "$client"
}

# What cannot be: a sentence and status 255.
impossible() {
    sentence=$1
    shift
    expect_status 255 "$perftest" -l -n 10 -w 0 "$@"
    grep -q "$sentence" "$work/err" || fail "no sentence '$sentence': $*"
}
export UCX_TLS=self
impossible 'have 32 or 64 bits' -t ucp_fadd -s 16
impossible 'have 32 or 64 bits' -t ucp_add -s 0
impossible 'neither lists' -t ucp_swap -z
impossible 'detected by its last byte' -t ucp_put_lat -s 0
impossible 'causes no event' -t ucp_put_lat -E sleep
impossible 'is contiguous' -t ucp_put_bw -s 4,4 -D contig,iov
finish
