#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The recipes for other package managers. Usage: recipes.py SOURCE.

What is checked, since none of these managers is here:
- Spack: the file is Python, has one class derived from CMakePackage, and runs with stand-ins for what Spack defines:
  directives know their arguments, variants are those that the recipe declares.
- conda: the file is YAML once its templates are filled in (by Jinja with stand-ins for conda's functions, or without
  Jinja by a placeholder; PyYAML, left out where there is none), with the sections that a recipe needs.
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
import types

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


    run_spack(text)


def run_spack(text):
    variants, used = set(), []

    def variant(name, default=None, description=""):
        assert isinstance(default, bool) and description, name
        variants.add(name)

    def directive(first, *rest, when="", **named):
        assert isinstance(first, str) and first and not rest, first
        assert set(named) <= {"type", "branch", "git", "msg", "description"}, named
        assert named.get("type", "build") in ("build", "link", "run"), named
        used.extend(re.findall(r"[+~](\w+)", when))

    class CMakePackage:
        @staticmethod
        def define(name, value):
            return "-D%s:BOOL=%s" % (name, "ON" if value else "OFF")

        def define_from_variant(self, name, of):
            used.append(of)
            return self.define(name, True)

    package = types.ModuleType("spack.package")
    package.__dict__.update({"CMakePackage": CMakePackage, "variant": variant}, **{name: directive for name in (
        "version", "license", "provides", "depends_on", "generator", "conflicts")})
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": package})
    scope = {}
    exec(compile(text, "package.py", "exec"), scope)  # pylint: disable=exec-used
    arguments = scope["Causeway"]().cmake_args()
    assert arguments and all(re.match(r"-DCW_\w+:BOOL=(ON|OFF)$", each) for each in arguments), arguments
    assert set(used) <= variants, "spack: the recipe declares no variant %s" % (set(used) - variants)


def filled(text):
    """The recipe of conda with its templates filled in."""
    try:
        import jinja2
    except ImportError:
        print("conda: there is no Jinja, its templates are not rendered")
        return re.sub(r"\{\{.*?\}\}", "template", text)
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    return environment.from_string(text).render(
        compiler=lambda language: {"c": "gcc_linux-64"}[language],
        pin_subpackage=lambda name, max_pin=None, min_pin=None, exact=False: "%s >=0" % name)


def conda():
    text = read("packaging", "conda", "meta.yaml")
    common("conda", text, re.findall(r'^  version: "([0-9.]+)"', text, re.MULTILINE))
    try:
        import yaml
    except ImportError:
        print("conda: there is no PyYAML, its syntax is not checked")
        return
    recipe = yaml.safe_load(filled(text))
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
