#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ucx_trace reads what a program did that has sent known messages, in every form; and refuses what is no ring.
. "$(dirname "$0")/lib.sh"
need_perftest
trace=$bindir/ucx_trace
command -v python3 >/dev/null || { echo "skipped: python3 is not here"; exit 77; }


# Messages by rendezvous: each side's request, the packets between, and what is open.
UCX_TLS=tcp UCX_TRACE=2000 watched 3 3000000
expect_status 0 "$trace" "$watched"
[ "$(grep -c ' tag send .* 3000000 .* 0$' "$work/out")" = 3 ] || { fail "not three sends"; cat "$work/out"; }
[ "$(grep -c ' tag receive .* 3000000 .* 0$' "$work/out")" = 3 ] || { fail "not three receives"; cat "$work/out"; }
[ "$(grep -c ' open$' "$work/out")" -ge 1 ] || { fail "nothing is open"; cat "$work/out"; }
request=$(sed -n 's/^ *\([0-9]*\) tag send .*/\1/p' "$work/out" | sed -n 2p)
expect_status 0 "$trace" --request "$request" "$watched"
cat >"$work/expected" <<END
begin tag send, 3000000 bytes, tag 5
path: rendezvous
answered by RNDV_READY
end, status 0
END
sed 's/^ *[0-9.]* us *//; s/ peer [0-9a-f]*\/0$//' "$work/out" | grep '^begin\|^path\|^answered\|^end' |
    cmp -s "$work/expected" - || { fail "this is not the life of a send"; cat "$work/out"; }
for packet in 'out TAG_RTS' 'in RNDV_READY' 'out RNDV_DATA'; do
    grep -q " $packet, " "$work/out" || { fail "its life knows of no '$packet'"; cat "$work/out"; }
done
expect_status 0 "$trace" --events "$watched"
for event in 'endpoint is dialling' 'endpoint is open' 'in RNDV_DATA'; do
    grep -q "  $event" "$work/out" || { fail "there is no event '$event'"; cat "$work/out"; }
done
expect_status 0 "$trace" --chrome "$work/chrome.json" "$watched"
python3 - "$work/chrome.json" <<'END' || fail "this is no trace for Perfetto"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
begun = {e["id"] for e in events if e["ph"] == "b" and e["name"] == "tag send" and e["args"]["tag"] == "5"}
ended = {e["id"] for e in events if e["ph"] == "e"}
assert len(begun) == 3 and begun <= ended, (begun, ended)
assert all(e["ts"] > 0 for e in events if e["ph"] != "M")
assert any(e["ph"] == "i" and e["name"] == "out TAG_RTS" for e in events)
END
expect_status 1 "$trace" --request 999999 "$watched"
grep -q 'no request 999999' "$work/err" || fail "no sentence about an unknown request"
expect_status 1 "$trace" --chrome "$work/missing/file" "$watched"
grep -q 'cannot write' "$work/err" || fail "no sentence about a missing folder"
"$trace" --follow "$watched" >"$work/followed" 2>/dev/null 3>&- &
follower=$!
pids="$pids $follower"
tries=0
while [ ! -s "$work/followed" ] && [ $tries -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
exec 3>&-
wait "$watched"
wait "$follower" || fail "following does not end well"
grep -q ' out TAG_RTS, ' "$work/followed" || fail "nothing was followed"

# A small ring keeps the last events only.
UCX_TLS=self UCX_TRACE=64 watched 1000 8
expect_status 0 "$trace" --events "$watched"
count=$(sed -n 's/^worker .*, \([0-9]*\) events$/\1/p' "$work/out")
if [ "$count" -lt 60 ] || [ "$count" -gt 64 ]; then
    fail "a ring of 64 holds $count events"
fi
grep -q 'in TAG_EAGER, 16 bytes' "$work/out" || { fail "there are no packets"; cat "$work/out"; }
exec 3>&-
wait "$watched"

# What a worker leaves behind when it is destroyed: the same, read from a file; nothing that is there is overwritten.
echo mine >"$work/left.taken"
UCX_TLS=tcp UCX_TRACE_FILE=$work/left.%p watched 3 3000000
exec 3>&-
wait "$watched" || fail "the watched program ends badly"
left=$work/left.$watched
[ "$(stat -c %a "$left")" = 600 ] || fail "there is no file that is ours alone: $(ls -l "$work")"
expect_status 0 "$trace" "$left"
[ "$(grep -c ' tag send .* 3000000 .* 0$' "$work/out")" = 3 ] || { fail "not three sends in a file"; cat "$work/out"; }
expect_status 0 "$trace" --chrome "$work/left.json" "$left"
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/left.json" || fail "no file for Perfetto"
expect_status 1 "$trace" --follow "$left"
grep -q 'cannot follow a file' "$work/err" || fail "no sentence about following a file"
UCX_TLS=self UCX_TRACE_FILE=$work/left.taken watched 1 8
exec 3>&-
wait "$watched"
[ "$(cat "$work/left.taken")" = mine ] || fail "a file was overwritten"
expect_status 0 "$trace" "$work/left.taken.1"
UCX_TLS=self UCX_TRACE_FILE=$work/missing/left watched 1 8
exec 3>&-
wait "$watched"
grep -q "to '$work/missing/left'" "$work/watched" || fail "no sentence about a folder that is missing"
head -c 5000 "$left" >"$work/cut"
for wrong in "$work/cut" "$work/left.taken" "$work/missing/left" "$work" /dev/zero; do
    expect_status 1 "$trace" "$wrong"
    [ -s "$work/err" ] || fail "no sentence about $wrong"
done

# Nobody keeps events; nobody is there; a ring that lies.
UCX_TLS=self watched 1 8
expect_status 1 "$trace" "$watched"
grep -q 'start the program with UCX_TRACE' "$work/err" || fail "no sentence about a program without events"
exec 3>&-
wait "$watched"
expect_status 1 "$trace" "$watched"
python3 -c '
import os, struct, time
for events, magic in ((1 << 63, 0x31435254574143), (3, 0x31435254574143), (64, 7)):
    fd = os.memfd_create("causeway-worker")
    head = struct.pack("<8sQQQQQQQQQ", b"CAUWCNTS", 1, 0, os.getpid(), 1, 1, 0, 0, 4096, 1 << 62)
    os.write(fd, head.ljust(4096, b"\0") + struct.pack("<QQQ", magic, events, 9) + b"\xff" * 3000)
print("ready", flush=True)
time.sleep(60)' >"$work/garbage" &
garbage=$!
pids="$pids $garbage"
tries=0
while [ ! -s "$work/garbage" ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
expect_status 1 "$trace" $garbage
[ "$(grep -c 'no valid event ring\|cannot be read' "$work/err")" = 3 ] || { fail "lies are believed"; cat "$work/err"; }
kill $garbage
for wrong in "" "--bogus 1" "--request x 1" "1 2" "x"; do
    # shellcheck disable=SC2086 # words
    expect_status 1 "$trace" $wrong
    [ -s "$work/err" ] || fail "no sentence about '$wrong'"
done
for words in -Z --no-such-option --request '-r x 1' '' '1 2'; do
    # shellcheck disable=SC2086 # the words are meant to be split
    expect_status 1 "$trace" $words
    [ "$(grep -c '^ucx_trace: ERROR ' "$work/err")/$(wc -l <"$work/err")/$(wc -c <"$work/out")" = 1/1/0 ] ||
        fail "not one line: $words: $(cat "$work/err")"
done
finish
