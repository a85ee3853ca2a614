#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory of a GPU at either end or both, on the tests' stand-ins for the CUDA driver and HIP, whose device memory no
# processor can touch: messages in pieces and whole, between two processes and within one, every byte checked.
. "$(dirname "$0")/lib.sh"
need_perftest
need_info
standin=$bindir/../test/gpu/lib
[ -e "$standin/libcuda.so.1" ] || {
    echo "skipped: there is no stand-in for the CUDA driver in this build"
    exit 77
}

# Without a driver it is a sentence, not a measurement.
UCX_TLS=self expect_status 255 env LD_LIBRARY_PATH=/nonexistent "$perftest" -l -t tag_lat -n 10 -w 0 -m cuda
grep -q 'memory of a GPU (-m)' "$work/err" || fail "no sentence on the missing driver"
UCX_TLS=self expect_status 255 env LD_LIBRARY_PATH=/nonexistent "$perftest" -l -t tag_lat -n 10 -w 0 -m rocm
grep -q 'memory of a GPU (-m): no HIP' "$work/err" || fail "no sentence on the missing HIP"

export LD_LIBRARY_PATH="$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for tls in self,tcp,cuda self,shm,cuda; do
    export UCX_TLS=$tls
    for memory in cuda cuda-managed host,cuda cuda,host; do
        pair -t tag_lat -s 8 -n 20 -w 2 -m $memory
        pair -t tag_bw -s 300000 -n 20 -w 2 -m $memory
        pair -t ucp_am_bw -s 300000 -n 20 -w 2 -m $memory
        pair -t stream_bw -s 30000 -n 20 -w 2 -m $memory
    done
    pair -t tag_lat -s 100,20000 -n 20 -w 2 -m cuda -D iov,iov
    for memory in cuda cuda-managed host,cuda cuda,host; do
        for size in 8 30000 300000; do
            pair -t ucp_put_bw -s $size -n 20 -w 2 -m $memory
            pair -t ucp_get -s $size -n 20 -w 2 -m $memory
            pair -t ucp_get_bw -s $size -n 20 -w 2 -m $memory
        done
    done
done
UCX_TLS=self,cuda expect_status 0 "$perftest" -l -t tag_bw -s 4M -n 10 -w 2 -m cuda --verify
UCX_TLS=self,cuda expect_status 0 "$perftest" -l -t ucp_get_bw -s 4M -n 10 -w 2 -m host,cuda --verify
for memory in rocm rocm-managed host,rocm cuda,rocm; do
    UCX_TLS=self,shm,cuda,rocm pair -t tag_bw -s 300000 -n 20 -w 2 -m $memory
done
UCX_TLS=self,tcp,rocm pair -t tag_lat -s 8 -n 20 -w 2 -m rocm,host
UCX_TLS=self,shm,rocm pair -t ucp_get_bw -s 30000 -n 20 -w 2 -m rocm
UCX_TLS=self,rocm expect_status 0 "$perftest" -l -t tag_bw -s 4M -n 10 -w 2 -m rocm --verify

# The list of devices has them, with their types of memory.
UCX_TLS=all expect_status 0 "$info" -d
grep -q '^#         memory types: cuda (alloc,reg), cuda-managed (alloc,reg)$' "$work/out" || fail "no types of memory"
grep -q '^#         memory types: rocm (alloc,reg), rocm-managed (alloc,reg)$' "$work/out" || fail "no memory of rocm"
[ "$(grep -c 'name: stand-in' "$work/out")" = 6 ] || fail "not all GPUs are listed"
finish
