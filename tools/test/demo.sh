#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The demonstration delivers a file unchanged over each transport, and says so in checksums that sha256sum confirms.
. "$(dirname "$0")/lib.sh"
need_perftest
demo=$bindir/causeway-demo

head -c 3000001 /dev/urandom >"$work/file"
digest=$(sha256sum <"$work/file" | cut -d ' ' -f 1)
for transport in self shm tcp; do
    if ! UCX_TLS=$transport "$perftest" -l -t tag_lat -n 10 -w 0 --timeout 5 >/dev/null 2>&1; then
        echo "skipped: the library at hand does not carry messages over $transport yet"
        skipped=1
        continue
    fi
    TMPDIR=$work expect_status 0 "$demo" -k -t $transport -d 0.01 "$work/file" || continue
    grep -q "^  $digest  sent\$" "$work/out" || fail "$transport: wrong checksum of the file sent"
    grep -q "^  $digest  received: equal\$" "$work/out" || fail "$transport: wrong checksum of the file received"
    cmp "$work"/causeway-demo.*/received "$work/file" || fail "$transport: the received file differs"
    rm -rf "$work"/causeway-demo.*
    [ "$(grep -c '^ *[0-9]* [KM]*i*B  *[0-9.]*  *[0-9.]*  *[0-9.]*$' "$work/out")" = 9 ] ||
        fail "$transport: not nine rows"
done

: >"$work/empty"
TMPDIR=$work expect_status 0 "$demo" -t tcp -d 0.01 "$work/empty"
TMPDIR=$work expect_status 1 "$demo" "$work/none"
TMPDIR=$work expect_status 1 "$demo" -t no-such-transport -d 0.01 "$work/file"
expect_status 2 "$demo" -d 0
expect_status 2 "$demo" -Z
[ -n "$(ls -d "$work"/causeway-demo.* 2>/dev/null)" ] && fail "the demonstration left a folder behind"
if [ $failures -eq 0 ] && [ "${skipped:-0}" = 1 ]; then
    exit 77
fi
finish
