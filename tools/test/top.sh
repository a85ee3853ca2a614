#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ucx_top watches a program that has sent a known number of messages, and a pair that goes on; it is fed with memory
# that only calls itself a worker's; it gives a terminal back as it was.
. "$(dirname "$0")/lib.sh"
need_perftest
top=$bindir/ucx_top
command -v python3 >/dev/null || { echo "skipped: python3 is not here"; exit 77; }

# $1: Python over `workers`, printed.
ask() {
    python3 -c '
import json, sys
workers = json.load(open(sys.argv[1]))["workers"]
print(eval(sys.argv[2]))' "$work/out" "$1"
}
same() {
    [ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

for tls in self shm tcp; do
    UCX_TLS=$tls watched 321 8
    expect_status 0 "$top" --once --json --pid "$watched"
    same "$tls: workers" "$(ask 'len(workers)')" 1
    same "$tls: sent" "$(ask 'workers[0]["counters"]["tag_sent"]')" 322
    same "$tls: bytes sent" "$(ask 'workers[0]["counters"]["tag_sent_bytes"]')" $((322 * 8))
    same "$tls: received" "$(ask 'workers[0]["counters"]["tag_received"]')" 321
    same "$tls: bytes received" "$(ask 'workers[0]["counters"]["tag_received_bytes"]')" $((321 * 8))
    same "$tls: posted" "$(ask 'workers[0]["counters"]["posted"]')" 1
    same "$tls: unexpected" "$(ask 'workers[0]["counters"]["unexpected"]')" 1
    same "$tls: connections" "$(ask '[t["open"] for t in workers[0]["transports"] if t["open"]]')" "[1]"
    # shellcheck disable=SC1003 # the name ends with a backslash
    same "$tls: name" "$(ask 'workers[0]["worker"]')" 'watched ?[2J"\'
    [ $tls = tcp ] || { exec 3>&-; wait "$watched"; }
done

expect_status 0 "$top" --prometheus --pid "$watched"
grep -q "^causeway_tag_sent_total{pid=\"$watched\",command=\"watched\",worker=\"watched ?\[2J.*} 322$" \
    "$work/out" || { fail "Prometheus gets other numbers"; grep tag_sent "$work/out"; }
awk '/^#/ {if ($2 == "TYPE") type[$3] = $4; next}
     !match($0, /^causeway_[a-z_]+\{.*\} [0-9]+$/) {print "no sample: " $0; bad = 1}
     {name = $0; sub(/\{.*/, "", name); if (!(name in type)) {print "no type: " $0; bad = 1}}
     END {exit bad}' "$work/out" || fail "this is no text form of Prometheus"
expect_status 0 "$top" --once --pid "$watched"
grep -q "^ *$watched watched  *watched ?\[2J\"\\\\ " "$work/out" || { fail "no row"; cat "$work/out"; }
grep -q 'tcp:1$' "$work/out" || { fail "no connections in the row"; cat "$work/out"; }

# A worker's own descriptor in a child is not a second worker, and a killed one leaves nothing.
expect_status 0 "$top" --once --json
[ "$(ask "sum(w['pid'] == $watched for w in workers)")" = 1 ] || fail "it is not found among all, or twice"
kill -9 "$watched"
wait "$watched"
expect_status 1 "$top" --once --pid "$watched"
grep -q "cannot inspect process $watched: no such process" "$work/err" || fail "no sentence about a dead process"
exec 3>&-

for words in -Z --no-such-option --pid '-d 0' '--queues x' 'some word'; do
    # shellcheck disable=SC2086 # the words are meant to be split
    expect_status 1 "$top" $words
    [ "$(grep -c '^ucx_top: ERROR ' "$work/err")/$(wc -l <"$work/err")/$(wc -c <"$work/out")" = 1/1/0 ] ||
        fail "not one line: $words: $(cat "$work/err")"
done
[ "$("$top" -Z 2>&1)" = "ucx_top: ERROR option '-Z' is not known; ucx_top -h lists the options" ] || fail "-Z"

UCX_COUNTERS=n watched 3 8
expect_status 0 "$top" --once --pid "$watched"
grep -q 'no workers in this process' "$work/err" || fail "no sentence about a process without workers"
exec 3>&-
wait "$watched"

# Queues: what waits in a program that makes progress; one that makes none cannot answer, which is said.
watched 3 8 progress
expect_status 0 "$top" --queues "$watched"
python3 - "$work/out" "$watched" <<'EOF' || { fail "the queues"; cat "$work/out"; }
import re, sys

text, pid = open(sys.argv[1], encoding="ascii").read(), sys.argv[2]
head = r'worker watched \?\[2J"\\ of process %s \(watched\)\n' % pid
receives = r"  posted receives: 1\n .*TAG.*\n +1 0x0{15}6 0xf{16} +8 +[0-9]+\.[0-9]{3}\n"
messages = r"  unexpected messages: 1\n .*TAG.*\n +1 0x0{15}7 +8 +[0-9]+\.[0-9]{3} arrived +1: 0x0{15}1 +(.*)\n"
found = re.fullmatch(head + receives + messages, text)
sys.exit(not found or not found[1].startswith('watched ?[2J"\\ of process %s (watched), endpoint ' % pid))
EOF
tries=0
while readlink "/proc/$watched/fd"/* | grep -q causeway-queues; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { fail "the answer stays"; break; }
    sleep 0.05
done
expect_status 1 "$top" --queues "$watched" --json
expect_status 1 "$top" --queues x
exec 3>&-
wait "$watched"
expect_status 1 "$top" --queues "$watched"
watched 3 8
expect_status 1 "$top" --queues "$watched"
grep -q "of process $watched has not answered within 5 seconds: its program does not call ucp_worker_progress" \
    "$work/err" || fail "no sentence about a program without progress"
exec 3>&-
wait "$watched"
UCX_COUNTERS=n watched 3 8 progress
expect_status 1 "$top" --queues "$watched"
grep -q "no workers in process $watched" "$work/err" || fail "no sentence about a program without counters"
exec 3>&-
wait "$watched"

# Answers that a process made up: none of their lengths is true.
python3 -c '
import os, struct, time
page = struct.pack("=16Q32s", 0x53544e4357554143, 1, 0, os.getpid(), 77, 0, 0, 0, *[0] * 8, b"liar")
os.write(os.memfd_create("causeway-worker"), page + bytes(4096 - len(page)))
for i, listed in enumerate([(10**9, 0), (0, 2**64 - 1), (2**63, 2**63), (1000, 1000), (1, 1)]):
    head = struct.pack("=12Q", 0x5345555551574143, 1, os.getpid(), 77, i + 1, 10**9, 0, *listed, 0, 0, 0)
    os.write(os.memfd_create("causeway-queues"), head + b"\xff" * 48)
print("made", flush=True)
time.sleep(60)' >"$work/liar" &
liar=$!
pids="$pids $liar"
tries=0
while [ ! -s "$work/liar" ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
expect_status 1 "$top" --queues $liar
grep -q "worker liar of process $liar has not answered" "$work/err" || { fail "a liar is believed"; cat "$work/out"; }
kill $liar

# A pair under way: rates. Active messages need progress, which publishes the counters.
UCX_TLS=self "$perftest" -l -t ucp_am_lat -n 1000000000 --timeout 20 >/dev/null 2>&1 &
pair=$!
pids="$pids $pair"
tries=0
until "$top" --once --pid $pair | grep -q "$pair .* self:1"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { fail "the pair is not seen"; break; }
    sleep 0.05
done
timeout -s INT 2 "$top" --interval 0.2 --pid $pair >"$work/out" 2>"$work/err"
[ "$(grep -c "^ *$pair " "$work/out")" -ge 3 ] || { fail "a pair is not shown again and again"; cat "$work/out"; }
awk -v pid=$pair '$1 == pid && $5 !~ /^[1-9]/ {print; bad = 1} END {exit bad}' "$work/out" || fail "no rate in a row"
# Two workers, or more: a line with their sums.
watched 3 8
expect_status 0 "$top" --once
tail -n 1 "$work/out" | grep -q '^ *TOTAL  *[2-9][0-9]* workers ' || { fail "no sums"; cat "$work/out"; }
exec 3>&-
wait "$watched"
kill $pair
wait $pair

# Memory that only has the name.
python3 -c '
import os, sys, time
kinds = [b"", b"garbage" * 1000, b"CAUWCNTS" + bytes([9]) + bytes(4000),
         b"CAUWCNTS" + bytes([1]) + bytes(39 + 8) + b"\xff" * 4000]
for kind in kinds:
    fd = os.memfd_create("causeway-worker")
    os.write(fd, kind)
print(len(kinds), flush=True)
time.sleep(60)' >"$work/garbage" &
garbage=$!
pids="$pids $garbage"
tries=0
while [ ! -s "$work/garbage" ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
expect_status 0 "$top" --once --json --pid $garbage
same "workers out of garbage" "$(ask 'len(workers)')" 0
same "sentences about garbage" "$(grep -c "of process $garbage is called a worker's, but cannot be read as one: " \
    "$work/err")" 4
kill $garbage

# What cannot be asked for.
for wrong in --bogus "--interval 0" "--interval nan" "--interval x" "--pid x" "--pid 0" "--pid -1" more; do
    # shellcheck disable=SC2086 # an option and its value
    expect_status 1 "$top" $wrong
    [ -s "$work/err" ] || fail "no sentence about $wrong"
done
"$top" --prometheus >/dev/full 2>"$work/err" && fail "a full disk goes unnoticed"
grep -q 'cannot write' "$work/err" || fail "no sentence about a full disk"

# A terminal: cleared, drawn, and given back, on a key and on a signal.
python3 - "$top" <<'EOF' || fail "the terminal"
import os, pty, select, signal, sys, termios, time

def run(end):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], [sys.argv[1], "--interval", "0.1"])
    text = b""
    deadline = time.monotonic() + 10
    ended = False
    while time.monotonic() < deadline:
        ready, _, _ = select.select([fd], [], [], 0.1)
        try:
            part = os.read(fd, 65536) if ready else None
        except OSError:
            break
        text += part or b""
        if text.count(b"COMMAND") >= 2 and not ended:
            if termios.tcgetattr(fd)[3] & termios.ICANON:
                sys.exit("keys are not read one by one")
            end(pid, fd)
            ended = True
    os.kill(pid, 0)
    _, status = os.waitpid(pid, 0)
    if status != 0 or not text.startswith(b"\x1b[?1049h\x1b[?25l") or \
            not text.rstrip().endswith(b"\x1b[?25h\x1b[?1049l"):
        sys.exit("status %d after %r" % (status, text[-200:]))
    os.close(fd)

def keys(pid, fd):
    for key in b"mbep ":
        os.write(fd, bytes([key]))
        time.sleep(0.05)
    os.write(fd, b"q")

run(lambda pid, fd: os.write(fd, b"q"))
run(keys)
run(lambda pid, fd: os.kill(pid, signal.SIGINT))
run(lambda pid, fd: os.kill(pid, signal.SIGTERM))
EOF
finish
