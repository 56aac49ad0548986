#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that the protocol spends on a packet of long messages, or on a short message, with valgrind.

    instructions.py ENGINE_COST [--update]

ENGINE_COST is the program of engine_cost.cpp. Counts are the same on every host with the same compiler. The check compares them with
instructions.json beside this file, and fails if one is more than a tenth above it. --update writes that file.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "support"))
import callgrind  # noqa: E402

RECORD = pathlib.Path(__file__).with_suffix(".json")
CASES = [f"protocol, {size}{nics}" for size in ("1 MiB", "8 B") for nics in ("", ", 2 NICs", ", 4 NICs", ", 8 NICs")]
CASES.append("protocol, 8 B, unpacked")


def arguments(case):
    return ["--own-time", "--rounds", "1", "--short", "--case", case]


def main():
    program = sys.argv[1]
    now = {}
    for case in CASES:
        shown = subprocess.run([program, *arguments(case)], check=True, capture_output=True, text=True)
        units = int(re.search(r"(\d+) in all", shown.stdout)[1])
        for step in "send", "receive":
            rows = callgrind.count([program, *arguments(case)], f"*measured_{step}*")
            spent = sum(spent for spent, name in rows if "hawser::proto::" in name)
            now[f"{case} {step}"] = round(spent / units, 1)
            print(f"{case} {step:8} {now[f'{case} {step}']:8} instructions")
    return callgrind.hold(now, RECORD)


if __name__ == "__main__":
    sys.exit(main())
