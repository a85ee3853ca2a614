#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bindings_test.sh DIRECTORY INCLUDE LIB: the example is built in DIRECTORY without a warning; every function and every
# enumerator of the headers is in its bindings; all structures are laid out as in C, with enums as constants and, as
# other bindings have them, as enums of Rust. Environment: as for build.sh.
set -eu
export LC_ALL=C

here=$(dirname "$0")
out=$1
rm -rf "$out"
RUSTFLAGS="-D warnings" "$here/build.sh" "$@"

"${CC:-cc}" -E -P -I"$2" "$here/bindings.h" | grep -oE '\b(UC[PSTM]_[A-Z0-9_]+\b|uc[pstm]_[a-z0-9_]+\()' |
    tr -d '(' | sort -u >"$out/wanted.txt"
# Without rustfmt they are a few long lines.
grep -oE '\bpub (const|fn) [A-Za-z0-9_]+' "$out/bindings.rs" | sed 's/.* //' | sort -u >"$out/bound.txt"
lost=$(comm -23 "$out/wanted.txt" "$out/bound.txt")
[ -z "$lost" ] || { echo "not in the bindings:" "$lost"; exit 1; }
count=$(wc -l <"$out/wanted.txt")
[ "$count" -gt 300 ] || { echo "only $count names in the headers?"; exit 1; }

"${BINDGEN:-bindgen}" "$here/bindings.h" --output "$out/enums.rs" --default-enum-style rust \
    --allowlist-type 'uc[pstm]_.*' --allowlist-function 'uc[pstm]_.*' \
    -- -I"$2" -idirafter "$("${CC:-cc}" -print-file-name=include)"
for bindings in bindings enums; do
    "${RUSTC:-rustc}" --cap-lints allow --edition 2021 --test --crate-type lib "$out/$bindings.rs" \
        -o "$out/test_$bindings" -C link-arg="$out/inline.o" -L "native=$3" -l ucp -l ucs -l ucm \
        -C link-arg=-Wl,-rpath,"$3"
    "$out/test_$bindings" >"$out/test_$bindings.txt" || { cat "$out/test_$bindings.txt"; exit 1; }
    sed -n 's/^test result: ok/&/p' "$out/test_$bindings.txt"
done
grep -q 'bindgen_test_layout_ucp_params ... ok' "$out/test_bindings.txt" || { echo "no layout was tested"; exit 1; }
echo "$count functions and enumerators are there"
