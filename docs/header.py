# SPDX-License-Identifier: BSD-3-Clause
"""Reads a public header: what it declares, with the comments that describe it.

Not a C compiler: it knows the way in which our headers are laid out. A doc comment stands before a declaration, or
behind a member after `/**<`; a plain comment at the outermost level is a heading (with a row of = or -) or a remark
about the calls that follow it.
"""

import re

COMMENT = r"/\*.*?\*/"
SKIPPED_WORDS = re.compile(r"(BEGIN_C_DECLS|END_C_DECLS)\b")
SPECIFIED = re.compile(r"\b(?:(?:[A-Z]{2,4}|N22)-\d+(?:\.\.\d+)?|R\d+)\b")


class Doc:
    """A doc comment: paragraphs of text, (name, text) of parameters, text of the return value or None, text about
    threads or None, lines of the example."""

    def __init__(self, comment):
        text = clean(comment)
        example = re.search(r"^@code\n(.*?)\n@endcode$", text, re.DOTALL | re.MULTILINE)
        self.example = example.group(1).split("\n") if example is not None else []
        text = text[:example.start()] + text[example.end():] if example is not None else text
        pieces = re.split(r"@(param|return|thread)\b", text)
        self.paragraphs = paragraphs(pieces[0])
        self.params, self.returns, self.threads = [], None, None
        for tag, piece in zip(pieces[1::2], pieces[2::2]):
            piece = " ".join(piece.split())
            if tag == "param":
                name, _, rest = piece.partition(" ")
                self.params.append((name, rest.strip()))
            elif tag == "thread":
                self.threads = piece
            else:
                self.returns = piece
        self.text = " ".join(text.split())

    def brief(self):
        """The first sentence without references to the specification and without its full stop."""
        text = self.paragraphs[0] if self.paragraphs else ""
        text = re.sub(r" ?\((?:%s|, )+\)" % SPECIFIED.pattern, "", text)
        match = re.match(r"(.*?[^.])[.](?= [A-Z@]|$)", text)
        return re.sub(r"@a ", "", match.group(1) if match is not None else text.rstrip("."))


class Item:
    """A declaration. kind: function, macro, struct, enum, callback or handle. `members`: (name, declaration, Doc or
    None) of a struct, (name, value, Doc or None) of an enum; `section`: the Section it stands in; `remark`: the plain
    comment that speaks of it, or None."""

    def __init__(self, kind, name, doc, code, header):
        self.kind, self.name, self.doc, self.code, self.header = kind, name, doc, code, header
        self.members, self.section, self.remark = [], None, None


class Section:
    def __init__(self, title, text):
        self.title, self.paragraphs = title, paragraphs(text)


class Remark:
    def __init__(self, text):
        self.paragraphs, self.names = paragraphs(text), []


def clean(comment):
    """The text of a comment, its lines without the decoration."""
    body = re.sub(r"^/\*\*?<?|\*/$", "", comment)
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in body.split("\n")).strip("\n")


