#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What ucx_info shows, in the shapes that scripts take apart (INF-3 to INF-9, INF-11 to INF-15).
. "$(dirname "$0")/lib.sh"
need_info

show() {
    expect_status 0 timeout -s KILL 60 "$info" "$@"
    [ -s "$work/err" ] && fail "something on stderr: $*: $(cat "$work/err")"
}

# has WHAT PATTERN: an extended expression for a whole line.
has() {
    grep -Eqx "$2" "$work/out" || fail "$1: no line '$2'"
}

# ---- INF-3: version ----
show -v
sed -n 1p "$work/out" | grep -Eqx '# Library version: [0-9]+\.[0-9]+\.[0-9]+' || fail "INF-3: the first line"
sed -n 2p "$work/out" | grep -q '^# Library path: .*libucp\.so' || fail "INF-3: no library path: $(cat "$work/out")"
sed -n 3p "$work/out" | grep -Eqx '# API headers version: [0-9.]+' || fail "INF-3: no version of the headers"
sed -n 4p "$work/out" | grep -Eqx "# Git branch '.*', revision [0-9a-f]{7,}" || fail "INF-3: no revision"
sed -n 5p "$work/out" | grep -q '^# Configured with: .' || fail "INF-3: no configuration"
grep -qv '^#' "$work/out" && fail "INF-3: a line that is no comment"
# The loader finds a library that is none: reported, without harm.
mkdir "$work/strange"
echo nothing >"$work/strange/libucp.so.0"
LD_LIBRARY_PATH=$work/strange show -v
has INF-3 '# Library path: .*'

# ---- INF-4: build, types, machine ----
show -b
has INF-4 '#define CW_VERSION +"[0-9.]+"'
grep -Evq '^#define [A-Z_]+ +("[^"]*"|[0-9]+)$' "$work/out" && fail "INF-4: -b has other lines: $(cat "$work/out")"
show -y
for group in UCS UCP; do
    has INF-4 "$group:"
done
grep -Evq '^$|^[A-Za-z]+:$|^    sizeof\([a-z_ ]+\) = \.+ [0-9]+ *$' "$work/out" && fail "INF-4: -y has other lines"
show -s
has INF-4 '# Timer frequency: [0-9]+\.[0-9]+ MHz'
has INF-4 '# Timer accuracy: [0-9]+\.[0-9]+ %'
has INF-4 '# CPU vendor: .+'
has INF-4 '# CPU model: .+'
has N23-74 '# Product name: .+'
show -T
has INF-4 '# System topology:'
show -M
has INF-4 '# Memcpy bandwidth:'
has INF-4 '# +4096 bytes: [0-9.]+ MB/s'

# ---- INF-5: settings ----
show -c
grep -Evq '^UCX_[A-Z0-9_]+=' "$work/out" && fail "INF-5: -c has lines that are no assignments"
[ "$(grep -c . "$work/out")" -gt 100 ] || fail "INF-5: settings are missing"
for name in TLS NET_DEVICES LOG_LEVEL TCP_TX_SEG_SIZE POSIX_SEG_SIZE; do
    has INF-5 "UCX_$name=.*"
done
UCX_TLS=tcp,self UCX_RNDV_THRESH=8192 show -c
has "INF-5: the environment" 'UCX_TLS=tcp,self'
has "INF-5: the environment" 'UCX_RNDV_THRESH=8K'
UCX_TLS=tcp,self show -cC
has INF-5 'UCX_TLS=tcp,self'
has INF-5 '# UCX_NET_DEVICES=all'
[ "$(grep -c '^UCX_' "$work/out")" -eq 1 ] || fail "INF-5: -C leaves other lines"
show -cf
has INF-5 '# syntax:    .*'
has INF-5 '# UCP context configuration'
cp "$work/out" "$work/ucx.conf"
show -ca
grep -q 'MAX_EAGER_LANES' "$work/out" || fail "INF-5: -a shows no hidden setting"
show -cF RNDV_TH
grep -vq 'RNDV_TH' "$work/out" && fail "-F lets other settings through"
has -F 'UCX_RNDV_THRESH=auto'
show -cF NO_SUCH_NAME
[ -s "$work/out" ] && fail "-F invents settings"
# The file that -cf makes is one that is read.
sed -i 's/^UCX_TLS=.*/UCX_TLS=self/' "$work/ucx.conf"
UCX_CONFIG_DIR=$work show -c
has "INF-14: ucx.conf" 'UCX_TLS=self'

# ---- INF-6 to INF-9: devices ----
show -d
grep -qv '^#' "$work/out" && fail "INF-6: a line that is no comment"
for transport in self posix tcp; do
    [ $transport = tcp ] && ! grep -q . /sys/class/net/lo/operstate 2>/dev/null && continue
    has INF-6 "# Memory domain: $transport"
    has INF-6 "#     Component: $transport"
    has INF-7 "#      Transport: $transport"
