#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks failover.pml and one_sided.pml with spin: check.py [--work FOLDER] [--only NAME] [--bitstate]

Each world is a set of bounds and a property. Its search must be complete, find no error, and reach
the state of its witness (a world in which nothing happens would prove nothing). Then each
deliberate error of a model (BUG_...) is compiled in, and spin must find it in the world named for
it. Exit status 1 if any of this fails. --only takes the name of a world or of an error.

--bitstate searches larger worlds with hashed states, for a minute each. That reaches more than an
exhaustive search can, but may miss states. It is not part of the test.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 3500
SECONDS = 300
DEPTH = 400000

# The defaults. WIRE is how many packets a path holds in one direction, QUEUE how many sends a NIC
# has.
BOUNDS = dict(MESSAGES=1, FRAGMENTS=1, QUEUE=1, WIRE=1, LOSSES=0, DUPS=0, DEATHS=0, REFUSALS=0,
              EARLY=0, TIMEOUTS=0, RESTARTS=0, KEEP_ONE=1, RECONNECT=1, MOST_SESSIONS=3)
# The defaults of one_sided.pml: a fetch, and behind it a strong operation.
ONE_SIDED = dict(FILE="one_sided.pml", FIRST="FETCH", SECOND="ADD", WIRE=2, LOSSES=0, FAILS=0,
                 RESTARTS=0, WITHDRAWALS=0, MOST_POSTS=3, MOST_SESSIONS=3)
# Safety: assertions, with timers and losses at any time.
SAFETY = dict(ANYTIME=None)
SESSIONS = dict(SESSIONS=None)
# Liveness: every packet in flight is handled before a timer fires. WIRE is three, since an end
# whose timers all fire sends so many packets at once.
COMPLETES = dict(LIVE_COMPLETES=None)
CALLS = dict(SESSIONS=None, WIRE=3)

WORLDS = {
    "messages": dict(SAFETY, MESSAGES=2, DUPS=2, REFUSALS=1,
                     WITNESS="(completed == 3 && dups == 0 && refusals == 0)"),
    "fragments": dict(SAFETY, FRAGMENTS=2, DUPS=1, REFUSALS=1,
                      WITNESS="(completed == 1 && dups == 0 && refusals == 0)"),
    "restart": dict(SAFETY, **SESSIONS, RESTARTS=1, DUPS=1,
                    WITNESS="(completed == 1 && dups == 0 && EPOCH(inc[B]) == 1)"),
    "timeout": dict(SAFETY, **SESSIONS, TIMEOUTS=1,
                    WITNESS="(completed == 1 && timeouts == 0 && delivered[1] && delivered[2])"),
    "one_path_stays": dict(COMPLETES, LOSSES=1, DEATHS=2, REFUSALS=1, EARLY=1),
    "two_messages": dict(COMPLETES, MESSAGES=2, LOSSES=1, DEATHS=2),
    "comes_back": dict(COMPLETES, **CALLS, RESTARTS=1, LOSSES=1, EARLY=1),
    "calls_again": dict(COMPLETES, **CALLS, TIMEOUTS=1, LOSSES=1, DEATHS=1),
    "both_told": dict(CALLS, LIVE_TOLD=None, TIMEOUTS=1, LOSSES=1, DEATHS=1, RECONNECT=0),
    "fetch_once": dict(ONE_SIDED, FAILS=1,
                       WITNESS="(result[0] == OK && result[1] == OK && newest == 2)"),
    "owner_restarts": dict(ONE_SIDED, RESTARTS=1,
                           WITNESS="(result[0] == EXECUTED && process == 2 && newest == 2)"),
    "read_withdrawn": dict(ONE_SIDED, FIRST="READ", WITHDRAWALS=1,
                           WITNESS="(result[0] == WITHDRAWN && withdrawn)"),
    "fetches_complete": dict(ONE_SIDED, **COMPLETES, LOSSES=3),
}

BUGS = {
    "RELEASE_WITHOUT_REAP": "messages",
    "NO_FLOOR_CHECK": "messages",
    "FORGET_FINISHED": "messages",
    "COMPLETE_AT_PATH_ACK": "messages",
    "NO_DUPLICATE_CHECK": "fragments",
    "BITMAP_PER_PATH": "fragments",
    "NO_TOKEN_CHECK": "restart",
    "OLD_TOKEN_AGAIN": "restart",
    "TOKEN_KEPT_FOR_NEXT_INCARNATION": "restart",
    "OLD_HELLO": "restart",
    "READY_WITHOUT_ECHO": "restart",
    "FAILURE_RELEASES": "timeout",
    "DOWN_WITHOUT_EVACUATION": "one_path_stays",
    "DOWN_IS_NEVER_PROBED": "one_path_stays",
    "NO_SILENCE_RULE": "one_path_stays",
    "NO_PTO": "one_path_stays",
    "NEVER_ASK": "one_path_stays",
    "FLOOR_TOO_HIGH": "one_path_stays",
    "OLDER_INCARNATION_REPLACES": "comes_back",
    "ECHO_PROVES_NOTHING": "calls_again",
    "NO_RESET": "both_told",
    "NO_KEEPALIVE": "both_told",
    "EXECUTE_AGAIN": "fetch_once",
    "FORGOTTEN_WITH_THE_REPLY": "fetch_once",
    "COMPLETE_AT_STATUS": "fetch_once",
    "SENT_COUNTS_AS_UNSENT": "fetch_once",
    "STRONG_WAITS_FOR_NOTHING": "fetch_once",
    "KEYS_NAME_NO_PROCESS": "owner_restarts",
    "WITHDRAWN_WITHOUT_REAP": "read_withdrawn",
    "REPLY_ONCE": "fetches_complete",
    "FLOOR_OF_A_FETCH_TOO_HIGH": "fetches_complete",
}

