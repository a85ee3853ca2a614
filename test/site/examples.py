#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the documents and the public headers show as code is code: examples.py ROOT COMPILER.

- Every example of a public header (@code) is compiled as the body of a function. Objects of UCP that it does not make
  itself, and callbacks, are those of PRELUDE.
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


def check_examples(root, compiler):
    """Number of examples; raises with what the compiler says."""
    include, functions = os.path.join(root, "include"), []
    for path in sorted(glob.glob(os.path.join(include, "**", "*.h"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            examples = re.findall(r"^ \* @code\n(.*?)^ \* @endcode", file.read(), re.MULTILINE | re.DOTALL)
        for text in examples:
            text = re.sub(r"^ \* ?", "", text, flags=re.MULTILINE)
            functions.append("static int example_%d(void)\n{\n#line 1 \"%s\"\n%s\nreturn 0;\n}\n" %
                             (len(functions), os.path.basename(path), text))
    done = subprocess.run([compiler, "-std=gnu17", "-Wall", "-Werror", "-Wno-unused", "-fsyntax-only", "-I", include,
                           "-x", "c", "-"], text=True, check=False, capture_output=True,
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
            for lines in filter(SHELL.match, text.split("\n\n")):
                done = subprocess.run(["sh", "-n"], input=lines, text=True, check=False, capture_output=True)
                assert done.returncode == 0, "%s: %s\n%s" % (path, done.stderr, lines)
                commands += 1
    return programs, commands


def main():
    root, compiler = sys.argv[1:3]
    examples = check_examples(root, compiler)
    programs, commands = check_documents(root)
    print("%d examples, %d programs, %d commands" % (examples, programs, commands))
    assert examples >= 20 and programs >= 1 and commands >= 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
