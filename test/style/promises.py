#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every promise of docs/internals/protocol.md has a test that names it. Usage: promises.py ROOT [-v].

A promise is the text of a list item or paragraph between one tag, such as [M1], and the tag before
it. Text from "*Why:*" to the end of the item or paragraph gives the reason, and promises nothing.
Tests name tags in the second part of their TEST_CASE. The script complains, with exit status 1,
about a tag without a test, a test that names no tag of the page, and a tag that is given twice. In
the sections where all is tagged it complains about an item or paragraph that doesn't end with a
tag.
"""

import os
import re
import sys

PAGE = os.path.join("docs", "internals", "protocol.md")
WHOLLY_TAGGED = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13")
TAG = re.compile(r"\[([A-Z][0-9]+)\]")
ITEM = "- "  # items of a list within an item belong to the outer one
REASON = re.compile(r"\s*\*Why:\*")
TEST_CASE = re.compile(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"\s*,\s*"((?:[^"\\]|\\.)*)"', re.S)


def paragraphs(text):
    """(section, line, item or paragraph) of the page's prose, without code, tables and headings."""
    section, start, lines, fenced, reason = "", 0, [], False, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("```"):
            fenced = not fenced
        heading = re.match(r"## ([0-9]+)\.", line)
        prose = line.strip() and not fenced and line[0] not in "#|`"
        if not prose or line.startswith(ITEM):
            if lines:
                yield section, start, "\n".join(lines)
            lines, reason = [], False
        reason = reason or REASON.match(line) is not None
        if prose and not reason:
            start = start if lines else number
            lines.append(line)
        if heading:
            section = heading.group(1)


def promises(text, complaints):
    """Tag -> (line, sentence)."""
    found = {}
    for section, line, paragraph in paragraphs(text):
        before = 0
        for tag in TAG.finditer(paragraph):
            if section:  # the introduction explains what a tag is
                at = line + paragraph[: tag.start()].count("\n")
                if tag.group(1) in found:
                    complaints.append(f"{PAGE}:{at}: [{tag.group(1)}] is given twice")
                found[tag.group(1)] = (at, " ".join(paragraph[before : tag.start()].split()))
            before = tag.end()
        if section in WHOLLY_TAGGED and paragraph[before:].strip():
            complaints.append(f"{PAGE}:{line}: the paragraph's end has no tag: no test is named for it")
    return found


def tests(root):
    """Tag -> names of the tests that have it."""
    found = {}
    for folder, _, files in os.walk(os.path.join(root, "test")):
        for name in sorted(f for f in files if f.endswith(".cpp")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for test, tags in TEST_CASE.findall(file.read()):
                    for tag in TAG.findall(tags):
                        found.setdefault(tag, []).append(test)
    return found


def check(root):
    """Promises, tests, complaints."""
    complaints = []
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        promised = promises(file.read(), complaints)
    proven = tests(root)
    for tag, (line, sentence) in promised.items():
        if tag not in proven:
            complaints.append(f"{PAGE}:{line}: no test names [{tag}]: {sentence}")
    for tag in sorted(set(proven) - set(promised)):
        complaints.append(f"[{tag}] of {', '.join(proven[tag])} is no promise of {PAGE}")
    return promised, proven, complaints


def main(root, verbose):
    promised, proven, complaints = check(root)
    for tag in promised if verbose else ():
        print(f"[{tag}] {', '.join(proven.get(tag, ()))}")
    print("\n".join(complaints + [f"{len(promised)} promises, {len(complaints)} complaints"]))
    return 1 if complaints or not promised else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "-v" in sys.argv[2:]))
