#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests of what is installed. Usage: install.sh CASE BUILD-DIR WORK-DIR VERSION, with CC and CMAKE in the environment.
# CASE: install (the fixture of the others), files, simulators, shared, cxx, static, cmake, moved, destdir, bare, clang,
# suffix.
# Status 77: cannot run here.
set -eu

case_name=$1
build=$2
work=$3
version=$4
prefix=$work/prefix
here=$(cd "$(dirname "$0")" && pwd)
: "${CC:=cc}" "${CXX:=c++}" "${CMAKE:=cmake}"
compiler=$CC
source=consumer.c
packages=ucx

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

# The directory below $1 in which libucp.so was installed.
libdir()
{
    find "$1" -name libucp.so -exec dirname {} \;
}

# Runs the consumer $1, which must answer with our version, and not take our libraries from anywhere but $2 (or, if that
# is "static", not take them at all).
run_consumer()
{
    needed=$(LD_LIBRARY_PATH=$2 ldd "$1")
    case $2 in
    static)
        ! echo "$needed" | grep -q libuc || fail "$1 was to be linked statically but needs: $needed"
        ;;
    *)
        echo "$needed" | grep -q "libucp.so.0 => $2/" || fail "$1 does not take libucp from $2: $needed"
        ! echo "$needed" | grep libuc | grep -qv "=> $2/" || fail "$1 takes libraries from elsewhere: $needed"
        ;;
    esac
    answer=$(LD_LIBRARY_PATH=$2 "$1") || fail "$1 ended with status $?"
    [ "$answer" = "$version" ] || fail "$1 ran with version $answer, not $version"
}

need_pkg_config()
{
    command -v pkg-config >/dev/null || { echo "SKIPPED: there is no pkg-config on this machine."; exit 77; }
}

# pkg_config_consumer PREFIX OUTPUT [--static]: with the packages $packages.
pkg_config_consumer()
{
    lib=$(libdir "$1")
    [ -n "$lib" ] || lib=$(dirname "$(find "$1" -name libucp.a)")
    output=$2
    shift 2
    PKG_CONFIG_PATH=$lib/pkgconfig
    export PKG_CONFIG_PATH
    found=$(pkg-config --modversion ucx) || fail "pkg-config does not find ucx"
    [ "$found" = "$version" ] || fail "pkg-config speaks of version $found, not $version"
    # shellcheck disable=SC2086 # a list of packages
    flags=$(pkg-config "$@" --cflags --libs $packages) || fail "pkg-config lacks one of: $packages"
    # shellcheck disable=SC2086 # a list of flags
    "$compiler" -Wall -Wextra -Werror "$here/consumer/$source" -o "$output" $flags ||
        fail "the consumer does not build with: $flags"
}

cmake_consumer()
{
    rm -rf "$2"
    if ! { "$CMAKE" -S "$here/consumer" -B "$2" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$1" \
        -DEXPECTED_VERSION="$version" -DLIBRARY_SUFFIX="${library_suffix:-}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF &&
        "$CMAKE" --build "$2"; } >"$2.log" 2>&1; then
        cat "$2.log"
        fail "the consumer does not build with find_package"
    fi
}

case $case_name in
install)
    rm -rf "$work"
    mkdir -p "$work"
    "$CMAKE" --install "$build" --prefix "$prefix" >"$work/install.log" || fail "cmake --install"
    ;;
