#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The recipes for other package managers. Usage: recipes.py SOURCE.

What is checked, since none of these managers is here:
- Spack: the file is Python (parsed by `ast`), has one class derived from CMakePackage.
- conda: the file is YAML once its templates are filled in (PyYAML; left out where there is none), with the sections
  that a recipe needs.
- Nix: the file is parsed by nix-instantiate where there is one; else brackets and quotes are matched and there must be
  as many semicolons as bindings, which is less than a parser does.
- the container file: every instruction is one of those that exist, what COPY --from names is a stage, and the packages
  for building are those of `./causeway packages release`, and Python for the manual pages.
- all: the version is that of CMakeLists.txt, and every -DCW_ option is one that the CMake files declare.
"""

import ast
import os
import re
import shutil
import subprocess
import sys

ROOT = sys.argv[1]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


CMAKE = read("CMakeLists.txt")
VERSION = re.search(r"^project\(causeway VERSION ([0-9.]+)", CMAKE, re.MULTILINE).group(1)
OPTIONS = set(re.findall(r"^(?:option|set)\((CW_\w+)", CMAKE, re.MULTILINE))


def common(name, text, versions):
    assert versions and set(versions) == {VERSION}, "%s: version %s, not %s" % (name, versions, VERSION)
    unknown = set(re.findall(r"\b(CW_[A-Z_]+)\b", text)) - OPTIONS
    assert not unknown, "%s: CMakeLists.txt has no option %s" % (name, unknown)


def spack():
    text = read("packaging", "spack", "package.py")
    common("spack", text, re.findall(r"causeway-([0-9.]+)\.tar", text))
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert [c.name for c in classes] == ["Causeway"] and classes[0].bases[0].id == "CMakePackage"
    calls = [n.value.func.id for n in classes[0].body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    assert {"version", "license", "depends_on"} <= set(calls), calls
    assert [n.name for n in classes[0].body if isinstance(n, ast.FunctionDef)] == ["cmake_args"]


def conda():
    text = read("packaging", "conda", "meta.yaml")
    common("conda", text, re.findall(r'^  version: "([0-9.]+)"', text, re.MULTILINE))
    try:
        import yaml
    except ImportError:
        print("conda: there is no PyYAML, its syntax is not checked")
        return
    recipe = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "template", text))
    assert set(recipe) == {"package", "source", "build", "requirements", "test", "about"}, sorted(recipe)
    assert all(isinstance(line, str) for line in recipe["build"]["script"] + recipe["test"]["commands"])
    assert "cmake >=3.25" in recipe["requirements"]["build"]
    assert os.path.samefile(os.path.join(ROOT, "packaging", "conda", recipe["source"]["path"]), ROOT)
    assert os.path.exists(os.path.join(ROOT, recipe["about"]["license_file"]))


def nix():
    text = read("packaging", "nix", "default.nix")
    common("nix", text, re.findall(r'^  version = "([0-9.]+)"', text, re.MULTILINE))
    if shutil.which("nix-instantiate"):
        subprocess.run(["nix-instantiate", "--parse", os.path.join(ROOT, "packaging", "nix", "default.nix")],
                       check=True, stdout=subprocess.DEVNULL)
        return
    print("nix: there is no nix-instantiate, only brackets and bindings are checked")
    code = re.sub(r'#[^\n]*|"(?:\\.|[^"\\])*"', lambda m: '""' if m.group()[0] == '"' else "", text)
    assert '"' not in code.replace('""', ""), "a string does not end"
    stack = []
    for letter in code:
        if letter in "([{":
            stack.append({"(": ")", "[": "]", "{": "}"}[letter])
        elif letter in ")]}":
            assert stack and stack.pop() == letter, "nix: brackets do not match"
    assert not stack, "nix: %s is missing" % stack
    body = code[code.index("mkDerivation"):]
    bindings = re.findall(r"^ +(\w+) =(?!=)", body, re.MULTILINE)
    assert len(bindings) == body.count(";"), "nix: %d bindings, %d semicolons" % (len(bindings), body.count(";"))


def container():
    text = read("packaging", "container", "Containerfile")
    unknown = set(re.findall(r"\b(CW_[A-Z_]+)\b", text)) - OPTIONS
    assert not unknown, unknown
    lines = re.sub(r"\\\n", " ", re.sub(r"^#[^\n]*\n", "", text, flags=re.MULTILINE)).split("\n")
    words = [line.split() for line in lines if line]
    assert {w[0] for w in words} <= {"FROM", "RUN", "COPY", "USER", "CMD"}, {w[0] for w in words}
    stages = [w[3] for w in words if w[0] == "FROM" and len(w) == 4 and w[2] == "AS"]
    taken = re.findall(r"--from=(\w+)", text)
    assert set(taken) == set(stages), (taken, stages)
    installed = re.search(r"--no-install-recommends ([^&]*?)\s*&&", "\n".join(lines)).group(1).split()
    needed = subprocess.run([os.path.join(ROOT, "causeway"), "packages", "release"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.split()
    assert set(installed) == set(needed) | {"python3"}, (installed, needed)


for check in (spack, conda, nix, container):
    check()
    print("%s: fine" % check.__name__)