def paragraphs(text):
    """Text as a list of paragraphs, each on one line. An indented line begins a paragraph, too; its indentation stays
    as one blank, by which a list is known."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        for line in block.split("\n"):
            starts = re.match(r"  \S", line) is not None
            if not found or found[-1] is None or starts:
                found[-1 if found and found[-1] is None else len(found):] = [(" " if starts else "") + line.strip()]
            else:
                found[-1] += " " + line.strip()
        found.append(None)
    return [p for p in found if p is not None and p.strip()]


def statement_end(text, position, ends=";"):
    """Position behind the declaration that begins at `position`: behind one of `ends` outside of brackets, or behind
    the body of a function."""
    depth, start = 0, position
    for match in re.compile(COMMENT + r"|[{}();,]", re.DOTALL).finditer(text, position):
        token = match.group()
        if token.startswith("/*"):
            continue
        if token in "{(":
            depth += 1
        elif token in "})":
            depth -= 1
            head = text[start:match.end()].lstrip()
            if token == "}" and depth == 0 and head.startswith("static inline"):
                return match.end()
        elif token in ends and depth == 0:
            return match.end()
    return len(text)


def without_comments(code):
    return re.sub(r"[ \t]*" + COMMENT, "", code, flags=re.DOTALL)


def struct_members(body, prefix=""):
    """(name, declaration, Doc or None) of what stands between the braces of a struct or union."""
    found, position, before = [], 0, None
    while True:
        position = re.compile(r"\s*").match(body, position).end()
        if position >= len(body):
            return found
        comment = re.compile(COMMENT, re.DOTALL).match(body, position)
        if comment is not None:
            position = comment.end()
            before = Doc(comment.group()) if comment.group().startswith("/**") else None
            continue
        end = statement_end(body, position)
        code, position = body[position:end], end
        behind = re.compile(r"[ \t]*(/\*\*<.*?\*/)", re.DOTALL).match(body, position)
        if behind is not None:
            before, position = Doc(behind.group(1)), behind.end()
        nested = re.match(r"(union|struct)\s*\{(.*)\}\s*(\w+);", code, re.DOTALL)
        if nested is not None:
            found.append((prefix + nested.group(3), nested.group(1), before))
            found += struct_members(nested.group(2), prefix + nested.group(3) + ".")
        else:
            plain = " ".join(without_comments(code).split())
            name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[[^\]]*\])*;$", plain)
            found.append((prefix + (name.group(1) or name.group(2)), plain, before))
        before = None


def enum_members(body):
    """(name, value or "", Doc or None) of what stands between the braces of an enum."""
    found, before = [], None
    value = r"(?:=\s*(?P<value>[^,/]+?)\s*)?(?:,|(?=/\*)|$)"
    token = re.compile(r"\s*(?:(?P<comment>%s)|(?P<name>\w+)\s*%s)" % (COMMENT, value), re.DOTALL)
    position = 0
    while body[position:].strip():
        match = token.match(body, position)
        if match is None:
            raise ValueError("an enum that cannot be read: %s" % body[position:position + 60])
        position = match.end()
        comment = match.group("comment")
        if comment is None:
            found.append((match.group("name"), match.group("value") or "", before))
            before = None
        elif comment.startswith("/**<"):
            found[-1] = found[-1][:2] + (Doc(comment),)
        else:
            before = Doc(comment)
    return found


def declaration(code, doc, header):
    """The Item of a declaration, or None if it is of no interest."""
    plain = without_comments(code)
    aggregate = re.match(r"(?:typedef\s+)?(struct|enum|union)\s*(\w*)\s*\{(.*)\}\s*(?:UCS_S_PACKED\s*)?(\w*);", code,
                         re.DOTALL)
    if aggregate is not None:
        kind, tag, body, name = aggregate.groups()
        item = Item("enum" if kind == "enum" else "struct", name or tag, doc, code, header)
        item.members = enum_members(body) if kind == "enum" else struct_members(body)
        return item
    if re.match(r"static inline", plain):
        plain = re.sub(r"^static inline\s*", "", plain.split("{")[0].rstrip() + ";")
    callback = re.match(r"typedef\s[^(]*\(\*(\w+)\)\s*\(", plain)
    if callback is not None:
        return Item("callback", callback.group(1), doc, plain, header)
    if plain.startswith("typedef"):
        return Item("handle", re.search(r"(\w+);$", plain).group(1), doc, plain, header)
    function = re.match(r"[\w\s*]*?\b(\w+)\s*\(", plain)
    if function is not None:
        return Item("function", function.group(1), doc, plain, header)
    return None


def plain_comment(comment, state):
    """A comment that documents no declaration of its own: a heading, or a remark about what follows."""
    text = clean(comment)
    heading = re.match(r"\s*(={4,}|-{4})\s+(.*?)\s+\1?=*-*\s*(?:\n|$)(.*)", text, re.DOTALL)
    if heading is None:
        state["remark"] = Remark(text) if re.search(r"\bbelow\b", text) else state["remark"]
        return
    title, *more = re.split("[;:] ", heading.group(2), maxsplit=1)
    state["remark"] = Remark(more[0][0].upper() + more[0][1:] + ".") if more else None
    statements = re.search(r" \(([^()]*)\)$", title)
    title = title[:statements.start()] if statements is not None else title
    state["section"] = Section(title, heading.group(3))


def read(path, header):
    """(head comment as a Section, items) of the header file `path`, which programs include as `header`."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    comments = re.findall(COMMENT, text, re.DOTALL)
    head = Section("", clean(comments[1]))
    position = text.index(comments[1]) + len(comments[1])
    items, doc, state = [], None, {"section": None, "remark": None}
    directive = re.compile(r"#(?:\\\n|[^\n])*")
    while True:
        position = re.compile(r"\s*").match(text, position).end()
        if position >= len(text):
            return head, items
        rest = text[position:]
        comment = re.match(COMMENT, rest, re.DOTALL)
        item = None
        if comment is not None:
            position += comment.end()
            if comment.group().startswith("/**"):
                doc = Doc(comment.group())
            else:
                plain_comment(comment.group(), state)
            continue
        if rest.startswith("#"):
            code = directive.match(rest).group()
            position += len(code)
            macro = re.match(r"#define (\w+\([^)]*\))", code)
            if macro is not None and doc is not None:
                item = Item("macro", macro.group(1).split("(")[0], doc, macro.group(1) + ";", header)
        elif SKIPPED_WORDS.match(rest):
            position += SKIPPED_WORDS.match(rest).end()
        elif re.match(r'extern "C" \{|\}', rest):
            position += rest.index("{" if rest[0] == "e" else "}") + 1
        else:
            end = statement_end(text, position)
            item = declaration(text[position:end], doc, header)
            position = end
        if item is not None and doc is not None:
            item.section, item.remark = state["section"], state["remark"]
            if item.remark is not None and item.kind in ("function", "macro"):
                item.remark.names.append(item.name)
            items.append(item)
        doc = None
