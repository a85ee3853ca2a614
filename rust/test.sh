#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test.sh LIBRARIES TARGET [valgrind|RUNTIME]: the crate's tests over the libraries in that directory, built in TARGET:
# under valgrind, or over libraries that are built with the address sanitizer whose runtime is that file.
# Status 77: no cargo, no valgrind, or no such file.
set -eu
cd "$(dirname "$0")"
command -v cargo >/dev/null && command -v rustc >/dev/null || {
    echo "SKIPPED: no cargo or no rustc (Debian: cargo, rustc)"
    exit 77
}
mkdir -p "$2"
export CAUSEWAY_LIB_DIR="$1" LD_LIBRARY_PATH="$1" CARGO_TARGET_DIR="$2" CARGO_HOME="$2/home"
if [ $# -gt 2 ]; then
    runner="valgrind --quiet --error-exitcode=9"
    if [ "$3" != valgrind ]; then
        [ -f "$3" ] || { echo "SKIPPED: no runtime of the address sanitizer: $3"; exit 77; }
        runner="env LD_PRELOAD=$3 ASAN_OPTIONS=detect_leaks=0:abort_on_error=1"
    elif ! command -v valgrind >/dev/null; then
        echo "SKIPPED: no valgrind (Debian: valgrind)"
        exit 77
    fi
    variable=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    export "$variable=$runner"
    exec cargo test --offline --locked --test all --test held -- --test-threads=1
fi
cargo test --offline --locked --all-targets

# examples/echo.rs: its clients get their answers and end without an error, and a missing server is one.
echo=$2/debug/examples/echo
cargo build --quiet --offline --locked --example echo
"$echo" listen 127.0.0.1:0 >"$2/echo.out" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
tries=0
until address=$(sed -n 's/^listening at //p' "$2/echo.out") && [ -n "$address" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "FAILED: the example does not listen"; cat "$2/echo.out"; exit 1; }
    sleep 0.1
done
for text in one two three four five; do
    answer=$(timeout 60 "$echo" "$address" $text) || { echo "FAILED: the example's client"; exit 1; }
    [ "$answer" = $text ] || { echo "FAILED: the answer to $text is '$answer'"; exit 1; }
done
kill $server
wait $server 2>/dev/null || true
if timeout 60 "$echo" "$address" text >"$2/echo.out" 2>&1; then
    echo "FAILED: there is an answer without a server"
    exit 1
fi
grep -qF "$address" "$2/echo.out" || { echo "FAILED: the error does not name $address: $(cat "$2/echo.out")"; exit 1; }

# The option above leaves out the examples of the documentation. Rustdoc may be a package of its own.
if command -v rustdoc >/dev/null; then
    cargo test --offline --locked --doc
else
    echo "There is no rustdoc: the examples of the documentation were not compiled."
fi
