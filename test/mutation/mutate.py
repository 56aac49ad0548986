#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a copy of proto/ with every bug of a list compiled in. A number switches one of them on.

    mutate.py --source ROOT --out FOLDER [--mechanical] TABLE...

The tables have bugs that people wrote (*.mutants), or mechanisms to leave out (*.ablations, for
bench/ablations). --mechanical adds the bugs that a program can make of any code: negated
conditions, dropped statements, changed operators. FOLDER gets proto/ with the bugs, and
mutants.inc, the list of them for mutation_check. Each text of a table must be in its file exactly
once, since the table must follow the code.

An expression becomes `mutated(17) ? bug : text`, and statements become
`if (mutated(17)) {bug} else {text}`. All lines keep their numbers. The installed libraries have
nothing of this.
"""

import argparse
import os
import re
import sys
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cpp_text  # noqa: E402

# sim/ is compiled with the original of these headers, so they must not change here.
AS_THEY_ARE = {"base/assert.hpp", "base/random.hpp", "base/time.hpp", "endpoint.hpp", "nic.hpp"}
# Files whose output people read, and which the protocol does not depend on.
NOT_MECHANICALLY = {"endpoint/trace.cpp", "wire/dump.cpp", "endpoint/report.cpp", "path/path_judge.cpp",
                    "path/verdicts.cpp", "base/assert.cpp", "wire/checksum.cpp"}
OBSERVES = re.compile(r"(\+\+)?counters\.|\(?tracing\(\)|trace\w*\(|TraceRecord|(record|made)\.(detail|cause|bytes|message|fragment) = ")
OPERATORS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ",
             " != ": " == ", " && ": " || ", " || ": " && "}
FUNCTIONS = {"std::min": "std::max", "std::max": "std::min", "earlier(": "later(", "later(": "earlier("}
PART_OF_A_NAME = re.compile(r"(\w|\.|->|::)$")  # what then stands before a text
CONSTANTS = {" + 1": "", " - 1": "", " + 2": " + 1"}


class Mutant(NamedTuple):
    name: str
    kind: str    # the table's name, or the kind of mechanical change
    where: str   # file:line
    what: str
    breaks: str  # only from a table
    survives: str  # only from a table: why nothing shows it; empty: the storm must catch it
    seeds: tuple  # only from a table: tried first


class Change(NamedTuple):
    """The replacement of a text in a file if the mutant of that number is switched on."""
    start: int
    end: int
    statement: bool
    mutant: int
    text: str
    condition: bool = False  # the text is used as a condition


class TableError(Exception):
    pass


def one_line(text):
    return re.sub(r"\s*\n\s*", " ", cpp_text.blank(text, strings=False)).strip()


# ---- tables

FIELD = re.compile(r"(breaks|what|edit|survives|seeds)\s+(.*)")


def read_table(path):
    """Yields (Mutant, [(file, text, replacement)])."""
    kind = os.path.splitext(os.path.basename(path))[0]
    with open(path, encoding="utf-8") as file:
        lines = iter(file.read().splitlines())
    fields, edits = None, []

    def finished():
        for needed in ("what", "breaks"):
            if needed not in fields:
                raise TableError(f"{path}: {fields['name']} has no '{needed}'")
        if not edits:
            raise TableError(f"{path}: {fields['name']} changes nothing")
        seeds = tuple(int(seed) for seed in fields.get("seeds", "").split())
        return (Mutant(fields["name"], kind, edits[0][0], fields["what"], fields["breaks"],
                       fields.get("survives", ""), seeds), list(edits))

    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        if found := re.fullmatch(r"(?:mutant|ablation)\s+([\w-]+)", line):
            if fields:
                yield finished()
            fields, edits = {"name": found.group(1)}, []
        elif found := FIELD.fullmatch(line):
            if found.group(1) == "edit":
                edits.append((found.group(2), *read_edit(lines, path)))
            else:
                fields[found.group(1)] = found.group(2)
        elif fields and line.startswith("        "):
            fields["what" if "survives" not in fields else "survives"] += " " + line.strip()
        else:
            raise TableError(f"{path}: not understood: {line}")
    if fields:
        yield finished()


def read_edit(lines, path):
    parts = {"<<<": [], "===": []}
    part = None
    for line in lines:
        if line == ">>>":
            return "\n".join(parts["<<<"]), "\n".join(parts["==="])
        if line in parts:
            part = line
        elif part is None:
            break
        else:
            parts[part].append(line)
    raise TableError(f"{path}: an edit is not finished")


def change_of_edit(sources, mutant, number, edit):
    file, text, replacement = edit
    if file in AS_THEY_ARE or file not in sources:
        raise TableError(f"{mutant.name}: there is no proto/{file} that could be changed")
    count = sources[file].count(text)
    if count != 1:
        raise TableError(
            f"{mutant.name}: proto/{file} has this text {count} times, not once; the code has moved "
            f"on, write it anew:\n{text}")
    code = cpp_text.blank(text)
    if any(code.count(a) != code.count(b) for a, b in zip(cpp_text.OPEN, cpp_text.CLOSE)):
        raise TableError(f"{mutant.name}: brackets that are not closed in:\n{text}")
    start = sources[file].index(text) + len(text) - len(text.lstrip())
    end = sources[file].index(text) + len(code.rstrip())
    statement = code.rstrip()[-1] in ";}"
    check_form(mutant, text, replacement, statement)
    if not statement and PART_OF_A_NAME.search(cpp_text.blank(sources[file])[:start]):
        raise TableError(f"{mutant.name}: the text is only part of a name:\n{text}")
    if statement and re.match(r"\s*else\b", cpp_text.blank(sources[file])[end:]):
        raise TableError(f"{mutant.name}: an else follows, which would lose its if:\n{text}")
    return Change(start, end, statement, number, one_line(replacement))


def check_form(mutant, text, replacement, statement):
    """Statements may become statements, or nothing. An expression must become an expression."""
    for role, part in (("text", text), ("new text", replacement)):
        if statement and not cpp_text.are_statements(part):
            raise TableError(f"{mutant.name}: the {role} is no whole statement:\n{part}")
        if not statement and not cpp_text.is_expression(part):
            raise TableError(f"{mutant.name}: the {role} is no expression:\n{part}")


# ---- mechanical ones

def inside(position, blocks):
    return any(start <= position < end for start, end in blocks)


def changes_of_region(text, masked, region):
    """Yields (kind, what, statement, replacement) for one region."""
    original = one_line(text[region.start:region.end])
    shown = re.sub(r"\s+", " ", original)
    if region.kind == "condition" and not OBSERVES.match(original):
        yield "negated condition", shown, False, f"!({original})"
    if region.kind == "constant":
        other = "false" if original == "true" else "true"
        yield "other return", f"return {other}", False, other
        return
    statement = region.kind == "statement"
    if OBSERVES.match(original):
        return
    if statement:
        yield "dropped statement", shown, True, ""
    for table, kind in ((OPERATORS, "other operator"), (FUNCTIONS, "other function"),
                        (CONSTANTS, "other constant")):
        for before, after in table.items():
            at = region.start - 1
            while (at := masked.find(before, at + 1, region.end)) >= 0:
                if inside(at, region.nested) or region.nested:
                    continue
                if kind == "other constant" and re.match(r"[\w.]", masked[at + len(before)]):
                    continue
                if before[0].isalpha() and re.match(r"[\w:]", masked[at - 1]):
                    continue
                bug = one_line(text[region.start:at] + after + text[at + len(before):region.end])
                what = f"{before.strip()} becomes {after.strip() or 'nothing'} in: {shown}"
                yield kind, what, statement, bug


def mechanical(file, text, first_number):
    """The mutants of a file and their changes."""
    masked = cpp_text.blank(text)
    mutants, changes = [], []
    for region in cpp_text.find_regions(text):
        for kind, what, statement, bug in changes_of_region(text, masked, region):
            line = text.count("\n", 0, region.start) + 1
            number = first_number + len(mutants)
            name = f"{os.path.splitext(file)[0]}-{line}-{len(mutants)}"
            mutants.append(Mutant(name, kind, f"{file}:{line}", what, "", "", ()))
            changes.append(Change(region.start, region.end, statement, number, bug,
                                  region.kind == "condition"))
    return mutants, changes


# ---- writing

def overlaps_in_part(a, b):
    return a.start < b.start < a.end < b.end or b.start < a.start < b.end < a.end


def render(text, changes, start, end):
    """The text from start to end with these changes. No two of them may overlap in part."""
    out, at = [], start
    while changes:
        outer = changes[0]
        same = [c for c in changes if (c.start, c.end) == (outer.start, outer.end)]
        within = [c for c in changes if c not in same and c.end <= outer.end]
        changes = [c for c in changes if c.start >= outer.end]
        out.append(text[at:outer.start])
        inner = render(text, within, outer.start, outer.end)
        if outer.statement:
            branches = "".join(f"if (mutated({c.mutant})) {{ {c.text} }} else " for c in same)
            out.append(f"{{ {branches}{{ {inner} }} }}")
        else:
            branches = "".join(f"mutated({c.mutant}) ? ({c.text}) : " for c in same)
            cast = "static_cast<bool>" if any(c.condition for c in same) else ""
            out.append(f"({branches}{cast}({inner}))")
        at = outer.end
    out.append(text[at:end])
    return "".join(out)


def render_file(file, text, changes):
    for_people = [c for c in changes if c[1]]
    written = [c for c, _ in for_people]
    kept = written + [c for c, by_hand in changes if not by_hand and
                      not any(overlaps_in_part(c, w) for w in written)]
    for a in written:
        for b in written:
            if overlaps_in_part(a, b):
                raise TableError(f"{file}: two texts of the tables overlap in part: "
                                 f"{text[a.start:a.end]}\n and\n{text[b.start:b.end]}")
    kept.sort(key=lambda c: (c.start, -c.end, not c.statement))
    body = render(text, kept, 0, len(text))
    return f'#include "test/mutation/mutant.hpp"\n#line 1 "proto/{file}"\n{body}', \
        {c.mutant for c in kept}


def write_if_new(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def entry(number, mutant):
    seeds = ", ".join(str(seed) for seed in mutant.seeds)
    strings = ", ".join(quoted(part) for part in mutant[:6])
    return f"{{{number}, {strings}, {{{seeds}}}}},\n"


def generate(source, out, tables, with_mechanical):
    folder = os.path.join(source, "proto")
    sources = {}
    for place, _, files in os.walk(folder):
        for file in files:
            if file.endswith((".cpp", ".hpp")):
                path = os.path.join(place, file)
                with open(path, encoding="utf-8") as opened:
                    sources[os.path.relpath(path, folder)] = opened.read()
    sources = dict(sorted(sources.items()))
    mutants, changes = [], {file: [] for file in sources}
    for table in tables:
        for mutant, edits in read_table(table):
            mutants.append(mutant)
            for edit in edits:
                change = change_of_edit(sources, mutant, len(mutants), edit)
                changes[edit[0]].append((change, True))
    by_hand = len(mutants)
    if with_mechanical:
        for file, text in sources.items():
            if not file.endswith(".cpp") or file in NOT_MECHANICALLY:
                continue
            made, made_changes = mechanical(file, text, len(mutants) + 1)
            mutants += made
            changes[file] += [(change, False) for change in made_changes]
    used = set(range(1, by_hand + 1))
    for file, text in sources.items():
        if changes[file]:
            text, kept = render_file(file, text, changes[file])
            used |= kept
        write_if_new(os.path.join(out, "proto", file), text)
    listed = "".join(entry(i, m) for i, m in enumerate(mutants, 1) if i in used)
    write_if_new(os.path.join(out, "mutants.inc"), listed)
    return len(used)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--mechanical", action="store_true")
    parser.add_argument("tables", nargs="+")
    arguments = parser.parse_args()
    try:
        count = generate(arguments.source, arguments.out, arguments.tables, arguments.mechanical)
    except TableError as error:
        sys.exit(f"mutate.py: {error}")
    print(f"{count} mutants")


if __name__ == "__main__":
    main()
