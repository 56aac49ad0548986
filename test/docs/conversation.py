# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of docs/ as they are meant to be run: as two processes, or one for each rank."""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))
from cases import check, finish, start_process  # pylint: disable=wrong-import-position

ASKED = "4194304 bytes sent, their sum 549755289600 received; 6 packets lost, 6 fragments retransmitted\n"
SERVED = "waiting for a question; the address is in {}\n4194304 bytes received, their sum 549755289600 sent\n"


def pattern_of(line):
    """Matches such a line. Its numbers of packets vary, and are never 0."""
    return "^" + re.sub(r"\d+(?=\\ (packets|fragments))", r"[1-9]\\d*", re.escape(line)) + "$"


def check_end(process, what, shown):
    """`process` must end well, and print each line of `shown`. The library's log may add lines."""
    status, output = finish(process)
    missing = [line for line in shown.splitlines() if not re.search(pattern_of(line), output, re.M)]
    check(status == 0 and not missing, f"{what}: {status}, without {missing}\n{output}")


def converse(server, client, scratch, client_first=False, nics=((), ()), **options):
    """Lets `client` (a command) ask `server` (another), and checks what both print.

    `nics` has those of the server, then those of the client.
    """
    folder = tempfile.mkdtemp(dir=scratch)
    file = os.path.join(folder, "address")
    commands = [[*server, "serve", file, *nics[0]], [*client, "ask", file, *nics[1]]]
    order = (1, 0) if client_first else (0, 1)
    started = {which: start_process(commands[which], **options) for which in order}
    check_end(started[1], commands[1], ASKED)
    check_end(started[0], commands[0], SERVED.format(file))
    check(not os.listdir(folder), f"{commands[0]} left {os.listdir(folder)}")


def run_ranks(commands, scratch, **options):
    """Runs docs/ranks.cpp or docs/ranks.c: a command for each rank."""
    folder = tempfile.mkdtemp(dir=scratch)
    count = len(commands)
    started = [start_process([*command, str(rank), str(count), folder], **options)
               for rank, command in enumerate(commands)]
    for rank, process in enumerate(started):
        check_end(process, commands[rank], f"rank {rank} of {count}: seed 4711, average {(count + 1) / 2}\n")