BITSTATE = {
    "restart and timeout": dict(SAFETY, **SESSIONS, RESTARTS=1, TIMEOUTS=1, DUPS=1),
    "messages of two fragments": dict(SAFETY, MESSAGES=2, FRAGMENTS=2, DUPS=2, REFUSALS=1, WIRE=2),
}


def die(message):
    print(f"check.py: {message}", file=sys.stderr)
    sys.exit(2)


def run(command, folder, seconds):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout + done.stderr


def search(folder, world, extra=(), optimize="-O0", bitstate=False):
    """Runs spin, the compiler and pan; returns pan's output. spin passes `extra` to a shell."""
    settings = dict(world) if "FILE" in world else {**BOUNDS, **world}
    settings.pop("WITNESS", None)
    model = os.path.join(HERE, settings.pop("FILE", "failover.pml"))
    defines = [f"-D{name}" if value is None else f"-D{name}={value}"
               for name, value in settings.items()] + list(extra)
    live = any(name.startswith("LIVE_") for name in settings)
    compiler = ["gcc", optimize, "-w", f"-DMEMLIM={MEMORY_MB}", "-o", "pan", "pan.c"]
    compiler += [] if live else ["-DSAFETY", "-DNOCLAIM"]
    compiler += ["-DBITSTATE"] if bitstate else []
    pan = ["./pan", f"-m{DEPTH}"] + (["-a"] if live else []) + (["-w32", "-k3"] if bitstate else [])
    for command in (["spin", "-a"] + defines + [model], compiler):
        status = run(command, folder, SECONDS)
        if status is None or status[0] != 0 or "Error" in status[1]:
            die(f"{command[0]} failed:\n" + (status[1] if status else "too long"))
    status = run(pan, folder, 60 if bitstate else SECONDS)
    return "" if status is None else status[1]


def states_of(said):
    found = re.search(r"^\s*(\d+(?:\.\d+)?(?:e\+\d+)?) states, stored", said, re.M)
    return int(float(found.group(1))) if found else 0


def is_complete(said):
    return ("errors: 0" in said and "Search not completed" not in said and
            "max search depth too small" not in said and "reached -DMEMLIM" not in said)


def is_error(said):
    return bool(re.search(r"assertion violated|acceptance cycle|invalid end state", said)) and \
        "errors: 1" in said


def check_world(name, world, folder):
    """The complaint about a world, or None, and its number of states."""
    said = search(folder, world, optimize="-O2")
    if not is_complete(said):
        return "no complete search without an error:\n" + said[:1500], 0
    states = states_of(said)
    if "WITNESS" in world and not is_error(search(folder, world, [f"-DWITNESS='{world['WITNESS']}'"])):
        return f"never reaches {world['WITNESS']}", states
    return None, states


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", help="where pan is made and errors leave their trails")
    parser.add_argument("--only", choices=sorted(WORLDS) + sorted(BUGS), metavar="NAME")
    parser.add_argument("--bitstate", action="store_true")
    options = parser.parse_args()
    for program in ("spin", "gcc"):
        if shutil.which(program) is None:
            die(f"{program} is not installed")
    work = options.work or tempfile.mkdtemp(prefix="failover-")
    os.makedirs(work, exist_ok=True)

    if options.bitstate:
        for name, world in BITSTATE.items():
            said = search(work, world, optimize="-O2", bitstate=True)
            print(f"{name:28} bitstate, not exhaustive: "
                  f"{'ERROR' if is_error(said) else 'no error'} in {states_of(said)} states")
            if is_error(said):
                return 1
        return 0

    failures = 0
    for name, world in WORLDS.items():
        if options.only not in (None, name):
            continue
        began = time.monotonic()
        wrong, states = check_world(name, world, work)
        failures += wrong is not None
        print(f"{'ok    ' if wrong is None else 'FAILED'} {name:34} {states:9} states "
              f"{time.monotonic() - began:5.1f} s  {wrong or ''}", flush=True)
    for bug, world in BUGS.items():
        if options.only not in (None, bug):
            continue
        began = time.monotonic()
        said = search(work, WORLDS[world], [f"-DBUG_{bug}"])
        caught = is_error(said)
        failures += not caught
        print(f"{'caught' if caught else 'MISSED'} {bug:34} {states_of(said):9} states "
              f"{time.monotonic() - began:5.1f} s  {world}", flush=True)
    if options.work is None:
        shutil.rmtree(work)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
