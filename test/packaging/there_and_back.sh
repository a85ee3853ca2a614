#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run by root.sh, as root in a new Debian: programs on UCX, on causeway-swap, on UCX again, on the full set, and so on.
set -eu

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
log=/tmp/log

fail()
{
    [ ! -s $log ] || tail -n 40 $log
    echo "FAILED: $*" >&2
    exit 1
}

quiet()
{
    "$@" >$log 2>&1 || fail "$*"
}

install()
{
    quiet apt-get install -y --no-install-recommends "$@"
}

packages()
{
    # shellcheck disable=SC2016 # not the shell's
    dpkg-query -W -f='${db:Status-Abbrev} ${Package} ${Version}\n' | grep '^ii' | sort
}

# on ours|theirs TRY...: each program runs, and says so if libucp is ours.
on()
{
    whose=$1
    shift
    for try; do
        echo "$try on ${whose} ..."
        case $try in
        perftest) set -- timeout -s KILL 60 ucx_perftest -l -t tag_lat -s 64 -n 500 -w 50 -f ;;
        # By default it takes UCP only with fast network cards.
        openmpi)
            set -- timeout -s KILL 120 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -mca pml ucx \
                -mca pml_ucx_tls any -mca pml_ucx_devices any -mca opal_common_ucx_tls any \
                -mca opal_common_ucx_devices any -np 2 ./program.openmpi
            ;;
        mpich) set -- timeout -s KILL 120 env MPIR_CVAR_NOLOCAL=1 mpirun.mpich -np 2 ./program.mpich ;;
        esac
        [ "$try" = perftest ] || [ -x "./program.$try" ] || { echo "left out: no mpicc.$try"; continue; }
        UCX_LOG_LEVEL=info quiet "$@"
        case $whose in
        ours) grep -q 'of the UCP API serves a program' $log || fail "$try: libucp is not ours" ;;
        theirs) ! grep -q 'of the UCP API serves a program' $log || fail "$try: libucp is ours" ;;
        esac
    done
}
all="perftest openmpi mpich"

quiet apt-get update
install openmpi-bin mpich ucx-utils libucx0 gcc libc6-dev pkg-config
library=$(dpkg -L libucx0 | grep '/libucp\.so\.0\.0\.0$')
CW_APPS_LIB=$(dirname "$library") # where the programs look for the libraries that are loaded
export CW_APPS_LIB
# shellcheck disable=SC2086 # words
on theirs $all
packages >/tmp/before
original=$(md5sum <"$library")

echo "causeway-swap ..."
install ./debs/causeway-swap_*.deb
packages | grep -v ' causeway-swap ' | diff /tmp/before - >$log || fail "other packages changed"
# shellcheck disable=SC2086 # words
on ours $all
quiet ldconfig
on ours perftest
quiet apt-get install -y --reinstall libucx0
quiet dpkg -i debs/causeway-swap_*.deb
on ours perftest
quiet ucx_info -d
quiet dpkg --verify libucx0
[ ! -s $log ] || fail "dpkg --verify"

echo "And back ..."
quiet apt-get remove -y causeway-swap
packages | diff /tmp/before - >$log || fail "other packages changed"
[ "$(md5sum <"$library")" = "$original" ] || fail "$library is not the original"
[ -z "$(dpkg-divert --list causeway-swap)" ] || fail "a diversion is left"
[ ! -e "$(dirname "$library")/causeway" ] || fail "a directory is left"
# shellcheck disable=SC2086 # words
on theirs $all

echo "All four libraries ..."
install ./debs/libcauseway*.deb ./debs/causeway-utils_*.deb
quiet apt-get check
for package in libcauseway0 libcauseway-dev causeway-utils openmpi-bin mpich; do
    packages | grep -q "^ii  $package " || fail "$package is not installed"
done
! packages | grep -q ' libucx0 ' || fail "libucx0 is still there"
# shellcheck disable=SC2086 # words
on ours $all
quiet sh smoke

echo "From there to causeway-swap, and back ..."
install libucx0 ucx-utils ./debs/causeway-swap_*.deb
! packages | grep ' libcauseway' || fail "libcauseway is still there"
# shellcheck disable=SC2086 # words
on ours $all
quiet apt-get purge -y causeway-swap
packages | diff /tmp/before - >$log || fail "other packages changed"
[ "$(md5sum <"$library")" = "$original" ] || fail "$library is not the original"
quiet apt-get check
# shellcheck disable=SC2086 # words
on theirs $all
echo "The packages take the place of Debian's, and give it back."
