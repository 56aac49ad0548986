#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the first programs, docs/example.cpp and docs/example.c, as two processes on loopback.

Usage: example_test.py EXAMPLE EXAMPLE_C CASE     runs one case (ctest does)
       example_test.py EXAMPLE EXAMPLE_C          runs all
       example_test.py --list [gate|deep]         names them
"""

import os
import sys
import tempfile

from conversation import converse
from cases import case, check, finish, read_until, run_cases, start_process


def programs():
    return sys.argv[1:3]


@case(gate=True)
def either_language_answers_either():
    with tempfile.TemporaryDirectory() as scratch:
        for server in programs():
            for client in programs():
                converse([server], [client], scratch)


@case(gate=True)
def a_client_waits_for_the_server():
    with tempfile.TemporaryDirectory() as scratch:
        for program in programs():
            converse([program], [program], scratch, client_first=True)


@case(gate=True)
def each_side_may_name_its_nics():
    with tempfile.TemporaryDirectory() as scratch:
        for program in programs():
            converse([program], [program], scratch,
                     nics=(["udp:127.0.0.5"], ["udp:127.0.0.6", "udp:127.0.0.7", "udp:127.0.0.8"]))


def check_refusal(words, wanted, status=1, **environment):
    """Both programs must end with this status, and say `wanted`."""
    for program in programs():
        ended, output = finish(start_process([program, *words], env={**os.environ, **environment}))
        check(ended == status and wanted in output, f"{program} {words}: {ended}\n{output}")


@case(gate=True)
def an_error_says_what_to_do():
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "address")
        check_refusal(["serve"], "usage: example", status=2)
        check_refusal(["sing", file], "usage: example", status=2)
        check_refusal(["serve", file, "carrier-pigeon"], '"carrier-pigeon" choose no NIC of this host')
        check_refusal(["serve", os.path.join(scratch, "none", "address")], "name a file in a folder of yours")
        with open(file, "w", encoding="utf-8") as rubbish:
            rubbish.write("not an address")
        check_refusal(["ask", file], "FILE holds no address of this version of Hawser")


@case(gate=True)
def the_address_of_a_dead_server_is_told():
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "address")
        server = start_process([programs()[0], "serve", file])
        read_until(server, "waiting for a question")
        server.kill()
        finish(server)
        check_refusal(["ask", file], "Is it that of an earlier server?", HAWSER_PEER_TIMEOUT_MS="200")


def main():
    if len(sys.argv) < 3 and sys.argv[1:2] != ["--list"]:
        sys.exit(__doc__)
    return run_cases(sys.argv[1:] if sys.argv[1] == "--list" else sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
