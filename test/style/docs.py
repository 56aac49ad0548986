#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the pages name what exists. Usage: docs.py ROOT; exit status 1 if one doesn't.

Checked: every path in `backticks` or in a link that begins with a folder or a page of the tree, and
every line of the folder map in README.md.
"""

import glob
import os
import re
import sys

FOLDERS = "include|proto|engine|coll|plugin|sim|tool|test|bench|docs|cmake|workloads"
QUOTED = re.compile(rf"`((?:{FOLDERS})/[\w./*{{}},-]*)[^`]*`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MAP = re.compile(r"^    ([\w./-]+/)\s{2,}\S")


def expand(path):
    """proto/{a,b}.hpp names two files."""
    found = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [path]


def missing(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        named = [(path, root) for path in QUOTED.findall(line)]
        named += [(path, os.path.join(root, os.path.dirname(page))) for path in LINK.findall(line)]
        if page == "README.md":
            named += [(path, root) for path in MAP.findall(line)]
        for path, base in named:
            for name in expand(path):
                if not glob.glob(os.path.join(base, name.rstrip("."))):
                    yield f"{page}:{number}: {name} does not exist"


def check(root):
    pages = ["README.md"] + sorted(os.path.relpath(p, root)
                                   for p in glob.glob(os.path.join(root, "docs", "*.md")))
    return [line for page in pages for line in missing(root, page)]


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isfile(os.path.join(sys.argv[1], "README.md")):
        sys.exit("docs.py: which tree? Usage: docs.py ROOT")
    complaints = check(os.path.abspath(sys.argv[1]))
    print("\n".join(complaints + [f"{len(complaints)} complaints"]))
    sys.exit(1 if complaints else 0)
