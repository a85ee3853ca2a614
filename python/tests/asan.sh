#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests of the package over libraries and an extension that are built with the address sanitizer, in an interpreter that
# is not. Usage: asan.sh RUNTIME PACKAGE PYTHON MODULE. Status 77: no runtime of the sanitizer, or no extension.
set -eu

runtime=$1
package=$2
[ -f "$runtime" ] ||
    { echo "SKIPPED: the compiler has no shared runtime of the address sanitizer ($runtime)"; exit 77; }
ls "$package"/causeway/_core.*.so >/dev/null 2>&1 ||
    { echo "SKIPPED: the extension is not built (target causeway_python)"; exit 77; }
cd "$(dirname "$0")"
# The interpreter keeps what it allocated at its end; by its own allocator the sanitizer would not see what it frees.
export LD_PRELOAD="$runtime" ASAN_OPTIONS="detect_leaks=0:abort_on_error=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export PYTHONPATH="$package" PYTHONMALLOC=malloc PYTHONWARNINGS=error
exec "$3" -B -X faulthandler -m unittest -v "$4"
