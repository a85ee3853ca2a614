#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds src/config/config.def against the source: a setting without a reason is read by other code, one with it is not.

Usage: test_config_used.py <source directory>; status 1 and one line each for what differs.
"""
import pathlib
import re
import sys

ENTRY = re.compile(r'^CW_(SETTING|GLOBAL)\((\w+), [\w ]+?\*?, "(\w+)", (.*?)\)$', re.M | re.S)


def entries(text):
    """Yields (kind, member, name, has a reason); the reason is the last but one group of string literals or NULL."""
    for match in ENTRY.finditer(text):
        kind, member, name, rest = match.groups()
        rest = re.sub(r'"\s*\n\s*"', '', rest)
        fields = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s]+', rest)
        yield kind, member, name, fields[-2] != 'NULL'


def main():
    root = pathlib.Path(sys.argv[1])
    table = (root / 'src/config/config.def').read_text()
    code = ''
    for path in sorted((root / 'src').rglob('*.[ch]')):
        if path.parent.name != 'config' or path.stem == 'global':
            code += path.read_text()
    bad = 0
    found = 0
    for _, member, name, has_reason in entries(table):
        found += 1
        used = re.search(r'(->|\.)' + member + r'\b', code) is not None
        if used == has_reason:
            bad += 1
            print(f'{name}: ' + ('read by the library, yet config.def gives a reason why it has no effect' if used else
                                 'config.def gives no reason, yet nothing reads it'))
    if found < 100 or found != len(re.findall(r'^CW_(?:SETTING|GLOBAL)\(', table, re.M)):
        print(f'only {found} entries of config.def were understood')
        bad += 1
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
