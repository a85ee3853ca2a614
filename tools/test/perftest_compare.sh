#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# --compare: the same test in turn with two libraries. The other one is a copy of the library at hand.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport self

file=$(cut -d ' ' -f 2 "$work/library")
other=$work/other
mkdir "$other"
cp -L "$(dirname "$file")"/libuc?.so.0 "$other"

table() {
    expect_status 0 "$perftest" -t tag_lat -n 200 -w 10 --timeout 20 --rounds 2 --compare "$@" || return
    [ "$(wc -l <"$work/out")" = 8 ] || fail "not 8 lines: $(cat "$work/out")"
    grep -q "^# A: [0-9.]* .*/libucp" "$work/out" || fail "the library at hand is not named"
    grep -q "^# B: [0-9.]* $other/libucp" "$work/out" || fail "the other library is not named"
    range='[0-9.]* ([0-9.]* to [0-9.]*)'
    for row in 'percentile (usec)' 'overall (usec)' 'bandwidth (MB\/s)' 'rate (msg\/s)'; do
        grep -q "^$row  *$range  *$range  *$range\$" "$work/out" || fail "no row $row: $(cat "$work/out")"
    done
}

UCX_TLS=self table "$other" -l
UCX_TLS=self table "$other/libucp.so.0" -l -N
UCX_TLS=tcp table "$other"

# A sentence where it cannot be.
wrong() {
    expect_status 255 "$perftest" -l -t tag_lat -n 10 -w 0 --compare "$1"
    grep -q "$2" "$work/err" || fail "no sentence '$2': $(cat "$work/err")"
}
wrong "$work/none" 'No such file'
wrong "$work" 'there is no libucp.so.0'
wrong "$(dirname "$file")" 'is loaded anyway'
mkdir "$work/broken"
echo nothing >"$work/broken/libucp.so.0"
wrong "$work/broken" 'does not run with the library of --compare'
expect_status 255 "$perftest" -t tag_lat -n 10 -w 0 -s 8 -E sleep -H 4 -t stream_lat -s 0 --timeout 5 --compare "$other"
grep -q 'the comparison ends' "$work/err" || fail "no sentence on the run that failed"
expect_status 129 "$perftest" -l --compare "$other"
expect_status 129 "$perftest" -t tag_lat --compare "$other" localhost
expect_status 129 "$perftest" -l -t tag_lat --compare "$other" --json
expect_status 129 "$perftest" -l -t tag_lat --compare "$other" --rounds 0
finish
