#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds the #include lines of src/ against the layers of docs/ARCHITECTURE.md.

    api -> proto -> tag, am, stream, rma -> rndv -> access -> msg -> core -> config -> base -> os
      `-> connect ------------------------------------------------------^
    transport/* -> transport.h, config/config.h, mem, wire, base, os          anyone -> wire, public headers

A layer may use every layer below it; tag, am, stream and rma stand apart. Two parts of proto lie lower: the contract of
protocols (protocol), which the core knows, too, and the choice among them (select), which belongs to msg. The
companions (compat) have copies of their own of some files of base, os and the configuration. base and os lean on each
other at one place only: os may use the log and those headers of base that touch no system. The slots of transports are
called by core/lane.h alone, and by core/trace.c, which stands before them. Their tables are const, but for those of the
trace. Headers that stand for system calls are included in src/os alone; layers.txt lists the exceptions with their
reasons, and an exception that nobody needs any more is an error.

The registries of the tests list what those of the library do, in its order, and simulators.
"""

import os
import re

import tree

GROUND = ["config", "wire", "mem", "base", "os"]
CORE = ["core", "protocol"] + GROUND
MSG = ["msg", "select"] + CORE
RNDV = ["rndv", "access"] + MSG
OPERATIONS = ["tag", "am", "stream", "rma"]
BELOW = {
    "api": ["api", "proto", "connect"] + OPERATIONS + RNDV,
    "proto": ["proto"] + OPERATIONS + RNDV,
    "tag": ["tag"] + RNDV,
    "am": ["am"] + RNDV,
    "stream": ["stream"] + RNDV,
    "rma": ["rma"] + RNDV,
    "rndv": RNDV,
    "access": ["access"] + MSG,
    "msg": MSG,
    "select": MSG,
    "connect": ["connect"] + CORE,
    "core": CORE,
    "protocol": ["protocol", "wire", "base"],
    "wire": ["wire", "base"],
    "config": ["config", "base", "os"],
    "mem": ["mem", "base", "os"],
    "base": ["base", "os"],
    "os": ["os"],
    "transport": ["wire", "mem", "base", "os"],
    "compat": ["compat", "config", "base", "os"],
}
PARTS = {"proto/protocol.h": "protocol", "proto/protocol.c": "protocol",
         "proto/select.h": "select", "proto/select.c": "select"}
PUBLIC = ("ucp/", "ucs/", "uct/", "ucm/")
OS_MAY_USE = {"base/log.h", "base/hash.h", "base/compiler.h", "base/list.h", "base/bytes.h", "base/alarm.h"}
SEES_TRANSPORT = {layer: {"transport/transport.h"} for layer in BELOW if layer not in GROUND + ["protocol", "compat"]}
SEES_TRANSPORT["core"] = {"transport/transport.h", "transport/registry.h"}
# The ends of the lines between libucp and libucs, and between libucp and libucm.
SHARES = {"compat/ucs/share.h": {"base/log_join.c", "compat/ucs/log.c", "compat/ucs/options.c"},
          "compat/ucm/share.h": {"base/unmapped.c", "compat/ucm/ucm.c"}}
# No system call and no lock, whatever they include on the chain.
PURE = re.compile(r"wire/|proto/protocol\.|connect/choose|config/tls\.|tag/match\.|msg/datatype\.")
SYSTEM = {"arpa/inet.h", "dirent.h", "fcntl.h", "ifaddrs.h", "net/if.h", "netdb.h", "netinet/in.h", "netinet/tcp.h",
          "poll.h", "pthread.h", "pwd.h", "sched.h", "signal.h", "spawn.h", "sys/epoll.h", "sys/eventfd.h",
          "sys/file.h",
          "sys/inotify.h", "sys/ioctl.h", "sys/ipc.h", "sys/mman.h", "sys/prctl.h", "sys/random.h", "sys/resource.h",
          "sys/select.h", "sys/sem.h", "sys/shm.h", "sys/signalfd.h", "sys/socket.h", "sys/stat.h", "sys/statvfs.h",
          "sys/syscall.h", "sys/time.h", "sys/timerfd.h", "sys/un.h", "sys/utsname.h", "sys/wait.h", "syslog.h",
          "termios.h", "threads.h", "time.h", "unistd.h"}
SYSTEM_PREFIXES = ("linux/", "netinet/", "netpacket/")
EXCEPTIONS = "test/checks/layers.txt"
CONTRACT = {"transport/transport.h", "transport/iface.h", "transport/connect.h", "transport/packets.h",
            "transport/copies.h", "transport/fastpath.h", "transport/access.h"}
MAY_CALL_SLOTS = {"src/core/lane.h", "src/core/lane_access.h", "src/core/lane_cm.h", "src/core/lane_copies.h",
                  "src/core/trace.c"}
REGISTRIES = {"src/transport/registry.c": "test/sim/registry_transport.c",
              "src/mem/registry.c": "test/sim/registry_mem.c"}


def includes(text):
    """(line, name, quoted) of each #include outside of comments."""
    original = text.split("\n")
    found = []
    for number, line in enumerate(tree.code_only(text).split("\n")):
        if re.match(r"\s*#\s*include\b", line):
            match = re.search(r'([<"])([^">]+)[">]', original[number])
            if match is not None:
                found.append((number + 1, match.group(2), match.group(1) == '"'))
    return found


def load_exceptions(root):
    """{(path, header): line} of the file of exceptions."""
    found = {}
    if os.path.exists(os.path.join(root, EXCEPTIONS)):
        for number, line in enumerate(tree.read(root, EXCEPTIONS).split("\n")):
            words = line.split(None, 2)
            if words and not line.startswith("#"):
                found[(words[0], words[1] if len(words) > 1 else "")] = (number + 1, len(words) == 3)
    return found


def transport_may(path, name):
    own = os.path.dirname(path)
    if path == "transport/registry.c":
        return name == "transport/registry.h" or re.match(r"transport/(\w+)/\1_transport\.h$", name)
    if own == "transport":
        return name in CONTRACT
    return name in ("transport/transport.h", "config/config.h") or name.startswith(own + "/")


def layer_of(path):
    return PARTS.get(path, path.split("/")[0])


def allowed(path, name):
    """Whether the file of src/ may include this header of the project."""
    layer, target = layer_of(path), layer_of(name)
    if layer == "os" and target == "base":
        return name in OS_MAY_USE
    if layer == "transport" and (target == "transport" or name == "config/config.h"):
        return transport_may(path, name)
    if name in SHARES:
        return path in SHARES[name]
    if target == "transport":
        return name in SEES_TRANSPORT.get(layer, ())
    return target in BELOW[layer]


def registered(root, path):
    """The entries of the table in a registry, simulators left out."""
    names = re.findall(r"^    &(\w+),$", tree.read(root, path), re.M)
    return [name for name in names if not name.startswith(("cw_sim_", "cw_md_sim_"))]


def check_registries(root):
    complaints = []
    for ours, tests in sorted(REGISTRIES.items()):
        if os.path.exists(os.path.join(root, tests)) and registered(root, ours) != registered(root, tests):
            complaints.append("%s: it must list what %s does, in its order" % (tests, ours))
    return complaints


def slots(root):
    """Names of the function pointers in the groups of a transport."""
    pages = [tree.code_only(tree.read(root, "src/" + page)) for page in sorted(CONTRACT)
             if os.path.exists(os.path.join(root, "src", page))]
    bodies = re.findall(r"struct cw_transport(?:_\w+)? \{(.*?)\n\};", "\n".join(pages), re.S)
    return set(re.findall(r"\(\*(\w+)\)\(", "\n".join(bodies)))


def slot_calls(root, path, names):
    """Lines of a file outside of the transports that call a slot by themselves."""
    if not names or path.startswith("src/transport/") or path in MAY_CALL_SLOTS:
        return []
    call = re.compile(r"\b(?:transport|connect|packets|cm|copies|fastpath|access)->(?:%s)\(" % "|".join(sorted(names)))
    return ["%s:%d: the slots of transports are called by core/lane.h alone" % (path, number)
            for number, line in enumerate(tree.code_only(tree.read(root, path)).split("\n"), 1) if call.search(line)]


def variable_tables(root, path):
    """Lines of a file that keep a table of slots in memory that can change."""
    if path == "src/core/trace.c":
        return []
    table = re.compile(r"\s*(?:static )?struct cw_transport(?:_\w+)? \w+(?:;| =)")
    return ["%s:%d: the tables of transports are const" % (path, number)
            for number, line in enumerate(tree.code_only(tree.read(root, path)).split("\n"), 1) if table.match(line)]


def reaches_os(path, headers, seen):
    """The path by which a pure file includes os/, or None."""
    for name in headers.get(path, []):
        if name.startswith("os/"):
            return [name]
        if name not in seen:
            seen.add(name)
            chain = reaches_os(name, headers, seen)
            if chain is not None:
                return [name] + chain
    return None


def check(root):
    complaints, headers, names = check_registries(root), {}, slots(root)
    exceptions, used = load_exceptions(root), set()
    paths = tree.files(root, ["src"], [".c", ".h", ".def"])
    for full in paths:
        path = full[len("src/"):]
        headers[path] = []
        if layer_of(path) not in BELOW:
            complaints.append("%s: no layer is called %s; say in test/checks/layers.py what it may use" %
                              (full, path.split("/")[0]))
            continue
        complaints += slot_calls(root, full, names) + variable_tables(root, full)
        for line, name, quoted in includes(tree.read(root, full)):
            ours = os.path.exists(os.path.join(root, "src", name)) or (quoted and not name.startswith(PUBLIC))
            if ours:
                headers[path].append(name)
                if "/" not in name:
                    complaints.append("%s:%d: \"%s\" is not named from src/" % (full, line, name))
                elif not allowed(path, name):
                    complaints.append("%s:%d: %s must not include %s" % (full, line, layer_of(path), name))
            elif not path.startswith("os/") and (name in SYSTEM or name.startswith(SYSTEM_PREFIXES)):
                used.add((full, name))
                if (full, name) not in exceptions:
                    complaints.append("%s:%d: <%s> stands for system calls, which live in src/os" % (full, line, name))
                elif PURE.match(path):
                    complaints.append("%s:%d: <%s> cannot be excused in a pure file" % (full, line, name))
    for path in headers:
        chain = reaches_os(path, headers, set()) if PURE.match(path) else None
        if chain is not None:
            complaints.append("src/%s: pure, but includes %s" % (path, " which includes ".join(chain)))
    for (path, name), (line, has_reason) in exceptions.items():
        if not has_reason:
            complaints.append("%s:%d: an exception needs a reason" % (EXCEPTIONS, line))
        if (path, name) not in used:
            complaints.append("%s:%d: %s does not include <%s>: take the exception out" %
                              (EXCEPTIONS, line, path, name))
    return complaints


SAMPLE = {
    "src/base/log.h": "",
    "src/base/idmap.h": "",
    "src/os/net.h": "",
    "src/os/good.c": '#include <sys/socket.h>\n#include "base/log.h"\n#include "os/net.h"\n',
    "src/os/bad.c": '#include "base/idmap.h"\n#include "core/ep.h"\n',
    "src/core/ep.h": '#include "transport/transport.h"\n/* #include "tag/tag.h" */\n',
    "src/config/config.h": "",
    "src/core/bad.c": '#include "tag/tag.h"\n#include "transport/tcp/tcp.h"\n#include "connect/connect.h"\n',
    "src/tag/tag.h": '#include "core/ep.h"\n#include "ucp/api/ucp.h"\n',
    "src/tag/match.h": '#include "base/log.h"\n',
    "src/tag/match.c": '#include "tag/match.h"\n#include "tag/middle.h"\n',
    "src/tag/middle.h": '#include "os/net.h"\n',
    "src/tag/bad.c": '#include "am/am.h"\n#include "rndv/recv.h"\n',
    "src/am/am.h": '#include "msg/send.h"\n',
    "src/rndv/recv.h": '#include "msg/send.h"\n#include "proto/proto.h"\n',
    "src/msg/send.h": '#include "proto/select.h"\n#include "rndv/recv.h"\n',
    "src/proto/select.h": '#include "msg/send.h"\n',
    "src/proto/proto.h": '#include "rndv/recv.h"\n',
    "src/connect/connect.h": '#include "core/ep.h"\n',
    "src/connect/bad.c": '#include "api/call.h"\n',
    "src/api/call.h": '#include "tag/tag.h"\n#include "connect/connect.h"\n',
    "src/proto/protocol.c": '#include "os/net.h"\n',
    "src/wire/packet.c": "#include <poll.h>\n",
    "src/transport/transport.h": '#include "base/list.h"\n#include "transport/packets.h"\n',
    "src/transport/packets.h": "struct cw_transport_packets {\n    int (*send_short)(void);\n};\n",
    "src/core/copied.c": "struct copied {\n    struct cw_transport_packets packets;\n};\n"
                         "static const struct cw_transport real = {0};\n",
    "src/core/lane.h": "int f(void) { return packets->send_short(); }\n",
    "src/msg/send.c": "/* packets->send_short( */\nint f(void) { return iface->packets->send_short(); }\n",
    "src/transport/registry.h": '#include "transport/transport.h"\n',
    "src/transport/registry.c": '#include "transport/tcp/tcp_transport.h"\n#include "transport/tcp/tcp.h"\n'
                                "    &cw_tcp_transport,\n",
    "test/sim/registry_transport.c": "    &cw_sim_transport,\n",
    "src/mem/registry.c": "    &cw_md_host,\n",
    "test/sim/registry_mem.c": "    &cw_md_host,\n    &cw_md_sim_gpu,\n",
    "src/transport/tcp/tcp.h": '#include "config/config.h"\n#include "os/net.h"\n#include "transport/tcp/tcp_wire.h"\n',
    "src/transport/tcp/tcp.c": '#include <unistd.h>\n#include "core/ep.h"\n#include "transport/shm/shm.h"\n'
                               '#include "transport/registry.h"\n#include "tcp.h"\n',
    "src/transport/shm/shm.c": "#include <time.h>\n",
    "src/novel/thing.c": "",
    EXCEPTIONS: "# comment\nsrc/transport/shm/shm.c time.h a reason\nsrc/base/log.c unistd.h no more\n"
                "src/tag/tag.h poll.h\n",
}
EXPECTED = [
    r"tag/bad.c:1: tag must not include am/am.h", r"rndv/recv.h:2: rndv must not include proto/proto.h",
    r"msg/send.h:2: msg must not include rndv/recv.h",
    r"os/bad.c:1: os must not include base/idmap.h", r"os/bad.c:2: os must not include core/ep.h",
    r"core/bad.c:1: core must not include tag/tag.h", r"core/bad.c:2: core must not include transport/tcp/tcp.h",
    r"core/copied.c:2: the tables of transports are const",
    r"msg/send.c:2: the slots of transports are called by core/lane.h alone",
    r"core/bad.c:3: core must not include connect", r"connect/bad.c:1: connect must not include api/call.h",
    r"tag/match.c: pure, but includes tag/middle.h which includes os/net.h",
    r"proto/protocol.c:1: protocol must not include os", r"proto/protocol.c: pure, but includes os/net.h",
    r"wire/packet.c:1: <poll.h>", r"registry.c:2: transport must not include transport/tcp/tcp.h",
    r"tcp.c:1: <unistd.h>", r"tcp.c:2: transport must not include core/ep.h",
    r"tcp.c:3: transport must not include transport/shm", r"tcp.c:4: transport must not include transport/registry.h",
    r"tcp.c:5: \"tcp.h\" is not named from src/", r"no layer is called novel",
    r"log.c does not include <unistd.h>", r"layers.txt:4: an exception needs a reason",
    r"tag.h does not include <poll.h>", r"registry_transport.c: it must list what src/transport/registry.c does",
]

if __name__ == "__main__":
    tree.run(check, SAMPLE, EXPECTED)
