#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the RPM packages from a source tarball and checks what they hold. Usage: rpm.sh SOURCE OUTPUT. Nothing is
# installed: the libraries and tools are unpacked and run. Status 77: cannot run here.
set -eu

source=$1
output=$2
root=$output/root

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

for tool in rpmbuild rpm2cpio cpio pandoc; do
    command -v $tool >/dev/null ||
        { echo "SKIPPED: there is no $tool on this machine (packages rpm, rpm2cpio, cpio, pandoc)."; exit 77; }
done
built=$(sh "$source/packaging/rpm/rpm.sh" "$source" "$output") || fail "the packages do not build"
version=$(sed -n 's/^project(causeway VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
for package in causeway-libs causeway-devel causeway-utils; do
    echo "$built" | grep -q "/$package-$version-" || fail "$package was not built: $built"
done
echo "$built" | grep -q "/causeway-$version-.*\.src\.rpm$" || fail "no source package: $built"

query()
{
    rpm -qp --nosignature --nodigest "$@"
}

of()
{
    echo "$built" | grep "/$1-$version-"
}

query --provides "$(of causeway-libs)" | grep -q 'libucp\.so\.0' || fail "causeway-libs does not provide libucp.so.0"
query --provides "$(of causeway-libs)" | grep -qF "ucx = $version" || fail "causeway-libs does not stand for ucx"
query --requires "$(of causeway-devel)" | grep -q '^causeway-libs' || fail "causeway-devel does not need the libraries"

rm -rf "$root"
mkdir -p "$root"
for package in $(of causeway-libs) $(of causeway-devel) $(of causeway-utils); do
    rpm2cpio "$package" | (cd "$root" && cpio -idm --quiet) || fail "cannot unpack $package"
done
libucp=$(find "$root" -name libucp.so.0)
[ -n "$libucp" ] || fail "no libucp.so.0"
libdir=$(dirname "$libucp")
for file in "$libdir"/libuc[pstm].so.0 "$root"/usr/bin/*; do
    ! readelf -d "$file" | grep -qE 'RPATH|RUNPATH' || fail "$file has a search path of its own"
done
# On systems of RPM they are always made; elsewhere that takes its tools.
if command -v find-debuginfo >/dev/null && command -v eu-strip >/dev/null; then
    here=$(cd "$(dirname "$0")" && pwd)
    rm -rf "$output/symbols"
    mkdir -p "$output/symbols"
    [ -n "$(of causeway-debuginfo)" ] || fail "no package of symbols: $built"
    rpm2cpio "$(of causeway-debuginfo)" | (cd "$output/symbols" && cpio -idm --quiet) || fail "cannot unpack symbols"
    sh "$here/symbols.sh" "$libdir/libucp.so.0" ucp_tag_send_nbx "$output/symbols" || exit 1
    sh "$here/symbols.sh" "$root/usr/bin/ucx_info" main "$output/symbols" || exit 1
else
    echo "There is no find-debuginfo or no eu-strip (packages debugedit, elfutils): no package of symbols."
fi
# A library without InfiniBand and libfabric would silently take a cluster off its fabric.
transports=$(LD_LIBRARY_PATH=$libdir "$root/usr/bin/ucx_info" -b | sed -n 's/^#define CW_TRANSPORTS *"\(.*\)"/\1/p')
for transport in self shm tcp verbs ofi; do
    case " $transports " in
    *" $transport "*) ;;
    *) fail "the packages are built without transport $transport: $transports" ;;
    esac
done
LD_LIBRARY_PATH=$libdir "$root/usr/bin/ucx_info" -v | grep -qF "$version" || fail "ucx_info does not run"
flags=$(PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags --libs ucx 2>/dev/null) || flags=
case $flags in
*-lucp*) ;;
*) command -v pkg-config >/dev/null && fail "pkg-config does not find ucx: $flags" ;;
esac
echo "$built"
