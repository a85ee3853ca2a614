#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two processes: every tag test over shared memory and TCP, spinning and asleep, every byte checked; then peers that
# vanish, stop, or speak something else: a sentence and status 255 within the time limit, never a hang.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport tcp

for transport in tcp shm; do
    export UCX_TLS=$transport
    for test in tag_lat tag_bw tag_sync_lat tag_sync_bw; do
        pair -t $test -s 0 -n 60 -w 10
        pair -t $test -s 8 -n 100 -w 10
        pair -t $test -s 20000 -n 40 -w 10
        pair -t $test -s 8 -n 60 -w 10 -E sleep
        pair -t $test -s 3000000 -n 5 -w 1 -E sleep
    done
    pair -t tag_lat -n 60 -w 10 -U
    pair -t tag_bw -n 60 -w 10 -U -O 3
    pair -t tag_bw -s 1,0,5000,3 -n 60 -w 10 -D iov
    pair -t tag_lat -s 1,0,70000,3 -n 60 -w 10 -D iov,iov
    pair -t tag_lat -n 60 -w 10 -C
    pair -t tag_bw -n 60 -w 10 -C
done
export UCX_TLS=tcp
pair -t tag_lat -n 60 -w 10 -e
grep -q '^Accepted connection from 127.0.0.1:[0-9]*$' "$work/server.out" || fail "the server does not name its client"

# The server dies in the middle.
export UCX_TLS=tcp
start_server
"$perftest" -p "$port" 127.0.0.1 -t tag_lat -n 100000000 --timeout 20 >"$work/out" 2>"$work/err" &
client=$!
pids="$pids $client"
sleep 0.7
kill -9 "$server"
wait "$client"
[ $? = 255 ] || fail "the client of a dead server does not end with 255"
grep -q ERROR "$work/err" || fail "no sentence about the dead server"

# The server stops (but lives): the time limit ends the client.
start_server
"$perftest" -p "$port" 127.0.0.1 -t tag_lat -n 100000000 --timeout 2 >"$work/out" 2>"$work/err" &
client=$!
pids="$pids $client"
sleep 0.7
kill -STOP "$server"
wait "$client"
[ $? = 255 ] || fail "the client of a stopped server does not end with 255"
kill -9 "$server"

# The client dies: the server ends too.
start_server
"$perftest" -p "$port" 127.0.0.1 -t tag_bw -s 100000 -n 100000000 >"$work/out" 2>"$work/err" &
client=$!
pids="$pids $client"
sleep 0.7
kill -9 "$client"
wait "$server"
[ $? = 255 ] || fail "the server of a dead client does not end with 255"
! grep 'never freed' "$work/server.out" "$work/server.err" || fail "the server is blamed for the client's end"

# Nobody comes.
expect_status 255 "$perftest" -p "$(free_port)" --timeout 1

# Another program connects.
if command -v python3 >/dev/null; then
    start_server
    python3 - "$port" <<'EOF'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"GET / HTTP/1.0\r\n\r\n")
s.settimeout(15)
try:
    while s.recv(1000):
        pass
except OSError:
    pass
EOF
    wait "$server"
    [ $? = 255 ] || fail "the server does not refuse another program with 255"
    grep -q 'does not speak' "$work/server.err" || fail "no sentence about the other program"

    # A client of another release: the server names it.
    start_server
    python3 - "$port" <<'EOP'
import socket, struct, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(struct.pack("<II8sI16s", 1, 33, b"CWPERF\r\n", 7, b"") + b"9.7.1")
s.settimeout(15)
while s.recv(1000):
    pass
EOP
    wait "$server"
    [ $? = 255 ] || fail "the server does not refuse a client of another release with 255"
    grep -q 'ERROR server failed: .*another release (9.7.1, protocol version 7)' "$work/server.err" ||
        fail "no sentence about the other release: $(cat "$work/server.err")"

    # Servers that are something else: another version, impossible lengths, silence, a closed port.
    for kind in version length silence close; do
        python3 - $kind >"$work/fake.port" <<'EOF' &
import socket, struct, sys, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(1)
print(s.getsockname()[1], flush=True)
c, _ = s.accept()
c.settimeout(10)
hello = struct.pack("<II8sI", 1, 12, b"CWPERF\r\n", 9)
try:
    if sys.argv[1] == "version":
        c.sendall(hello)
    elif sys.argv[1] == "length":
        c.sendall(struct.pack("<II", 1, 0xffffffff))
    elif sys.argv[1] == "close":
        c.close()
        sys.exit()
    while c.recv(1000):
        pass
except OSError:
    pass
EOF
        fake=$!
        pids="$pids $fake"
        tries=0
        while [ ! -s "$work/fake.port" ] && [ $tries -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.05
        done
        expect_status 255 "$perftest" -p "$(cat "$work/fake.port")" 127.0.0.1 -t tag_lat --timeout 2
        grep -q 'ERROR client failed' "$work/err" || fail "no sentence about the strange server ($kind)"
        [ $kind != version ] || grep -q 'release (unknown, protocol version 9) than this one ([0-9.]*, version ' \
            "$work/err" || fail "no sentence about the other release: $(cat "$work/err")"
        [ $kind = version ] || grep -q "UCX's own tool, or another program; run this one on both sides" "$work/err" ||
            fail "no sentence about the other program ($kind): $(cat "$work/err")"
        wait "$fake"
        : >"$work/fake.port"
    done
fi
finish
