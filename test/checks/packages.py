#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a build has read comes from packages that packaging/packages.txt brings to a machine that has none of them.

Usage: packages.py BUILD-DIRECTORY, or packages.py --self-test.

Read: the headers and the parts of programs (start-up code, libraries) of the last build, and what CMake found on this
system. Each such file that belongs to a Debian package must belong to one of the lists, to one that these depend on, or
to those that every Debian system has. Recommended packages do not count, for they are not installed.
Status 77: this system has no dpkg.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def output(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **options).stdout


class Installed:
    """The packages of this system: what they depend on, what they provide."""

    FIELDS = "${Package}\\t${Provides}\\t${Depends}, ${Pre-Depends}\\t${Essential}\\t${db:Status-Abbrev}\\n"

    def __init__(self, listing):
        self.depends, self.providers, self.everywhere = {}, {}, {"apt"}
        for line in listing.splitlines():
            name, provides, depends, essential, status = line.split("\t")
            if not status.startswith("ii"):
                continue
            self.depends[name] = [self.names(clause, "|") for clause in depends.split(",")]
            for provided in [name] + self.names(provides, ","):
                self.providers.setdefault(provided, []).append(name)
            if essential == "yes":
                self.everywhere.add(name)

    @staticmethod
    def names(text, between):
        """Without their versions and architectures."""
        return [re.sub(r"[\s(:].*", "", word.strip()) for word in text.split(between) if word.strip()]

    def brought_by(self, names):
        """All that comes with them. Of several that would do, the first that is here: apt takes the first."""
        found, rest = set(), list(names)
        while rest:
            name = rest.pop()
            for package in self.providers.get(name, [])[:1] if name not in self.depends else [name]:
                if package not in found:
                    found.add(package)
                    for clause in self.depends[package]:
                        rest += [p for p in clause if p in self.providers][:1]
        return found


def headers(build):
    """Of the last build, as ninja noted."""
    return {os.path.normpath(os.path.join(build, line.strip()))
            for line in output("ninja", "-C", build, "-t", "deps").splitlines() if line.startswith("    ")}


def found_by_cmake(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        return set(re.findall(r"^[^#/\n][^\n=]*:(?:FILEPATH|INTERNAL)=(/[^;\n]+)$", cache.read(), re.MULTILINE))


OF_LINKING = re.compile(r"-(?:fsanitize=|l|static|shared|m|B|specs=|pthread|rdynamic|-coverage)|/.*\.(?:a|so)[.0-9]*$")


def parts_of_programs(build):
    """What the linker opens for each kind of program: the compiler is asked to link an empty one as noisily."""
    kinds = set()
    for line in output("ninja", "-C", build, "-t", "commands").splitlines():
        words = re.sub(r"^.*?&& ", "", line).split(" && ")[0].split()
        if " -c " not in line and " -o " in line and re.search(r"(cc|gcc|clang|\+\+)(-\d+)?$", words[0]):
            options = [w for w in words[1:] if OF_LINKING.match(w) and not w.startswith(build)]
            kinds.add((words[0], *dict.fromkeys(options)))
    opened = set()
    with tempfile.TemporaryDirectory() as directory:
        source, program = os.path.join(directory, "empty.c"), os.path.join(directory, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write("int main(void)\n{\n    return 0;\n}\n")
        for compiler, *options in sorted(kinds):
            said = output(compiler, source, "-o", program, "-Wl,--trace", *options, stderr=subprocess.DEVNULL)
            opened |= set(re.findall(r"^(/[^\s()]+)", said, re.MULTILINE))
    return opened


def owners(paths):
    """Path to package, for those that one owns. /lib and /usr/lib are one directory, and dpkg knows either name."""
    names = {}
    for path in paths:
        for name in (path, os.path.realpath(path)):
            names[name] = path
            names[re.sub(r"^/usr/", "/", name)] = path
    said = subprocess.run(["xargs", "-d", "\\n", "dpkg-query", "-S"], input="\n".join(names), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False).stdout
    owned = {}
    for package, path in re.findall(r"^([^\s:,]+)[^\n]*?: (/.*)$", said, re.MULTILINE):
        if path in names:
            owned[names[path]] = package
    return owned


def complaints(installed, listed, owned):
    brought = installed.brought_by(listed | installed.everywhere)
    lacking = {}
    for path, package in owned.items():
        if package not in brought:
            lacking.setdefault(package, []).append(path)
    return ["%s is not in packaging/packages.txt, and this was read from it: %s%s" %
            (package, min(paths), "" if len(paths) == 1 else " and %d more" % (len(paths) - 1))
            for package, paths in sorted(lacking.items())]


def self_test():
    installed = Installed("apt\t\tlibc6, \t\tii \nlibc6\t\t, \tyes\tii \n"
                          "gcc\tc-compiler (= 1)\tgcc-12 (>= 12), \t\tii \ngcc-12\t\tlibc6, \t\tii \n"
                          "tool\t\tc-compiler | other:any, \t\tii \nlibc6-dev\t\tlibc6, \t\tii \n"
                          "gone\t\tlibc6-dev, \t\trc \n")
    assert installed.brought_by({"tool"}) == {"tool", "gcc", "gcc-12", "libc6"}
    assert installed.brought_by({"gone"}) == set()
    owned = {"/a.h": "gcc-12", "/b.h": "libc6", "/c.h": "libc6-dev", "/d.h": "libc6-dev"}
    assert complaints(installed, {"gcc", "libc6-dev"}, owned) == []
    lacking = complaints(installed, {"gcc"}, owned)
    assert len(lacking) == 1 and lacking[0].startswith("libc6-dev ") and lacking[0].endswith("/c.h and 1 more"), lacking


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if not shutil.which("dpkg-query"):
        print("skipped: this system has no dpkg")
        sys.exit(77)
    build = os.path.abspath(sys.argv[1])
    tree = os.path.realpath(ROOT) + os.sep
    owned = {}
    for kind, paths in (("headers", headers(build)), ("parts of programs", parts_of_programs(build)),
                        ("of CMake", found_by_cmake(build))):
        of_kind = owners(p for p in paths if os.path.isfile(p) and not os.path.realpath(p).startswith(tree))
        assert of_kind, "nothing was read (%s)?" % kind
        print("%s: %d files of packages" % (kind, len(of_kind)))
        owned.update(of_kind)
    listed = set(output(os.path.join(ROOT, "causeway"), "packages").split())
    found = complaints(Installed(output("dpkg-query", "-W", "-f", Installed.FIELDS)), listed, owned)
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
