#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the Debian packages and tries them. Usage: deb.sh SOURCE OUTPUT, which is kept so that the next build is quick.
#
# They are installed by dpkg into an empty root, where packages made for the purpose stand for what a Debian system has:
# libc6, the packages whose place ours take, and a program that needs libucx0. Nobody's system is changed. Where that
# cannot be done (it takes root, or user namespaces) they are only unpacked. Then debian/tests/smoke works in that root.
# Status 77: cannot run here.
set -eu

source=$1
output=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$output/root
dummies=$output/dummies

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

for tool in dpkg-deb dpkg-buildpackage dh pandoc pkg-config; do
    command -v $tool >/dev/null ||
        { echo "SKIPPED: there is no $tool here (packages dpkg-dev, debhelper, pandoc, pkg-config)."; exit 77; }
done

built=$(sh "$source/packaging/deb.sh" "$source" "$output") || fail "the packages do not build"
debug=$(echo "$built" | grep -- '-dbgsym_' || true)
built=$(echo "$built" | grep -v -- '-dbgsym_')
[ "$(echo "$built" | wc -l)" -eq 4 ] || fail "four packages were to be built: $built"
[ "$(echo "$debug" | wc -l)" -eq 3 ] || fail "three packages of symbols were to be built: $debug"
# One file in the place of that of libucx0; packaging.root installs it.
swap=$(echo "$built" | grep '/causeway-swap_')
built=$(echo "$built" | grep -v '/causeway-swap_')
files=$(dpkg-deb -c "$swap" | awk '/^-/ { print $NF }' | grep -v /usr/share/ || true)
case $files in
./usr/lib/*/libucp.so.0.0.0) ;;
*) fail "$swap has not one library: $files" ;;
esac
for script in preinst postrm; do
    dpkg-deb -I "$swap" $script | grep -qF "library=$(dirname "${files#.}")/libucp.so.0.0.0" || fail "$script of $swap"
done
dpkg-deb -f "$swap" Depends | grep -q '^libucx0 (' || fail "$swap does not keep libucx0"
dpkg-deb -f "$(echo "$built" | grep /libcauseway0_)" Breaks | grep -qx libucc1 || fail "libucc1 may stay beside it"
version=$(sed -n 's/^project(causeway VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
for pair in libcauseway0=libucx0 libcauseway-dev=libucx-dev causeway-utils=ucx-utils; do
    package=$(echo "$built" | grep "/${pair%=*}_")
    for field in "Provides: ${pair#*=} (= $version)" "Conflicts: ${pair#*=}" "Replaces: ${pair#*=}"; do
        dpkg-deb -f "$package" | grep -qxF "$field" || fail "$package lacks the field '$field'"
    done
    maintainer_scripts=$(dpkg-deb --ctrl-tarfile "$package" | tar -tf - | grep -E 'inst$|rm$' || true)
    [ -z "$maintainer_scripts" ] || fail "$package has scripts, which this test does not run: $maintainer_scripts"
done

# dummy NAME VERSION [FIELD...]: an empty package.
dummy()
{
    directory=$dummies/$1
    mkdir -p "$directory/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: nobody <nobody@packages.invalid>\n' \
            "$1" "$2" "$(dpkg --print-architecture)"
        printf 'Description: stands for what a system has\n'
        shift 2
        for field in "$@"; do
            echo "$field"
        done
    } >"$directory/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$directory" "$directory.deb" >/dev/null
}

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root="unshare -r"
    $as_root true 2>/dev/null || as_root=none
fi

in_root()
{
    # shellcheck disable=SC2086 # words
    $as_root dpkg --root="$root" --log=/dev/null --force-not-root "$@" >"$output/dpkg.log" 2>&1
}

state()
{
    dpkg-query --admindir="$root/var/lib/dpkg" -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | tr -d ' ' || true
}

rm -rf "$root" "$dummies"
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
if [ "$as_root" = none ]; then
    echo "Neither root nor user namespaces: the packages are unpacked, but not installed."
    for package in $built; do
        dpkg-deb -x "$package" "$root"
    done
else
    : >"$root/var/lib/dpkg/status"
    : >"$root/var/lib/dpkg/available"
    dummy libc6 "$(dpkg-query -W -f='${Version}\n' libc6 | head -n 1)"
    dummy libucx0 1.13.1-1 "Depends: libc6"
    dummy libucx-dev 1.13.1-1 "Depends: libucx0 (= 1.13.1-1)"
    dummy ucx-utils 1.13.1-1 "Depends: libucx0 (= 1.13.1-1)"
    dummy mpi 1 "Depends: libucx0 (>= 1.13.1), libucx-dev"
    in_root -i "$dummies"/*.deb || { cat "$output/dpkg.log"; fail "the stand-ins cannot be installed"; }
    # shellcheck disable=SC2086 # a list of files
    in_root --auto-deconfigure -i $built || { cat "$output/dpkg.log"; fail "the packages cannot be installed"; }
    for package in libcauseway0 libcauseway-dev causeway-utils mpi; do
        [ "$(state "$package")" = ii ] || { cat "$output/dpkg.log"; fail "$package: $(state $package), not installed"; }
    done
    for package in libucx0 libucx-dev ucx-utils; do
        case $(state "$package") in
        i*) fail "$package is still there" ;;
        esac
    done
    ! in_root -i "$dummies/ucx-utils.deb" || fail "ucx-utils of another version can be installed beside ours"
    grep -q 'conflicting packages' "$output/dpkg.log" || { cat "$output/dpkg.log"; fail "not refused as a conflict"; }
    in_root --audit || fail "dpkg --audit"
    [ ! -s "$output/dpkg.log" ] || { cat "$output/dpkg.log"; fail "dpkg --audit finds something"; }
fi

for file in "$root"/usr/lib/*/libuc[pstm].so.0 "$root"/usr/bin/*; do
    ! readelf -d "$file" | grep -qE 'RPATH|RUNPATH' || fail "$file has a search path of its own"
done
# A library without InfiniBand and libfabric would silently take a cluster off its fabric.
libdir=$(dirname "$(echo "$root"/usr/lib/*/libucp.so.0)")
transports=$(LD_LIBRARY_PATH=$libdir "$root/usr/bin/ucx_info" -b | sed -n 's/^#define CW_TRANSPORTS *"\(.*\)"/\1/p')
for transport in self shm tcp verbs ofi; do
    case " $transports " in
    *" $transport "*) ;;
    *) fail "the packages are built without transport $transport: $transports" ;;
    esac
