#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the programs with collectives, docs/ranks.cpp and docs/ranks.c, as processes on loopback.

Usage: ranks_test.py RANKS RANKS_C CASE     runs one case (ctest does)
       ranks_test.py RANKS RANKS_C          runs all
       ranks_test.py --list [gate|deep]     names them
"""

import os
import sys
import tempfile

from conversation import run_ranks
from cases import case, check, finish, run_cases, start_process


def programs():
    return sys.argv[1:3]


@case(gate=True)
def ranks_of_both_languages_work_together():
    with tempfile.TemporaryDirectory() as scratch:
        run_ranks([[program] for program in programs() + programs()], scratch)


@case(gate=True)
def one_rank_is_a_job_too():
    with tempfile.TemporaryDirectory() as scratch:
        for program in programs():
            run_ranks([[program]], scratch)


@case(gate=True)
def an_error_says_what_to_do():
    with tempfile.TemporaryDirectory() as scratch:
        for program in programs():
            for words, status, wanted in (
                    ([], 2, "usage: ranks"),
                    (["2", "2", scratch], 2, "with RANK below RANKS"),
                    (["0", "2", scratch, "carrier-pigeon"], 1, "choose no NIC of this host"),
                    (["0", "2", os.path.join(scratch, "none")], 1, "make a folder first")):
                ended, output = finish(start_process([program, *words]))
                check(ended == status and wanted in output, f"{program} {words}: {ended}\n{output}")


def main():
    if len(sys.argv) < 3 and sys.argv[1:2] != ["--list"]:
        sys.exit(__doc__)
    return run_cases(sys.argv[1:] if sys.argv[1] == "--list" else sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
