#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The output of ucx_perftest that scripts read: PRF-20, PRF-21, PRF-22, PRF-23, PRF-24, PRF-25, PRF-28, in one process.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport self
export UCX_TLS=self

run() {
    expect_status 0 "$perftest" -l "$@"
}

line_is() {
    actual=$(sed -n "${1}p" "$work/out")
    [ "$actual" = "$2" ] || fail "line $1 is
$actual
instead of
$2"
}

rule='+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+'
groups='+--------------+--------------+------------------------------+---------------------+-----------------------+'
box='+----------------------------------------------------------------------------------------------------------+'
lat='|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |'
bw='|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |'
stage='|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |'
test='|     Test     | # iterations | 99.0%ile | average | overall |  average |  overall |  average  |  overall  |'
number='[0-9][0-9]*'
thousandths="$number\.[0-9]\{3\}"
hundredths="$number\.[0-9]\{2\}"
times=' *[0-9]*\.[0-9]\{3\} *[0-9]*\.[0-9]\{3\} *[0-9]*\.[0-9]\{3\}'
rates=' *[0-9]*\.[0-9]\{2\} *[0-9]*\.[0-9]\{2\} *[0-9][0-9]* *[0-9][0-9]*'

# Box and table of a latency test, all lines 108 columns wide.
run -t tag_lat -n 1000 -w 10 -s 8
line_is 1 "$box"
line_is 2 '| API:          protocol layer                                                                             |'
line_is 3 '| Test:         tag match latency                                                                          |'
line_is 4 '| Data layout:  (automatic)                                                                                |'
line_is 5 '| Send memory:  host                                                                                       |'
line_is 6 '| Recv memory:  host                                                                                       |'
line_is 7 '| Message size: 8                                                                                          |'
line_is 8 '| Window size:  1                                                                                          |'
line_is 9 "$groups"
line_is 10 "$lat"
line_is 11 "$rule"
line_is 12 "$stage"
line_is 13 "$rule"
[ "$(wc -l <"$work/out")" = 14 ] || fail "not 14 lines"
tail -n 1 "$work/out" | grep -q "^Final:    .\{14\}1000 $times$rates\$" || fail "final row: $(tail -n 1 "$work/out")"
[ "$(tail -n 1 "$work/out" | wc -c)" = 107 ] || fail "the final row is not 106 columns wide"

# Bandwidth: other header, window 32, percentile as given.
run -t tag_bw -n 1000 -w 10 -R 99.0 -f
line_is 8 '| Window size:  32                                                                                         |'
line_is 10 "$bw"
line_is 12 "$test"
tail -n 1 "$work/out" | grep -q "^ \{24\}1000 $times$rates\$" || fail "-f row: $(tail -n 1 "$work/out")"

# Additional lines come before the final row.
run -t tag_lat -n 1000 -w 0 --percentiles --verify
tail -n 1 "$work/out" | grep -q '^Final:' || fail "something follows the final row"
grep -q "^# percentiles (usec): p50 [0-9.]* p90 [0-9.]* p99 [0-9.]* p99.9 [0-9.]* min [0-9.]* max [0-9.]*\$" \
    "$work/out" || fail "no line of percentiles"
grep -q '^# verified: 1000 messages of 8 bytes' "$work/out" || fail "not all messages were verified"

# Comma-separated values.
run -t tag_lat -n 1000 -w 0 -v -f
tail -n 2 "$work/out" | head -n 1 >"$work/head"
head='iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr'
head=$head,transport,device,host,options
grep -qx "$head" "$work/head" ||
    fail "CSV header: $(cat "$work/head")"
csv="1000,$thousandths,$thousandths,$thousandths,$hundredths,$hundredths,$number,$number"
csv="$csv,self,[a-z0-9]*,,-l -t tag_lat -n 1000 -w 0 -v -f"
tail -n 1 "$work/out" | grep -qx "$csv" ||
    fail "CSV row: $(tail -n 1 "$work/out")"

# Batch files: a rule with the name, columns of names in CSV.
cat >"$work/batch" <<EOF
# comment

small -t tag_lat -s 8 -n 100 -w 0
big -t tag_bw -s 100000 -n 20 -w 0
EOF
run -b "$work/batch"
grep -q '^+small---------+--------------+----------+' "$work/out" || fail "no rule with the name of the test"
[ "$(grep -c '^Final:' "$work/out")" = 2 ] || fail "not two final rows"
run -b "$work/batch" -v -f
line_is 1 "batch,$head"
sed -n 3p "$work/out" | grep -q '^big,  20,' || fail "CSV row of a batch: $(sed -n 3p "$work/out")"
run -b "$work/batch" -f
tail -n 1 "$work/out" | grep -q '^       big                20 ' || fail "-f row of a batch: $(tail -n 1 "$work/out")"

# One object of JSON for each test, and nothing else.
if command -v python3 >/dev/null; then
    printf 'a"b\\c -t tag_lat -s 8 -n 300 -w 0\nbig -t tag_bw -s 100000 -n 20 -w 3\n' >"$work/quoted"
    run -b "$work/quoted" --json --verify
    python3 - "$work/out" <<'EOF' || fail "--json: $(cat "$work/out")"
import json, sys
first, second = [json.loads(line) for line in open(sys.argv[1])]
assert first["names"] == ['a"b\\c'] and second["names"] == ["big"]
assert (first["test"], first["kind"], first["size"], first["iterations"]) == ("tag_lat", "latency", 8, 300)
assert (second["test"], second["kind"], second["size"], second["warmup"]) == ("tag_bw", "overhead", 100000, 3)
for result in first, second:
    times = [result["usec"][name] for name in ("min", "p50", "p90", "p99", "p99.9", "max")]
    assert times == sorted(times) and times[0] > 0 and result["usec"]["mean"] > 0, times
    assert result["mib_per_s"] > 0 and result["messages_per_s"] > 0 and result["verified"] > 0
EOF
    run -t tag_bw -D iov -s 4,4 -n 10 -w 0 --json
    python3 - "$work/out" <<'EOF' || fail "--json: $(cat "$work/out")"
import json, sys
result = json.load(open(sys.argv[1]))
assert (result["transport"], result["host"]) == ("self", "") and result["device"]
assert result["options"] == "-l -t tag_bw -D iov -s 4,4 -n 10 -w 0 --json"
EOF
    run -t tag_bw -D iov -s 4,4 -n 10 -w 0 -v -f
    python3 - "$work/out" <<'EOF' || fail "-v: $(cat "$work/out")"
import csv, sys
head, row = [line for line in csv.reader(open(sys.argv[1])) if len(line) > 8]
assert dict(zip(head, row))["options"] == "-l -t tag_bw -D iov -s 4,4 -n 10 -w 0 -v -f"
EOF
    run -t tag_lat -n 10 -w 0 --json
    [ "$(wc -l <"$work/out")" = 1 ] || fail "--json prints more than the object"
    expect_status 129 "$perftest" -l -t tag_lat --json --csv
fi

# Thousands.
run -t tag_lat -n 1000000 -w 0 -N -f
tail -n 1 "$work/out" | grep -q ' 1,000,000 ' || fail "-N does not group digits"

# An intermediate row about once per second.
run -t tag_bw -s 1000000 -n 4000 -w 0 -O 1
grep -q '^\[thread 0\] ' "$work/out" || echo "note: too fast for an intermediate row"
finish
