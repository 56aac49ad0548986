#!/usr/bin/env python3
"""MPI programs over the provider, and what they print compared with Open MPI's own TCP.

Usage: run_test.py PROGRAMS PROVIDER CASE
       run_test.py --list

Exit status 77: what a case needs is not here. Each job has a time limit, after which its launcher
is ended, and with it the ranks.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LIMIT_S = 50
NICS = "udp:127.0.0.1,udp:127.0.0.2"
KILLED = {"FI_HAWSER_FAULT_PLAN": "50ms:1:kill,400ms:1:revive"}
LOSS = {"FI_HAWSER_FAULTS": "loss=0.01,seed=5"}
# Enough rounds for a NIC to die and return meanwhile.
PROGRAMS = {"collectives": ["20000"], "messages": [], "communicators": [], "threads": []}
LONG = {"collectives": ["20000", "8"], "messages": ["3000000", "3000", "8"]}

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
OFI = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "self",
       "--mca", "opal_common_ofi_provider_include", "hawser"]


class Failure(Exception):
    pass


def run(ranks, transport, program, environment):
    """What the job printed on standard output and standard error."""
    exported = [word for name in environment for word in ("-x", name)]
    command = MPIRUN + ["-n", str(ranks)] + transport + exported + program
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # A session of its own: whatever happens, all of it can be ended by its group.
        job = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True,
                               env={**os.environ, **environment})
        try:
            code = job.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGTERM)  # mpirun ends its ranks
            try:
                job.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
            code = "no end"
        output.seek(0)
        errors.seek(0)
        out, err = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
    if code != 0:
        raise Failure(f"{' '.join(command)}\nends with {code}\n{out[-2000:]}\n{err[-4000:]}")
    return out, err


class Case:
    def __init__(self, programs, provider):
        self.programs = os.path.abspath(programs)
        self.provider = os.path.abspath(provider)

    def hawser(self, ranks, program, more=None):
        environment = {"FI_PROVIDER_PATH": self.provider, "FI_HAWSER_NICS": NICS,
                       "FI_HAWSER_STATS": "1", **(more or {})}
        return run(ranks, OFI, program, environment)

    def digests(self, name, arguments, more=None):
        """The program's line over TCP and over the provider are the same. Returns the latter's
        standard error."""
        program = [os.path.join(self.programs, name)] + arguments
        wanted, _ = run(4, TCP, program, {})
        got, errors = self.hawser(4, program, more)
        if not wanted.startswith("digest ") or wanted != got:
            raise Failure(f"{name}: over TCP\n{wanted}over the provider\n{got}")
        if errors.count("hawser: process") != 4:
            raise Failure(f"{name}: not every rank used the provider\n{errors}")
        # Every rank used both NICs.
        for nic in NICS.split(","):
            if errors.count(f"hawser:   {nic} ") != 4:
                raise Failure(f"{name}: not every rank had {nic}\n{errors}")
        return errors


def total(errors, word):
    """The sum over all ranks of a number that stands before a word of the tables."""
    return sum(int(number) for number in re.findall(rf"(\d+) {word}", errors))


def clean(case):
    for name, arguments in PROGRAMS.items():
        case.digests(name, arguments)


def engine_thread(case):
    for name in ("collectives", "threads"):
        case.digests(name, PROGRAMS[name], {"FI_HAWSER_THREADS": "1"})


def loss(case):
    for name, arguments in PROGRAMS.items():
        errors = case.digests(name, arguments, LOSS)
        if total(errors, "lost") == 0:
            raise Failure(f"{name}: nothing was lost\n{errors}")


def crowds(case):
    case.digests("crowds", ["20000"])


def nic_dies_and_returns(case):
    for name, arguments in LONG.items():
        errors = case.digests(name, arguments, KILLED)
        if total(errors, "paths gone down") == 0:
            raise Failure(f"{name}: no path went down\n{errors}")


def one_nic_alone(case):
    program = [os.path.join(case.programs, "messages"), "100000"]
    wanted, _ = run(2, TCP, program, {})
    got, _ = case.hawser(2, program, {"FI_HAWSER_NICS": "udp:127.0.0.1"})
    if wanted != got:
        raise Failure(f"over TCP\n{wanted}over the provider\n{got}")


def netpipe(case):
    if shutil.which("NPopenmpi") is None:
        print("install netpipe-openmpi")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        # -i: each byte is checked.
        out, _ = case.hawser(2, ["NPopenmpi", "-i", "-u", "1048576", "-n", "20", "-o",
                                 os.path.join(folder, "np.out")])
        _, errors = case.hawser(2, ["NPopenmpi", "-u", "1048576", "-n", "20", "-o",
                                    os.path.join(folder, "np.out")])
    if errors.count("usec") < 20:
        raise Failure(errors)
    if "fail" in (out + errors).lower():
        raise Failure(out + errors)


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


def hpcc(case):
    if shutil.which("hpcc") is None:
        print("install hpcc")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "hpccinf.txt"), "w", encoding="ascii") as file:
            file.write(HPCC)
        before = os.getcwd()
        os.chdir(folder)
        try:
            case.hawser(4, ["hpcc"])
        finally:
            os.chdir(before)
        with open(os.path.join(folder, "hpccoutf.txt"), encoding="ascii", errors="replace") as file:
            report = file.read()
    for word in ("Success=1", "PASSED"):
        if word not in report:
            raise Failure(f"no {word} in\n{report[-3000:]}")
    if "FAILED" in report.replace("0 tests completed and failed", ""):
        raise Failure(report[-3000:])


CASES = {"clean": clean, "engine thread": engine_thread, "loss": loss, "crowds": crowds,
         "nic dies and returns": nic_dies_and_returns, "one nic alone": one_nic_alone,
         "netpipe": netpipe, "hpcc": hpcc}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(CASES))
        return 0
    programs, provider, name = sys.argv[1:]
    try:
        CASES[name](Case(programs, provider))
    except Failure as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
