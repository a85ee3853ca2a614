#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The inputs from which the fuzzers begin: a file for each target, an input on each line.

A line is a name and the bytes in hexadecimal digits; `-` stands for no bytes. Inputs that were written by hand have a
name that says what they are, and come first. Those that a fuzzer found are named by the beginning of their SHA-1.

    corpus.py unpack FILE DIRECTORY     an input becomes a file of the directory, as libFuzzer wants it
    corpus.py pack DIRECTORY FILE       the files of a directory become the lines of FILE
"""

import hashlib
import os
import re
import sys

FOUND = re.compile(r"[0-9a-f]{12}$")


def name_of(file, data):
    return hashlib.sha1(data).hexdigest()[:12] if re.fullmatch(r"[0-9a-f]{12,40}", file) else file


def read(path):
    """Returns {name: bytes}."""
    inputs = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            name, digits = line.split()
            inputs[name] = bytes.fromhex(digits.replace("-", ""))
    return inputs


def unpack(path, directory):
    os.makedirs(directory, exist_ok=True)
    for name, data in read(path).items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)


def pack(directory, path):
    inputs = {}
    for file in sorted(os.listdir(directory)):
        with open(os.path.join(directory, file), "rb") as stream:
            data = stream.read()
        inputs[name_of(file, data)] = data
    with open(path, "w", encoding="ascii") as out:
        for name in sorted(inputs, key=lambda name: (FOUND.match(name) is not None, name)):
            out.write("%s %s\n" % (name, inputs[name].hex() or "-"))


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    {"pack": pack, "unpack": unpack}[sys.argv[1]](sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
