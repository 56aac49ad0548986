# SPDX-License-Identifier: Apache-2.0
"""Brings docs/internals/coverage.md up to date with a run's counts. People write why branches are
not taken: a line keeps its reason, and a new line goes under NEW for someone to look at."""
import collections
import re

NEW = "Not met"
HEADER = "| file | line | branches |"


def short(name):
    return name.removeprefix("proto/")


def cell(text):
    return text.replace("|", "\\|")


def rows_of(files, root):
    """Every line with branches that were not taken: (file, its text, how many), in order."""
    for name in sorted(files):
        text = (root / name).read_text().splitlines()
        for number in sorted(files[name]):
            missing = sum(count == 0 for count in files[name][number])
            if missing:
                yield short(name), text[number - 1].strip(), missing


def known_reasons(page):
    """The reasons of the lines with a text, in order, by (file, text)."""
    reasons = collections.defaultdict(list)
    reason = None
    for line in page.splitlines():
        if line.startswith("*"):
            reason = line[1:line.index(".*")]
        row = re.fullmatch(r"\| `([^`]+)` \| `(.+)` \| \d+ \|", line)
        if row and reason:
            reasons[row[1], row[2]].append(reason)
    return reasons


def totals(files):
    table = ["| file | taken | of | % |", "|---|---|---|---|"]
    taken_in_all = in_all = 0
    for name in sorted(files):
        counts = [count for line in files[name].values() for count in line]
        if counts:
            taken = sum(count > 0 for count in counts)
            table.append(f"| `{short(name)}` | {taken} | {len(counts)} | {100 * taken / len(counts):.1f} |")
            taken_in_all += taken
            in_all += len(counts)
    return "\n".join(table), taken_in_all, in_all


def update(page, files, root, run):
    """The new page, and the rows without a reason. `run` names the commit, day and seeds."""
    reasons = known_reasons(page)
    by_reason = collections.defaultdict(list)
    unknown = []
    for name, text, missing in rows_of(files, root):
        said = reasons[name, cell(text)]
        if not said:
            unknown.append((name, text, missing))
        by_reason[said.pop(0) if said else NEW].append((name, text, missing))

    table, taken, in_all = totals(files)
    head, rest = page.split("## The figure\n")
    _, why = rest.split("## What is not taken, and why\n")
    parts = re.split(r"(?m)^(?=\*)", why)
    for i, part in enumerate(parts[1:], 1):
        words = part.split(HEADER)[0].strip()
        rows = by_reason[words[1:words.index(".*")]]
        words = re.sub(r"\d+\s+branch(es)?\.$", f"{sum(row[2] for row in rows)} branches.", words)
        lines = [f"| `{name}` | `{cell(text)}` | {missing} |" for name, text, missing in rows]
        parts[i] = "\n".join([words, "", HEADER, "|---|---|---|", *lines]) + "\n\n"
    figure = f"{run}: {taken} of {in_all} branches, **{100 * taken / in_all:.1f} %**."
    text = (head + f"## The figure\n\n{figure}\n\n{table}\n\n## What is not taken, and why\n" + "".join(parts)).rstrip()
    return text + "\n", unknown
