#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Writes the bindings of the public headers, src/sys.rs, anew; --check: only compares, whatever the layout. Status 77:
# no bindgen, no rustfmt to write with, or another version of bindgen than src/sys.rs was made with, which writes
# otherwise.
set -eu
cd "$(dirname "$0")"
command -v bindgen >/dev/null || { echo "SKIPPED: no bindgen (Debian: bindgen)"; exit 77; }

bindings()
{
    bindgen ../include/ucp/api/ucp.h --allowlist-function 'uc[ps]_.*' --allowlist-type 'uc[ps]_.*' \
        --allowlist-var 'UC[PS]_.*' --blocklist-type '_IO_.*|FILE' --raw-line 'pub type FILE = std::os::raw::c_void;' \
        --default-enum-style consts --no-prepend-enum-name --ctypes-prefix std::os::raw --no-doc-comments \
        --no-layout-tests --size_t-is-usize "$@" -- -I../include
}

# The text without what rustfmt decides, and without the line of the version.
plain()
{
    tail -n +2 "$1" | tr -d ' \n' | sed 's/,\([])}>]\)/\1/g'
}

if [ "${1:-}" != --check ]; then
    command -v rustfmt >/dev/null || { echo "SKIPPED: no rustfmt (Debian: rustfmt)"; exit 77; }
    bindings --output src/sys.rs
    exit
fi
made=$(sed -n '1s/.*rust-bindgen \([0-9.]*\).*/\1/p' src/sys.rs)
here=$(bindgen --version | sed 's/.* //')
[ "$made" = "$here" ] || { echo "SKIPPED: src/sys.rs was made with bindgen $made; this one is $here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bindings --no-rustfmt-bindings --output "$work/new"
plain "$work/new" >"$work/new.plain"
plain src/sys.rs >"$work/old.plain"
cmp -s "$work/new.plain" "$work/old.plain" || {
    echo "src/sys.rs is not what bindgen makes of the headers: run rust/bindings.sh"
    exit 1
}