files)
    lib=$(libdir "$prefix")
    for name in ucp uct ucs ucm; do
        [ -f "$lib/lib$name.a" ] || fail "lib$name.a is missing"
        [ "$(readlink "$lib/lib$name.so.0")" = lib$name.so.0.0.0 ] ||
            fail "lib$name.so.0 is no link to lib$name.so.0.0.0"
        [ -L "$lib/lib$name.so" ] || fail "lib$name.so is no link"
        soname=$(readelf -d "$lib/lib$name.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
        [ "$soname" = lib$name.so.0 ] || fail "lib$name.so is called $soname"
        ! readelf -d "$lib/lib$name.so" | grep -q INTERPOSE || fail "lib$name.so interposes"
        readelf -n "$lib/lib$name.so" | grep -q 'Build ID' || fail "lib$name.so has no build id"
    done
    for file in pkgconfig/ucx.pc pkgconfig/ucx-ucs.pc pkgconfig/ucx-uct.pc pkgconfig/ucx-cma.pc \
        pkgconfig/ucx-fuse.pc pkgconfig/ucx-ib.pc pkgconfig/ucx-rdmacm.pc \
        cmake/ucx/ucx-config.cmake cmake/ucx/ucx-config-version.cmake cmake/ucx/ucx-targets.cmake; do
        [ -f "$lib/$file" ] || fail "$file is missing"
        ! grep -qF -e "$work" -e "$build" "$lib/$file" || fail "$file names the machine it was built on"
    done
    (cd "$here/../../include" && find . -name '*.h') | while read -r header; do
        [ -f "$prefix/include/$header" ] || fail "the header $header is missing"
    done
    [ "$(ls "$lib/swap")" = libucp.so.0 ] || fail "swap holds more or less than libucp.so.0: $(ls "$lib/swap")"
    ! readelf -d "$lib/swap/libucp.so.0" | grep -E 'NEEDED.*libuc|RPATH|RUNPATH' || fail "swap/libucp.so.0 needs more"
    [ ! -d "$build/completions" ] || for program in "$prefix"/bin/ucx_*; do
        name=$(basename "$program")
        [ -f "$prefix/share/bash-completion/completions/$name" ] || fail "the completion of $name is missing"
        # Made only where there is pandoc.
        [ ! -d "$build/man" ] || [ -f "$prefix/share/man/man1/$name.1" ] || fail "the manual page of $name is missing"
    done
    [ ! -d "$build/man" ] || [ -f "$prefix/share/man/man3/ucp_init.3" ] || fail "manual pages of functions are missing"
    ;;
simulators)
    # The network, the devices and the GPU of test/sim are in nothing that is installed: no symbol, no word.
    words='cw_sim|cw_md_sim|simrdma|simulat(ed|or)'
    for source in sim.c sim_gpu.c sim_transport.h; do
        grep -qE "$words" "$here/../sim/$source" || fail "the words that are searched for are not those of $source"
    done
    if [ -z "$(libdir "$prefix")" ] || [ ! -x "$prefix/bin/ucx_info" ]; then
        fail "libraries or programs are missing"
    fi
    found=$(grep -rlaE "$words" "$(libdir "$prefix")" "$prefix/bin" || true)
    [ -z "$found" ] || fail "the simulators of the tests are in $found"
    ;;
shared)
    need_pkg_config
    pkg_config_consumer "$prefix" "$work/shared"
    run_consumer "$work/shared" "$(libdir "$prefix")"
    ;;
cxx)
    need_pkg_config
    command -v "$CXX" >/dev/null || { echo "SKIPPED: there is no C++ compiler on this machine."; exit 77; }
    compiler=$CXX
    source=consumer.cc
    pkg_config_consumer "$prefix" "$work/cxx"
    for UCX_TLS in self,shm tcp; do
        export UCX_TLS
        run_consumer "$work/cxx" "$(libdir "$prefix")"
    done
    ;;
static)
    need_pkg_config
    # Without shared libraries the linker has to take the archives.
    rm -rf "$work/archives"
    cp -R "$prefix" "$work/archives"
    find "$work/archives" -name 'libuc*.so*' -exec rm -f {} +
    pkg_config_consumer "$work/archives" "$work/static" --static
    run_consumer "$work/static" static
    # Programs that link the reference statically name its modules, too.
    packages="ucx ucx-cma ucx-fuse ucx-ib ucx-rdmacm"
    pkg_config_consumer "$work/archives" "$work/static-modules" --static
    run_consumer "$work/static-modules" static
    ;;
cmake)
    cmake_consumer "$prefix" "$work/cmake"
    run_consumer "$work/cmake/consumer" "$(libdir "$prefix")"
    ;;
