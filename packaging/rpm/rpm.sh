#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the RPM packages from a source tarball. Usage: rpm.sh SOURCE OUTPUT. The packages lie in OUTPUT/RPMS and
# OUTPUT/SRPMS afterwards and are named on standard output; what was said while building is in OUTPUT/build.log.
set -eu

source=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
version=$(sed -n 's/^project(causeway VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
for tool in rpmbuild pandoc; do
    command -v $tool >/dev/null || { echo "There is no $tool (Debian: packages rpm, pandoc)." >&2; exit 1; }
done

rm -rf "$output/RPMS" "$output/SRPMS" "$output/BUILD" "$output/BUILDROOT"
mkdir -p "$output/SOURCES" "$output/SPECS"
tar -C "$source" --exclude=./.git --exclude='./build' --exclude='./build-*' --exclude=__pycache__ \
    --transform "s,^\.,causeway-$version," --sort=name --owner=0 --group=0 --numeric-owner -czf \
    "$output/SOURCES/causeway-$version.tar.gz" .
cp "$source/packaging/rpm/causeway.spec" "$output/SPECS/"
if ! rpmbuild --define "_topdir $output" --define "causeway_version $version" -ba "$output/SPECS/causeway.spec" \
    >"$output/build.log" 2>&1; then
    tail -n 30 "$output/build.log" >&2
    echo "The packages could not be built (all of it: $output/build.log)." >&2
    exit 1
fi
find "$output/RPMS" "$output/SRPMS" -name '*.rpm' -exec python3 -B "$source/packaging/sbom.py" "$source" {} +
find "$output/RPMS" "$output/SRPMS" -name '*.rpm' | sort
