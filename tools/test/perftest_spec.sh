#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Statements of the specification about ucx_perftest that the other tests leave open: the words of a server, what of its
# options counts, names of tests, rows while a test runs, nested batch files, progress on a terminal.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport tcp
export UCX_TLS=tcp

# PRF-3, PRF-4: the client's parameters win; the server prints its three parts in order, and no row.
start_server -t tag_lat -n 7 -s 99 -e --timeout 20 && {
    expect_status 0 "$perftest" -p "$port" 127.0.0.1 -t tag_bw -n 300 -s 1000,24 -w 5 --timeout 20
    wait "$server" || fail "server status $?"
    sed -n 1p "$work/server.out" | grep -qx 'Waiting for connection...' || fail "first line of the server"
    sed -n 2p "$work/server.out" | grep -qx 'Accepted connection from 127.0.0.1:[0-9]*' || fail "second line"
    sed -n 5p "$work/server.out" | grep -q '^| Test:         tag match bandwidth ' || fail "the box is another test's"
    sed -n 9p "$work/server.out" | grep -q '^| Message size: 1024  *|$' || fail "the box names another size"
    tail -n 1 "$work/server.out" | grep -q '^+-*+$' || fail "something follows the box"
    [ "$(wc -l <"$work/server.out")" = 11 ] || fail "not 11 lines: $(cat "$work/server.out")"
    grep -q 'Accepted\|API:' "$work/out" && fail "the client prints what the server does"
    sed -n 1p "$work/out" | grep -q '^+-' || fail "the client does not begin with the table"
}

# PRF-2: one client, then the end; the port may be used again at once; IPv6.
first=$port
port=$((port - 1))
start_server --timeout 20 && {
    [ "$port" = "$first" ] || echo "note: another one uses the port"
    expect_status 0 "$perftest" -p "$port" 127.0.0.1 -t tag_lat -n 50 -w 5 -f
    wait "$server" || fail "server status $?"
    expect_status 255 "$perftest" -p "$port" 127.0.0.1 -t tag_lat -n 50 -w 5 -f
}
if [ -e /proc/net/if_inet6 ] && grep -q '^0*1 ' /proc/net/if_inet6; then
    start_server -6 --timeout 20 && {
        expect_status 0 "$perftest" -6 -p "$port" ::1 -t tag_lat -n 50 -w 5 -f
        wait "$server" || fail "server status $?"
        grep -q '^Accepted connection from ::1:' "$work/server.out" || fail "no client over IPv6"
    }
else
    echo "note: no IPv6 here"
fi

# PRF-10, PRF-13: the names of UCP run, those of the transport layer and its options are refused.
expect_status 0 "$perftest" -h
cp "$work/out" "$work/help"
for test in tag_lat tag_bw tag_sync_lat tag_sync_bw ucp_put_lat ucp_put_bw ucp_get ucp_add ucp_fadd ucp_swap ucp_cswap \
    stream_bw stream_lat ucp_am_lat ucp_am_bw; do
    grep -q "^  *$test  *UCP " "$work/help" || fail "the usage text does not name $test"
    UCX_TLS=self expect_status 0 "$perftest" -l -t $test -n 20 -w 2 -f -m host,host -c 0
done
for words in '-t am_lat' '-t put_lat' '-t add_lat' '-t get' '-t fadd' '-t swap' '-t cswap' '-t am_bw' '-t put_bw' \
    '-t add_mr' '-D zcopy' '-K mlx5_0:1' '-P 1'; do
    # shellcheck disable=SC2086 # the words are meant to be split
    expect_status 129 "$perftest" -l -t tag_lat $words
    grep -q ERROR "$work/err" || fail "no sentence: $words"
done

# PRF-11, PRF-13: options of all families at once.
for test in tag_bw ucp_am_bw stream_bw; do
    UCX_TLS=tcp pair -t $test -s 100,0,7 -D iov,iov -O 3 -B -o -n 40 -w 5 -M serialized -m host -c 0
    UCX_TLS=tcp pair -t $test -s 9000 -O 3 -B -z -o -n 40 -w 5 -M multi -E sleep -e
done

# PRF-14: large messages, as many as asked for.
UCX_TLS=self expect_status 0 "$perftest" -l -t tag_bw -s 20000000 -n 3 -w 0 -f
tail -n 1 "$work/out" | grep -q '^  *3 ' || fail "not three iterations: $(tail -n 1 "$work/out")"

# PRF-12: -X names the library.
UCX_TLS=self expect_status 0 "$perftest" -l -t tag_lat -n 20 -w 2 -X
grep -q '^# library [0-9.]*; endpoint over self' "$work/out" || fail "-X prints nothing"
tail -n 1 "$work/out" | grep -q '^Final:' || fail "something follows the final row"

# PRF-23, PRF-24, PRF-29: a row each second, there at once although the program is killed.
export UCX_TLS=self
for form in '' -v; do
    timeout 2.2 "$perftest" -l -t tag_lat -n 1000000000 -w 10 $form >"$work/out" 2>"$work/err"
    rows=$(grep -c '^\[thread 0\]\( *[0-9.]*\)\{8\}$\|^[0-9]*\(,[0-9.]*\)\{7\},self,[a-z0-9]*,,-l ' "$work/out")
    if [ "$rows" -lt 1 ] || [ "$rows" -gt 3 ]; then
        fail "$rows rows in 2.2 seconds: $(cat "$work/out")"
    fi
    [ -s "$work/err" ] && fail "progress goes into a file: $(cat "$work/err")"
done
timeout 1.3 "$perftest" -l -t tag_lat -n 1000000000 -w 10 -f >"$work/out"
tail -n 1 "$work/out" | grep -q '^+-' || fail "-f prints more than the final row"

# PRF-25: batch files within each other.
printf 'lat -t tag_lat\n# no test\n\nbw -t tag_bw\n' >"$work/tests"
printf 'tiny -s 1\nbig -s 5000\n' >"$work/sizes"
expect_status 0 "$perftest" -l -b "$work/tests" -b "$work/sizes" -n 20 -w 0
for name in lat/tiny lat/big bw/tiny bw/big; do
    grep -q "^+$name-" "$work/out" || fail "no rule of $name"
done
expect_status 0 "$perftest" -l -b "$work/tests" -b "$work/sizes" -n 20 -w 0 -v
[ "$(sed -n 1p "$work/out" | cut -d , -f 1-3)" = tests,sizes,iterations ] || fail "CSV header: $(sed -n 1p "$work/out")"
[ "$(sed -n 4p "$work/out" | cut -d , -f 1-3)" = 'bw,tiny,  20' ] || fail "CSV row: $(sed -n 4p "$work/out")"

# On a terminal a line shows how far the work is, and goes away; not with --quiet.
if command -v python3 >/dev/null; then
    python3 - "$perftest" <<'EOF' || fail "progress on a terminal"
import os, pty, subprocess, sys
def run(*words):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.argv[1], "-l", "-t", "tag_lat", "-n", "1000000000", *words], stderr=theirs,
                               stdout=subprocess.DEVNULL, env=dict(os.environ, TERM="xterm"))
    try:
        process.wait(1.5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 1000):
            text += part
    except OSError:
        pass
    return text
text = run("-f")
assert b"\rtag_lat, 8 bytes: warming up\033[K" in text and b" of 1000000000 iterations, " in text, text
assert run("-f", "--quiet") == b""
EOF
fi
finish
