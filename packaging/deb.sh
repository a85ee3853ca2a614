#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the Debian packages. Usage: deb.sh SOURCE OUTPUT. The packages lie in OUTPUT afterwards, what was said while
# building in OUTPUT/build.log. The tree is copied, because Debian's tools want debian/ at its top; a build directory of
# an earlier run is used again.
set -eu

source=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
version=$(sed -n 's/^project(causeway VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
packaged=$(sed -n '1s/^causeway (\(.*\)) .*/\1/p' "$source/packaging/debian/changelog")
tree=$output/causeway-$version

if [ "$version" != "$packaged" ]; then
    echo "The version is $version in CMakeLists.txt and $packaged in packaging/debian/changelog." >&2
    exit 1
fi
for tool in dpkg-buildpackage dh pandoc; do
    command -v $tool >/dev/null || { echo "There is no $tool (packages dpkg-dev, debhelper, pandoc)." >&2; exit 1; }
done

mkdir -p "$tree"
# CMake refuses a build directory that was moved.
for build in "$tree"/obj-*; do
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$tree" "$build/CMakeCache.txt" || rm -rf "$build"
done
find "$tree" -mindepth 1 -maxdepth 1 ! -name 'obj-*' -exec rm -rf {} +
tar -C "$source" --exclude=./.git --exclude='./build' --exclude='./build-*' --exclude=__pycache__ -cf - . |
    tar -C "$tree" -xf -
cp -R "$source/packaging/debian" "$tree/debian"
rm -f "$output"/*.deb "$output"/*.buildinfo "$output"/*.changes "$output"/*.spdx.json

# Nothing is cleaned (-nc), so that only what changed is compiled.
export DEB_BUILD_OPTIONS="terse ${DEB_BUILD_OPTIONS:-}"
if ! (cd "$tree" && dpkg-buildpackage -b -us -uc -nc) >"$output/build.log" 2>&1; then
    tail -n 30 "$output/build.log" >&2
    echo "The packages could not be built (all of it: $output/build.log)." >&2
    exit 1
fi
python3 -B "$source/packaging/sbom.py" "$source" "$output"/*.deb
for package in "$output"/*.deb; do
    [ ! -e "$package" ] || echo "$package"
done
