# SPDX-License-Identifier: BSD-3-Clause
"""Makes the Python module _ucp out of the installed headers.

    python3 build_ucp.py DIRECTORY [INCLUDE LIB]

INCLUDE holds ucp/api/ucp.h and LIB libucp.so; without them pkg-config is asked. Nothing of the interface is written
down here: the preprocessor reads the headers, pycparser takes the functions' bodies out, and cffi gets the rest.

The module is compiled (cffi's API mode) rather than opened at run time (ABI mode), because the C compiler knows what
cffi could only guess: ucs_status_t is an enum of one byte, some functions exist in the headers only, and macros can be
called like functions. It also refuses to compile declarations that contradict the headers.
"""
import os
import re
import subprocess
import sys
import sysconfig

import cffi
from pycparser import c_ast, c_generator, c_parser

# What the headers take from the system's. cffi knows these names; only the parser has to know that they are types.
SYSTEM = "".join(f"typedef int {name};\n" for name in
                 "FILE size_t ssize_t socklen_t intptr_t uintptr_t uint8_t uint16_t uint32_t uint64_t".split())

# The program's own: what it keeps in each request, its callbacks (Python functions), and macros that it uses.
OWN_STRUCT = "struct area { int done; ucs_status_t status; };"
OWN = """
extern "Python" void area_init(void *request);
extern "Python" void area_cleanup(void *request);
extern "Python" void sent(void *request, ucs_status_t status, void *user_data);
extern "Python" void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data);
extern "Python" void fetched(void *request, ucs_status_t status, size_t length, void *user_data);
extern "Python" ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                                     const ucp_am_recv_param_t *param);
ucs_status_t UCS_PTR_STATUS(void *request);
ucp_datatype_t ucp_dt_make_contig(size_t size);
"""


def preprocessed(include):
    """The text of the headers, without that of the system's: the line markers say where each line is from."""
    ours = tuple(os.path.join(include, part, "") for part in ("ucp", "ucs"))
    command = [os.environ.get("CC", "cc"), "-E", "-I", include, "-D__attribute__(list)=", "-x", "c", "-"]
    text = subprocess.run(command, input="#include <ucp/api/ucp.h>\n", text=True, stdout=subprocess.PIPE, check=True)
    inside, kept = False, []
    for line in text.stdout.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            inside = marker[1].startswith(ours)
        elif inside and not line.startswith("#"):
            kept.append(line)
    return "\n".join(kept)


class Computed(c_ast.NodeVisitor):
    """Leaves to the compiler what cffi cannot compute: lengths of arrays that are not plain numbers."""

    def visit_ArrayDecl(self, node):
        self.generic_visit(node)
        if node.dim is not None and not isinstance(node.dim, c_ast.Constant):
            node.dim = c_ast.ID("...")


def declarations(include):
    """The headers as cffi takes them."""
    nodes = []
    for node in c_parser.CParser().parse(SYSTEM + preprocessed(include)).ext[SYSTEM.count("\n"):]:
        if isinstance(node, c_ast.FuncDef):
            node = node.decl
            node.storage, node.funcspec = [], []
        Computed().visit(node)
        nodes.append(node)
    unknown_to_cffi = "typedef unsigned int socklen_t; struct sockaddr_storage { ...; };\n"
    return unknown_to_cffi + c_generator.CGenerator().visit(c_ast.FileAST(nodes))


def build(directory, include, lib):
    ffi = cffi.FFI()
    ffi.cdef(declarations(include) + OWN_STRUCT + OWN)
    ffi.set_source("_ucp", "#include <ucp/api/ucp.h>\n" + OWN_STRUCT)
    os.makedirs(directory, exist_ok=True)
    source = os.path.join(directory, "_ucp.c")
    ffi.emit_c_code(source)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared", "-I", include,
                    "-I", sysconfig.get_path("include"), source, "-o", os.path.join(directory, "_ucp.abi3.so"),
                    "-L", lib, "-Wl,-rpath," + lib, "-lucp", "-lucs"], check=True)


def installed(variable):
    return subprocess.run(["pkg-config", "--variable=" + variable, "ucx"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit("usage: build_ucp.py DIRECTORY [INCLUDE LIB]")
    build(sys.argv[1], *(os.path.abspath(path) for path in sys.argv[2:] or map(installed, ("includedir", "libdir"))))
