#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the wheel, installs it into a fresh virtual environment without any index, and runs tests there, away from the
# tree's libraries. Usage: wheel.sh SOURCE WORK PYTHON. Status 77: cannot run here.
set -eu

source=$1
work=$2
python=$3

# An interpreter that somebody installed beside the system's may lack them.
for candidate in "$python" /usr/bin/python3 ""; do
    [ -z "$candidate" ] || "$candidate" -c 'import ensurepip, setuptools, wheel' 2>/dev/null || continue
    break
done
python=$candidate
[ -n "$python" ] || {
    echo "SKIPPED: venv, setuptools or wheel are missing (packages python3-venv, python3-setuptools, python3-wheel)."
    exit 77
}
# packaging.reproducible compares this build with another one, which a cache of compilations would make the same.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
wheel=$(PYTHON=$python sh "$source/python/build.sh" "$work") || { echo "FAILED: no wheel" >&2; exit 1; }
rm -rf "$work/venv"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install --no-index "$wheel"
cd "$source/python/tests"
unset PYTHONPATH LD_LIBRARY_PATH
found=$("$work/venv/bin/python" -B -c 'import causeway, re
maps = open("/proc/self/maps").read()
print("\n".join(sorted(set(re.findall(r"\S*/libuc[pst]\.so\S*", maps)))))')
for library in libucp libucs; do
    echo "$found" | grep -q "^$work/venv/.*/causeway/lib/$library\.so\.0" ||
        { echo "FAILED: $library is not that of the wheel: $found" >&2; exit 1; }
done
"$work/venv/bin/python" -B -m unittest test_am test_tag test_loop test_border
