#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the wheel of the Python package, with the libraries inside, from nothing but this tree. Usage: build.sh
# [OUTPUT] (default: build/wheel). Prints where the wheel lies; what was said while building is in OUTPUT/build.log.
# PYTHON: the interpreter that it is for (default: python3).
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
output=${1:-$source/build/wheel}
: "${PYTHON:=python3}"
mkdir -p "$output"
output=$(cd "$output" && pwd)
version=$(sed -n 's/^project(causeway VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")

if ! {
    cmake -G Ninja -S "$source" -B "$output/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCW_BUILD_TESTS=OFF \
        -DCW_BUILD_PYTHON=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
        -DPython3_EXECUTABLE="$(command -v "$PYTHON")" &&
        cmake --build "$output/build" --target causeway_python ucp ucs uct ucm
} >"$output/build.log" 2>&1; then
    tail -n 30 "$output/build.log" >&2
    echo "The libraries could not be built (all of it: $output/build.log)." >&2
    exit 1
fi

stage=$output/stage
rm -rf "$stage" "$output/dist"
mkdir -p "$stage/causeway/lib" "$output/dist"
cp "$source"/python/causeway/* "$stage/causeway/" 2>/dev/null || true
rm -rf "$stage/causeway/__pycache__"
cp "$output"/build/python/causeway/_core.*.so "$stage/causeway/"
for library in ucp ucs uct ucm; do
    cp -L "$output/build/lib/lib$library.so.0" "$stage/causeway/lib/"
done
strip --strip-unneeded "$stage"/causeway/*.so "$stage"/causeway/lib/*
cp "$source/python/setup.py" "$source/python/README.md" "$source/LICENSE" "$stage/"
# The date of the files in the wheel is that of the change log, so that a build can be repeated.
SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*>  //p' "$source/packaging/debian/changelog" | head -n 1)" +%s)
export SOURCE_DATE_EPOCH
if ! (cd "$stage" && CAUSEWAY_VERSION=$version "$PYTHON" -B setup.py -q bdist_wheel -d "$output/dist") \
    >>"$output/build.log" 2>&1; then
    tail -n 30 "$output/build.log" >&2
    echo "The wheel could not be made (all of it: $output/build.log)." >&2
    exit 1
fi
python3 -B "$source/packaging/sbom.py" "$source" "$output"/dist/*.whl
echo "$output"/dist/*.whl
