#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# am_rpc_test.sh PROGRAM: clients get right answers to short and long questions, two at once; then the server ends.
set -eu

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

"$1" server "$directory/address" &
server=$!
for count in 0 1 1000 1000000; do
    "$1" client "$directory/address" "Hello, server." "$count" >"$directory/first" & first=$!
    "$1" client "$directory/address" "abc" "$count" >"$directory/second" || { kill "$server"; exit 1; }
    wait "$first" || { kill "$server"; exit 1; }
    [ "$(cat "$directory/first")" = $((14 * count)) ] && [ "$(cat "$directory/second")" = $((3 * count)) ] ||
        { echo "a wrong length came back"; kill "$server"; exit 1; }
done
"$1" client "$directory/address"
wait "$server"
echo "all answers were right"
