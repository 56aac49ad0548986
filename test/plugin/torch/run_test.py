#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs of PyTorch over the backend hawser.

Usage: run_test.py BUILD EXAMPLES CASE     runs one case (ctest does)
       run_test.py BUILD EXAMPLES          runs all
       run_test.py --list [gate|deep]      names them

BUILD is the package hawser_torch. Exit status 77: PyTorch is missing.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tool"))
# pylint: disable=wrong-import-position
from cases import Skipped, case, check, finish, read_some, read_until, run_cases, start_process, wait_for

FOLDERS = {}
NICS = "udp:127.0.0.1,udp:127.0.0.2"
FAULTS = {"HAWSER_TORCH_FAULTS": "loss=0.01,seed=3"}
SHORT = {"HAWSER_PEER_TIMEOUT_MS": "3000"}


def environment(more=None):
    return {**os.environ, "PYTHONPATH": FOLDERS["build"], "HAWSER_NICS": NICS, "PYTHONDONTWRITEBYTECODE": "1",
            **(more or {})}


def start_ranks(folder, program, function, ranks, more=None):
    store = os.path.join(folder, "store")
    return [start_process([sys.executable, os.path.join(HERE, program), function, str(rank), str(ranks), store],
                          env=environment(more), stdin=subprocess.PIPE) for rank in range(ranks)]


def run_ranks(program, function, ranks=4, more=None, dies=()):
    """All ranks must end well, but for those that die. Returns what they have written."""
    with tempfile.TemporaryDirectory() as folder:
        return finish_ranks(start_ranks(folder, program, function, ranks, more), function, dies)


def finish_ranks(started, function, dies=()):
    """The first rank that ends in another way ends the job, since others may wait for it."""
    wanted = {rank: 9 if rank in dies else 0 for rank in range(len(started))}
    open_ends = list(started)

    def one_failed():
        open_ends[:] = [process for process in open_ends if read_some(process)]
        return next((rank for rank, process in enumerate(started)
                     if process.poll() not in (None, wanted[rank])), None)

    failed = wait_for(lambda: not open_ends or one_failed() is not None, "the end of all ranks") and one_failed()
    if failed is not None:
        for process in started:
            process.kill()
    texts = [finish(process)[1] for process in started]
    said = "\n".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
    check(failed is None, f"{function}: rank {failed} failed\n{said}")
    ends = {rank: process.returncode for rank, process in enumerate(started)}
    check(ends == wanted, f"{function}: exit statuses {ends}\n{said}")
    return "".join(texts)


@case(name="every call")
def every_call():
    run_ranks("collectives.py", "everything")


@case(name="every call of three ranks, with loss")
def with_loss():
    said = run_ranks("collectives.py", "everything", 3, FAULTS)
    check(sum(int(number) for number in re.findall(r"^nic .* (\d+)$", said, re.M)) > 0, f"nothing was lost\n{said}")


@case(name="one rank alone")
def alone():
    for function in ("all_reduce", "rooted", "gathered", "scattered", "exchanged"):
        run_ranks("collectives.py", function, 1)


@case(name="one world after the other")
def worlds():
    run_ranks("collectives.py", "worlds")


@case(name="another world")
def other_world():
    run_ranks("failures.py", "other_world")


@case(name="a rank dies")
def dies():
    run_ranks("failures.py", "one_dies", 4, SHORT, [2])


@case(name="the first rank dies")
def first_dies():
    run_ranks("failures.py", "first_dies", 4, SHORT, [0])


@case(name="two ranks die")
def two_die():
    run_ranks("failures.py", "two_die", 5, SHORT, [1, 2])


@case(name="one rank dies after the other")
def one_after_the_other():
    run_ranks("failures.py", "one_after_the_other", 5, SHORT, [1, 3])


@case(name="a rank dies in training")
def dies_in_training():
    run_ranks("failures.py", "dies_in_training", 4, SHORT, [2])


@case(name="a rank is given up")
def given_up():
    run_ranks("failures.py", "given_up")


@case(name="ranks disagree")
def disagree():
    run_ranks("failures.py", "disagree", 4, SHORT)


@case(name="a rank does not come")
def times_out():
    run_ranks("failures.py", "times_out")


@case(name="a rank sleeps")
def sleeps():
    with tempfile.TemporaryDirectory() as folder:
        started = start_ranks(folder, "failures.py", "sleeps", 4, SHORT)
        stopped = int(re.search(r"stops (\d+)", read_until(started[3], "^stops "))[1])
        for process in started[:3]:
            read_until(process, "^shrunk ")
        os.kill(stopped, signal.SIGCONT)
        read_until(started[3], "^done ")
        for process in started:
            process.stdin.close()
        finish_ranks(started, "sleeps")


def train(name, folder, *words, ranks=4):
    """Trains under torchrun; returns the results."""
    result = os.path.join(folder, f"{name}.json")
    command = ["torchrun", "--nproc_per_node", str(ranks), "-r", "2", "-t", "2", "--rdzv_backend", "c10d",
               "--rdzv_endpoint", "localhost:0", os.path.join(FOLDERS["examples"], "train.py"), *words,
               "--json", result]
    status, text = finish(start_process(command, env=environment()))
    check(status == 0, f"{' '.join(command)}\nended with {status}\n{text}")
    with open(result, encoding="utf-8") as file:
        return json.load(file)


def check_training(*words):
    """Loss and NICs that die change no bit."""
    with tempfile.TemporaryDirectory() as folder:
        clean = train("clean", folder, *words)
        faulty = train("faulty", folder, *words, "--loss", "0.01", "--nic-dies", "1")
    check(clean["losses"][-1] < clean["losses"][0], f"it has learnt nothing: {clean['losses']}")
    check(sum(nic["packets_lost"] for nic in faulty["nics"]) > 0, f"nothing was lost: {faulty['nics']}")
    check(clean["losses"] == faulty["losses"] and clean["checksum"] == faulty["checksum"],
          f"faults have changed the result:\n{clean}\n{faulty}")


@case(name="training, gpt")
def training_gpt():
    check_training("--model", "gpt", "--steps", "60", "--batch", "2", "--bucket-mb", "1")


@case(name="training, digits")
def training_digits():
    check_training("--model", "digits", "--steps", "400", "--bucket-mb", "0.1")


def main():
    words = sys.argv[1:]
    if words[:1] != ["--list"]:
        FOLDERS.update(build=os.path.dirname(os.path.abspath(words[0])), examples=os.path.abspath(words[1]))
        words = words[2:]
        probe = subprocess.run([sys.executable, "-c", "import torch, sklearn"], check=False, capture_output=True)
        if probe.returncode != 0:
            print(Skipped("PyTorch or scikit-learn is missing (./setup.sh torch)"))
            return 77
    return run_cases(words)


if __name__ == "__main__":
    sys.exit(main())
