#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the site shows as code is code: examples.py ROOT MAN INCLUDE COMPILER.

- Every synopsis of a manual page of section 3 is given to the C compiler as it stands, after the header that it names:
  a prototype or a type that differs from the header's is an error.
- Every example of such a page is compiled as the body of a function. Objects of UCP that it does not make itself, and
  callbacks, are those of PRELUDE.
- Every indented program of the documents in Python is compiled (the tests of python/ run them), every line of shell is
  read by `sh -n`. Other indented blocks are drawings and output.
"""

import glob
import os
import re
import subprocess
import sys

PRELUDE = """
#include <netinet/in.h>
#include <poll.h>
#include <ucp/api/ucp.h>
extern ucp_context_h context;
extern ucp_worker_h worker;
extern ucp_ep_h ep;
extern ucp_mem_h memh;
extern ucp_rkey_h rkey;
extern ucp_listener_h listener;
extern const ucp_address_t *peer_address;
extern void *rkey_buffer;
extern void *data_desc;
extern uint64_t remote_addr;
extern char buffer[4096];
extern int running;
void wait_for(ucs_status_ptr_t request);
void sent(void *request, ucs_status_t status, void *user_data);
void failed(void *arg, ucp_ep_h ep, ucs_status_t status);
void client_asks(ucp_conn_request_h conn_request, void *arg);
void fetched(void *request, ucs_status_t status, size_t length, void *user_data);
ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                     const ucp_am_recv_param_t *param);
"""
SHELL = re.compile(r"^(\./|[A-Z_]+=\S+ |mpirun|oshrun|cmake |cc |sh |pip |head |test/|bench/|target/|ucx_)")


def blocks(path):
    """Indented blocks of a document, without the indent."""
    with open(path, encoding="utf-8") as file:
        for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", file.read(), re.MULTILINE):
            text = re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n")
            if text:
                yield text + "\n"


def part(path, title):
    """Lines of a section of a manual page as they are printed; none if it has no such section."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^\.SH %s\n(.*?)^\.SH " % title, file.read(), re.MULTILINE | re.DOTALL)
    text = re.sub(r"\\f[A-Z]", "", found.group(1)) if found else ""
    for escape, character in (("\\-", "-"), ("\\e", "\\"), ("\\(rs", "\\"), ("\\(dq", '"'), ("\\(aq", "'")):
        text = text.replace(escape, character)
    return [line for line in text.split("\n") if not line.startswith(".")]


def synopsis(path):
    """Headers and declarations of a manual page."""
    lines = part(path, "SYNOPSIS")
    return ([line for line in lines if line.startswith("#include")],
            "\n".join(line for line in lines if not line.startswith("#include")).strip())


def check_synopses(man, include, compiler):
    """Number of declarations; raises with what the compiler says."""
    headers, declarations = [], []
    for path in sorted(glob.glob(os.path.join(man, "man3", "*.3"))):
        named, text = synopsis(path)
        headers += [line for line in named if line not in headers]
        name = os.path.basename(path)[:-2]
        if text and not re.match(re.escape(name) + r"\(", text):  # else a macro, which has no declaration
            declarations.append("#ifndef %s\n#line 1 \"%s\"\n%s\n#endif\n" % (name, os.path.basename(path), text))
    done = subprocess.run([compiler, "-std=gnu17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-"] +
                          ["-I" + each for each in include.split(":")], text=True, check=False, capture_output=True,
                          input="\n".join(headers + declarations))
    assert done.returncode == 0, done.stderr
    return len(declarations)


def check_examples(man, include, compiler):
    """Number of examples; raises with what the compiler says."""
    functions = []
    for path in sorted(glob.glob(os.path.join(man, "man3", "*.3"))):
        text = "\n".join(part(path, "EXAMPLES")).strip("\n")
        if text:
            name = os.path.basename(path)
            functions.append("static int example_%s(void)\n{\n#line 1 \"%s\"\n%s\nreturn 0;\n}\n" %
                             (name[:-2], name, text))
    done = subprocess.run([compiler, "-std=gnu17", "-Wall", "-Werror", "-Wno-unused", "-fsyntax-only", "-x", "c", "-"] +
                          ["-I" + each for each in include.split(":")], text=True, check=False, capture_output=True,
                          input="\n".join([PRELUDE] + functions))
    assert done.returncode == 0, done.stderr
    return len(functions)


def check_documents(root):
    """Numbers of programs in Python and of commands."""
    programs = commands = 0
    names = glob.glob(os.path.join(root, "**", "*.md"), recursive=True)
    for path in sorted(name for name in names if "/build" not in name[len(root):]):
        for text in blocks(path):
            if re.match(r"(import|from) \w+", text):
                compile(text, path, "exec")
                programs += 1
                continue
            for part in filter(SHELL.match, text.split("\n\n")):
                done = subprocess.run(["sh", "-n"], input=part, text=True, check=False, capture_output=True)
                assert done.returncode == 0, "%s: %s\n%s" % (path, done.stderr, part)
                commands += 1
    return programs, commands


def main():
    root, man, include, compiler = sys.argv[1:5]
    declared = check_synopses(man, include, compiler)
    examples = check_examples(man, include, compiler)
    programs, commands = check_documents(root)
    print("%d synopses, %d examples, %d programs, %d commands" % (declared, examples, programs, commands))
    assert declared > 100 and examples >= 20 and programs >= 1 and commands >= 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
