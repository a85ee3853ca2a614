#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tokio.sh LIBRARIES TARGET: the example over tokio is built with the crates that Debian has installed, and its client
# talks to its server. Status 77: no cargo, or no tokio.
set -eu
cd "$(dirname "$0")"
crates=/usr/share/cargo/registry
if ! command -v cargo >/dev/null || ! ls -d $crates/tokio-[0-9]* >/dev/null 2>&1; then
    echo "SKIPPED: no cargo, or no tokio (Debian: cargo, librust-tokio-dev)"
    exit 77
fi
work=$2/tokio
mkdir -p "$work/home" "$work/crate"
export CAUSEWAY_LIB_DIR="$1" LD_LIBRARY_PATH="$1" CARGO_TARGET_DIR="$work/target" CARGO_HOME="$work/home"
printf '[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "%s"\n' $crates \
    >"$work/home/config.toml"
# A copy: cargo writes a lock file beside the manifest, with the versions of this system.
cp -r tokio/Cargo.toml tokio/src "$work/crate/"
sed -i "s|path = \"..\"|path = \"$PWD\"|" "$work/crate/Cargo.toml"
cargo build --quiet --offline --manifest-path "$work/crate/Cargo.toml"
program=$work/target/debug/causeway-tokio

"$program" >"$work/server.out" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
tries=0
until grep -q '^listening at ' "$work/server.out"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "FAILED: the server does not listen"; cat "$work/server.out"; exit 1; }
    sleep 0.1
done
address=$(sed -n 's/^listening at //p' "$work/server.out")
for text in one two; do
    answer=$(timeout 60 "$program" "$address" $text)
    [ "$answer" = $text ] || { echo "FAILED: the answer to $text is '$answer'"; exit 1; }
done
tries=0
until [ "$(grep -c '^a client has closed' "$work/server.out")" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "FAILED: not two orderly ends"; cat "$work/server.out"; exit 1; }
    sleep 0.1
done
kill $server
wait $server 2>/dev/null || true
if timeout 60 "$program" "$address" text >"$work/out" 2>&1; then
    echo "FAILED: there is an answer without a server"
    exit 1
fi
grep -qF "$address" "$work/out" || { echo "FAILED: the error does not name $address: $(cat "$work/out")"; exit 1; }
