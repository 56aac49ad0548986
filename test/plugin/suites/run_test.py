#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs other projects' test suites over the provider.

    run_test.py PROVIDER CASE      runs one case (ctest does)
    run_test.py PROVIDER           runs all
    run_test.py --list [gate|deep] names them

ScaLAPACK's suite comes from Debian (scalapack-mpi-test). It has the testers of BLACS, which check
each byte of 28,000 transfers, those of PBLAS, and one program for each driver and kind of number. A
program that fails over the provider runs again over Open MPI's own TCP. The case fails unless as
many tests fail there.

fabtests is libfabric's own suite. Debian has no package of it, so HAWSER_FABTESTS names the folder
into which `make install` put it. The case fails if a test fails that is not in REFUSED.

Exit status 77: something that a case needs is missing.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "..", "tool"), os.path.join(FOLDER, "..", "mpi")]
from cases import Skipped, case, check, run_cases, time_left  # pylint: disable=wrong-import-position
from jobs import FOLDERS, TCP, over_hawser, run  # pylint: disable=wrong-import-position

INPUTS = "/usr/share/scalapack"
RANKS = 4
PBLAS = [kind + "pb" + level + "tst" for kind in "sdcz" for level in "123"]
BOTH = ["brd", "dblu", "dtlu", "gblu", "gsep", "hrd", "inv", "llt", "ls", "lu", "nep", "pbllt", "ptllt", "qr", "sep",
        "trd"]
DRIVERS = (["x" + kind + name for kind in "sdcz" for name in BOTH] +
           ["x" + kind + name for kind in "sd" for name in ("hseqr", "svd", "syevr")] +
           ["x" + kind + name for kind in "cz" for name in ("evc", "heevr")])
# The ranks of these programs take different branches of PSLACON or PDLACON. Then they wait for each
# other for ever, or one reduction gets the numbers of another (MPI_ERR_TRUNCATE). Over Open MPI's
# own TCP they do so too: xsllt in two of three runs, xdllt in 5 of 11. Backtraces of xdllt show two
# ranks in pdlacon_ and two in the pchk2mat_ behind it.
PART_WAYS = ("xsllt", "xdllt")
# The lines in which programs sum up: a pattern, and whether it counts tests that passed.
COUNTS = [(r"(\d+) tests completed and passed", True), (r"(\d+) tests completed and failed", False),
          (r"(\d+) PASSED, +\d+ SKIPPED", True), (r"SKIPPED, +(\d+) FAILED", False),
          (r"\| +P\w+ +\d+ +(\d+) +\d+ +\d+\s", True), (r"\| +P\w+ +\d+ +\d+ +(\d+) +\d+\s", False)]
# The lines about one test, in programs that don't sum up.
ONE_PASSED = r"\d +PASSED\b|^ ?Passed "
ONE_FAILED = r"\d +FAILED\b|^ ?Failed "
# The testers of BLACS print this line before their last test, which aborts the job.
ABORTS = "The final auxiliary test is for BLACS_ABORT."
# Tests of fabtests that the provider refuses, and why.
REFUSED = {
    r"fi_cm_data |fi_msg_sockets |-e msg": "they want connected endpoints (FI_EP_MSG), and there are only FI_EP_RDM",
}


def find(program):
    found = glob.glob(f"/usr/lib/*/scalapack/openmpi-tests/{program}")
    if not found or not os.path.isdir(INPUTS) or shutil.which("mpirun") is None:
        raise Skipped("install scalapack-mpi-test and openmpi-bin (./setup.sh suites)")
    return found[0]


def tally(output):
    """How many tests passed, and the lines about those that failed."""
    passed = failed = 0
    for pattern, good in COUNTS:
        number = sum(int(count) for count in re.findall(pattern, output))
        passed, failed = (passed + number, failed) if good else (passed, failed + number)
    if passed + failed == 0:
        passed = len(re.findall(ONE_PASSED, output, re.MULTILINE))
        failed = len(re.findall(ONE_FAILED, output, re.MULTILINE))
    return passed, failed


