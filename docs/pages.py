#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns the comments of the public headers, docs/CONFIG.md and the help of the tools into Markdown, a page for each
function, type, tool and the settings. MkDocs and pandoc read that Markdown.

    pages.py site TARGET [--tool PROGRAM]...   the folder of a site: `mkdocs build -f TARGET/mkdocs.yml`
    pages.py man TARGET [--see NAME]...        manual pages by pandoc; ucp(7) names these tools
    pages.py man TARGET --tool PROGRAM...      manual pages of these tools alone
"""

import argparse
import json
import os
import re
import shutil
import subprocess

import header

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OVERVIEW, COMPATIBLE = "ucp/api/ucp.h", "ucp/api/ucp_compat.h"
HEADERS = [OVERVIEW, "ucp/api/ucp_def.h", COMPATIBLE, "ucp/api/device/ucp_host.h", "ucs/type/status.h",
           "ucs/type/thread_mode.h",
           "ucs/memory/memory_type.h", "ucs/config/types.h", "ucs/type/cpu_set.h", "ucs/sys/sock.h",
           "ucs/sys/string.h", "ucs/sys/uid.h", "ucs/debug/memtrack.h", "ucs/debug/log_def.h", "ucs/debug/debug.h",
           "ucs/debug/assert.h", "ucs/config/global_opts.h", "ucs/memory/memtype_cache.h", "ucs/async/async_fwd.h",
           "ucm/api/ucm.h", "uct/api/uct.h"]
INCLUDED_BY_UCP = re.compile(r"uc[ps]/(?!api/device/|sys/|debug/|async/|config/global|memory/memtype)")
RETURNS = {
    "ucs_status_t": "UCS_OK, or the error.",
    "ucs_status_ptr_t": "NULL: complete. An error pointer. Otherwise a request; see ucp_request_param_t.",
}
MARKS = re.compile(r"@a (?P<argument>\*?\w+)|`(?P<quoted>\w+)`"
                   r"|(?P<use>\buc[psm]_\w+\(\w+\))"
                   r"|(?P<call>\b(?:uc[psm]|UC[PSM])_\w+)\(\)"
                   r"|(?P<type>\b(?:enum )?uc[psm]_\w+?)(?:::(?P<member>\w+))?(?=\W|$)"
                   r"|(?P<constant>\bUC[PSMTX]+_[A-Z]\w*)")
PANDOC = "markdown_strict+definition_lists+backtick_code_blocks+raw_attribute+intraword_underscores"


# ---- Markdown ----

def escape(text):
    return re.sub(r"[\\*`\[]|\b_|_\b", r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")


def bold(text):
    return "**%s**" % escape(text)


def italic(text):
    return "*%s*" % escape(text)


def entry(label, *texts):
    """An item of a definition list; `label` and `texts` are marked up already."""
    return label + "\n:   " + "\n\n    ".join(text.replace("\n", "\n    ") for text in texts if text)


def fence(lines):
    return "```c\n%s\n```" % "\n".join(lines)


class Page:
    """A page and its blocks. `places`: of each name that has a page, that page, such as ucp_init.3."""

    def __init__(self, name, section, brief, places):
        self.name, self.section, self.places = name, section, places
        self.blocks = ["# %s(%s)" % (name, section), "## NAME", "%s - %s" % (escape(name), brief)]

    def link(self, name, label=None):
        place = self.places.get(name)
        if place is None or place[:-2] == self.name:
            return label or bold(name)
        return "[%s](%s.md)" % (label or "%s(%s)" % (bold(name), place[-1]), place)

    def mark(self, match):
        found = match.groupdict()
        if found["argument"] or found["quoted"]:
            return italic(found["argument"] or found["quoted"])
        if found["call"]:
            return self.link(found["call"]) if found["call"] in self.places else bold(found["call"]) + "()"
        if found["type"]:
            member = "::" + italic(found["member"]) if found["member"] else ""
            return self.link(found["type"].replace("enum ", ""), bold(found["type"])) + member
        return bold(found["use"] or found["constant"])

    def markup(self, text):
        found, position = [], 0
        for match in MARKS.finditer(text):
            found += [escape(text[position:match.start()]), self.mark(match)]
            position = match.end()
        text = "".join(found + [escape(text[position:])])
        return re.sub(r"^(\d*)([.+#>-])", r"\1\\\2", text)  # no list, no heading

    def heading(self, title, level=2):
        self.blocks.append("#" * level + " " + title)

    def add(self, *texts):
        """Paragraphs of a comment. One that is indented there is an entry of a list: a word, blanks, its meaning."""
        for text in texts:
            item = re.match(r" (\w+)\s+(.*)", text)
            self.blocks.append(entry(italic(item.group(1)), self.markup(item.group(2))) if item else self.markup(text))

    def entry(self, label, text):
        self.blocks.append(entry(label, self.markup(text)))

    def see_also(self, names):
        """Ends the page with links to these and to what its text has linked."""
        linked = re.findall(r"\]\(([\w.]+)\.md\)", "\n".join(self.blocks)) if self.section == 3 else []
        places = {self.places[name] for name in names + ["ucp"] if name in self.places} | set(linked)
        places = sorted((place for place in places if place[:-2] != self.name), key=lambda p: (p[-1], p))
        self.blocks += ["## SEE ALSO", ", ".join(self.link(place[:-2]) for place in places)]

    def text(self):
        return "\n\n".join(self.blocks) + "\n"


# ---- the programming interface ----

def referenced(item, items):
    """Is the item needed to read the pages of UCP? Those headers have some more that only programs of old need."""
    if item.header.startswith("ucp/") or item.kind == "function":
        return True
    if item.kind == "macro":
        return item.name.startswith(("UCS_PTR_", "UCS_STATUS_"))
    uses = [i.code for i in items if i.header.startswith("ucp/")]
    return any(re.search(r"\b%s\b" % item.name, code) for code in uses)


def host_of(item):
    """Name of the structure on whose page an enumeration is described."""
    match = item.kind == "enum" and (re.match(r"(?:Valid fields|Members) of (ucp_\w+_t)", item.doc.text) or
                                     re.match(r"[^.]*?\b(ucp_\w+_t)::", item.doc.text))
    return match.group(1) if match else None


def refers(doc):
    """Does the comment describe the function by naming another one?"""
    return re.match(r"uc[psm]_\w+\(\)", doc.text) is not None


def guest_title(guest, host):
    if re.match("Valid fields|Members", guest.doc.text):
        return "FIELD MASK" if guest.name.endswith("_field") else "MASK"
    member = re.search(r"\b%s::(\w+)" % host.name, guest.doc.text)
    return "VALUES OF %s" % member.group(1).upper() + (" (%s)" % guest.name.upper() if guest.name else "")


def prototype(code):
    """Lines of a declaration, none of which is long."""
    code = " ".join(code.split())
    head = re.match(r"(?:typedef .*?\(\*\w+\)|[^(]*)\(", code).group()
    indent, lines = len(head) if len(head) < 40 else 8, [head]
    for index, part in enumerate(re.split(r"(?<=,) ", code[len(head):])):
        if index > 0 and len(lines[-1]) + len(part) > 72:
            lines.append(" " * indent)
        lines[-1] += (" " if index > 0 and lines[-1].strip() else "") + part
    return lines


class Manual:
    """`tools`: names of those that have pages."""

    def __init__(self, include, tools):
        self.heads, self.items, self.tools = {}, [], tools
        for name in HEADERS:
            self.heads[name], items = header.read(os.path.join(include, name), name)
            self.items += items
        for item in self.items:
            if item.kind == "struct" and not item.name.endswith("_t"):
                item.name += "_t"
        self.items = [item for item in self.items if referenced(item, self.items)]
        named = {item.name: item for item in self.items if item.name and item.kind != "handle"}
        self.hosts = {item.name: host_of(item) for item in self.items if host_of(item) in named}
        self.guests = {host: [item for item in self.items if host_of(item) == host] for host in self.hosts.values()}
        self.places = {name: self.hosts.get(name, name) + ".3" for name in named}
        self.places.update({"ucp": "ucp.7", "ucp_compat": "ucp_compat.7", "ucx.conf": "ucx.conf.5"})
        self.places.update({name: name + ".1" for name in tools})
        self.meanings = {name: doc.text for name, _, doc in named["ucs_status_t"].members if doc is not None}

    def start(self, item):
        brief = item.doc.brief()
        if re.match(r"uc[psm]_\w+\(\)", brief):
            brief = "older form: " + brief
        elif re.match(r"[A-Z][a-z]", brief) or brief.startswith("A "):
            brief = brief[0].lower() + brief[1:]
        brief = brief.replace("()", "")
        if len(item.name + brief) > 70:
            brief = brief.partition("; ")[0]
        page = Page(item.name, 3, escape(brief), self.places)
        included = OVERVIEW if INCLUDED_BY_UCP.match(item.header) else item.header
        page.heading("SYNOPSIS")
        page.blocks.append(fence(["#include <%s>" % included] + ([""] + prototype(item.code)
                                 if item.kind in ("function", "macro", "callback") else [])))
        page.heading("DESCRIPTION")
        return page

    def returns(self, page, item):
        kind = item.code.split(item.name)[0].replace("typedef", "").strip(" (*\n")
        text = item.doc.returns or ("" if refers(item.doc) else RETURNS.get(kind))
        if text is None or kind == "void" and "void *" not in item.code.split("(")[0]:
            return
        page.heading("RETURN VALUE")
        page.add(text or "As the function that is named above.")

    def errors(self, page, item):
        """What the comment says of each error, and else what the error means."""
        found = {}
        for clause in re.split(r"(?<=[.;:,]) ", item.doc.returns or ""):
            match = re.match(r"(?:or )?((?:UCS_ERR_\w+(?:, | or )?)+) (?:for|if|when|without)\b.*", clause)
            if match is not None:
                for name in re.findall(r"UCS_ERR_\w+", match.group(1)):
                    found[name] = clause[len(match.group(1)):]
        found.update(re.findall(r"(UCS_ERR_\w+): ([^.;]*)", item.doc.returns or ""))
        for name in re.findall(r"UCS_ERR_\w+", item.doc.text):
            found.setdefault(name, self.meanings.get(name, ""))
        if found:
            page.heading("ERRORS")
        for name, text in found.items():
            text = text.strip(" ;.,:")
            page.entry(bold(name), text[:1].upper() + text[1:] + ".")

    def notes(self, page, item):
        """What the header says about a whole section or about several calls at once."""
        parts = []
        if item.remark is not None:
            others = ["%s()" % name for name in item.remark.names if name != item.name]
            parts += ["In the header stands, above this call%s:" % (" and " + ", ".join(others) if others else "")]
            parts += item.remark.paragraphs
        if item.section is not None and item.section.paragraphs:
            parts += ["About %s in general:" % item.section.title] + item.section.paragraphs
        if item.header == COMPATIBLE:
            parts += ["This call is of an older generation, kept for programs that use it; what its name tells is in "
                      "ucp_compat()."]
        if parts:
            page.heading("NOTES")
            page.add(*parts)

    def used(self, code):
        return [name for name in re.findall(r"\w+", code) if name in self.places]

    def users(self, item, kinds):
        return [i.name for i in self.items if i.kind in kinds and re.search(r"\b%s\b" % item.name, i.code)]

    def function(self, item):
        """The page of a function, macro or callback."""
        page = self.start(item)
        if refers(item.doc):
            page.add("As " + item.doc.paragraphs[0], *item.doc.paragraphs[1:])
            if not item.doc.params:
                page.add("Parameters of the same name are those of that function.")
        else:
            page.add(*item.doc.paragraphs)
        if item.doc.params:
            page.heading("PARAMETERS")
        for name, text in item.doc.params:
            page.entry(italic(name), text)
        self.returns(page, item)
        if item.kind != "callback":
            self.errors(page, item)
        if item.doc.threads is not None:
            page.heading("THREADS")
            page.add(item.doc.threads)
        self.notes(page, item)
        if item.doc.example:
            page.heading("EXAMPLES")
            page.blocks.append(fence(item.doc.example))
        users = self.users(item, ("function", "struct")) if item.kind == "callback" else []
        page.see_also(self.used(item.code) + users + (["ucx.conf"] if item.name.startswith("ucp_config_") else []))
        return page

    def members(self, page, item):
        for name, code, doc in item.members:
            label = bold(code.rstrip(";"))
            if "." in name or code in ("union", "struct"):
                label = "%s %s" % (bold(code.rpartition(" ")[0] or code), bold(name))
            if item.kind == "enum":
                label = bold(name) + (" = " + escape(code) if code else "")
            texts = [page.markup(text.strip()) for text in doc.paragraphs] if doc is not None else ["(no description)"]
            if doc is not None:
                texts += [entry(italic(argument), page.markup(text)) for argument, text in doc.params]
                texts += [entry("Returns", page.markup(doc.returns))] if doc.returns is not None else []
            page.blocks.append(entry(label, *texts))

    def aggregate(self, item):
        """The page of a structure or enumeration."""
        page = self.start(item)
        page.add(*item.doc.paragraphs)
        page.heading("MEMBERS" if item.kind == "struct" else "VALUES")
        self.members(page, item)
        for guest in self.guests.get(item.name, []):
            page.heading(guest_title(guest, item))
            page.add(*guest.doc.paragraphs)
            self.members(page, guest)
        types = [n for _, code, _ in item.members for n in self.used(code)] if item.kind == "struct" else []
        page.see_also(self.users(item, ("function",)) + types)
        return page

    def overview(self, name, title, head, calls):
        page = Page(name, 7, title, self.places)
        page.heading("SYNOPSIS")
        page.blocks.append(fence(["#include <ucp/api/ucp.h>", "", "cc program.c $(pkg-config --cflags --libs ucx)"]))
        page.heading("DESCRIPTION")
        for paragraph in head.paragraphs:
            subject = re.match(r"([A-Z][a-z]+)\. (.*)", paragraph)
            if subject is not None:
                page.heading(subject.group(1), 3)
            page.add(subject.group(2) if subject is not None else paragraph)
        section = None
        for item in calls:
            if item.section is not section:
                section = item.section
                page.heading(section.title.upper())
                page.add(*section.paragraphs)
            page.entry(page.link(item.name), item.doc.brief() + ".")
        if name == "ucp":
            page.heading("HANDLES")
            page.add("All of them are opaque.")
            for item in self.items:
                if item.kind == "handle" and item.header.startswith("ucp/"):
                    page.entry(bold(item.name), item.doc.text)
        page.see_also(["ucp", "ucp_compat", "ucx.conf", "ucs_status_t", "ucs_status_string"] + self.tools)
        return page

    def pages(self):
        """{page: Markdown}"""
        found = {}
        for item in self.items:
            if item.name and item.kind != "handle" and item.name not in self.hosts:
                write = self.aggregate if item.kind in ("struct", "enum") else self.function
                found[item.name + ".3"] = write(item).text()
        for name, path, title in (("ucp", OVERVIEW, "communication between processes"),
                                  ("ucp_compat", COMPATIBLE, "the older generations of the UCP interface")):
            calls = [item for item in self.items if item.header == path and item.kind in ("function", "macro")]
            found[name + ".7"] = self.overview(name, title, self.heads[path], calls).text()
        return found


# ---- settings and tools ----

def setting_rows(match):
    """A table of docs/CONFIG.md as a list."""
    head, _, *rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                      for line in match.group().strip().split("\n")]
    found = []
    for row in rows:
        if head == ["variable", "default", "syntax", "meaning"]:
            name, default, syntax, meaning = row
            found.append(entry("%s    (%s)" % (name, "default: " + default if default else "no default"),
                               meaning + " Value: %s." % syntax.rstrip(".")))
        else:
            more = ["%s: %s" % (title, cell) for title, cell in zip(head[2:], row[2:]) if cell]
            found.append(entry(row[0], "; ".join(row[1:2] + more)))
    return "\n\n".join(found) + "\n"


def settings():
    """ucx.conf(5), from docs/CONFIG.md, which is made from the table of settings itself."""
    with open(os.path.join(ROOT, "docs/CONFIG.md"), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"\A# .*\n+(?:<!--.*-->\n+)?", "", text)
    text = re.sub(r"(?:^\|.*\n)+", setting_rows, text, flags=re.MULTILINE)
    text = re.sub(r"^## .*", lambda match: match.group().upper(), text, flags=re.MULTILINE)
    text = re.sub(r"`([^`]*)`", lambda match: bold(match.group(1)), text)
    return ("# ucx.conf(5)\n\n## NAME\n\nucx.conf - settings of the Causeway communication library, and the variables "
            "UCX\\_\\*\n\n%s\n## SEE ALSO\n\n[**ucp_config_read**(3)](ucp_config_read.3.md), [**ucp**(7)](ucp.7.md)\n"
            % text)


def placeholders(text):
    """<name> becomes the name in italics."""
    pieces = re.split(r"<([^>]*)>", text)
    return "".join(italic(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces))


def usage(text):
    """The lines of a help text that say how the tool is called."""
    lines = []
    for line in re.findall(r"^(?:Usage:| {6}) *(.*)", text.partition("\n\n")[0], re.MULTILINE):
        call, _, meaning = line.partition("  ")
        name, _, rest = call.partition(" ")
        rest = placeholders(rest.replace("[options]", "[<options>]"))
        meaning = " (%s)" % escape(re.sub("[<>]", "", meaning.strip())) if meaning else ""
        lines.append(bold(name) + " " + rest + meaning)
    return "  \n".join(lines)


def options(text):
    """The rest of a help text: headings, options with their values, and sentences."""
    found, items = [], None  # items: label and text of an option, then of each of its values
    text = re.sub(r"(?<=\n)(\S.*)\n(?=\S)", r"\1 ", text.partition("\n\n")[2])  # a sentence in one line

    def flush():
        if items:
            values = "\n\n".join(entry(label, meaning) for label, meaning in items[1:])
            found.append(entry(items[0][0], items[0][1] or "&nbsp;", values))

    for line in text.split("\n") + [""]:
        option = re.match(r" {1,10}(-\S*?(?:, --?[\w-]+)?)( [<\[]\S*)?(?: {1,}(.*))?$", line)
        value = re.match(r" +(\w[\w,]*) {2,}(\S.*)", line)
        if option is not None or not line.startswith(" "):
            flush()
            items = None
        if option is not None:
            label = ", ".join(bold(name) for name in option.group(1).split(", "))
            items = [[label + placeholders(option.group(2) or ""), escape((option.group(3) or "").strip())]]
        elif items and value is not None:
            items.append([bold(value.group(1)), escape(value.group(2))])
        elif items and line.strip():
            items[-1][1] += " " + escape(line.strip())
        elif line.strip():
            found.append(escape(line) if line.endswith(".") else "### " + escape(line.rstrip(":")))
    return "\n\n".join(found)


def tool(program):
    """(page, Markdown) of a tool: what is written beside its sources, with synopsis and options out of --help."""
    name = os.path.basename(program)
    done = subprocess.run([name, "--help"], executable=os.path.abspath(program), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=True, text=True)
    with open(os.path.join(ROOT, "tools", name[4:], name + ".1.md"), encoding="utf-8") as file:
        text = file.read()
    told = done.stdout.replace(program, name).expandtabs()
    return name + ".1", text.replace("@SYNOPSIS@", usage(told)).replace("@OPTIONS@", options(told))


# ---- what is made of it ----

def verbatim(match):
    """A block of code in the language of manual pages; the synopsis in bold, the names of parameters in italics."""
    text = match.group(2)
    for character, roff in (("\\", "\\e"), ("-", "\\-"), ("'", "\\[aq]"), ("^", "\\[ha]"), ("~", "\\[ti]")):
        text = text.replace(character, roff)
    lines = [("\\&" if line.startswith(".") else "") + line for line in text.split("\n")]
    if match.group(1):
        lines = [re.sub(r"\b(?!void\b)(\w+)(?=,|\);)", r"\\fI\1\\fB", line) for line in lines]
        lines = ["\\fB%s\\fR" % line if line else "" for line in lines]
    return "%s```{=man}\n.PP\n.nf\n%s\n.fi\n```" % (match.group(1) or "", "\n".join(lines))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def manuals(target, pages, arguments):
    """Writes manual pages. pandoc takes a while to start: it gets all of them at once."""
    sources = []
    for place, text in pages.items():
        name, section = place.rsplit(".", 1)
        text = re.sub(r"(## SYNOPSIS\n\n)?^```\w+\n(.*?)\n```$", verbatim, text.partition("\n")[2],
                      flags=re.MULTILINE | re.DOTALL)
        sources.append('```{=man}\n.TH %s %s %s "Causeway %s" "Causeway manual"\n.nh\n.ad l\n```\n%s' %
                       (name, section, arguments.date, arguments.version, text))
    made = subprocess.run([arguments.pandoc, "-f", PANDOC, "-t", "man", "--shift-heading-level-by=-1"],
                          input="\n".join(sources), stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    parts = re.split(r"^(?=\.TH )", made, flags=re.MULTILINE)[1:]
    assert len(parts) == len(pages), "pandoc has not kept the pages apart"
    for place, text in zip(pages, parts):
        text = re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.MULTILINE)
        text = re.sub(r"^(\.SH NAME\n\S+) -", r"\1 \\-", text, flags=re.MULTILINE)
        text = re.sub(r"(?<![\w\\-])-{1,2}(?=\w)", lambda match: "\\-" * len(match.group()), text)
        text = re.sub(r"\S{60,}", lambda match: match.group().replace(",", ",\\:"), text)  # long lists may be broken
        write(os.path.join(target, "man" + place[-1], place), text.rstrip() + "\n")


SPEC = os.path.join(ROOT, "docs/spec")
STATEMENT = r"(?:[A-Z]{2,3}|N2[23])-\d+|R\d+"
MENTION = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|(?P<own>^\*\*)?\b(?P<name>%s)\b(?(own)\*\*)" % STATEMENT,
                     re.MULTILINE)


def statement_pages():
    """{number of a statement: page of docs/spec}"""
    found = {}
    for page in sorted(name for name in os.listdir(SPEC) if name.endswith(".md")):
        with open(os.path.join(SPEC, page), encoding="utf-8") as file:
            found.update({name: page for name in re.findall(r"^\*\*(%s)\*\*" % STATEMENT, file.read(), re.MULTILINE)})
    return found


def with_anchors(page, text, pages):
    """The text of a page of docs/spec: its statements have anchors, and those that it mentions are links to them."""
    def marked(match):
        name = match.group("name")
        if name not in pages:
            return match.group()
        if match.group("own"):
            return '<span id="%s"></span>**%s**' % (name, name)
        return "[%s](%s#%s)" % (name, pages[name] if pages[name] != page else "", name)

    return MENTION.sub(marked, text)


NAVIGATION = {"Use": "docs/use/", "Operate": "docs/operate/", "Manual": r"man/(?:ucp\.7|.*\.[15])\.md",
              "Examples": "examples/|python/README|rust/README",
              "Change": r"CONTRIBUTING|docs/(?:ARCHITECTURE|TRANSPORT)\.md|docs/change/", "Decisions": "docs/why/",
              "Look up": r"docs/(?:STATUS|CONFIG|WIRE)\.md|docs/(?:reference|spec)/",
              "Project": "CHANGELOG|SECURITY"}
RECORD = r"bench/reports/[^/]+/report\.md"  # of a release, which the folder names


def navigation(folder):
    """The tree of the site: each part has the pages that its pattern matches. Function pages are found by links."""
    paths = sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder)
                   for name in names if name.endswith(".md"))
    parts = [{part: [path for path in paths if re.match(pattern, path)]} for part, pattern in NAVIGATION.items()]
    records = [{os.path.basename(os.path.dirname(path)): path} for path in paths if re.match(RECORD, path)]
    parts += [{"Measured": records}] if records else []
    return "nav: %s\n" % json.dumps([{"Overview": "README.md"}, {"Start": "docs/start.md"}] + parts)


def site(target, pages):
    """Copies all documents, and what they show or refer to, and adds the pages."""
    numbered = statement_pages()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not re.match(r"\.|build|target$", name)]
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith(".md") or re.search(r"\.\d\.md$", name):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            assert text.startswith("# "), path + " begins with no heading: MkDocs takes its first lines for settings"
            shown = with_anchors(name, text, numbered) if folder == SPEC else text
            write(os.path.join(target, "docs", os.path.relpath(path, ROOT)), shown)
            for link in re.findall(r"\]\(([^():#]+)\)", text):
                linked = os.path.normpath(os.path.join(folder, link))
                if not link.endswith(".md") and os.path.isfile(linked):
                    copy = os.path.join(target, "docs", os.path.relpath(linked, ROOT))
                    os.makedirs(os.path.dirname(copy), exist_ok=True)
                    shutil.copyfile(linked, copy)
    for place, text in pages.items():
        write(os.path.join(target, "docs/man", place + ".md"), text)
    shutil.copy(os.path.join(ROOT, "docs/site.css"), os.path.join(target, "docs/docs"))
    with open(os.path.join(ROOT, "docs/mkdocs.yml"), encoding="utf-8") as file:
        write(os.path.join(target, "mkdocs.yml"), file.read() + navigation(os.path.join(target, "docs")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("site", "man"))
    parser.add_argument("target", help="folder to be filled")
    parser.add_argument("--tool", action="append", default=[], metavar="PROGRAM")
    parser.add_argument("--see", action="append", default=[], metavar="NAME", help="a tool that has a page")
    parser.add_argument("--pandoc", default="pandoc")
    parser.add_argument("--date", default="", help="of the manual pages, YYYY-MM-DD")
    parser.add_argument("--version", default="", help="of the package")
    arguments = parser.parse_args()
    pages = dict(tool(program) for program in arguments.tool)
    if arguments.kind == "man" and pages:
        manuals(arguments.target, pages, arguments)
        return
    tools = [os.path.basename(program) for program in arguments.tool]
    manual = Manual(os.path.join(ROOT, "include"), tools + arguments.see)
    pages.update(manual.pages(), **{"ucx.conf.5": settings()})
    if arguments.kind == "site":
        shutil.rmtree(os.path.join(arguments.target, "docs"), ignore_errors=True)
        site(arguments.target, pages)
        return
    for folder in ("man3", "man5", "man7"):
        shutil.rmtree(os.path.join(arguments.target, folder), ignore_errors=True)
    manuals(arguments.target, pages, arguments)
    for name, host in manual.hosts.items():
        if name:
            write(os.path.join(arguments.target, "man3", name + ".3"), ".so man3/%s.3\n" % host)


if __name__ == "__main__":
    main()
