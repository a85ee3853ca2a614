#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# PRF-6: a pair started by prterun, the starter of PRRTE, instead of an MPI's mpirun.
. "$(dirname "$0")/lib.sh"
need_perftest
need_transport shm
command -v prterun >/dev/null || {
    echo "skipped: there is no prterun (PRRTE)"
    exit 77
}
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
if ! timeout -s KILL 60 prterun -n 1 env >"$work/env" 2>&1 </dev/null || ! grep -q '^PMIX_RANK=' "$work/env"; then
    echo "skipped: prterun starts no processes here"
    head -n 5 "$work/env"
    exit 77
fi
for transport in shm tcp; do
    UCX_TLS=$transport expect_status 0 timeout -s KILL 60 prterun -n 2 "$perftest" -t tag_lat -n 500 -w 10 --verify \
        --timeout 20 </dev/null
    [ "$(grep -c '^Final:  *500 ' "$work/out")" = 1 ] || fail "no final row over $transport: $(cat "$work/out")"
done
finish
