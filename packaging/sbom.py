#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the bill of materials of packages beside them, as PACKAGE.spdx.json (SPDX 2.3).

Usage: sbom.py SOURCE PACKAGE...

Nothing of others is in the packages. What the libraries load if it is there stands as optional. A crate has a version
of its own, and needs libucp alone. The date is that of the
last entry of packaging/debian/changelog, so that a build can be repeated.
"""

import email.utils
import hashlib
import json
import os
import re
import sys
from datetime import timezone

NEEDED = ["libc"]
OPTIONAL = ["libibverbs", "libfabric", "libssl", "libcuda", "libamdhip64"]


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def package(name, version, **more):
    return {"name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", name), "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def relation(one, kind, other):
    return {"spdxElementId": one["SPDXID"], "relationshipType": kind, "relatedSpdxElement": other["SPDXID"]}


def bill(source, path):
    """The document of one package."""
    version = re.search(r"^project\(causeway VERSION ([0-9.]+)", read(source, "CMakeLists.txt"), re.MULTILINE)
    when = email.utils.parsedate_to_datetime(
        re.search(r"^ -- .*>  (.*)$", read(source, "packaging/debian/changelog"), re.MULTILINE)[1])
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    name = os.path.basename(path)
    crate = re.fullmatch(r".*-([0-9.]+)\.crate", name)
    needed, optional = (["libucp"], []) if crate else (NEEDED, OPTIONAL)
    licences = {"licenseConcluded": "BSD-3-Clause", "licenseDeclared": "BSD-3-Clause"}
    this = package(name, crate[1] if crate else version[1], packageFileName=name,
                   checksums=[{"algorithm": "SHA256", "checksumValue": digest}], **licences)
    others = [package(other, "NOASSERTION") for other in needed + optional]
    document = {"SPDXID": "SPDXRef-DOCUMENT"}
    kinds = ["DEPENDS_ON"] * len(needed) + ["OPTIONAL_DEPENDENCY_OF"] * len(optional)
    relations = [relation(document, "DESCRIBES", this)]
    for other, kind in zip(others, kinds):
        relations.append(relation(this, kind, other) if kind == "DEPENDS_ON" else relation(other, kind, this))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", **document, "name": name,
            "documentNamespace": "https://spdx.org/spdxdocs/%s-%s" % (name, digest),
            "creationInfo": {"created": when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: causeway/packaging/sbom.py"]},
            "packages": [this] + others, "relationships": relations}


def main():
    source, *paths = sys.argv[1:]
    for path in paths:
        with open(path + ".spdx.json", "w", encoding="utf-8") as file:
            json.dump(bill(source, path), file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
