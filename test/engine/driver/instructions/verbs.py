#!/usr/bin/env python3
"""Counts the instructions that the verbs driver spends on a packet, with valgrind: docs/verbs.md has the table.

    verbs.py SCENES [--update]

SCENES is the program of verbs_scenes.cpp. Counts are the same on every host of one compiler; they are held against
verbs.json beside this file, and more than a tenth above it fails. --update writes that file.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_suffix(".json")
PACKETS = 32 * 100
ROUNDS = 100
# What is sent; and whether the double offers ibv_wr_* and ibv_start_poll.
SCENES = [("in_place", False), ("copied", False), ("inlined", False), ("in_place", True)]
STEPS = {"send": PACKETS, "reap": PACKETS, "receive": PACKETS, "idle": ROUNDS}
GROWTH = 1.10


def count(program, scene, newer, step, folder):
    """By whom: instructions a packet (idle: a turn) of the driver, and of the double that stands for the library."""
    out = pathlib.Path(folder) / f"{scene}-{step}"
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                    f"--toggle-collect=*measured_{step}*", program, scene],
                   check=True, capture_output=True, text=True,
                   env={**os.environ, **({"HAWSER_FAKE_EXTENDED": "1"} if newer else {})})
    shown = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", out],
                           check=True, capture_output=True, text=True).stdout
    driver = double = 0
    for line in shown.splitlines():
        row = re.match(r"\s*([\d,]+) \([ \d.]+%\)\s+\S+?:(.*)", line)
        if not row:
            continue
        spent = int(row[1].replace(",", ""))
        if "hawser::engine::" in row[2]:
            driver += spent
        elif "test::fake" in row[2] or "ibv_" in row[2]:
            double += spent
    return round(driver / STEPS[step], 1), round(double / STEPS[step], 1)


def main():
    program = sys.argv[1]
    now = {}
    print(f"{'':21} {'':8} {'driver':>8} {'double':>8}   instructions a packet; idle: a turn")
    with tempfile.TemporaryDirectory() as folder:
        for scene, newer in SCENES:
            for step in STEPS:
                driver, double = count(program, scene, newer, step, folder)
                name = f"{scene}, newer calls" if newer else scene
                now[f"{name} {step}"] = driver
                print(f"{name:21} {step:8} {driver:8} {double:8}")
    if "--update" in sys.argv:
        RECORD.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    recorded = json.loads(RECORD.read_text())
    grown = {name: (recorded.get(name), spent) for name, spent in now.items()
             if name not in recorded or spent > recorded[name] * GROWTH}
    for name, (before, spent) in grown.items():
        print(f"{name}: {spent} instructions, recorded are {before}; if that is wanted, --update")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
