# SPDX-License-Identifier: Apache-2.0
"""Just enough of C++ to find the places in a clang-formatted file for a mechanical bug.

`find_regions` walks through the function bodies of a text and returns what it recognizes: conditions,
statements that stand alone, expressions that are returned or that initialize. It leaves out what it
doesn't recognize, which costs a bug but never gives a wrong text.
"""

import re
from typing import NamedTuple

TOKENS = re.compile(
    r'"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)
OPEN, CLOSE = "([{", ")]}"
DECLARATION = re.compile(
    r"(const|static|constexpr|auto|unsigned|using|typedef|struct|class|enum|union|template|static_assert)\b"
    r"|(\[\[|[\w:]+(<[^;=]*?>)?[ *&]*\s[*&]*\w+\s*[=;{(\[,])")
NO_EXPRESSION = re.compile(r"\s*[\[{]")


class Region(NamedTuple):
    kind: str  # condition, statement, expression, constant (return true or false)
    start: int
    end: int
    nested: tuple  # (start, end) of blocks inside it: of lambdas, which have regions of their own


def blank(text, strings=True):
    """Replaces comments, and strings if asked to, by spaces. The rest keeps its place."""
    def space(match):
        token = match.group(0)
        if token[0] in "\"'" and not strings:
            return token
        return re.sub(r"[^\n]", " ", token)
    return TOKENS.sub(space, text)


def is_block(before):
    """Whether a { that follows this text begins statements rather than a list of values."""
    before = before.rstrip()
    if re.search(r"(\)|\b(const|noexcept|else|do|mutable|try))$", before):
        return True
    return bool(re.search(r"\)\s*->\s*[\w:<>*& ]+$", before))


class Finder:
    def __init__(self, text):
        self.text = blank(text)
        self.regions = []

    def skip(self, at):
        """The next character that is no space."""
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        return at

    def closing(self, at):
        """The place where the bracket at `at` is closed."""
        depth = 0
        for i in range(at, len(self.text)):
            if self.text[i] in OPEN:
                depth += 1
            elif self.text[i] in CLOSE:
                depth -= 1
                if depth == 0:
                    return i
        raise ValueError("a bracket is not closed")

    def to(self, at, stop):
        """The first of `stop` from `at` on that is in no bracket, and the blocks before it."""
        blocks = []
        while self.text[at] not in stop:
            if self.text[at] in OPEN:
                end = self.closing(at)
                blocks += self.blocks_in(at, end)
                at = end
            at += 1
        return at, tuple(blocks)

    def blocks_in(self, start, end):
        """The blocks of lambdas in a bracket, after walking through them."""
        if self.text[start] == "{" and is_block(self.text[max(0, start - 200):start]):
            self.block(start)
            return [(start, end)]
        blocks, at = [], start + 1
        while at < end:
            if self.text[at] in OPEN:
                inner = self.closing(at)
                blocks += self.blocks_in(at, inner)
                at = inner
            at += 1
        return blocks

    # ---- outside of functions

    def scope(self, at, end):
        while (at := self.skip(at)) < end:
            if self.text[at] == "#":
                at = self.line_end(at)
                continue
            start = at
            while at < end and self.text[at] not in ";{":
                at = (self.closing(at) if self.text[at] in OPEN else at) + 1
            if at >= end:
                return
            if self.text[at] == "{":
                at = self.body(self.text[start:at], at)
            at += 1

    def line_end(self, at):
        while self.text[at] != "\n" or self.text[at - 1] == "\\":
            at += 1
        return at

    def body(self, head, at):
        end = self.closing(at)
        if re.match(r"(template\s*<.*?>\s*)?(namespace|struct|class)\b", head, re.S) and \
                not re.search(r"\)\s*$", head):
            self.scope(at + 1, end)
        elif is_block(head) and not re.match(r"enum\b", head):
            self.block(at)
        return end

    # ---- statements

    def block(self, at):
        end = self.closing(at)
        at = self.skip(at + 1)
        while at < end:
            at = self.skip(self.statement(at))

    def word(self, at):
        found = re.compile(r"\w+").match(self.text, at)
        return found.group(0) if found else ""

    def statement(self, at):
        """Walks through the statement at `at`; returns the place behind it."""
        word = self.word(at)
        if self.text[at] == "{":
            self.block(at)
            return self.closing(at) + 1
        if word in ("if", "while", "for", "switch"):
            return self.control(word, at)
        if word == "do":
            at = self.skip(self.statement(self.skip(at + 2)))
            return self.control("do", at)
        if word in ("case", "default"):
            colon = re.compile(r"(?<!:):(?!:)").search(self.text, at)
            return colon.end()
        return self.simple(word, at)

    def control(self, word, at):
        opening = self.text.index("(", at)
        closing = self.closing(opening)
        constexpr = "constexpr" in self.text[at:opening]
        if word == "for":
            self.loop(opening, closing)
        elif word in ("if", "while", "do") and not constexpr:
            semicolon = self.to(opening + 1, ";)")[0]
            first = semicolon + 1 if self.text[semicolon] == ";" else opening + 1
            self.expression("condition", first, closing)
        if word == "do":
            return self.text.index(";", closing) + 1
        at = self.statement(self.skip(closing + 1))
        if word == "if" and self.word(self.skip(at)) == "else":
            at = self.statement(self.skip(self.skip(at) + 4))
        return at

    def loop(self, opening, closing):
        first = self.to(opening + 1, ";)")[0]
        if self.text[first] == ";":
            self.expression("loop", first + 1, self.to(first + 1, ";)")[0])

    def expression(self, kind, start, end):
        start = self.skip(start)
        blocks = self.to(start, self.text[end])[1] if start < end else ()
        text = self.text[start:end]
        if not text.strip() or NO_EXPRESSION.match(text) or DECLARATION.match(text):
            return
        self.regions.append(Region(kind, start, end, blocks))

    def simple(self, word, at):
        end, blocks = self.to(at, ";")
        text = self.text[at:end]
        if word == "return":
            value = text[6:].strip()
            if value in ("true", "false"):
                self.regions.append(Region("constant", end - len(value), end, ()))
            elif not blocks:
                self.expression("expression", at + 6, end)
        elif word in ("break", "continue", "goto", "HAWSER_ASSERT"):
            pass
        elif DECLARATION.match(text + ";"):
            value = re.search(r"\s=\s", text)
            if value and not blocks and not text.startswith("using"):
                self.expression("expression", at + value.end(), end)
        else:
            self.regions.append(Region("statement", at, end + 1, blocks))
        return end + 1


# An operator whose left or right operand is missing.
LACKS_LEFT = re.compile(r"\|\||&&|[<>=!]=|[<>=/%^|?:,.]|->")
LACKS_RIGHT = re.compile(r"([<>=/%^|&*?:,.!~]|->|(?<!\+)\+|(?<!-)-)$")
STATEMENT_WORD = re.compile(
    r"(if|else|for|while|do|switch|case|default|return|break|continue|goto|try|catch)\b")


def are_statements(text):
    """Whether the text is a sequence of whole statements, which may be empty."""
    finder = Finder("{" + text + "\n}")
    try:
        end = finder.closing(0)
        at = finder.skip(1)
        while at < end:
            if finder.word(at) in ("else", "catch"):
                return False
            at = finder.skip(finder.statement(at))
    except (ValueError, IndexError, AttributeError):  # a bracket, a semicolon or a colon is missing
        return False
    return at == end == len(finder.text) - 1


def is_expression(text):
    """Whether the text may be an expression; only looks for what shows at once that it is none."""
    code = blank(text).strip()
    if not code or STATEMENT_WORD.match(code):
        return False
    if LACKS_LEFT.match(code) or LACKS_RIGHT.search(code):
        return False
    depth = 0
    for letter in code:
        depth += (letter in OPEN) - (letter in CLOSE)
        if depth < 0 or (depth == 0 and letter == ";"):
            return False
    return depth == 0


def find_regions(text):
    finder = Finder(text)
    finder.scope(0, len(text))
    return sorted(set(finder.regions), key=lambda r: (r.start, -r.end))
