#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tries the Debian packages in a fresh Debian, with Open MPI as it comes from there. Usage, as root: chroot.sh PACKAGES
# DIRECTORY. PACKAGES: where `./causeway deb` put them. DIRECTORY: where the system is made, if it is not there yet.
#
# Not among the automatic tests: it takes debootstrap, a network, root and some minutes. Mounts are made in a name space
# of the script's own, so they vanish with it.
set -eu

if [ "${CW_CHROOT_UNSHARED:-no}" = no ]; then
    export CW_CHROOT_UNSHARED=yes
    exec unshare -m --propagation private sh "$0" "$@"
fi
packages=$(cd "$1" && pwd)
system=$2
here=$(cd "$(dirname "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

inside()
{
    timeout -s KILL 600 chroot "$system" "$@" >"$system/try/log" 2>&1 || { cat "$system/try/log"; fail "$*"; }
}

state()
{
    # shellcheck disable=SC2016 # not the shell's
    chroot "$system" dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | tr -d ' ' || true
}

if [ ! -f "$system/etc/debian_version" ]; then
    debootstrap --variant=minbase bookworm "$system" >/dev/null || fail "debootstrap"
fi
mount -t proc proc "$system/proc"
mkdir -p "$system/dev/shm" "$system/try"
mount -t tmpfs tmpfs "$system/dev/shm"
cp "$packages"/libcauseway*.deb "$packages"/causeway-utils*.deb "$system/try"
rm -f "$system"/try/*dbgsym*
cp "$here/../../packaging/debian/tests/smoke" "$here/../install/consumer/consumer.c" "$system/try"

echo "MPI on libucx0 ..."
inside apt-get update
inside apt-get install -y --no-install-recommends openmpi-bin libucx0 ucx-utils libucx-dev gcc libc6-dev pkg-config
echo "Ours instead ..."
inside sh -c 'apt-get install -y --no-install-recommends /try/*.deb'
for package in libcauseway0 libcauseway-dev causeway-utils libopenmpi3; do
    [ "$(state $package)" = ii ] || fail "$package is $(state $package)"
done
[ "$(state libucx0)" != ii ] || fail "libucx0 is still there"
inside apt-get check
inside sh /try/smoke
inside sh /try/smoke "" /try/consumer.c
# Components whose libraries do not fit are left out of this list.
inside sh -c 'ompi_info | grep "pml: ucx" && ompi_info | grep "osc: ucx"'
inside sh -c 'ldd /usr/lib/*/openmpi/lib/openmpi3/mca_pml_ucx.so'
! grep -q 'not found' "$system/try/log" || fail "Open MPI does not find its libraries"
echo "And back ..."
inside apt-get install -y --no-install-recommends libucx0
[ "$(state libopenmpi3)" = ii ] || fail "libopenmpi3 is $(state libopenmpi3)"
[ "$(state libucx0)" = ii ] || fail "libucx0 is $(state libucx0)"
[ "$(state libcauseway0)" != ii ] || fail "libcauseway0 is still there"
echo "The packages take the place of Debian's, and give it back."
