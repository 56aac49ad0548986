# SPDX-License-Identifier: Apache-2.0
"""Counts instructions with valgrind, and compares them with a record beside the test."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

GROWTH = 1.10


def count(command, function, env=None):
    """(instructions, name) of each function in COMMAND while FUNCTION (a pattern) runs."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                        f"--toggle-collect={function}", *command],
                       check=True, capture_output=True, text=True, env=env)
        shown = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", out],
                               check=True, capture_output=True, text=True).stdout
    rows = (re.match(r"\s*([\d,]+) \([ \d.]+%\)\s+\S+?:(.*)", line) for line in shown.splitlines())
    return [(int(row[1].replace(",", "")), row[2]) for row in rows if row]


def hold(now, record):
    """1 if a figure of NOW isn't in RECORD, a json file, or is over a tenth above it; else 0."""
    if "--update" in sys.argv:
        record.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    recorded = json.loads(record.read_text())
    grown = {name: (recorded.get(name), spent) for name, spent in now.items()
             if name not in recorded or spent > recorded[name] * GROWTH}
    for name, (before, spent) in grown.items():
        print(f"{name}: {spent} instructions, recorded are {before}; if that is wanted, --update")
    return 1 if grown else 0
