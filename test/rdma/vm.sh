#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command in a small virtual machine that has what the kernel of a build machine often lacks: two RDMA devices in
# software (rxe, RoCE v2) joined by a wire that can lose, delay, reorder and be cut. README.md beside this file says how
# it is made and what it cannot do.
#
# Usage: vm.sh [OPTION...] [--] COMMAND [ARGUMENT...]
#        vm.sh --fetch          fetches the kernel into KERNEL-DIRECTORY (needs apt-get and the network) and ends
#   --cpus N         virtual processors (4)
#   --mem MIB        memory (2048)
#   --limit SECONDS  the machine is ended after that time (600)
#   --mtu BYTES      of the wire (1500, with which RDMA packets carry 1024 bytes; 4200: 4096 bytes)
#   --wire WORDS     what wire.sh is called with before the command, such as 'loss 1'
#   --out DIRECTORY  a directory of this machine that is $OUT in the guest, the only one that can be written there
#   --accel NAME     kvm or tcg (kvm where it is usable, else tcg)
#   --kernel DIR     KERNEL-DIRECTORY (build/rdma/kernel)
# COMMAND runs as root of the guest, in the same directory as here. Its output arrives here while it runs.
# Status: that of COMMAND; 124 when the time was up, 125 when the machine did not come up, 77 when a package is missing.

set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 125
tree=$(cd "$here/../.." && pwd) || exit 125
kernel=$tree/build/rdma/kernel
cpus=4 mem=2048 limit=600 mtu=1500 wire='' out='' accel='' fetch=no

say()
{
    printf 'vm.sh: %s\n' "$*" >&2
}

usage()
{
    sed -n '/^# Usage/,/^$/s/^# \{0,1\}//p' "$here/vm.sh"
}

while [ $# -gt 0 ]; do
    case $1 in
    --cpus | --mem | --limit | --mtu | --wire | --out | --accel | --kernel)
        [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; }
        case $1 in
        --cpus) cpus=$2 ;;
        --mem) mem=$2 ;;
        --limit) limit=$2 ;;
        --mtu) mtu=$2 ;;
        --wire) wire=$2 ;;
        --out) out=$(cd "$2" && pwd) || exit 2 ;;
        --accel) accel=$2 ;;
        --kernel) kernel=$2 ;;
        esac
        shift 2
        ;;
    --fetch) fetch=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
    esac
done

# Modules that the machine loads, before those that they need are added.
wanted="virtio_pci virtio_console 9pnet_virtio 9p crc32_generic rdma_rxe ib_uverbs rdma_ucm"
wanted="$wanted veth sch_netem sch_prio cls_u32 tls"

