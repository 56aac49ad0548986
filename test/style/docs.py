#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the named files exist. Usage: docs.py ROOT; exit status 1 if one doesn't.

In the pages (those of the root, of docs/ with its folders, and the README.md of a folder) it checks
every path in `backticks` that begins with a folder of the tree, every link to a file, and every
line of README.md's folder map. In pages, sources, scripts and notes it checks every file of docs/
that they name. The README.md of a folder must name every source of that folder, without its
ending, and of folders below that have none of their own: `udp_*.cpp` and `list.{hpp,cpp}` do.
Prose of pages is wrapped at 100 columns. Tables and code are not prose.
"""

import fnmatch
import glob
import os
import re
import sys

import style

FOLDERS = "include|proto|engine|coll|plugin|sim|tool|test|bench|docs|cmake|workloads"
QUOTED = re.compile(rf"`((?:{FOLDERS})/[\w./*{{}},-]*)[^`]*`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MAP = re.compile(r"^    ([\w./-]+/)\s{2,}\S")
PAGE = re.compile(r"\bdocs/[\w/]+\.\w+")
NOTES = (".pml", ".mutants", ".ablations", ".yaml", ".yml")
COLUMNS = 100
EXAMPLES = "test/style/style_test.py"  # names pages that don't exist


def expand(path):
    """Expands braces: proto/{a,b}.hpp names two files."""
    found = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [path]


def lines_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return enumerate(file.read().splitlines(), 1)


def missing(root, page):
    for number, line in lines_of(root, page):
        named = QUOTED.findall(line) + PAGE.findall(line)
        named += [os.path.normpath(os.path.join(os.path.dirname(page), path)) for path in LINK.findall(line)]
        if page == "README.md":
            named += MAP.findall(line)
        for path in dict.fromkeys(named):
            for name in expand(path):
                if not glob.glob(os.path.join(root, name.rstrip("."))):
                    yield f"{page}:{number}: {name} does not exist"


def missing_pages(root, path):
    for number, line in lines_of(root, path):
        for name in PAGE.findall(line):
            if not os.path.isfile(os.path.join(root, name)):
                yield f"{path}:{number}: {name} does not exist"


def unnamed_sources(root, readme):
    """The sources that a folder's README.md should name, and doesn't."""
    folder = os.path.dirname(readme)
    with open(os.path.join(root, readme), encoding="utf-8") as file:
        tokens = re.findall(r"`([^`\s]+)`", file.read())
    stems = {os.path.splitext(os.path.basename(name))[0] for token in tokens for name in expand(token)}
    for place, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = [one for one in folders if not os.path.isfile(os.path.join(place, one, "README.md"))]
        for name in sorted(files):
            stem, ending = os.path.splitext(name)
            if ending in (".cpp", ".hpp") and not any(fnmatch.fnmatch(stem, one) for one in stems):
                yield f"{readme}:1: {name} is not named"


def too_long(root, page):
    is_code = False
    for number, line in lines_of(root, page):
        is_fence = line.lstrip().startswith("```")
        is_code = is_code != is_fence
        is_prose = not (is_code or is_fence or line.lstrip().startswith("|") or line.startswith("    "))
        if is_prose and len(line) > COLUMNS:
            yield f"{page}:{number}: {len(line)} columns of prose; wrap at {COLUMNS}"


def check(root):
    complaints = []
    for path in style.paths(root, style.TEXT + NOTES):
        is_of_folder = path.endswith("/README.md") and not path.startswith("docs/")
        if is_of_folder:
            complaints += unnamed_sources(root, path)
        if path.endswith(".md") and (is_of_folder or path.startswith("docs/") or "/" not in path):
            complaints += missing(root, path)
            complaints += too_long(root, path)
        elif path != EXAMPLES:
            complaints += missing_pages(root, path)
    return complaints


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isfile(os.path.join(sys.argv[1], "README.md")):
        sys.exit("docs.py: which tree? Usage: docs.py ROOT")
    complaints = check(os.path.abspath(sys.argv[1]))
    print("\n".join(complaints + [f"{len(complaints)} complaints"]))
    sys.exit(1 if complaints else 0)
