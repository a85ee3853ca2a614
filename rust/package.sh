#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes the crate as a file for other people's vendoring or registry, with its bill of materials. Usage: package.sh
# [OUTPUT] (default: build/crate). Prints where the crate lies.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
output=${1:-$source/build/crate}
mkdir -p "$output"
output=$(cd "$output" && pwd)
rm -rf "$output/package"
if ! CARGO_HOME="$output/home" CARGO_TARGET_DIR="$output" cargo package --offline --locked --allow-dirty --no-verify \
    --manifest-path "$source/rust/Cargo.toml" >"$output/build.log" 2>&1; then
    tail -n 30 "$output/build.log" >&2
    echo "The crate could not be made (all of it: $output/build.log)." >&2
    exit 1
fi
python3 -B "$source/packaging/sbom.py" "$source" "$output"/package/*.crate
echo "$output"/package/*.crate
