#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The bill of materials of a package is a document of SPDX 2.3 that names the package's bytes, and the same each time.
# Usage: sbom.sh SOURCE WORK.
set -eu
source=$1 work=$2
mkdir -p "$work"
echo content >"$work/causeway.deb"
python3 -B "$source/packaging/sbom.py" "$source" "$work/causeway.deb"
cp "$work/causeway.deb.spdx.json" "$work/first"
TZ=Asia/Tokyo python3 -B "$source/packaging/sbom.py" "$source" "$work/causeway.deb"
cmp "$work/causeway.deb.spdx.json" "$work/first"
python3 - "$work/first" "$(sha256sum <"$work/causeway.deb" | cut -d' ' -f1)" <<'EOF'
import json, sys
document = json.load(open(sys.argv[1]))
assert document["spdxVersion"] == "SPDX-2.3" and document["creationInfo"]["created"].endswith("Z")
this = document["packages"][0]
assert this["packageFileName"] == "causeway.deb" and this["licenseDeclared"] == "BSD-3-Clause"
assert this["checksums"] == [{"algorithm": "SHA256", "checksumValue": sys.argv[2]}]
known = {package["SPDXID"] for package in document["packages"]} | {document["SPDXID"]}
assert len(known) == len(document["packages"]) + 1
for relation in document["relationships"]:
    assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known, relation
EOF
