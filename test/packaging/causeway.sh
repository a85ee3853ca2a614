#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ./causeway says which preset or plan it does not know and which command is too old, and shows how far a build is.
# Usage: causeway.sh SOURCE WORK. The commands that it calls are stand-ins.
set -u
source=$1 work=$2
rm -rf "$work" && mkdir -p "$work/bin" "$work/packaging" || exit 1
cp "$source/causeway" "$source/CMakePresets.json" "$work/"
printf 'build %s cmake 3.25\nbuild sh dash\n' "$work/bin/cmake" >"$work/packaging/packages.txt"
failures=0

fail() {
    echo "FAILED: $*"
    cat "$work/out"
    failures=$((failures + 1))
}

# stand_in VERSION [SECONDS]: a cmake that builds for so long.
stand_in() {
    cat >"$work/bin/cmake" <<END
#!/bin/sh
case \$1 in
--version) echo "cmake version $1" ;;
--build) echo "[7/20] Building C object" && sleep ${2:-0} ;;
esac
END
    chmod +x "$work/bin/cmake"
}

# expect STATUS TEXT COMMAND...: text is in what the script says.
expect() {
    status=$1 text=$2
    shift 2
    PATH="$work/bin:$PATH" "$work/causeway" "$@" >"$work/out" 2>&1
    got=$?
    [ $got = "$status" ] || fail "$*: status $got instead of $status"
    grep -qF -e "$text" "$work/out" || fail "$*: no '$text'"
}

stand_in 3.25.1
expect 2 "There is no preset 'relaese'; there are: release " build relaese
expect 2 "There is no preset 'debug'; there are: " test debug
expect 0 "Building release" build release
stand_in 3.30.0 11
expect 0 "causeway: [7/20]" build release
for version in 3.24.9 3.9.1 2.8 nonsense; do
    stand_in $version
    expect 1 "and 3.25 is needed (Debian: cmake)" build release
done
[ $failures = 0 ]
