#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# package_test.sh LIBRARIES WORK: the crate's file holds what a program needs that uses it: one that has nothing but
# this file builds, with the library where pkg-config finds it, and runs. Status 77: no cargo or no pkg-config.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v cargo >/dev/null || ! command -v pkg-config >/dev/null; then
    echo "SKIPPED: no cargo or no pkg-config"
    exit 77
fi
rm -rf "$2/user" && mkdir -p "$2/user/src" "$2/pkgconfig"
crate=$("$here/package.sh" "$2")
grep -q '"versionInfo": "0\.' "$crate.spdx.json"
tar -xzf "$crate" -C "$2/user"
printf 'Name: ucx\nDescription: the build\nVersion: 1\nlibdir=%s\n' "$1" >"$2/pkgconfig/ucx.pc"
cat >"$2/user/Cargo.toml" <<END
[package]
name = "user"
version = "1.0.0"
[dependencies]
causeway = { path = "$(basename "$crate" .crate)" }
[workspace]
END
cat >"$2/user/src/main.rs" <<'END'
fn main() {
    causeway::Context::new(causeway::Features::TAG).expect("a context");
}
END
cd "$2/user"
unset CAUSEWAY_LIB_DIR
PKG_CONFIG_PATH="$2/pkgconfig" LD_LIBRARY_PATH="$1" CARGO_HOME="$2/home" CARGO_TARGET_DIR="$2/target" \
    cargo run --offline --quiet