def scalapack(program, may_abort=False):
    path = find(program)
    if program in PART_WAYS:
        raise Skipped(f"the ranks of {program} take different branches, over any transport")
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for file in glob.glob(f"{INPUTS}/*.dat") + glob.glob(f"{INPUTS}/*/*.dat"):
            shutil.copy(file, folder)
        os.chdir(folder)
        try:
            output, _ = over_hawser(RANKS, [path], may_fail=may_abort)
            passed, failed = tally(output)
            check(passed > 0, f"{program}: no test passed\n{output[-3000:]}")
            check(not may_abort or ABORTS in output, f"{program}: not all tests ran\n{output[-3000:]}")
            if failed:
                wanted, _ = run(RANKS, TCP, [path], {}, may_fail=may_abort)
                check(tally(wanted) == (passed, failed),
                      f"{program}: {failed} tests fail, and over TCP {tally(wanted)[1]}\n{output[-3000:]}")
        finally:
            os.chdir(before)
    print(f"{program}: {passed} passed, {failed} failed")


def add(name, program, **options):
    case(name=name)(lambda: scalapack(program, **options))


for tester in ("xCbtest", "xFbtest"):
    add("blacs " + tester, tester, may_abort=True)  # its last test is that BLACS_ABORT ends the job
for tester in PBLAS:
    add("pblas " + tester, "PBLAS/" + tester)
for tester in DRIVERS:
    add("scalapack " + tester, tester)


# Tests that fail by themselves if addresses are exchanged out of band, and why.
REFUSED_OUT_OF_BAND = {
    r"fi_poll ": "its programs open no connection for it, and write to the descriptor -1",
}


def fabtests(flags, refused):
    prefix = os.environ.get("HAWSER_FABTESTS")
    if not prefix:
        raise Skipped("HAWSER_FABTESTS names no folder with libfabric's fabtests")
    with tempfile.TemporaryDirectory() as folder:
        # The suite reaches its two hosts by ssh, even if both are this host.
        ssh = os.path.join(folder, "ssh")
        with open(ssh, "w", encoding="ascii") as file:
            file.write('#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done\nshift\n'
                       'exec bash -c "$*"\n')
        os.chmod(ssh, 0o755)
        bin_folder = os.path.join(os.path.abspath(prefix), "bin")
        environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "FI_HAWSER_NICS": "udp:127.0.0.1",
                       "FI_PROVIDER_PATH": FOLDERS["provider"]}
        suite = os.path.join(bin_folder, "runfabtests.sh")
        check(os.access(suite, os.X_OK), f"HAWSER_FABTESTS has no bin/runfabtests.sh: {prefix}")
        with tempfile.TemporaryFile() as printed:
            # In a session of its own the whole suite can be ended by its group.
            ran = subprocess.Popen([suite, "-p", bin_folder, "-t", "quick", *flags, "hawser", "127.0.0.1", "127.0.0.1"],
                                   env=environment, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                ran.wait(timeout=time_left())
            except subprocess.TimeoutExpired:
                os.killpg(ran.pid, signal.SIGKILL)
                ran.wait()
            printed.seek(0)
            output = printed.read().decode(errors="replace")
    results = re.findall(r"^(fi_.*): +(Pass|Fail|Notrun)$", output, re.MULTILINE)
    failed = [name for name, result in results if result == "Fail"]
    wrong = [name for name in failed if not any(re.search(pattern, name + " ") for pattern in refused)]
    passed = sum(result == "Pass" for _, result in results)
    print(f"fabtests: {passed} passed, {len(failed)} failed, of these {len(failed) - len(wrong)} as the provider refuses "
          "what they want")
    check(passed >= 35 and not wrong, "\n".join(wrong) + "\n" + output[-3000:])


# Clients find their server by its port, or by addresses that are exchanged out of band. In the
# second case both programs name a port for themselves, which can't be the same one on one host. The
# servers of fi_shared_ctx stay behind, and the next test's client finds them.
case(name="fabtests by port")(lambda: fabtests([], REFUSED))
case(name="fabtests out of band")(
    lambda: fabtests(["-b", "-C", "-B 9229", "-e", "fi_shared_ctx"], {**REFUSED, **REFUSED_OUT_OF_BAND}))


def main():
    words = sys.argv[1:]
    if words[:1] != ["--list"]:
        FOLDERS.update(provider=os.path.abspath(words.pop(0)))
    return run_cases(words)


if __name__ == "__main__":
    sys.exit(main())
