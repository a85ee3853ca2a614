#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# build.sh DIRECTORY [INCLUDE LIB]: makes DIRECTORY/ping_pong and everything on the way to it. INCLUDE holds
# ucp/api/ucp.h and LIB libucp.so; without them pkg-config is asked. BINDGEN, RUSTC and CC name other programs,
# RUSTFLAGS further options.
set -eu

here=$(dirname "$0")
out=$1
include=${2:-$(pkg-config --variable=includedir ucx)}
lib=${3:-$(pkg-config --variable=libdir ucx)}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Newer ones do so by themselves.
usize=
if "${BINDGEN:-bindgen}" --help | grep -q -e ' --size_t-is-usize'; then
    usize=--size_t-is-usize
fi
# The C compiler's own headers are for machines that have libclang without those of clang.
"${BINDGEN:-bindgen}" "$here/bindings.h" --output "$out/bindings.rs" $usize \
    --no-prepend-enum-name --with-derive-default \
    --allowlist-type 'uc[pstm]_.*' --allowlist-function 'uc[pstm]_.*|poll' --allowlist-var '(?i)uc[pstm]_.*|POLLIN' \
    -- -I"$include" -idirafter "$("${CC:-cc}" -print-file-name=include)"
"${CC:-cc}" -O2 -I"$include" -x c -c "$here/bindings.h" -o "$out/inline.o"
# shellcheck disable=SC2086 # the flags are words
UCP_BINDINGS=$out/bindings.rs "${RUSTC:-rustc}" ${RUSTFLAGS:-} --edition 2021 -O "$here/ping_pong.rs" \
    -o "$out/ping_pong" -C link-arg="$out/inline.o" -L "native=$lib" -l ucp -l ucs -C link-arg=-Wl,-rpath,"$lib"