moved)
    need_pkg_config
    rm -rf "$work/first" "$work/elsewhere"
    cp -R "$prefix" "$work/first"
    mv "$work/first" "$work/elsewhere"
    mv "$prefix" "$prefix.away"
    trap 'mv "$prefix.away" "$prefix"' EXIT
    pkg_config_consumer "$work/elsewhere" "$work/moved"
    run_consumer "$work/moved" "$(libdir "$work/elsewhere")"
    cmake_consumer "$work/elsewhere" "$work/moved-cmake"
    run_consumer "$work/moved-cmake/consumer" "$(libdir "$work/elsewhere")"
    # An installed program finds the libraries beside it, wherever it lies.
    for program in "$work"/elsewhere/bin/*; do
        [ -x "$program" ] || continue
        strays=$( (unset LD_LIBRARY_PATH; ldd "$program") | grep libuc | grep -v "$work/elsewhere/" || true)
        [ -z "$strays" ] || fail "$program looks elsewhere: $strays"
    done
    ;;
destdir)
    rm -rf "$work/stage"
    DESTDIR=$work/stage "$CMAKE" --install "$build" --prefix /opt/causeway >/dev/null || fail "cmake --install"
    [ -n "$(libdir "$work/stage/opt/causeway")" ] || fail "nothing was installed below DESTDIR"
    [ "$(find "$work/stage" -mindepth 1 -maxdepth 2 | wc -l)" = 2 ] || fail "files outside the prefix in DESTDIR"
    ;;
bare)
    # Plain CMake on a machine that has neither cmocka nor Python, nor the headers of libibverbs and libfabric.
    rm -rf "$work/bare"
    mkdir -p "$work"
    "$CMAKE" -S "$here/../.." -B "$work/bare" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCW_CMOCKA_LIBRARY= \
        -DCW_CMOCKA_INCLUDE= -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCW_VERBS_INCLUDE= -DCW_LIBFABRIC_HEADERS= \
        >"$work/bare.log" 2>&1 || { cat "$work/bare.log"; fail "the configuration stops"; }
    for line in 'tests left out: no cmocka.h (libcmocka-dev)' 'transports self, shm, tcp: yes' \
        'transport verbs left out: no infiniband/verbs.h (libibverbs-dev)' \
        'transport ofi left out: no rdma/fabric.h (libfabric-dev)'; do
        grep -qxF -e "-- $line" "$work/bare.log" || { cat "$work/bare.log"; fail "it does not say: $line"; }
    done
    ;;
suffix)
    # Libraries of another name, in one process with those of the build directory.
    need_pkg_config
    work=$work-suffix
    mkdir -p "$work"
    ! "$CMAKE" -S "$here/../.." -B "$work/bad-suffix" -G Ninja -DCW_SONAME_SUFFIX=-a/b >"$work/suffix.log" 2>&1 ||
        fail "a suffix with a slash is taken"
    suffix=$work/with-suffix
    if ! { "$CMAKE" -S "$here/../.." -B "$suffix" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Debug \
        -DCW_SONAME_SUFFIX=nixl -DCW_BUILD_TOOLS=OFF -DCW_BUILD_PYTHON=OFF && "$CMAKE" --build "$suffix" &&
        "$CMAKE" --install "$suffix" --prefix "$suffix/prefix"; } >"$work/suffix.log" 2>&1; then
        tail -n 30 "$work/suffix.log"
        fail "the libraries with a suffix do not build"
    fi
    lib=$(dirname "$(find "$suffix/prefix" -name libucp-nixl.so)")
    [ "$(ls "$lib/swap")" = libucp-nixl.so.0 ] || fail "swap holds $(ls "$lib/swap")"
    for file in "$lib"/libuc*.so "$lib/swap/libucp-nixl.so.0"; do
        name=$(basename "$file" .0).0
        dynamic=$(readelf -d "$file")
        echo "$dynamic" | grep -q "SONAME.*\[$name\]" || fail "$file is called otherwise: $dynamic"
        ! echo "$dynamic" | grep 'NEEDED.*libuc' | grep -v -e '-nixl\.so\.0' || fail "$file needs others"
    done
    PKG_CONFIG_PATH=$lib/pkgconfig
    export PKG_CONFIG_PATH
    flags=$(pkg-config --cflags --libs ucx)
    # shellcheck disable=SC2086 # a list of flags
    "$CC" -Wall -Wextra -Werror "$here/consumer/consumer.c" -o "$work/suffixed" $flags || fail "no build with: $flags"
    LD_LIBRARY_PATH=$lib ldd "$work/suffixed" | grep -q 'libucp-nixl\.so\.0' || fail "another library by: $flags"
    answer=$(LD_LIBRARY_PATH=$lib "$work/suffixed") || fail "the program with pkg-config ended with status $?"
    [ "$answer" = "$version" ] || fail "it ran with version $answer"
    library_suffix=-nixl
    cmake_consumer "$suffix/prefix" "$work/suffixed-cmake"
    LD_LIBRARY_PATH=$lib "$work/suffixed-cmake/consumer" >/dev/null || fail "the program with find_package"
    # In one process with the library without suffix, ours and UCX's: each in the global scope or not, or linked.
    loader=$build/bin/loader
    [ -x "$loader" ] || { echo "SKIPPED: test/abi has not built its loader."; exit 77; }
    for other in "$build/lib/libucp.so.0" "${CW_OLDER_UCP:-}"; do
        [ -n "$other" ] || continue
        other=$(dirname "$other")/libucp.so.0
        for scope in global local; do
            "$loader" $scope "$other" "$lib/libucp-nixl.so.0" || fail "$other and the suffix: $scope"
        done
        LD_PRELOAD=$other "$loader" local "$other" "$lib/libucp-nixl.so.0" || fail "$other linked, and the suffix"
    done
    "$loader" global "$lib/libucp-nixl.so.0" "$build/lib/libucp.so.0" || fail "the suffix is in the global scope"
    ;;
clang)
    # The sanitizer of clang leaves its functions to the program, which a library must let pass.
    command -v clang >/dev/null || { echo "SKIPPED: there is no clang on this machine."; exit 77; }
    if ! { "$CMAKE" -S "$here/../.." -B "$work/clang" -G Ninja -DCMAKE_C_COMPILER=clang -DCW_BUILD_TESTS=OFF \
        -DCMAKE_CXX_COMPILER=clang++ -DCW_SANITIZE=address &&
        "$CMAKE" --build "$work/clang" --target ucp ucs uct ucm ucx_info; } >"$work/clang.log" 2>&1; then
        tail -n 30 "$work/clang.log"
        fail "clang with the address sanitizer"
    fi
    "$work/clang/bin/ucx_info" -b | grep -q 'CW_SANITIZE *"address"' || fail "ucx_info does not run"
    ;;
*)
    fail "there is no case $case_name"
    ;;
esac
