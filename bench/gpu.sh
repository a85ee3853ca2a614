#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: gpu.sh FOLDER-OF-PROGRAMS [BYTES] [REPETITIONS]
#
# Transfers of memory of a GPU beside the bare costs of the driver's copies, measured in this run: for a machine with an
# NVIDIA GPU, after "./causeway build". Prints the numbers, then a line for each bound: the ratio, the bound, and
# whether it is met. Report it with the name of the machine and of the GPU (nvidia-smi -L). The exit status is 0 if all
# was measured, met or not; 77 without a GPU.

bin=${1:?folder of programs}
bytes=${2:-67108864}
count=${3:-20}
work=$(mktemp -d) || exit 2
server=
# shellcheck disable=SC2154
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
port=$((20000 + $$ % 10000))

"$bin/bench_gpu" -s "$bytes" -n "$count" >"$work/bare" || exit
cat "$work/bare"

# bare NAME: a number of bench_gpu.
bare() {
    sed -n "s/^$1 //p" "$work/bare"
}

# measured COLUMN OPTION...: of both sides in this process.
measured() {
    column=$1
    shift
    "$bin/ucx_perftest" -l -v -f "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    tail -n 1 "$work/out" | cut -d , -f "$column"
}

# between COLUMN OPTION...: of two processes.
between() {
    column=$1
    shift
    : >"$work/server"
    "$bin/ucx_perftest" -p $port >"$work/server" 2>&1 &
    server=$!
    tries=0
    until grep -q 'Waiting for connection' "$work/server"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { cat "$work/server" >&2; exit 1; }
        sleep 0.05
    done
    "$bin/ucx_perftest" -p $port 127.0.0.1 -v -f "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
    wait "$server"
    server=
    tail -n 1 "$work/out" | cut -d , -f "$column"
}

# The overall bandwidth in 2^20 bytes per second is column 6, the overall latency in microseconds column 4.
export UCX_TLS=self,shm,cuda
staged=$(UCX_RNDV_SCHEME=get_ppln measured 6 -t tag_bw -s "$bytes" -n "$count" -w 10 -O 2 -m cuda) || exit
longer=$(UCX_RNDV_SCHEME=get_ppln UCX_RNDV_FRAG_SIZE=cuda:16M measured 6 -t tag_bw -s "$bytes" -n "$count" -w 10 \
    -O 2 -m cuda) || exit
port=$((port + 1))
near=$(between 6 -t tag_bw -s "$bytes" -n "$count" -w 3 -O 2 -m cuda) || exit
port=$((port + 1))
small=$(between 4 -t tag_lat -s 8 -n 2000 -w 100 -m cuda) || exit
port=$((port + 1))
host=$(between 4 -t tag_lat -s 8 -n 2000 -w 100 -m host) || exit
echo "staged_mbps $staged (2^20 bytes per second)"
echo "staged_16m_mbps $longer (in chunks of 16 MiB)"
echo "near_mbps $near (2^20 bytes per second)"
echo "latency_8_usec $small, of memory of the host $host"

# ratio NAME VALUE RELATION BOUND
ratio() {
    awk -v name="$1" -v value="$2" -v relation="$3" -v bound="$4" 'BEGIN {
        met = relation == ">=" ? value >= bound : value <= bound
        printf "%-58s %.2f, bound %s %s: %s\n", name, value, relation, bound, met ? "met" : "NOT MET" }'
}

calculate() {
    awk "BEGIN { print $1 }"
}

d2h=$(bare d2h_mbps) h2d=$(bare h2d_mbps)
slower=$(calculate "$d2h < $h2d ? $d2h : $h2d")
ratio "staged within a process / the slower of D2H and H2D" "$(calculate "$staged * 1.048576 / $slower")" ">=" 0.9
ratio "staged in chunks of 16 MiB / the slower of them" "$(calculate "$longer * 1.048576 / $slower")" ">=" 0.9
ratio "the bare pipeline / the slower of D2H and H2D" "$(calculate "$(bare pipeline_mbps) / $slower")" ">=" 0.9
ratio "staged within a process / the bare pipeline" "$(calculate "$staged * 1.048576 / $(bare pipeline_mbps)")" ">=" 0.9
d2d=$(bare d2d_mbps)
ratio "two processes, one copy by the device / D2D" "$(calculate "$near * 1.048576 / $d2d")" ">=" 0.9
copies=$(calculate "$(bare d2h_8_usec) + $(bare h2d_8_usec)")
ratio "latency of 8 bytes, one way / both copies" "$(calculate "$small / $copies")" "<=" 1.3
search=$(bare search_usec) query=$(bare query_usec)
ratio "finding the type of memory of the host / a query" "$(calculate "$search / $query")" "<=" 1.1