done
has INF-7 '#         Device: memory'
has INF-6 '#           Type: loopback'
has INF-6 '#           Type: intra-node'
has INF-6 '#  System device: <unknown>'
has INF-6 '#      capabilities:'
has INF-6 '#            bandwidth: 0\.00/ppn \+ [0-9.]+ MB/sec'
has INF-6 '#              latency: [0-9]+ nsec'
has INF-6 '#             overhead: [0-9]+ nsec'
has INF-6 '#             am_short: <= [0-9]+K?'
has INF-6 '#           connection: to iface.*'
has INF-6 '#      device priority: [0-9]+'
has INF-6 '#     device num paths: [0-9]+'
has INF-6 '#              max eps: .*'
has INF-6 '#        iface address: [0-9]+ bytes'
has INF-6 '#       error handling: .*'
[ "$(grep -c 'Transport:' "$work/out")" -eq "$(grep -c 'Device:' "$work/out")" ] || fail "INF-7: one device each"
has INF-8 '#   < .* >'
has INF-8 '# Connection manager: tcp'
has INF-8 '#      max_conn_priv: [0-9]+ bytes'
# The machine is asked, not the settings.
UCX_TLS=self show -d
has INF-6 '#      Transport: posix'
show -d -t posix
[ "$(grep -c 'Transport:' "$work/out")" -eq 1 ] || fail "INF-9: -t lets other transports through"
has INF-9 '#      Transport: posix'
expect_status 0 "$info" -d -t none
grep -q 'Transport:' "$work/out" && fail "INF-9: -t none shows something"
grep -q "none" "$work/err" || fail "INF-9: no word about a transport that is not there"

# ---- INF-11, CTX-31: a context ----
show -pu t
has CTX-31 '# UCP context'
has CTX-31 '# *resource [0-9]+ +: +md [0-9]+ +dev [0-9]+ +flags -- self/memory'
has INF-11 '# memory: [0-9]+\.[0-9]{2}MB, file descriptors: [0-9]+'
has INF-11 '# create time: [0-9]+\.[0-9]{3} ms'
tail -n 1 "$work/out" | grep -qx '#' || fail "INF-11: the last line"

# ---- INF-12: worker, endpoint, memory ----
show -wu t
has INF-12 "# UCP worker '.*'"
has INF-12 '# +address: [0-9]+ bytes'
has INF-12 '# memory: [0-9]+\.[0-9]{2}MB, file descriptors: [1-9][0-9]*'
show -eu ts
has INF-12 '# UCP endpoint.*'
has EP-35 '# +peer: .*'
has EP-35 '# +lane\[0\]: .*self/memory messages'
has EP-35 '# \+-+\+-+\+-+\+'
has EP-35 '# \| tag send over self/memory +\|'
has EP-35 '# \| stream send over self/memory +\|'
has EP-35 '# \| +0\.\.[0-9]+ \| short +\| .* \|'
show -m 1m -u r
has MEM-17 '#  allocated 1048576 at address 0x[0-9a-f]+ by .*'
has MEM-17 '#  registered on: .*'
show -m 4096,host -u a

# ---- INF-13: which devices, which peer ----
show -pu t -D shm
grep 'resource' "$work/out" | grep -qv posix && fail "INF-13: -D shm leaves others"
show -pu t -D self
grep 'resource' "$work/out" | grep -qv self && fail "INF-13: -D self leaves others"
show -pu t -D all -n 1000 -N 10
show -eu te -P self
has INF-13 '# +lane\[0\]: .*self/memory messages'
show -eu te -P intra
has INF-13 '# +lane\[0\]: .*posix/memory messages'
has INF-13 '# +state: connected'
if "$info" -d -t tcp | grep -q 'Device:'; then
    show -pu t -D net
    grep 'resource' "$work/out" | grep -qv tcp && fail "INF-13: -D net leaves others"
    show -eu te -P inter
    has INF-13 '# +lane\[0\]: .*tcp/.*'
    UCX_TLS=tcp show -eu t -A 127.0.0.1
    has INF-13 '# +lane\[0\]: .*tcp/.*'
    has INF-13 '# +state: connected'
    expect_status 1 "$info" -eu t -A 192.0.2.1
    grep -q '192.0.2.1' "$work/err" || fail "INF-13: no sentence on an address that is not ours"
fi
if grep -q '^0*1 ' /proc/net/if_inet6 2>/dev/null; then
    show -eu t -6 -A ::1
fi

# ---- INF-14: warnings of the library ----
UCX_NO_SUCH_THING=1 show -wu t
grep -q 'NO_SUCH_THING' "$work/out" || fail "INF-14: the warning is not in stdout"
UCX_NO_SUCH_THING=1 UCX_WARN_UNUSED_ENV_VARS=n show -wu t
grep -q 'NO_SUCH_THING' "$work/out" && fail "INF-14: a setting is not honoured"

# ---- INF-15: without network, without root ----
if unshare -rn true 2>/dev/null; then
    expect_status 0 unshare -rn timeout -s KILL 60 "$info" -vbysdTc -pwe -u t
    grep -q 'Transport: posix' "$work/out" || fail "INF-15: no shared memory without a network"
    expect_status 0 unshare -rn timeout -s KILL 60 "$info" --why
else
    echo "INF-15: no name spaces for users here; that part is not tested"
fi
finish
