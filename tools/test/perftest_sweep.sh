#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sweeps of sizes.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport self
export UCX_TLS=self

# A test for each size, with a rule, a column and a label of its own.
sweep() {
    expect_status 0 "$perftest" -l -t tag_bw -n 50 -w 0 --sweep 8:64 "$@"
}
sweep
[ "$(grep -c '^Final:  *50 ' "$work/out")" = 4 ] || fail "not four final rows: $(cat "$work/out")"
grep -q '^+64------------+--------------+----------+' "$work/out" || fail "no rule with the size"
sweep -v -f
sed -n 1p "$work/out" | grep -q '^size,iterations,' || fail "CSV header: $(sed -n 1p "$work/out")"
sed -n 3p "$work/out" | grep -q '^16,  50,' || fail "CSV row: $(sed -n 3p "$work/out")"
sweep -f
tail -n 1 "$work/out" | grep -q '^        64                50 ' || fail "-f row: $(tail -n 1 "$work/out")"
# Without -n fewer iterations the larger the messages.
expect_status 0 "$perftest" -l -t tag_bw --sweep 512k:1M -v -f
tail -n 2 "$work/out" | cut -d , -f 1,2 | tr '\n' ' ' | grep -qx '524288, 511 1048576, 255 ' ||
    fail "$(cat "$work/out")"

for range in 8 8: :8 64:8 8:64x 8:2000G -1:8; do
    expect_status 129 "$perftest" -l -t tag_lat --sweep "$range"
done
expect_status 129 "$perftest" -l -t tag_lat --sweep 1:2 -s 8
finish
