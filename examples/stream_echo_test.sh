#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stream_echo_test.sh PROGRAM: a client gets back from a server what it sent, a short text and a long one; both end.
set -eu

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
long=$(printf '%100000d' 7)

for text in "Hello, stream" "$long"; do
    rm -f "$directory"/*
    "$1" server "$directory" &
    server=$!
    answer=$("$1" client "$directory" "$text") || { kill "$server"; exit 1; }
    wait "$server"
    [ "$answer" = "$text" ] || { echo "the answer differs from the question"; exit 1; }
done
echo "both answers came back"
