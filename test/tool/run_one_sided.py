# SPDX-License-Identifier: Apache-2.0
"""Cases of run_test.py: workloads on the memory of peers."""

import os
import re
import signal

from cases import case, check, finish, read_until
from run_harness import IMPATIENT, RUNNING, all_ranks, check_failure, check_living_are_not_blamed, run, start

# Sizes with which a step takes about a second on a slow machine.
WORKLOADS = {"put": 64, "get": 64, "atomics": 16, "moe-dispatch": 4096}
KINDS = {"put": {"write"}, "get": {"read"}, "moe-dispatch": {"write"},
         "atomics": {"fetching_add", "plain_add", "compare_and_swap"}}
COUNTERS = {"put": ("writes_completed", "writes_placed"), "get": ("reads_completed", "reads_answered"),
            "moe-dispatch": ("writes_completed", "writes_placed"), "atomics": ("atomics_completed", "atomics_executed")}
TASKS = {"put": {"put": 4}, "get": {"get": 4}, "atomics": {"atomics": 2}, "moe-dispatch": {"dispatch": 64, "combine": 64}}


def of(workload, *arguments, ranks=4, nics=2, steps=2):
    return ["--workload", workload, "--scale", str(WORKLOADS[workload]), "--ranks", str(ranks), "--nics", str(nics),
            "--steps", str(steps), *arguments]


def check_operations(workload, output, report, steps=2):
    """Checks the rows of the report: all kinds of operations and tasks, and as many as there must be."""
    rows = report["operations"]
    check({row["kind"] for row in rows} == KINDS[workload], f"{rows}\n{output}")
    for row in rows:
        check(0 < row["p50_ns"] <= row["p99_ns"] <= row["longest_ns"] and row["per_s"] > 0, str(row))
        check(re.search(rf"^{row['kind']} +(before +|during +|after +)?{row['n']} ", output, re.M), f"{row}\n{output}")
    tasks = {}
    for row in report["collectives"]:
        tasks[row["operation"]] = tasks.get(row["operation"], 0) + row["n"]
    check(tasks == {name: n * steps for name, n in TASKS[workload].items()}, f"{tasks}\n{output}")
    counters = report["counters"]
    check(all(counters[name] > 0 for name in COUNTERS[workload]), f"{counters}\n{output}")


@case(gate=True)
def one_sided_workloads_on_a_lossy_network():
    for workload in WORKLOADS:
        output, report = run(of(workload, "--loss", "0.02", "--duplicate", "0.01", "--reorder", "0.05"))
        check_operations(workload, output, report)
        check(report["counters"]["packets_lost"] > 0, output)
        check(report["verified_bytes"] > 0 and "nothing leaked" in output, output)


@case
def one_sided_workloads_without_faults():
    for workload in WORKLOADS:
        output, report = run(of(workload, ranks=3, steps=1))
        check_operations(workload, output, report, steps=1)


@case(gate=True)
def one_sided_workloads_while_nics_die_and_return():
    for workload in WORKLOADS:
        output, report = run(of(workload, "--kill-nic", "0@1/6:event", "--kill-nic", "1.1@0.4", "--revive-nic", "0@3/6:event",
                                "--revive-nic", "1.1@0.8", nics=3, steps=6))
        check_operations(workload, output, report, steps=6)
        parts = {row["faults"] for row in report["operations"]}
        check(parts == {"before", "during", "after"}, f"{parts}\n{output}")
        check(report["counters"]["paths_down"] > 0, output)


@case
def one_sided_workloads_with_engine_threads():
    for workload in WORKLOADS:
        output, report = run(of(workload, "--threads", "1", "--loss", "0.01"))
        check_operations(workload, output, report)


@case
def one_sided_workloads_of_one_rank():
    for workload in WORKLOADS:
        output, report = run(of(workload, ranks=1, nics=1, steps=1))
        check(not report["operations"] and report["counters"]["messages_sent"] == 0, output)


@case
def experts_that_no_rank_count_divides():
    for ranks in (3, 6):
        output, report = run(of("moe-dispatch", "--loss", "0.01", ranks=ranks, steps=1))
        check_operations("moe-dispatch", output, report, steps=1)


@case
def rank_dies_in_one_sided_workloads():
    for workload in WORKLOADS:
        status, output = finish(start(of(workload, "--kill-rank", "2@0.6", *IMPATIENT, steps=4)))
        check_living_are_not_blamed(output, 2, (0, 1, 3))
        check(status == 3, f"{workload}: exit status {status}:\n{output}")
        check_failure(output, 2, (0, 1, 3))


@case
def rank_killed_from_outside_in_one_sided_workloads():
    for workload in WORKLOADS:
        process = start(of(workload, *IMPATIENT, steps=5000))
        ranks = all_ranks(process, 4)
        output = read_until(process, RUNNING)
        os.kill(ranks[3], signal.SIGKILL)
        status, rest = finish(process)
        output += rest
        check_living_are_not_blamed(output, 3, (0, 1, 2))
        check(status == 3, f"{workload}: exit status {status}:\n{output}")
        check_failure(output, 3, (0, 1, 2))


@case(gate=True)
def rank_started_again_in_one_sided_workloads():
    for workload in WORKLOADS:
        output, report = run(of(workload, "--restart-rank", "2@0.55", steps=4))
        check(len(report["recoveries"]) == 1 and "was repeated" in report["recoveries"][0], output)
        check_operations(workload, output, report, steps=4)
