#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs MPI programs over the provider, and compares their output with that over Open MPI's own TCP.

Usage: run_test.py PROGRAMS PROVIDER CASE     runs one case (ctest does)
       run_test.py PROGRAMS PROVIDER          runs all
       run_test.py --list [gate|deep]         names them

Exit status 77: something that a case needs is missing. At the time limit of a case its launcher is
ended, and with it the ranks.
"""

import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tool"))
from cases import Skipped, case, check, run_cases  # pylint: disable=wrong-import-position
from jobs import FOLDERS, NICS, OFI_WINDOWS, TCP, TCP_WINDOWS, over_hawser, run  # pylint: disable=wrong-import-position

KILLED = {"FI_HAWSER_FAULT_PLAN": "50ms:1:kill,400ms:1:revive"}
# The two NICs die by turns, each for half of the time.
DYING = {"FI_HAWSER_FAULT_PLAN": ",".join(f"{300 + 400 * i}ms:{i % 2}:kill,{500 + 400 * i}ms:{i % 2}:revive"
                                          for i in range(100))}
LOSS = {"FI_HAWSER_FAULTS": "loss=0.01,seed=5"}
# Enough rounds for a NIC to die and return meanwhile.
PROGRAMS = {"collectives": ["20000"], "messages": [], "communicators": [], "threads": []}
LONG = {"collectives": ["20000", "8"], "messages": ["3000000", "3000", "8"]}


def digests(name, arguments, more=None):
    """Checks that the program prints the same line over TCP and over the provider. Returns its
    standard error over the provider."""
    program = [os.path.join(FOLDERS["programs"], name)] + arguments
    wanted, _ = run(4, TCP, program, {})
    got, errors = over_hawser(4, program, more)
    check(wanted.startswith("digest ") and wanted == got,
          f"{name}: over TCP\n{wanted}over the provider\n{got}")
    check(errors.count("hawser: process") == 4, f"{name}: not every rank used the provider\n{errors}")
    # Every rank used both NICs.
    for nic in NICS.split(","):
        check(errors.count(f"hawser:   {nic} ") == 4, f"{name}: not every rank had {nic}\n{errors}")
    return errors


def total(errors, word):
    """Sums up, over all ranks, the number that stands before this word in their tables."""
    return sum(int(number) for number in re.findall(rf"(\d+) {word}", errors))


@case(gate=True)
def clean():
    for name, arguments in PROGRAMS.items():
        digests(name, arguments)


@case(name="engine thread")
def engine_thread():
    for name in ("collectives", "threads"):
        digests(name, PROGRAMS[name], {"FI_HAWSER_THREADS": "1"})


@case(gate=True)
def loss():
    for name, arguments in PROGRAMS.items():
        errors = digests(name, arguments, LOSS)
        check(total(errors, "lost") > 0, f"{name}: nothing was lost\n{errors}")


@case
def crowds():
    digests("crowds", ["140000"])
    digests("crowds", ["70000"], {"FI_HAWSER_THREADS": "1"})


@case(name="nic dies and returns")
def nic_dies_and_returns():
    for name, arguments in LONG.items():
        errors = digests(name, arguments, KILLED)
        check(total(errors, "paths went down") > 0, f"{name}: no path went down\n{errors}")


@case(name="one nic alone")
def one_nic_alone():
    program = [os.path.join(FOLDERS["programs"], "messages"), "100000"]
    wanted, _ = run(2, TCP, program, {})
    got, _ = over_hawser(2, program, {"FI_HAWSER_NICS": "udp:127.0.0.1"})
    check(wanted == got, f"over TCP\n{wanted}over the provider\n{got}")


@case
def windows():
    program = [os.path.join(FOLDERS["programs"], "windows"), "30"]
    wanted, _ = run(4, TCP_WINDOWS, program, {})
    for more in ({}, LOSS, KILLED, DYING):
        got, errors = over_hawser(4, program, more, transport=OFI_WINDOWS)
        check(wanted.startswith("digest ") and wanted == got,
              f"windows: over messages\n{wanted}over the provider\n{got}")
        # Each rank has an endpoint for messages and one for windows.
        check(errors.count("hawser: process") >= 8, f"not every rank used the provider\n{errors}")
        check(total(errors, "one-sided operations") > 0, f"nothing was one-sided\n{errors}")
    check(total(errors, "paths went down") > 8, f"no NIC died by turns\n{errors}")


@case
def leavers():
    """70,000 receives a rank before the first send, and a rank that finalizes before the others."""
    program = [os.path.join(FOLDERS["programs"], "leavers"), "70000"]
    for more in ({}, LOSS):
        got, errors = over_hawser(3, program, more)
        check(got == "right 210000 rounds 2000 last 3000\n", f"{got}\n{errors}")
        check(errors.count("hawser: process") == 3, f"not every rank used the provider\n{errors}")


@case
def netpipe():
    if shutil.which("NPopenmpi") is None:
        raise Skipped("install netpipe-openmpi")
    with tempfile.TemporaryDirectory() as folder:
        # -i: each byte is checked.
        out, _ = over_hawser(2, ["NPopenmpi", "-i", "-u", "1048576", "-n", "20", "-o",
                                 os.path.join(folder, "np.out")])
        _, errors = over_hawser(2, ["NPopenmpi", "-u", "1048576", "-n", "20", "-o",
                                    os.path.join(folder, "np.out")])
    check(errors.count("usec") >= 20, errors)
    check("fail" not in (out + errors).lower(), out + errors)


HPCC = """HPLinpack benchmark input file
by us
HPL.out
6
1
300
1
32
0
1
2
2
16.0
1
2
1
4
1
2
1
1
1
1
1
0
2
64
0
0
1
8
##### This line (no. 32) is ignored (it serves as a separator). ######
0
1200 10000 30000
0
40 9 8 13 13 20 16 32 64
"""


@case
def hpcc():
    if shutil.which("hpcc") is None:
        raise Skipped("install hpcc")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "hpccinf.txt"), "w", encoding="ascii") as file:
            file.write(HPCC)
        before = os.getcwd()
        os.chdir(folder)
        try:
            over_hawser(4, ["hpcc"])
        finally:
            os.chdir(before)
        with open(os.path.join(folder, "hpccoutf.txt"), encoding="ascii", errors="replace") as file:
            report = file.read()
    for word in ("Success=1", "PASSED"):
        check(word in report, f"no {word} in\n{report[-3000:]}")
    check("FAILED" not in report.replace("0 tests completed and failed", ""), report[-3000:])


def main():
    words = sys.argv[1:]
    if words[:1] != ["--list"]:
        FOLDERS.update(programs=os.path.abspath(words.pop(0)), provider=os.path.abspath(words.pop(0)))
    return run_cases(words)


if __name__ == "__main__":
    sys.exit(main())
