#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test.sh LIBRARIES TARGET [valgrind]: the crate's tests over the libraries in that directory, built in TARGET.
# Status 77: no cargo, or no valgrind.
set -eu
cd "$(dirname "$0")"
command -v cargo >/dev/null && command -v rustc >/dev/null || {
    echo "SKIPPED: no cargo or no rustc (Debian: cargo, rustc)"
    exit 77
}
mkdir -p "$2"
export CAUSEWAY_LIB_DIR="$1" LD_LIBRARY_PATH="$1" CARGO_TARGET_DIR="$2" CARGO_HOME="$2/home"
if [ "${3:-}" = valgrind ]; then
    command -v valgrind >/dev/null || { echo "SKIPPED: no valgrind (Debian: valgrind)"; exit 77; }
    variable=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
    export "$variable=valgrind --quiet --error-exitcode=9"
    exec cargo test --offline --locked --test all -- --test-threads=1
fi
cargo test --offline --locked --all-targets
# The option above leaves out the examples of the documentation. Rustdoc may be a package of its own.
if command -v rustdoc >/dev/null; then
    cargo test --offline --locked --doc
else
    echo "There is no rustdoc: the examples of the documentation were not compiled."
fi
