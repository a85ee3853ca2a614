#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# lowest.sh LIBRARIES TARGET: the crate, its tests and the examples build with the lowest version of Rust that
# Cargo.toml names, without a warning. Status 77: that version is not here.
set -eu
cd "$(dirname "$0")"
lowest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
directory=
for candidate in $(command -v rustc || true) /usr/bin/rustc \
    "${RUSTUP_HOME:-${HOME:-/root}/.rustup}"/toolchains/*/bin/rustc; do
    [ -x "$(dirname "$candidate")/cargo" ] || continue
    if "$candidate" --version 2>/dev/null | grep -q "^rustc $lowest\."; then
        directory=$(dirname "$candidate")
        break
    fi
done
if [ -z "$directory" ]; then
    echo "SKIPPED: no rustc $lowest with its cargo (Debian 12: rustc, cargo)"
    exit 77
fi
mkdir -p "$2"
export PATH="$directory:$PATH" RUSTC="$directory/rustc" RUSTFLAGS="-D warnings"
export CAUSEWAY_LIB_DIR="$1" LD_LIBRARY_PATH="$1" CARGO_TARGET_DIR="$2" CARGO_HOME="$2/home"
rustc --version
cargo build --offline --locked --all-targets
if command -v bindgen >/dev/null; then
    ../examples/rust/build.sh "$2/examples" "$PWD/../include" "$1"
fi
