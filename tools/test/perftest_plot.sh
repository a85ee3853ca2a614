#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sweeps of sizes and pictures (--plot): well-formed, each curve told apart without colour, and a sentence with status 1
# where none can be drawn.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport self
export UCX_TLS=self

# A sweep: a test for each size, with a rule, a column and a label of its own.
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

# At the end of a sweep; from files; some of them at a time.
printf 'small -t tag_lat\nwide -t tag_bw\n' >"$work/batch"
expect_status 0 "$perftest" -l -b "$work/batch" -n 50 -w 0 --sweep 0:1k --json --plot "$work/direct.svg"
cp "$work/out" "$work/one.json"
sed 's/"tag_bw"/"stream_bw"/' "$work/out" >"$work/other & <more>.json"
expect_status 0 "$perftest" --plot "$work/files.svg" "$work/one.json" "$work/other & <more>.json"
[ -s "$work/out" ] && fail "drawing files prints something"
grep -q '<svg ' "$work/direct.svg" || fail "no picture of the sweep"
for text in Latency Bandwidth 'MiB/s' 'message size (bytes)' '>one: tag_bw wide<' '&amp; &lt;more&gt;: stream_bw'; do
    grep -qF "$text" "$work/files.svg" || fail "the picture lacks '$text'"
done
if command -v python3 >/dev/null; then
    python3 - "$work/files.svg" "$work/direct.svg" <<'EOP' || fail "the picture is not as it should be"
import sys, xml.etree.ElementTree as tree
SVG = "{http://www.w3.org/2000/svg}"
for path in sys.argv[1:]:
    root = tree.parse(path).getroot()
    _, _, width, height = map(float, root.get("viewBox").split())
    groups = [g for g in root.iter(SVG + "g") if len(g) > 2]
    # 12 sizes; bandwidth of the empty message has no place on a logarithmic axis.
    assert sorted(len(g) - 1 for g in groups) == ([11, 12] if "direct" in path else [11, 11, 12, 12]), path
    looks = [(g[0].get("stroke-dasharray"), g[1].get("class"), g[1].tag) for g in groups]
    assert len(set(looks[:len(looks) // 2])) == len(looks) // 2, looks
    for text in root.iter(SVG + "text"):
        assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height
    for circle in root.iter(SVG + "circle"):
        assert 0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height
EOP
fi

# Where no picture can be drawn: a sentence and status 1, before anything is measured.
none() {
    sentence=$1
    shift
    expect_status 1 "$perftest" "$@"
    grep -q "ERROR .*$sentence" "$work/err" || fail "no sentence '$sentence': $(cat "$work/err")"
    [ -s "$work/out" ] && fail "something was measured: $*"
}
none 'No such file' --plot "$work/missing/out.svg" "$work/one.json"
none 'No such file' --plot "$work/missing/out.svg" -l -t tag_lat --sweep 1:2
none 'Is a directory' --plot "$work" -l -t tag_lat --sweep 1:2
none 'No such file' --plot "$work/x.svg" "$work/missing.json"
: >"$work/empty.json"
none 'holds no result' --plot "$work/x.svg" "$work/empty.json"
for line in '{' '[]' 'text' '{"test": 5}' '{"test": "a", "kind": "latency", "size": -1}' '{"test": "a"} more' \
    '{"a":"\u12"}' \
    '{"test": "a", "kind": "latency", "size": 1, "usec": {"p50": 1e999}, "mib_per_s": 1}'; do
    { cat "$work/one.json" && printf '%s\n' "$line"; } >"$work/wrong.json"
    none "line 25: not a result" --plot "$work/x.svg" "$work/wrong.json"
done
[ -e "$work/x.svg" ] && fail "a picture was left behind"
expect_status 129 "$perftest" --plot "$work/x.svg"
for range in 8 8: :8 64:8 8:64x 8:2000G -1:8; do
    expect_status 129 "$perftest" -l -t tag_lat --sweep "$range"
done
expect_status 129 "$perftest" -l -t tag_lat --sweep 1:2 -s 8
finish
