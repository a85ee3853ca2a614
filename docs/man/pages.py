#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages of the programming interface from the public headers: a page of section 3 for each function
and for each structure, enumeration and callback, and the overviews ucp(7) and ucp_compat(7).

A name that is described on another's page becomes a page with a single .so request.
"""

import argparse
import os
import re
import textwrap

import header
import roff

OVERVIEW, COMPATIBLE = "ucp/api/ucp.h", "ucp/api/ucp_compat.h"
HEADERS = [OVERVIEW, "ucp/api/ucp_def.h", COMPATIBLE, "ucp/api/device/ucp_host.h", "ucs/type/status.h",
           "ucs/type/thread_mode.h",
           "ucs/memory/memory_type.h", "ucs/config/types.h", "ucs/type/cpu_set.h", "ucs/sys/sock.h",
           "ucs/sys/string.h", "ucs/sys/uid.h", "ucs/debug/memtrack.h", "ucs/debug/log_def.h", "ucs/debug/debug.h",
           "ucs/debug/assert.h", "ucs/config/global_opts.h", "ucs/memory/memtype_cache.h", "ucs/async/async_fwd.h",
           "ucm/api/ucm.h", "uct/api/uct.h"]
INCLUDED_BY_UCP = re.compile(r"uc[ps]/(?!api/device/|sys/|debug/|async/|config/global|memory/memtype)")
LIBRARIES = {"ucp": "libucp, \\-lucp", "ucs": "libucs, \\-lucs", "ucm": "libucm, \\-lucm", "uct": "libuct, \\-luct"}
RETURNS = {
    "ucs_status_t": "UCS_OK, or the error.",
    "ucs_status_ptr_t": "NULL: complete. An error pointer. Otherwise a request; see ucp_request_param_t.",
}


def referenced(item, items):
    """Is the item needed to read the pages of UCP? Those headers have some more that only programs of old need."""
    if item.header.startswith("ucp/") or item.kind == "function":
        return True
    if item.kind == "macro":
        return item.name.startswith(("UCS_PTR_", "UCS_STATUS_"))
    uses = [i.code for i in items if i.header.startswith("ucp/")]
    return any(re.search(r"\b%s\b" % item.name, code) for code in uses)


def host_of(item):
    """Name of the page on which the item is described if that is not its own."""
    if item.kind == "enum":
        match = re.match(r"(?:Valid fields|Members) of (ucp_\w+_t)", item.doc.text) or \
            re.match(r"[^.]*?\b(ucp_\w+_t)::", item.doc.text)
        return match.group(1) if match is not None else None
    if item.kind in ("function", "macro") and re.search(r"\d+64$|[a-z]64$", item.name):
        return item.name[:-2] + "32"
    return None


class Manual:
    def __init__(self, include, date, version):
        self.date, self.version, self.heads, self.items = date, version, {}, []
        for name in HEADERS:
            self.heads[name], items = header.read(os.path.join(include, name), name)
            self.items += items
        for item in self.items:
            if item.kind == "struct" and not item.name.endswith("_t"):
                item.name += "_t"
        self.items = [i for i in self.items if referenced(i, self.items)]
        self.by_name = {i.name: i for i in self.items if i.name}
        self.hosts = {i.name: host_of(i) for i in self.items}
        self.hosts = {name: host for name, host in self.hosts.items() if host in self.by_name}
        self.guests = {}
        for item in self.items:
            host = host_of(item)
            if host in self.by_name:
                self.guests.setdefault(host, []).append(item)
        self.known = {i.name: "3" for i in self.items if i.name and i.kind != "handle"}
        self.known.update({"ucp": "7", "ucp_compat": "7", "ucx.conf": "5"})
        status = self.by_name["ucs_status_t"]
        self.meanings = {name: doc.text for name, _, doc in status.members if doc is not None}

    def page(self, name, section="3"):
        return roff.Page(name, section, self.date, self.version, self.known)

    # ---- parts of pages ----

    def name_line(self, item):
        brief = item.doc.brief()
        if re.match(r"uc[psm]_\w+\(\)", brief):
            brief = "older form: " + brief
        elif re.match(r"[A-Z][a-z]", brief) or brief.startswith("A "):
            brief = brief[0].lower() + brief[1:]
        brief = re.sub(r"\(\)", "", brief)
        if len(item.name + brief) > 70:
            brief = brief.partition("; ")[0]
        return roff.code(brief)

    def start(self, item, extra=()):
        page = self.page(item.name)
        page.heading("NAME")
        names = [item.name] + [i.name for i in extra]
        page.lines.append("%s \\- %s" % (", ".join(names), self.name_line(item)))
        return page

    def library(self, page, item):
        page.heading("LIBRARY")
        page.lines.append("Causeway (%s)" % LIBRARIES[item.name[:3].lower()])

    def synopsis(self, page, items):
        page.heading("SYNOPSIS")
        included = OVERVIEW if INCLUDED_BY_UCP.match(items[0].header) else items[0].header
        page.lines += [".nf", roff.bold("#include <%s>" % included), ".PP"]
        for item in items:
            page.lines += prototype(item.code)
        page.lines.append(".fi")

    def parameters(self, page, doc, title="PARAMETERS"):
        if doc.params:
            page.heading(title)
        for name, text in doc.params:
            page.entry(roff.italic(name), text)

    def returns(self, page, item):
        kind = item.code.split(item.name)[0].replace("typedef", "").strip(" (*\n")
        text = item.doc.returns or ("" if refers(item.doc) else RETURNS.get(kind))
        if text is None or kind == "void" and "void *" not in item.code.split("(")[0]:
            return
        page.heading("RETURN VALUE")
        page.text(text or "As the function that is named above.")

    def errors(self, page, item):
        """What the comment says of each error, and else what the error means."""
        found = {}
        clauses = re.split(r"(?<=[.;:,]) ", item.doc.returns or "")
        for clause in clauses:
            match = re.match(r"(?:or )?((?:UCS_ERR_\w+(?:, | or )?)+) (?:for|if|when|without)\b.*", clause)
            if match is not None:
                reason = clause[len(match.group(1)):].strip(" ;.,:")
                for name in re.findall(r"UCS_ERR_\w+", match.group(1)):
                    found[name] = reason[0].upper() + reason[1:] + "."
        for name, reason in re.findall(r"(UCS_ERR_\w+): ([^.;]*)", item.doc.returns or ""):
            found[name] = reason[0].upper() + reason[1:] + "."
        for name in re.findall(r"UCS_ERR_\w+", item.doc.text):
            found.setdefault(name, self.meanings.get(name, ""))
        if found:
            page.heading("ERRORS")
        for name, text in found.items():
            page.entry(roff.bold(name), text)

    def notes(self, page, item):
        """What the header says about a whole section or about several calls at once."""
        parts = []
        if item.remark is not None:
            others = [n for n in item.remark.names if n != item.name]
            parts.append("In the header stands, above this call and %s:" % ", ".join("%s()" % n for n in others)
                         if others else "In the header stands, above this call:")
            parts += item.remark.paragraphs
        if item.section is not None:
            general = item.section.paragraphs
            parts += ["About %s in general:" % item.section.title] + general if general else []
        if item.header == COMPATIBLE:
            parts.append("This call is of an older generation, kept for programs that use it; what its name tells is "
                         "in ucp_compat().")
        if parts:
            page.heading("NOTES")
            page.paragraphs(parts)

    def specification(self, page, items):
        texts = [i.doc.text + " " + (" ".join(i.remark.paragraphs) if i.remark is not None else "") for i in items]
        texts += [doc.text for i in items for _, _, doc in i.members if doc is not None]
        numbers = sorted(set(header.SPECIFIED.findall(" ".join(texts))), key=statement_order)
        if numbers:
            page.heading("SPECIFICATION")
            page.lines += ["Statements of the behaviour specification,", "and rules (R) that known programs rely on:"]
            numbers = [re.sub(r"([A-Z]+-)(\d+)\.\.", r"\1\2 to \1", number) for number in numbers]
            page.lines += textwrap.wrap(", ".join(numbers) + ".", 78, break_on_hyphens=False)

    def see_also(self, page, names):
        """References, those of other names for the page itself left out."""
        names = {self.hosts.get(n, n) for n in list(names) + list(page.seen) + ["ucp"]}
        if page.name.startswith("ucp_config_"):
            names.add("ucx.conf")
        page.see_also(names)

    def used_types(self, code):
        """Names of pages that a declaration leads to."""
        return [n for n in re.findall(r"\w+", code) if n in self.known]

    # ---- pages ----

    def function(self, item):
        guests = self.guests.get(item.name, [])
        page = self.start(item, guests)
        self.library(page, item)
        self.synopsis(page, [item] + guests)
        page.heading("DESCRIPTION")
        for index, one in enumerate([item] + guests):
            if index > 0:
                page.lines.append(".PP")
            if guests:
                page.lines.append("%s:" % roff.bold(one.name))
            texts = list(one.doc.paragraphs)
            texts[0] = "As " + texts[0] if refers(one.doc) else texts[0]
            page.paragraphs(texts)
        if refers(item.doc) and not item.doc.params:
            page.text("Parameters of the same name are those of that function.")
        self.parameters(page, item.doc)
        self.returns(page, item)
        self.errors(page, item)
        if item.doc.threads is not None:
            page.heading("THREADS")
            page.text(item.doc.threads)
        self.notes(page, item)
        self.specification(page, [item] + guests)
        if item.doc.example:
            page.heading("EXAMPLES")
            page.listing([roff.code(line) for line in item.doc.example])
        self.see_also(page, self.used_types(item.code))
        return page

    def members(self, page, item):
        for name, code, doc in item.members:
            label = roff.bold(code.rstrip(";"))
            if "." in name or code in ("union", "struct"):
                label = "%s %s" % (roff.bold(code.rpartition(" ")[0] or code), roff.bold(name))
            if item.kind == "enum":
                label = roff.bold(name) + (" = " + roff.code(code) if code else "")
            page.lines += [".TP", label]
            page.paragraphs(doc.paragraphs if doc is not None else ["(no description)"], first="")
            if doc is None or not doc.params and doc.returns is None:
                continue
            page.lines.append(".RS")
            for argument, text in doc.params:
                page.entry(roff.italic(argument), text)
            if doc.returns is not None:
                page.entry("Returns", doc.returns)
            page.lines.append(".RE")

    def aggregate(self, item):
        guests = self.guests.get(item.name, [])
        page = self.start(item)
        page.heading("SYNOPSIS")
        included = OVERVIEW if INCLUDED_BY_UCP.match(item.header) else item.header
        page.listing([roff.bold("#include <%s>" % included)])
        page.heading("DESCRIPTION")
        page.paragraphs(item.doc.paragraphs)
        page.heading("MEMBERS" if item.kind == "struct" else "VALUES")
        self.members(page, item)
        for guest in guests:
            page.heading(guest_title(guest, item))
            page.paragraphs(guest.doc.paragraphs)
            self.members(page, guest)
        self.specification(page, [item] + guests)
        users = [i.name for i in self.items if i.kind == "function" and re.search(r"\b%s\b" % item.name, i.code)]
        types = [n for _, code, _ in item.members for n in self.used_types(code)] if item.kind == "struct" else []
        self.see_also(page, users + types)
        return page

    def callback(self, item):
        page = self.start(item)
        self.synopsis(page, [item])
        page.heading("DESCRIPTION")
        page.paragraphs(item.doc.paragraphs)
        self.parameters(page, item.doc)
        if item.doc.returns is not None:
            page.heading("RETURN VALUE")
            page.text(item.doc.returns)
        self.notes(page, item)
        self.specification(page, [item])
        users = [i.name for i in self.items if i.kind in ("function", "struct") and
                 re.search(r"\b%s\b" % item.name, i.code)]
        self.see_also(page, users + self.used_types(item.code))
        return page

    def overview(self, name, title, head, calls):
        page = self.page(name, "7")
        page.heading("NAME")
        page.lines.append("%s \\- %s" % (name, title))
        page.heading("SYNOPSIS")
        page.lines += [".nf", roff.bold("#include <ucp/api/ucp.h>"), ".PP",
                       roff.bold("cc program.c $(pkg-config --cflags --libs ucx)"), ".fi"]
        page.heading("DESCRIPTION")
        for index, paragraph in enumerate(head.paragraphs):
            subject = re.match(r"([A-Z][a-z]+)\. (.*)", paragraph)
            if subject is not None:
                page.heading(subject.group(1), "SS")
                page.text(subject.group(2))
            else:
                page.paragraphs([paragraph], ".PP" if index > 0 else "")
        section = None
        for item in calls:
            if item.section is not section:
                section = item.section
                page.heading(section.title.upper())
                page.paragraphs(section.paragraphs)
            page.entry("%s(3)" % roff.bold(item.name), item.doc.brief() + ".")
        if name == "ucp":
            page.heading("HANDLES")
            page.lines.append("All of them are opaque.")
            for item in self.items:
                if item.kind == "handle" and item.header.startswith("ucp/"):
                    page.entry(roff.bold(item.name), item.doc.text)
        page.see_also(["ucp", "ucp_compat", "ucx.conf", "ucs_status_t", "ucs_status_string"])
        return page

    def pages(self):
        """file name: source, of all pages"""
        found = {}
        writers = {"function": self.function, "macro": self.function, "callback": self.callback,
                   "struct": self.aggregate, "enum": self.aggregate}
        for item in self.items:
            if item.name in self.hosts:
                found[item.name + ".3"] = ".so man3/%s.3\n" % self.hosts[item.name]
            elif item.name and item.kind in writers:
                found[item.name + ".3"] = writers[item.kind](item).source()
        for name, path, title in (("ucp", OVERVIEW, "communication between processes"),
                                  ("ucp_compat", COMPATIBLE, "the older generations of the UCP interface")):
            calls = [i for i in self.items if i.header == path and i.kind in ("function", "macro")]
            found[name + ".7"] = self.overview(name, title, self.heads[path], calls).source()
        return found


def refers(doc):
    """Does the comment describe the function by naming another one?"""
    return re.match(r"uc[psm]_\w+\(\)", doc.text) is not None


def statement_order(number):
    name, value = re.match(r"([A-Z]+)-?(\d+)", number).groups()
    return name == "R", name, int(value)


def guest_title(guest, host):
    if re.match("Valid fields|Members", guest.doc.text):
        return "FIELD MASK" if guest.name.endswith("_field") else "MASK"
    member = re.search(r"\b%s::(\w+)" % host.name, guest.doc.text)
    return "VALUES OF %s" % member.group(1).upper() + ("" if not guest.name else " (%s)" % guest.name.upper())


def prototype(code):
    """Lines of a declaration for a synopsis: bold, the names of parameters in italics."""
    code = " ".join(code.split())
    head, _, rest = code.partition("(") if not code.startswith("typedef") else split_callback(code)
    parts = re.split(r", ", rest.rstrip(";")[:-1])
    lines, line = [], head + "("
    indent = len(line) if len(line) < 40 else 8
    for index, part in enumerate(parts):
        part += "," if index < len(parts) - 1 else ");"
        if len(line) + len(part) > 76 and index > 0:
            lines.append(line.rstrip())
            line = " " * indent
        line += part + " "
    lines.append(line.rstrip())
    return [roff.request(decorate(one)) for one in lines]


def split_callback(code):
    match = re.match(r"(typedef .*?\(\*\w+\))\((.*)", code)
    return match.group(1), "(", match.group(2)


def decorate(line):
    """A line of a prototype: the last word before a comma or the end is the name of a parameter."""
    found, position = [], 0
    for match in re.finditer(r"(?<=[ *(])(\w+)(?=(?:,|\);)(?: |$))", line):
        if match.group(1) == "void":
            continue
        found += [roff.bold(line[position:match.start()]), roff.italic(match.group(1))]
        position = match.end()
    text = "".join(found) + roff.bold(line[position:])
    indent = len(line) - len(line.lstrip())
    return text.replace("\\fB" + " " * indent, " " * indent + "\\fB", 1) if indent else text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("include", help="directory of the public headers")
    parser.add_argument("output", help="directory in which man3 and man7 are made")
    parser.add_argument("--date", required=True, help="date of the pages, YYYY-MM-DD")
    parser.add_argument("--version", required=True, help="version of the package")
    arguments = parser.parse_args()
    pages = Manual(arguments.include, arguments.date, arguments.version).pages()
    for directory in ("man3", "man7"):
        path = os.path.join(arguments.output, directory)
        os.makedirs(path, exist_ok=True)
        for stale in set(os.listdir(path)) - set(pages):
            os.remove(os.path.join(path, stale))
    for name, source in pages.items():
        with open(os.path.join(arguments.output, "man" + name[-1], name), "w", encoding="utf-8") as file:
            file.write(source)


if __name__ == "__main__":
    main()
