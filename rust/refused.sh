#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# refused.sh LIBRARIES TARGET: programs that would use memory after its end, or in two threads, do not compile. Each of
# tests/refused names the error in its second line, and compiles with `--cfg accepted`, which leaves the error out.
# Status 77: no cargo.
set -eu
cd "$(dirname "$0")"
command -v cargo >/dev/null && command -v rustc >/dev/null || {
    echo "SKIPPED: no cargo or no rustc (Debian: cargo, rustc)"
    exit 77
}
mkdir -p "$2/refused"
export CAUSEWAY_LIB_DIR="$1" CARGO_TARGET_DIR="$2" CARGO_HOME="$2/home"
cargo build --quiet --offline --locked --lib
failed=0

# compile FILE OPTION...: what the compiler says goes to $2/refused/log.
compile()
{
    file=$1
    shift
    rustc --edition 2021 --crate-type lib --emit=metadata --cap-lints allow --out-dir "$CARGO_TARGET_DIR/refused" \
        --extern causeway="$CARGO_TARGET_DIR/debug/libcauseway.rlib" "$@" "$file" >"$CARGO_TARGET_DIR/refused/log" 2>&1
}

fail()
{
    echo "FAILED: $*"
    cat "$CARGO_TARGET_DIR/refused/log"
    failed=1
}

for file in tests/refused/*.rs; do
    expected=$(sed -n '2s/^\/\/! \(E[0-9]*\):.*/\1/p' "$file")
    [ -n "$expected" ] || { echo "FAILED: $file names no error"; exit 1; }
    compile "$file" --cfg accepted || fail "$file does not compile where it should"
    if compile "$file"; then
        fail "$file compiles"
    elif ! grep -qF "error[$expected]" "$CARGO_TARGET_DIR/refused/log"; then
        fail "$file is refused for something else than $expected"
    else
        echo "$file: $expected"
    fi
done
exit $failed