# fetch_kernel: unpacks the newest kernel package of the system into $kernel. It is not installed: /boot stays as it is.
fetch_kernel()
{
    package=$(apt-cache depends linux-image-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
    [ -n "$package" ] || { say "apt-cache knows no linux-image-amd64"; return 1; }
    rm -rf "$kernel.new"
    mkdir -p "$kernel.new" || return 1
    (
        cd "$kernel.new" && apt-get -q -o APT::Sandbox::User=root download "$package" >apt.log 2>&1 </dev/null &&
            dpkg-deb --fsys-tarfile linux-image*.deb |
            tar xf - --wildcards './boot/vmlinuz*' './lib/modules/*/modules.*' \
                './lib/modules/*/kernel/arch' './lib/modules/*/kernel/crypto' './lib/modules/*/kernel/fs' \
                './lib/modules/*/kernel/lib' './lib/modules/*/kernel/net' './lib/modules/*/kernel/drivers/char' \
                './lib/modules/*/kernel/drivers/infiniband' './lib/modules/*/kernel/drivers/net/veth.ko*' \
                './lib/modules/*/kernel/drivers/virtio' &&
            rm -f linux-image*.deb && busybox depmod -b "$PWD" "$(ls lib/modules)" 2>/dev/null &&
            [ -s "lib/modules/$(ls lib/modules)/modules.dep" ]
    ) || { say "the kernel package $package could not be unpacked: $(tail -n 1 "$kernel.new/apt.log")"; return 1; }
    rm -rf "$kernel"
    mv "$kernel.new" "$kernel"
}

if [ "$(uname -m)" != x86_64 ]; then
    say "the machine is made for x86_64 only"
    exit 77
fi
for command in qemu-system-x86_64 busybox; do
    command -v $command >/dev/null || { say "there is no $command here"; exit 77; }
done
if [ $fetch = yes ]; then
    fetch_kernel
    exit
fi
[ $# -gt 0 ] || { usage >&2; exit 2; }
version=$(ls "$kernel/lib/modules" 2>/dev/null)
[ -n "$version" ] || { say "there is no kernel in $kernel (vm.sh --fetch brings it)"; exit 77; }
modules=$kernel/lib/modules/$version

# A processor without vmx and svm may still offer /dev/kvm, for guests whose kernel knows of that; Debian's does not.
if [ -z "$accel" ]; then
    accel=tcg
    if [ -w /dev/kvm ] && grep -Eqw 'vmx|svm' /proc/cpuinfo; then
        accel=kvm
    fi
fi
[ "$accel" != tcg ] || accel=tcg,thread=multi

work=$(mktemp -d) || exit 125
trap 'rm -rf "$work"' EXIT
trap 'exit 125' HUP INT TERM

# quoted WORD...: the words as a shell reads them.
quoted()
{
    for word in "$@"; do
        printf "'%s' " "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")"
    done
}

# Paths of the modules, each behind those that it needs.
module_paths()
{
    for name in $wanted; do
        line=$(grep -E "(^|/)$name\.ko[^:/]*:" "$modules/modules.dep" | head -n 1)
        path=${line%%:*}
        for needed in ${line#*:}; do
            printf '%s\n' "$needed"
        done | sed '1!G;h;$!d'
        [ -z "$path" ] || printf '%s\n' "$path"
    done | awk '!seen[$0]++'
}

mkdir -p "$work/root/bin" "$work/root/modules" "$work/root/dev" "$work/root/proc" "$work/root/sys" "$work/root/host"
cp "$(command -v busybox)" "$work/root/bin/busybox"
cp "$here/init.sh" "$work/root/init"
module_paths >"$work/paths"
while read -r path; do
    cp "$modules/$path" "$work/root/modules/" && basename "$path" >>"$work/root/modules/list"
done <"$work/paths"
{
    printf 'guest=%s\n' "$(quoted "$here")"
    printf 'tree=%s\n' "$(quoted "$tree")"
    printf 'directory=%s\n' "$(quoted "$PWD")"
    printf 'mtu=%s\n' "$(quoted "$mtu")"
    printf 'wire=%s\n' "$(quoted "$wire")"
    printf 'out=%s\n' "$(quoted "$out")"
    printf 'run() { %s; }\n' "$(quoted "$@")"
} >"$work/root/settings"
(cd "$work/root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initrd"

shares="-virtfs local,path=/,mount_tag=host,security_model=none,multidevs=remap,readonly=on"
set -- -virtfs "local,path=$tree,mount_tag=tree,security_model=none,multidevs=remap,readonly=on"
[ -z "$out" ] || set -- "$@" -virtfs "local,path=$out,mount_tag=out,security_model=none"
# The machine has its own ends of pipes: what it does to them must not reach this program's output.
mkfifo "$work/stdout" "$work/stderr" || exit 125
: >"$work/status"
cat "$work/stdout" &
readers=$!
cat "$work/stderr" >&2 &
readers="$readers $!"
number=0
for end in stdout stderr status; do
    number=$((number + 1))
    set -- "$@" -chardev "file,id=$end,path=$work/$end" -device "virtserialport,chardev=$end,name=$end,nr=$number"
done
# shellcheck disable=SC2086 # words without blanks
setpriv --pdeathsig TERM timeout -k 5 "$limit" setpriv --pdeathsig KILL qemu-system-x86_64 \
    -accel "$accel" -cpu max -smp "$cpus" -m "$mem" -display none -no-reboot -nic none -serial "file:$work/console" \
    -kernel "$(ls "$kernel"/boot/vmlinuz*)" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" \
    $shares -device virtio-serial-pci "$@" </dev/null >"$work/qemu" 2>&1
ended=$?
if [ $ended -ne 0 ] && [ $ended -ne 124 ] && [ $ended -ne 137 ]; then
    # qemu may have ended before it opened the pipes.
    # shellcheck disable=SC2086
    kill $readers 2>/dev/null
fi
wait
status=$(cat "$work/status")
if [ -n "$status" ]; then
    exit "$status"
fi
case $ended in
124 | 137)
    say "the time of $limit seconds was up"
    exit 124
    ;;
esac
say "the machine did not come up, or fell:"
tail -n 20 "$work/console" "$work/qemu" >&2
exit 125
