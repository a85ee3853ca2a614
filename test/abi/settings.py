#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Are all settings of the original taken, with the values that it prints (N22-131, N23-71, N23-72)?

    settings.py --lib DIRECTORY --info FILE [--tool FILE] [--list FILE]...

Settings are lines UCX_NAME=value: what the original's `ucx_info -ca` prints (--tool; ours there counts as absent), and
what lists of its releases hold. Each is given to ucp_config_modify, which refuses the FIXED ones alone; all of a list
are set in the environment, and all in a file, of our ucx_info (--info), which makes a worker and says nothing of them.

Status: 0, 1 for a setting that is not taken, 77 where there is no list.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile

SKIPPED, INVALID_PARAM = 77, -5
FIXED = re.compile(r"UCX_(LOG_FILE(_SIZE|_ROTATE)?|ERROR_SIGNALS|VFS_\w+|MEMTRACK_DEST|PROFILE_\w+|STATS_\w+|"
                   r"RCACHE_STAT_\w+|BUILTIN_MEMCPY_\w+|NT_BUFFER_TRANSFER_MIN)")
ORIGINAL = {"PATH": "/usr/bin:/bin"}


def settings(text):
    return re.findall(r"^(UCX_\w+)=(.*)$", text, re.MULTILINE)


def lists(options):
    """{where: [(name, value)]}"""
    found = {}
    for path in options.list:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found[path] = settings(file.read())
    if options.tool and os.path.exists(options.tool):
        texts = [subprocess.run([options.tool, flag], env=ORIGINAL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, check=False).stdout for flag in ("-v", "-ca")]
        if "Causeway" not in texts[0]:
            found[options.tool] = settings(texts[1])
    return {where: pairs for where, pairs in found.items() if pairs}


def modified(directory, pairs):
    """Yields what ucp_config_modify answers wrongly."""
    library = ctypes.CDLL(os.path.join(directory, "libucp.so.0"))
    config  = ctypes.c_void_p()
    if library.ucp_config_read(None, None, ctypes.byref(config)) != 0:
        yield "ucp_config_read fails"
        return
    for name, value in pairs:
        expected = INVALID_PARAM if FIXED.fullmatch(name) else 0
        status   = library.ucp_config_modify(config, name[len("UCX_"):].encode(), value.encode())
        if status != expected:
            yield "ucp_config_modify: %s='%s': %d in place of %d" % (name, value, status, expected)
    library.ucp_config_release(config)


def complaints(options, pairs, by_file):
    """Yields what our tool says of them."""
    with tempfile.TemporaryDirectory() as directory:
        env = dict(ORIGINAL, HOME=directory)
        if by_file:
            with open(os.path.join(directory, "ucx.conf"), "w", encoding="utf-8") as file:
                file.write("".join("%s=%s\n" % pair for pair in pairs))
        else:
            env.update(pairs)
        env["LD_LIBRARY_PATH"] = os.path.abspath(options.lib)
        result = subprocess.run([os.path.abspath(options.info), "-c", "-w", "-u", "t"], env=env, cwd=directory,
                                text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        yield "ucx_info ends with status %d" % result.returncode
    for line in result.stdout.splitlines():
        if re.search(r" (WARN|ERROR) ", line):
            yield line


def main():
    parser = argparse.ArgumentParser(description="Are all settings of the original taken?")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--info", required=True)
    parser.add_argument("--tool")
    parser.add_argument("--list", action="append", default=[])
    options = parser.parse_args()
    found, wrong = lists(options), 0
    os.environ["UCX_LOG_FILE"] = os.devnull
    for name in [name for name in os.environ if "UCX_" in name and name != "UCX_LOG_FILE"]:
        del os.environ[name]
    for where, pairs in found.items():
        for text in (list(modified(options.lib, pairs)) + list(complaints(options, pairs, False)) +
                     list(complaints(options, pairs, True))):
            print("%s: %s" % (where, text))
            wrong += 1
        print("%s: %d settings" % (where, len(pairs)))
    if not found:
        print("there is no list of settings")
        return SKIPPED
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
