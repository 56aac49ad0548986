# SPDX-License-Identifier: Apache-2.0
"""Shared by all scripts of cases: the cases and their tiers, the one time limit, and waiting.

A script marks its cases with @case, and those of continuous integration's gate with
@case(gate=True). A case of the gate takes a few seconds, and checks no duration.

    SCRIPT --list          all cases
    SCRIPT --list gate     those of the gate
    SCRIPT --list deep     the others
"""

import os
import re
import select
import signal
import subprocess
import time

# A case that takes longer hangs. The limit ends only hangs, since on a quiet machine the longest
# case takes less than a tenth of it. The TIMEOUT of ctest must be longer, so that the case can
# print its output.
HANG_LIMIT_S = 600
SKIPPED = 77
CASES = {}
GATE = set()
POLL_S = 0.02
STARTED = []  # the processes of the case that runs now
_now = {"case": None, "end": None}  # the case that runs, and when it counts as hanging


def case(function=None, *, gate=False, name=None):
    """Registers a case under a name, or under that of its function."""
    def register(one):
        CASES[name or one.__name__] = one
        if gate:
            GATE.add(name or one.__name__)
        return one
    return register(function) if function else register


class Failed(Exception):
    pass


class Skipped(Exception):
    """Something that the case needs is missing."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def list_cases(words):
    """The lines of `--list [gate|deep]`."""
    tiers = {(): list(CASES), ("gate",): [name for name in CASES if name in GATE],
             ("deep",): [name for name in CASES if name not in GATE]}
    return "\n".join(tiers[tuple(words)])


def runs_in_gate():
    """Whether the case that runs now belongs to the gate."""
    return _now["case"] in GATE


def time_left():
    """The seconds until the case that runs now counts as hanging."""
    return max(_now["end"] - time.monotonic(), 0)


def wait_for(condition, what, process=None):
    """Waits until the condition holds; returns its value. `process` must not end before."""
    while True:
        found = condition()
        if found:
            return found
        check(process is None or process.poll() is None, f"ended before there was {what}")
        check(time_left() > 0, f"waited in vain for {what}")
        select.select([], [], [], POLL_S)


def let_pass(seconds):
    """Lets time pass, for a case about what happens meanwhile."""
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > end, "time to pass")


def from_a_terminal():
    """For preexec_fn: signals act as on a program that a person starts, whoever started the tests."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def from_a_supervisor():
    """For preexec_fn: supervisors and services ignore SIGCHLD and block signals, and programs inherit both."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})


def start_process(command, **options):
    """Starts a process whose standard output and error read_until() and finish() read together."""
    options.setdefault("preexec_fn", from_a_terminal)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    process.unread = b""
    STARTED.append(process)
    return process


def read_some(process):
    """Adds new output to process.unread; False at the end of the output."""
    readable, _, _ = select.select([process.stdout], [], [], min(time_left(), 1))
    if not readable:
        return True
    block = os.read(process.stdout.fileno(), 65536)
    process.unread += block
    return block != b""


def text_of(data):
    return data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def read_until(process, pattern):
    """Reads until a whole line matches; returns the text up to that line. finish() returns the rest."""
    seen = 0
    while True:
        for line in process.unread[seen:].splitlines(keepends=True):
            if not line.endswith((b"\n", b"\r")):
                break
            seen += len(line)
            if re.search(pattern, text_of(line)):
                text, process.unread = text_of(process.unread[:seen]), process.unread[seen:]
                return text
        check(time_left() > 0, f"no line like '{pattern}':\n{text_of(process.unread)}")
        check(read_some(process), f"ended early:\n{text_of(process.unread)}")


def finish(process):
    """Waits for the end; returns the exit status and the output that read_until() has left."""
    while read_some(process):
        check(time_left() > 0, f"no end within {HANG_LIMIT_S} s:\n{text_of(process.unread)}")
    try:
        status = process.wait(timeout=time_left())
    except subprocess.TimeoutExpired as hang:
        raise Failed(f"no end within {HANG_LIMIT_S} s:\n{text_of(process.unread)}") from hang
    process.stdout.close()
    return status, text_of(process.unread)


def all_children(pid):
    """All processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


def all_of_session(leader):
    """All processes of the session that a process began (start_new_session), those that have ended too."""
    found = []
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(pid)
    return found


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def gone(pids):
    return all(is_gone(pid) for pid in pids)


def end_started():
    """Ends what a failed case may have left: first asks the launchers, then kills them."""
    for process in STARTED:
        if process.poll() is None:
            process.terminate()
    for process in STARTED:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    STARTED.clear()


def run_case(name):
    """Runs one case; returns the exit status that it gives the script."""
    begun = time.monotonic()
    _now.update(case=name, end=begun + HANG_LIMIT_S)
    try:
        CASES[name]()
    except Skipped as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(f"{name}: {failure}")
        return 1
    finally:
        end_started()
    print(f"{name}: ok, {time.monotonic() - begun:.1f} s", flush=True)
    return 0


def run_cases(words):
    """A script's main: `--list [TIER]`, or the cases that `words` name (all of them)."""
    if words[:1] == ["--list"]:
        print(list_cases(words[1:]))
        return 0
    skipped = 0
    for name in words or CASES:
        status = run_case(name)
        if status not in (0, SKIPPED):
            return status
        skipped = skipped or status
    return skipped
