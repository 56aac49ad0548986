# SPDX-License-Identifier: Apache-2.0
"""Tests `hawser storm` itself: exit statuses, files, Ctrl-C, and a failing seed made a small plan.

    storm_command_test.py HAWSER CASE      storm_command_test.py --list
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from cases import all_children, case, check, finish, read_until, start_process, time_left, wait_for
from run_harness import COMMAND, main

FAILS = ["--seek", "session_state:failed"]  # a storm in which a session fails counts as a failure


def storm(*arguments):
    done = subprocess.run([*COMMAND, "storm", *arguments], capture_output=True, text=True, timeout=time_left(),
                          check=False)
    return done.returncode, done.stdout, done.stderr


def start(*arguments, **options):
    return start_process([*COMMAND, "storm", *arguments], **options)


def failing_seed():
    code, out, _ = storm("--seeds", "1..2000", *FAILS)
    check(code == 1, f"exit {code}: {out}")
    found = re.search(r"look at it:  (\S+) storm --seed (\d+) --seek session_state:failed --trace\n", out)
    check(found, f"no command to look at it:\n{out}")
    check([found.group(1)] == COMMAND, f"the command is called {found.group(1)}")
    check(f"--seed {found.group(2)} --seek session_state:failed --shrink\n" in out, out)
    return found.group(2)


@case(gate=True)
def bad_options_are_refused_at_once():
    for arguments, says in (
        (["--seeds", "5..1"], "end before they begin"),
        (["--seeds", "a..b"], "is not a number"),
        (["--seeds", "-3..5"], "is not a number"),
        (["--seeds", "1..9", "--jobs", "0"], "--jobs"),
        (["--seeds", "1..9", "--json", "/nonexistent/x"], "cannot write"),
        (["--seed", "1", "--trace", "/nonexistent/x"], "cannot write"),
        (["--plan", "/nonexistent/x"], "cannot read"),
        (["--plan", "/proc/self/mem"], "cannot read the plan '/proc/self/mem': Input/output error"),
        (["--plan", sys.argv[0]], "is not a plan"),
        (["--seed", "5", "--shrink", os.devnull], "no failure to shrink"),
        (["--plan", "/tmp"], "'/tmp' is a folder, not a plan"),
        (["--seed", ""], "is not a number"),
        (["--seeds", ""], "is not a number"),
        (["--seed", "5..3"], "--seeds 5..3"),
        ([], "no storm is chosen"),
        (["--nonsense"], "--nonsense"),
    ):
        code, out, err = storm(*arguments)
        check(code == 2, f"{arguments}: exit {code}\n{out}\n{err}")
        check(says in err + out, f"{arguments}: {out}\n{err}")
        check("runs/s" not in out, f"{arguments}: it ran")
    code, out, _ = storm("--help")
    check(code == 0 and "--keep-going" in out, out)


@case(gate=True)
def a_swarm_tells_its_figures():
    code, out, err = storm("--seeds", "1..40", "--jobs", "2", "--json", "-")
    check(code == 0, f"exit {code}: {err}")
    figures = json.loads(out)
    check(figures["seeds_done"] == 40 and figures["failures"] == 0, out)
    check(figures["quantities"]["packets"]["count"] == 40, "40 seeds have 40 numbers of packets")
    check(re.fullmatch(r"[0-9a-f]{7,40}(\+changes)?|unknown", figures["commit"]), figures["commit"])
    check("no failure" in err and "marks" in err, err)


@case(gate=True)
def the_same_seed_is_the_same_run():
    digests = {re.search(r"digest (\w+)", storm("--seed", "7")[1]).group(1) for _ in range(2)}
    check(len(digests) == 1, f"{digests}")
    check(re.search(r"digest (\w+)", storm("--seed", "8")[1]).group(1) not in digests, "of another seed")


@case
def keep_going_counts_failures():
    code, out, _ = storm("--seeds", "1..60", "--keep-going", *FAILS)
    check(code == 1, f"exit {code}: {out}")
    check(re.search(r"\d+ of 60 seeds FAILED", out), out)
    check(re.search(r"\d+ x visited session_state:failed\n    seeds? \d+", out), out)


@case
def the_time_ends_a_swarm():
    code, out, err = storm("--seeds", "1..100000000", "--seconds", "1", "--keep-going", "--jobs", "2", "--limit", "50")
    check(code == 0, f"exit {code}: {out}{err}")
    check(re.search(r"to go on: \S+ storm --seeds \d+\.\.100000000 --limit 50 --jobs 2 --keep-going --seconds 1\n", out),
          out)


@case
def too_many_workers_are_fewer():
    code, out, err = storm("--seeds", "1..100000000", "--seconds", "1", "--jobs", "1024")
    check(code == 0, f"exit {code}: {out}{err}")
    processors = len(os.sched_getaffinity(0))
    check(f"{4 * processors} workers instead of 1024: four for each processor\n" in out or processors >= 256, out)
    check(re.search(r"seeds in [0-9.]+ s", out), out)


@case
def a_report_that_is_not_written_is_told():
    for arguments in (["--seed", "5"], ["--seeds", "1..3"], ["--seed", "5", "--json", "-"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([*COMMAND, "storm", *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=time_left(), check=False)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}: {done.stderr}")
        check("cannot write" in done.stderr, f"{arguments}: {done.stderr}")


@case
def a_failure_counts_more_than_a_report_that_is_not_written():
    seed = failing_seed()
    code, out, err = storm("--seed", seed, *FAILS, "--shrink", "/dev/full")
    check(code == 1 and "cannot write the plan to '/dev/full'" in err and "left: " not in out, f"exit {code}\n{out}{err}")
    for arguments in (["--seed", seed], ["--seeds", f"{seed}..{seed}"]):
        code, out, err = storm(*arguments, *FAILS, "--json", "/dev/full")
        check(code == 1 and "cannot write the figures to '/dev/full'" in err, f"{arguments}: exit {code}\n{out}{err}")
        check("visited session_state:failed" in out, f"{arguments}: {out}")
        code, out, err = storm(*arguments, "--json", "/dev/full")
        check(code == 2 and "cannot write the figures to '/dev/full'" in err, f"{arguments}: exit {code}\n{out}{err}")
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "x")
        os.symlink("/dev/full", f"{trace}.txt")
        for extra, expected in ((FAILS, 1), ([], 2)):
            code, out, err = storm("--seed", seed, *extra, "--trace", trace)
            check(code == expected and f"cannot write the timeline to '{trace}.txt'" in err, f"exit {code}\n{out}{err}")
            check("digest" in out and "timeline in" not in out, out)


@case(gate=True)
def figures_go_through_a_pipe():
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)
        reader = start_process(["cat", pipe])
        process = start("--seed", "7", "--json", pipe)
        code, out = finish(process)
        check(code == 0, f"exit {code}: {out}")
        check(json.loads(finish(reader)[1])["seed"] == 7, "the figures")


def interrupt(arguments, after):
    """Sends Ctrl-C when a line says `after`, or, if that is empty, when a storm runs."""
    process = start(*arguments)
    if after:
        read_until(process, re.escape(after))
    else:  # once it has a child it also has a handler for the signal
        wait_for(lambda: all_children(process.pid), "a storm", process)
    process.send_signal(signal.SIGINT)
    return finish(process)


@case
def ctrl_c_ends_a_single_storm():
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "long.plan.json")
        write_long_plan(plan)
        code, out = interrupt(["--plan", plan], "")
        check(code == 130, f"exit {code}: {out}")
        check("interrupted" in out, out)


def write_long_plan(name):
    """Writes the plan of a storm that takes seconds: very many messages over undisturbed cables."""
    code, out, err = storm("--seed", "1", "--seek", "session_state:ready", "--shrink", name, "--shrink-runs", "1")
    check(code == 1, f"exit {code}: {out}{err}")
    with open(name, encoding="utf-8") as file:
        plan = json.load(file)
    one = plan["plan"]["messages"][0]
    plan["plan"]["faults"] = plan["plan"]["closings"] = plan["plan"]["calls"] = []
    plan["plan"]["heals_at_ns"] = 0
    plan["plan"]["messages"] = [dict(one, bytes=12000, cancelled_after_ns=0) for _ in range(20000)]
    plan["plan"]["receives"] = []
    with open(name, "w", encoding="utf-8") as file:
        json.dump(plan, file)


@case
def ctrl_c_ends_shrinking_with_what_there_is():
    seed = failing_seed()
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "small.plan.json")
        code, out = interrupt(["--seed", seed, *FAILS, "--shrink", plan], "shrinking")
        check(code == 1, f"what was found comes first: exit {code}: {out}")
        check(os.path.getsize(plan) > 0 and "left: " in out, out)


@case(gate=True)
def ctrl_c_ends_a_swarm_with_its_figures():
    process = start("--seeds", "1..100000000")
    read_until(process, "")  # the first line of progress
    process.send_signal(signal.SIGINT)
    code, out = finish(process)
    check(code == 130, f"exit {code}: {out}")
    check("interrupted" in out and "visited" in out, out)


@case
def sigterm_to_all_processes_is_no_failure_of_a_storm():
    process = start("--seeds", "1..100000000", start_new_session=True)
    read_until(process, "")  # the first line of progress
    os.killpg(process.pid, signal.SIGTERM)
    code, out = finish(process)
    check(code == 130, f"exit {code}: {out}")
    check("interrupted" in out and "FAILED" not in out, out)


@case
def from_a_seed_to_a_small_plan():
    seed = failing_seed()
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "small.plan.json")
        code, out, err = storm("--seed", seed, *FAILS, "--shrink", plan)
        check(code == 1, f"exit {code}: {out}{err}")
        check(f"--plan {plan}" in out, out)
        with open(plan, encoding="utf-8") as file:
            small = json.load(file)["plan"]
        check(len(small["faults"]) <= 2, f"{len(small['faults'])} faults")
        check(len(small["messages"]) <= 2, f"{len(small['messages'])} messages")
        check(len(small["hosts"]) <= 3, f"{len(small['hosts'])} hosts")
        runs = [storm("--plan", plan, *FAILS)[1] for _ in range(2)]
        check("visited session_state:failed" in runs[0], runs[0])
        check(re.search("digest.* events", runs[0]).group() == re.search("digest.* events", runs[1]).group(), runs)
        code, out, err = storm("--plan", plan, *FAILS, "--trace")
        check(code == 1, f"exit {code}: {out}{err}")
        with open(os.path.join(folder, "small.txt"), encoding="utf-8") as file:
            text = file.read()
        check("FAILED" in text and text.endswith("verdict: visited session_state:failed\n"), text)
        with open(os.path.join(folder, "small.json"), encoding="utf-8") as file:
            check(json.load(file)["traceEvents"], "there are no events")


if __name__ == "__main__":
    sys.exit(main())
