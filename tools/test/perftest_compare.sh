#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench/perftest.py: the same tests in turn with two libraries, of which the other one is a copy of the library at hand;
# and pictures of what --json has written.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport self
program=$(dirname "$0")/../../bench/perftest.py
python=$(command -v python3) || { echo "skipped: there is no python3"; exit 77; }
# The distribution's Python has the distribution's modules.
[ ! -x /usr/bin/python3 ] || python=/usr/bin/python3

file=$(cut -d ' ' -f 2 "$work/library")
other=$work/other
mkdir "$other"
cp -L "$(dirname "$file")"/libuc?.so.0 "$other"

compare() {
    expected=$1
    shift
    expect_status "$expected" "$python" -B "$program" compare --rounds 2 --perftest "$perftest" "$@"
}
table() {
    tables=$1
    shift
    compare 0 "$@" -n 200 -w 10 --timeout 20 || return
    [ "$(wc -l <"$work/out")" = $((3 + 5 * tables)) ] || fail "not $tables tables: $(cat "$work/out")"
    grep -q "^# A: [0-9.]* .*/libucp" "$work/out" || fail "the library at hand is not named"
    grep -q "^# B: [0-9.]* $other/libucp" "$work/out" || fail "the other library is not named"
    range='[0-9.]* ([0-9.]* to [0-9.]*)'
    for row in 'p50 (usec)' 'mean (usec)' 'bandwidth (MiB\/s)' 'rate (msg\/s)'; do
        [ "$(grep -c "^$row  *$range  *$range  *$range\$" "$work/out")" = "$tables" ] ||
            fail "no row $row: $(cat "$work/out")"
    done
}
UCX_TLS=self table 1 "$other" -l -t tag_lat
UCX_TLS=self table 2 "$other/libucp.so.0" -l -t tag_bw --sweep 8:16
UCX_TLS=tcp table 1 "$other" -t tag_lat

# A sentence where it cannot be.
wrong() {
    compare 1 "$1" -l -t tag_lat -n 10 -w 0
    grep -q "$2" "$work/err" || fail "no sentence '$2': $(cat "$work/err")"
}
wrong "$work/none" 'there is no libucp.so.0'
wrong "$(dirname "$file")" 'is loaded anyway'
mkdir "$work/broken"
echo nothing >"$work/broken/libucp.so.0"
wrong "$work/broken" 'does not run with the library of'
compare 1 "$other" -t stream_lat -s 0 -n 10 -w 0 --timeout 5
grep -q 'the comparison ends' "$work/err" || fail "no sentence on the run that failed"

# Pictures.
printf 'small -t tag_lat\nwide -t tag_bw\n' >"$work/batch"
UCX_TLS=self expect_status 0 "$perftest" -l -b "$work/batch" -n 50 -w 0 --sweep 0:1k --json
cp "$work/out" "$work/one.json"
sed 's/"tag_bw"/"stream_bw"/' "$work/out" >"$work/other & <more>.json"
none() {
    expect_status 1 "$python" -B "$program" plot "$work/x.svg" "$2"
    grep -q "$1" "$work/err" || fail "no sentence '$1': $(cat "$work/err")"
    [ ! -e "$work/x.svg" ] || fail "a picture was left behind"
}
none 'No such file' "$work/missing.json"
: >"$work/empty.json"
none 'holds no result' "$work/empty.json"
for line in '{' '[]' 'text' '{"test": 5}' '{"test": "a", "kind": "latency", "size": 1}'; do
    { cat "$work/one.json" && printf '%s\n' "$line"; } >"$work/wrong.json"
    none 'line 25 is no result' "$work/wrong.json"
done
if "$python" -c 'import matplotlib' 2>/dev/null; then
    export MPLCONFIGDIR="$work"
    expect_status 0 "$python" -B "$program" plot "$work/files.svg" "$work/one.json" "$work/other & <more>.json"
    for text in '<svg ' 'Latency' 'Bandwidth' 'one: tag_bw wide' 'stream_bw wide'; do
        grep -qF "$text" "$work/files.svg" || fail "the picture lacks '$text'"
    done
    expect_status 1 "$python" -B "$program" plot "$work/missing/out.svg" "$work/one.json"
else
    echo "There is no matplotlib: no picture was drawn."
fi
finish
