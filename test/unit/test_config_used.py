#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds src/config/config.def against the source: every setting is read, by other code or by cw_config_validate.

Usage: test_config_used.py <source directory>; status 1 and one line each for what differs.
"""
import pathlib
import re
import sys

ENTRY = re.compile(r'^CW_(?:SETTING|GLOBAL)\((\w+), [\w ]+?\*?, "(\w+)", ', re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    entries = ENTRY.findall((root / 'src/config/config.def').read_text())
    read = set()
    for path in sorted((root / 'src').rglob('*.[ch]')):
        if path.parent.name != 'config' or path.stem in ('config', 'global'):
            read.update(re.findall(r'(?:->|\.)(\w+)', path.read_text()))
    unread = [name for member, name in entries if member not in read]
    for name in unread:
        print(f'{name}: nothing reads it; a name without effect is a CW_NAME')
    if len(entries) < 50:
        print(f'only {len(entries)} entries of config.def were understood')
    return 1 if unread or len(entries) < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