done
for program in "$root"/usr/bin/*; do
    tool=$(basename "$program")
    [ -f "$root/usr/share/man/man1/$tool.1.gz" ] || fail "no manual page of $tool"
    [ -f "$root/usr/share/bash-completion/completions/$tool" ] || fail "no completion of $tool"
done
rm -rf "$output/symbols"
for package in $debug; do
    dpkg-deb -x "$package" "$output/symbols"
done
sh "$here/symbols.sh" "$(echo "$root"/usr/lib/*/libucp.so.0)" ucp_tag_send_nbx "$output/symbols" || exit 1
sh "$here/symbols.sh" "$root/usr/bin/ucx_info" main "$output/symbols" || exit 1
strays=$(grep -rlF "$output" "$root/usr" || true)
[ -z "$strays" ] || fail "files name the directory in which they were built: $strays"
rm -rf "$output/consumer"
{
    cmake -G Ninja -S "$here/../install/consumer" -B "$output/consumer" -DCMAKE_PREFIX_PATH="$root/usr" \
        -DEXPECTED_VERSION="$version" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF &&
        cmake --build "$output/consumer"
} >"$output/consumer.log" 2>&1 || { cat "$output/consumer.log"; fail "find_package(ucx)"; }
sh "$source/packaging/debian/tests/smoke" "$root" "$here/../install/consumer/consumer.c" || fail "debian/tests/smoke"
