#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the verbs driver's instructions per packet, with valgrind.

docs/internals/verbs_driver.md has the table.

    verbs.py SCENES [--update]

SCENES is the program of verbs_scenes.cpp. One compiler gives the same counts on every host. The
script compares them with verbs.json beside this file, and fails if one is more than a tenth above.
--update writes that file.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "support"))
import callgrind  # noqa: E402

RECORD = pathlib.Path(__file__).with_suffix(".json")
PACKETS = 32 * 100
ROUNDS = 100
# How the payload is sent, and whether the double offers ibv_wr_* and ibv_start_poll.
SCENES = [("in_place", False), ("copied", False), ("inlined", False), ("in_place", True)]
STEPS = {"send": PACKETS, "reap": PACKETS, "receive": PACKETS, "idle": ROUNDS}


def count(program, scene, newer, step):
    """Instructions per packet (idle: per turn) of the driver, and of the double for the library."""
    env = {**os.environ, **({"HAWSER_FAKE_EXTENDED": "1"} if newer else {})}
    driver = double = 0
    for spent, name in callgrind.count([program, scene], f"*measured_{step}*", env):
        if "hawser::engine::" in name:
            driver += spent
        elif "test::fake" in name or "ibv_" in name:
            double += spent
    return round(driver / STEPS[step], 1), round(double / STEPS[step], 1)


def main():
    program = sys.argv[1]
    now = {}
    print(f"{'':21} {'':8} {'driver':>8} {'double':>8}   instructions a packet; idle: a turn")
    for scene, newer in SCENES:
        for step in STEPS:
            driver, double = count(program, scene, newer, step)
            name = f"{scene}, newer calls" if newer else scene
            now[f"{name} {step}"] = driver
            print(f"{name:21} {step:8} {driver:8} {double:8}")
    return callgrind.hold(now, RECORD)


if __name__ == "__main__":
    sys.exit(main())
