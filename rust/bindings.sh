#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Writes the bindings of the public headers, src/sys.rs, anew; --check: only compares. Status 77: no bindgen.
set -eu
cd "$(dirname "$0")"
command -v bindgen >/dev/null || { echo "SKIPPED: no bindgen (Debian: bindgen)"; exit 77; }
target=src/sys.rs
[ "${1:-}" != --check ] || target=$(mktemp)
bindgen ../include/ucp/api/ucp.h --allowlist-function 'uc[ps]_.*' --allowlist-type 'uc[ps]_.*' \
    --allowlist-var 'UC[PS]_.*' --blocklist-type '_IO_.*|FILE' --raw-line 'pub type FILE = std::os::raw::c_void;' \
    --default-enum-style consts --no-prepend-enum-name --ctypes-prefix std::os::raw --no-doc-comments \
    --no-layout-tests --size_t-is-usize --output "$target" -- -I../include
[ "$target" != src/sys.rs ] || exit 0
status=0
tail -n +2 src/sys.rs >"$target.old"
tail -n +2 "$target" | cmp -s - "$target.old" || {
    echo "src/sys.rs is not what bindgen makes of the headers: run rust/bindings.sh"
    status=1
}
rm -f "$target" "$target.old"
exit $status
