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
# The option above leaves out the examples of the documentation. Rustdoc may be a package of its own.
if command -v rustdoc >/dev/null; then
    cargo test --offline --locked --doc
else
    echo "There is no rustdoc: the examples of the documentation were not compiled."
fi
