#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# am_rpc_test.sh PROGRAM: clients get right answers to short and long questions, two at once; one that vanishes in the
# middle of its question does not disturb the others.
set -eu

program=$1
directory=$(mktemp -d)
: >"$directory/address"
"$program" server >"$directory/address" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$directory"' EXIT
tries=0
until read -r address <"$directory/address"; do
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || { echo "the server gives no address"; exit 1; }
    sleep 0.05
done

ask()
{
    timeout 50 "$program" client "$address"
}

[ "$(printf 'one question' | ask)" = "noitseuq eno" ] || { echo "a wrong answer came back"; exit 1; }
[ "$(ask </dev/null | wc -c)" -eq 0 ] || { echo "nothing was asked, but something came back"; exit 1; }
head -c 40000000 /dev/zero | tr '\0' x >"$directory/never"
set -- 0.1 0.2 0.4
for lines in 1 1000 1000000; do
    seq -f 'first %.0f' "$lines" >"$directory/first"
    seq -f 'second %.0f' "$lines" >"$directory/second"
    ask <"$directory/first" >"$directory/first.turned" & first=$!
    ask <"$directory/second" >"$directory/second.turned" & second=$!
    "$program" client "$address" <"$directory/never" >/dev/null &
    doomed=$!
    sleep "$1"
    shift
    kill -s KILL "$doomed" 2>/dev/null || true
    wait "$first"
    wait "$second"
    for name in first second; do
        ask <"$directory/$name.turned" | cmp - "$directory/$name"
        ! cmp -s "$directory/$name.turned" "$directory/$name" || { echo "nothing was turned"; exit 1; }
    done
done
kill "$server" || { echo "the server is gone"; exit 1; }
echo "all answers were right"
