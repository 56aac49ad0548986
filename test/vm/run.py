#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program of this host inside an emulated machine that has RDMA devices, as root.

    test/vm/run.py [options] [--] PROGRAM [ARGUMENT ...]

The machine boots one of Debian's kernels under qemu, without KVM and without privileges. Its root
is this host's, read-only, under an overlay in memory: every program has its usual path, and nothing
that it writes stays. The RDMA devices are soft RoCE (rdma_rxe) at both ends of veth cables, rxe_a0
- rxe_b0 and rxe_a1 - rxe_b1. With --ports there are more at the ports of one switch: rxe_n0, rxe_n1
and so on. Standard output, standard error and the exit code are the program's.

Other exit codes: 77, with the reason, if this host cannot boot the machine, or 1 instead if the
environment has HAWSER_VM_REQUIRED=1; 124 if the program ran out of time; 125 if the machine died
under it. apt-get downloads the kernel once, into $HAWSER_VM_CACHE (default: build/vm of this tree).
"""

import argparse
import os
import pathlib
import signal
import sys

import image
import kernel
import machine
from reason import Impossible

TREE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS",
                        help="limit of the program inside (default 120)")
    parser.add_argument("--cpus", type=int, default=2, help="processors of the machine (default 2)")
    parser.add_argument("--memory", type=int, default=768, metavar="MIB",
                        help="memory of the machine (default 768)")
    parser.add_argument("--cables", type=int, default=2, help="pairs of RDMA devices (default 2)")
    parser.add_argument("--ports", type=int, default=0, help="RDMA devices at one switch (default 0)")
    parser.add_argument("--mtu", type=int, default=4200,
                        help="of the cables; 4200 makes a path MTU of 4096, 1500 one of 1024")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="for the program's environment; may be repeated")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if not options.command:
        parser.error("which program?")
    return options


def main():
    options = parse()
    # With this a `timeout` around the script ends the machine too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    cache = pathlib.Path(os.environ.get("HAWSER_VM_CACHE") or TREE / "build" / "vm").resolve()
    try:
        machine.check_tools()
        found = kernel.get(cache)
        initrd = image.get(cache, found)
        return machine.run(found, initrd, options)
    except Impossible as reason:
        if os.environ.get("HAWSER_VM_REQUIRED") == "1":
            print(f"vm: FAILED: no emulated machine: {reason}", file=sys.stderr)
            return 1
        print(f"vm: skipped: no emulated machine: {reason}", file=sys.stderr)
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
