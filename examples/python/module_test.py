# SPDX-License-Identifier: BSD-3-Clause
"""module_test.py DIRECTORY INCLUDE LIB: the module is made, and nothing in it contradicts the headers.

cffi compares its declarations with the compiler's when they are used for the first time, so each one is used.
"""
import re
import shutil
import sys

import build_ucp

directory, include, lib_directory = sys.argv[1:]
shutil.rmtree(directory, ignore_errors=True)
build_ucp.build(directory, include, lib_directory)
sys.path.insert(0, directory)
from _ucp import ffi, lib  # noqa: E402

text = build_ucp.preprocessed(include)
wanted = set(re.findall(r"\b(?:UC[PS]_[A-Z0-9_]+\b|uc[ps]_[a-z0-9_]+(?=\())", text))
lost = wanted - set(dir(lib))
assert not lost, f"not in the module: {sorted(lost)}"
assert len(wanted) > 300, f"only {len(wanted)} names in the headers?"
for name in wanted:
    getattr(lib, name)

complete = 0
for names, prefix in zip(ffi.list_types(), ("", "struct ", "union ")):
    for name in names:
        kind = ffi.typeof(prefix + name)
        if kind.kind == "struct" and kind.fields is not None:
            complete += ffi.sizeof(kind) > 0
assert complete > 40, f"only {complete} structures"
assert ffi.sizeof("ucs_status_t") == 1 and lib.UCS_PTR_STATUS(ffi.cast("void *", -5)) == lib.UCS_ERR_INVALID_PARAM
print(f"{len(wanted)} functions and enumerators, {complete} structures")
