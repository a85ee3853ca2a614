#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# PRF-6: started by mpirun, through PMIx: two processes as a pair, more by patterns; jobs that cannot be end with a
# sentence.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport shm
command -v mpirun >/dev/null || {
    echo "skipped: there is no mpirun"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

# The library of PMIx keeps a few bytes for good.
printf 'leak:libpmix\n' >"$work/suppressions"
export LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$work/suppressions:print_suppressions=0"

job() {
    count=$1
    shift
    timeout -s KILL 60 mpirun -n "$count" "$perftest" "$@" --timeout 20 </dev/null
}
if ! mpirun -n 1 env >"$work/env" 2>&1 </dev/null || ! grep -q '^PMIX_RANK=' "$work/env"; then
    echo "skipped: the mpirun at hand starts no processes here, or not through PMIx"
    head -n 5 "$work/env"
    exit 77
fi
if job 2 -t tag_lat -n 1 -w 0 2>&1 >/dev/null | grep 'library of PMIx is not there'; then
    echo "skipped: there is no libpmix.so.2"
    exit 77
fi

# Two: the output is that of a pair, by the client alone.
export UCX_TLS=self,shm
expect_status 0 job 2 -t tag_lat -n 500 -w 10 --verify
[ "$(grep -c '^| Test:         tag match latency ' "$work/out")" = 1 ] || fail "no box: $(cat "$work/out")"
[ "$(grep -c '^Final:  *500 ' "$work/out")" = 1 ] || fail "no final row: $(cat "$work/out")"
tail -n 1 "$work/out" | grep -q '^Final:' || fail "something follows the final row"
expect_status 0 job 2 -t ucp_am_bw -n 50 -w 1 --sweep 8:16 -T 2 -f

# Patterns: a row for each pair, the last row is that of all together.
rows() {
    expect_status 0 job "$1" -t "$2" -n 60 -w 5 --pattern "$3" --verify || return
    sed -n 's/^ *\([0-9]*\) -> \([0-9]*\)  *60 .*/\1\2/p' "$work/out" | sort | tr '\n' ' ' >"$work/rows"
    grep -qx "$4 " "$work/rows" || fail "$3 of $1: pairs $(cat "$work/rows") instead of $4: $(cat "$work/out")"
    tail -n 1 "$work/out" | grep -q '^Final:  *60 ' || fail "no final row: $(tail -n 1 "$work/out")"
}
rows 4 tag_lat pairs '02 13'
rows 4 ucp_put_lat all '01 02 03 12 13 23'
rows 3 stream_bw all '01 02 12'
rows 3 ucp_am_bw many '10 20'
UCX_TLS=tcp rows 3 tag_bw many '10 20'
expect_status 0 job 3 -t tag_bw -n 60 -w 5 --pattern all --sweep 8:16 -v
[ "$(grep -c '^\(8\|16\),[01],[12],60,' "$work/out")" = 6 ] || fail "CSV: $(cat "$work/out")"
expect_status 0 job 3 -t tag_lat -n 60 -w 5 --pattern all --sweep 8:16 --json
[ "$(grep -c '^{"test": "tag_lat", "client": ' "$work/out")" = 6 ] || fail "JSON: $(cat "$work/out")"

# What cannot be is said once; a process that dies ends the job.
expect_status 255 job 3 -t tag_lat -n 5
[ "$(grep -c 'ERROR an odd number of processes' "$work/err")" = 1 ] || fail "not one sentence: $(cat "$work/err")"
expect_status 255 job 1 -t tag_lat -n 5
grep -q 'has no peer' "$work/err" || fail "no sentence on one process"
expect_status 255 job 4 -t stream_bw -s 0 -n 5 --pattern many
grep -q 'no empty messages' "$work/err" || fail "no sentence on the failure of all"
(
    while ! pgrep -f "^$perftest -t tag_bw -n 1000000000" >"$work/pids"; do
        sleep 0.1
    done
    sleep 0.5
    kill -9 "$(tail -n 1 "$work/pids")"
) &
pids="$pids $!"
job 4 -t tag_bw -n 1000000000 >"$work/out" 2>"$work/err" && fail "a job ends well although a process was killed"

# Nobody started it: a sentence, no hang.
PMIX_NAMESPACE=none PMIX_RANK=0 expect_status 255 timeout 30 "$perftest" -t tag_lat -n 5 </dev/null
grep -q 'ERROR process 0: PMIx_Init failed: .*; the processes of a job are started by mpirun' "$work/err" ||
    fail "no sentence without a starter: $(cat "$work/err")"
# With a port the two sides meet there, whoever has started them.
PMIX_NAMESPACE=none PMIX_RANK=0 expect_status 255 "$perftest" -t tag_lat -p "$((port + 999))" --timeout 1 </dev/null
grep -q 'no client connected' "$work/err" || fail "-p does not make a server: $(cat "$work/err")"
finish
