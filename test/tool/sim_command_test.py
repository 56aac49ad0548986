# SPDX-License-Identifier: Apache-2.0
"""Tests `hawser sim` itself: exit statuses, messages about wrong plans, files, signals, the report.

    sim_command_test.py HAWSER CASE      sim_command_test.py --list

A case that can't run here says why and ends with 77.
"""

import csv
import glob
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from cases import STARTED, Skipped, all_children, case, check, from_a_supervisor, from_a_terminal, gone, time_left, wait_for
from png_pixels import pixels
from run_harness import COMMAND, main

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = os.path.join(HERE, "experiments", "small.json")
PLANS = os.path.join(HERE, "..", "..", "bench", "plans")
BESIDE = {"bytes": 100000, "load_percent": 10, "gbps": 100, "duration_us": 100}
RESULTS = ["flows.csv", "report.html", "runs.csv", "series.csv"]


def sim(*arguments, workloads=None):
    environment = {name: value for name, value in os.environ.items() if name != "HAWSER_WORKLOADS"}
    if workloads:
        environment["HAWSER_WORKLOADS"] = workloads
    done = subprocess.run([*COMMAND, "sim", *arguments], capture_output=True, text=True, timeout=time_left(),
                          check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


def small():
    with open(SMALL, encoding="utf-8") as file:
        return json.load(file)


def write(folder, plan, name="plan.json"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(plan if isinstance(plan, str) else json.dumps(plan))
    return path


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def rows(folder, name):
    with open(os.path.join(folder, name), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def changed(plan, path, value):
    """Sets the value at a path of keys, such as fabric.gbps; None removes the key."""
    at = plan
    keys = path.split(".")
    for key in keys[:-1]:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if value is None:
        del at[keys[-1]]
    else:
        at[int(keys[-1]) if isinstance(at, list) else keys[-1]] = value
    return plan


@case(gate=True)
def wrong_plans_are_refused_with_a_sentence():
    with tempfile.TemporaryDirectory() as folder:
        for path, value, says in (
            ("windows", 3, "there is no key 'windows'"),
            ("fabric.colour", "red", "fabric: there is no key 'colour'"),
            ("faults.0.colour", "red", "faults[0]: there is no key 'colour'"),
            ("traffic.window", 4, "traffic: 'permutation' has no 'window'"),
            ("question", None, "'question' is missing"),
            ("metric", "speed", "metric: one of these is expected: last_flow_us, "),
            ("expect", {"at_least": 5, "source": "x"}, "expect: 'at_most' is missing"),
            ("expect.at_most", "5", "expect.at_most: a number is expected"),
            ("seeds", {"tune": "1..12", "judge": "11..12"}, "seeds: tune and judge have 11 in common"),
            ("seeds.judge", "12..11", "they end before they begin"),
            ("seeds.judge", 5, "seeds.judge: a text is expected"),
            ("fabric.gbps", 0, "fabric.gbps: 0 is not 1 to 10000"),
            ("fabric.gbps", -5, "fabric.gbps: a whole number of 0 or more is expected"),
            ("fabric.shape", "torus", "fabric.shape: one of these is expected: one_switch, leaf_spine, fat_tree"),
            ("fabric.topology", "a.topo", "fabric: either 'topology', a file, or 'shape' is expected"),
            ("fabric.ports_per_leaf", 8000, "fabric: 16000 hosts, but an experiment has at most 8192"),
            ("fabric.nics", 3, "fabric.nics: 8 ports can't be shared by hosts of 3 NICs"),
            ("fabric.placement", "anywhere", "fabric.placement: one of these is expected: together, rails, planes"),
            ("fabric.queue_bytes", 100, "fabric.queue_bytes: 100 is less than a packet"),
            ("fabric.mark_max_bytes", None, "mark_min_bytes and mark_max_bytes are given together, or not at all"),
            ("fabric.mark_min_bytes", 90000, "90000 is more than 80000"),
            ("traffic.generator", "storm", "traffic: there is no generator 'storm'"),
            ("traffic.matrix", "a.cm", "traffic: either 'matrix', a file, or 'generator' is expected"),
            ("faults.0.link", "leaf 0 -> spine 9", "the fabric has no link 'leaf 0 -> spine 9'"),
            ("faults.0.drawn", 2, "faults[0]: one of these is expected: 'link', a name; 'drawn'"),
            ("faults.0.host", 0, "faults[0]: one of these is expected: 'link', a name; 'drawn'"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "host": 0}, "faults[0]: 'nics' is missing"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "host": 8, "nics": 1}, "the fabric has no host 8"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "host": 0, "nics": 2}, "2 NICs can't be hit, as a host has only 1"),
            ("faults.0.nics", 1, "faults[0]: there is no key 'nics'"),
            ("faults.0.ways", "back", "faults[0].ways: one of these is expected: both, from, to"),
            ("faults.0", {"kind": "switch_down", "at_us": 1, "switch": "leaf 0", "ways": "to"}, "no key 'ways'"),
            ("faults.0", {"kind": "link_rate", "at_us": 1, "drawn": 1, "gbps": 5, "silent": True}, "no key 'silent'"),
            ("faults.0.times", 2, "faults[0]: times and every_us are given together, or not at all"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "drawn": 1, "times": 2, "every_us": 5},
             "faults[0].every_us: a fault must end before it repeats"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "drawn": 1, "lasts_us": 5, "times": 2, "every_us": 5},
             "faults[0].every_us: a fault must end before it repeats"),
            ("faults.0.kind", "link_gone", "faults[0].kind: one of these is expected: link_down, "),
            ("faults.0", {"kind": "link_rate", "at_us": 1, "drawn": 1}, "faults[0]: 'gbps' is missing"),
            ("faults.0", {"kind": "switch_down", "at_us": 1, "switch": "core 1"}, "no switch 'core 1'"),
            ("faults.0.link", "", "faults[0].link: a name is expected"),
            ("faults.0", {"kind": "switch_down", "at_us": 1, "switch": ""}, "faults[0].switch: a name is expected"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "drawn": 1, "lasts_us": 1, "times": 10000, "every_us": 1e9},
             "faults[0].every_us: with at_us and lasts_us, the last of 10000 ends after 1000000000 us"),
            ("faults.0", {"kind": "link_down", "at_us": 1, "drawn": 1, "lasts_us": 1e9},
             "faults[0].lasts_us: with at_us, it ends after 1000000000 us"),
            ("senders", ["hawser", "pigeon"], "senders: there is no 'pigeon'; there are hawser, "),
            ("senders", [], "senders: there is none"),
            ("hints", "many", "hints: one of these is expected: none, receives, all"),
            ("traffic.group", True, "traffic.group: it belongs to a 'matrix'"),
            ("traffic.priority", 256, "traffic.priority: "),
            ("traffic.beside", 5, "traffic.beside: an object is expected"),
            ("traffic.beside", {}, "traffic.beside: the numbers of a background are expected"),
            ("traffic.beside", {"bytes": 5}, "traffic.beside: 'background' needs 'load_percent'"),
            ("traffic.beside", {**BESIDE, "bytes": 0}, "traffic.beside: 'bytes' is 0, but must be 1 to 16777216"),
            ("traffic.beside", {**BESIDE, "bytes": 10**9}, "traffic.beside: 'bytes' is 1000000000, but must be 1 to 16777216"),
            ("traffic.beside", {**BESIDE, "window": 1}, "traffic.beside: 'background' has no 'window'"),
            ("ranges.0", {"key": "fabric", "values": [1]}, "fabric: an object is expected"),
            ("ranges.0.values", [], "ranges[0].values: there are none"),
            ("ranges.0.values", [False, True, False], "ranges[0].values: false occurs twice"),
            ("ranges", [{"key": "traffic.bytes", "values": [5]}, {"key": "traffic", "values": [{}]}],
             "ranges[1].key: 'traffic' is set as a whole, and 'traffic.bytes' of it is a range, too"),
            ("ranges", [{"key": "faults.0", "values": [{}]}, {"key": "faults.0.at_us", "values": [5]}],
             "ranges[1].key: 'faults.0' is set as a whole, and 'faults.0.at_us' of it is a range, too"),
            ("ranges", [{"key": "faults.0.at_us", "values": [1]}, {"key": "faults.00.at_us", "values": [2]}],
             "the plan has no '00' for the range 'faults.00.at_us'"),
            ("ranges.0.key", "seeds.judge", "'seeds.judge' can't be a range"),
            ("ranges.0.key", "faults.7.at_us", "the plan has no '7' for the range 'faults.7.at_us'"),
            ("ranges.0.key", "fabric.colour", "fabric: there is no key 'colour'"),
            ("ranges", [{"key": f"fabric.{n}", "values": [1]} for n in "abc"], "at most two keys can be ranges"),
            ("limit_ms", 0, "limit_ms: 0 is not 1 to 1000000"),
        ):
            name = write(folder, changed(small(), path, value))
            code, out, err = sim(name, "--to", os.path.join(folder, "out"))
            check(code == 2, f"{path} = {value}: exit {code}\n{out}{err}")
            check(says in err, f"{path} = {value}: expected '{says}' in\n{err}")
            check(not os.path.exists(os.path.join(folder, "out")), f"{path} = {value}: it ran")
        for text, says in (("{", "is not a plan"), ("[]", "an object is expected"),
                           ('{"metric": 1, "metric": 2}', "the key 'metric' occurs twice"),
                           (json.dumps(small()) + "\0x", "byte 755 is a NUL, which a plan can't contain"),
                           ('{"ranges": [{"key": "hints", "values": [' + "[" * 500000 + "]" * 500000 + "]}]}",
                            "lists and objects are nested more than 32 deep")):
            code, out, err = sim(write(folder, text))
            check(code == 2 and says in err, f"{text[:999]}: exit {code}\n{out}{err}")


@case
def messages_of_a_matrix_can_be_a_group():
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f"{i}->7 start 0 size 300000\n" for i in range(7))
        write(folder, f"Nodes 8\nConnections 7\n{lines}", "in.cm")
        plan = changed(changed(small(), "traffic", {"matrix": "in.cm"}), "faults", [])
        plan["ranges"] = [{"key": "traffic.group", "values": [False, True]}]
        plan["senders"] = ["hawser", "hawser:no_hints"]
        code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"), "--seeds", "11")
        check(code == 0, f"exit {code}\n{out}{err}")
        digests = {(row["traffic.group"], row["sender"]): row["digest"] for row in rows(os.path.join(folder, "out"), "runs.csv")}
        check(digests["true", "hawser"] != digests["false", "hawser"], "it reaches who sends with hints")
        check(digests["true", "hawser:no_hints"] == digests["false", "hawser:no_hints"], "and nobody else")
        for group, line, says in ((1, "", "traffic.group: "), ("yes", "", "traffic.group: "),
                                  (True, "start 5", "'group': the messages to node 7 don't start at one time")):
            write(folder, f"Nodes 8\nConnections 7\n{lines}".replace("start 0", line or "start 0", 1), "in.cm")
            code, out, err = sim(write(folder, changed(plan, "ranges.0.values", [group])))
            check(code == 2 and says in err, f"{group} {line}: exit {code}\n{out}{err}")


@case
def a_whole_fabric_can_be_a_range():
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "faults", [])
        wide = {**plan["fabric"], "leaves": 4}
        plan["ranges"] = [{"key": "fabric", "values": [plan["fabric"], wide]}]
        code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"), "--seeds", "11")
        check(code == 0, f"exit {code}\n{out}{err}")
        runs = rows(os.path.join(folder, "out"), "runs.csv")
        counts = [sum(flow["run"] == row["run"] for flow in rows(os.path.join(folder, "out"), "flows.csv")) for row in runs]
        check(counts == [8, 8, 16, 16], f"flows of each run: {counts}")


@case(gate=True)
def bad_options_are_refused():
    for arguments, says in (([], "PLAN"), (["/nonexistent/x.json"], "cannot read a plan"),
                            (["/proc/self/mem"], "cannot read a plan '/proc/self/mem': Input/output error"),
                            (["/tmp"], "'/tmp' is a folder, not a plan"), ([SMALL, "--jobs", "0"], "--jobs"),
                            ([SMALL, "--to", ""], "--to needs the name of a folder"),
                            ([SMALL, "--seeds", "x"], "is not a number"),
                            ([SMALL, "--seeds", "10..12"], "the plan's seeds to judge are 11..12"),
                            ([SMALL, "--tune", "--seeds", "11"], "the plan's seeds to tune are 1..3")):
        code, out, err = sim(*arguments)
        check(code == 2 and says in out + err, f"{arguments}: exit {code}\n{out}{err}")
    code, out, _ = sim("--help")
    check(code == 0, f"exit {code}")
    for word in ("--to", "--jobs", "--tune", "--seeds", "--check", "Exit status", "HAWSER_WORKLOADS", "report.html"):
        check(word in out, f"--help does not tell of {word}")


@case(gate=True)
def the_expectation_decides_the_exit_status():
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        code, out, err = sim(SMALL, "--to", to)
        check(code == 0, f"exit {code}\n{out}{err}")
        check("the expectation holds: last_flow_us is " in out, out)
        code, out, err = sim(write(folder, changed(small(), "expect.at_most", 1)), "--to", to)
        check(code == 1, f"exit {code}\n{out}{err}")
        worst = max(float(row["last_flow_us"]) for row in rows(to, "runs.csv") if row["sender"] == "hawser")
        check(f"the expectation does not hold: last_flow_us is {worst:.1f} us at worst (hawser, " in out, out)
        check("at most 1.0 us was expected; for comparison: 32.0 us (the NICs' time for 400 kB, by hand)" in out, out)
        # A sender that nobody can hear any more.
        plan = changed(small(), "faults", [{"kind": "link_down", "at_us": 1, "link": "host 0 nic 0 -> leaf 0"}])
        plan["limit_ms"] = 3
        code, out, err = sim(write(folder, plan), "--to", to)
        check(code == 1 and re.search(r"last_flow_us has no value, as \d of 8 flows ended", out), f"{code}\n{out}{err}")
        check({row["outcome"] for row in rows(to, "runs.csv")} == {"not all ended"}, "outcomes")


@case
def more_of_goodput_is_better():
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "metric", "goodput")
        for bound, expected in ((1, 0), (10000, 1)):
            plan["expect"] = {"at_least": bound, "source": "by hand"}
            code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"))
            check(code == expected, f"{bound}: exit {code}\n{out}{err}")
        check("at least 10000.0 Gb/s was expected" in out, out)


@case
def runs_are_the_same_whatever_the_number_of_processes():
    with tempfile.TemporaryDirectory() as folder:
        for jobs in ("1", "2", "7"):
            code, out, err = sim(SMALL, "--jobs", jobs, "--to", os.path.join(folder, jobs))
            check(code == 0, f"exit {code}\n{out}{err}")
        for name in ("runs.csv", "flows.csv", "series.csv"):
            check(content(folder, "1", name) == content(folder, "2", name), f"{name} differs")
            check(content(folder, "1", name) == content(folder, "7", name), f"{name} differs")
        runs = rows(os.path.join(folder, "1"), "runs.csv")
        check([row["run"] for row in runs] == [str(i) for i in range(1, 9)], "2 points x 2 senders x 2 seeds")
        check(len({row["digest"] for row in runs}) == 8, "all runs differ")
        check([row["fabric.adaptive"] for row in runs] == ["false"] * 4 + ["true"] * 4, "points")
        flows = rows(os.path.join(folder, "1"), "flows.csv")
        check(len(flows) == 8 * 8, f"{len(flows)} flows")
        last = max(float(flow["ended_us"]) for flow in flows if flow["run"] == "3")
        check(float(runs[2]["last_flow_us"]) == last, "the last flow's end")
        series = rows(os.path.join(folder, "1"), "series.csv")
        check(len(series) == 8 * 200, f"{len(series)} slices")
        one = [row for row in series if row["run"] == "1"]
        check(sum(int(row["bytes"]) for row in one) > 8 * 400_000, "less came than was sent")
        check(sum(int(row["fault"]) for row in one) == 2, "a fault begins and ends")


@case
def seeds_can_be_chosen():
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        for arguments, seeds in ((["--tune"], {"1", "2", "3"}), (["--seeds", "12"], {"12"}),
                                 (["--tune", "--seeds", "2..3"], {"2", "3"})):
            code, out, err = sim(SMALL, "--to", to, *arguments)
            check(code == 0, f"exit {code}\n{out}{err}")
            check({row["seed"] for row in rows(to, "runs.csv")} == seeds, f"{arguments}")


@case(gate=True)
def results_go_to_their_folder_and_touch_nothing_else():
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        os.mkdir(to)
        write(to, "mine", "notes.txt")
        write(to, "old", "runs.csv")
        code, out, err = sim(SMALL, "--to", to)
        check(code == 0, f"exit {code}\n{out}{err}")
        check(sorted(os.listdir(to)) == sorted(RESULTS + ["notes.txt"]), f"{os.listdir(to)}")
        check(content(to, "notes.txt") == b"mine" and content(to, "runs.csv") != b"old", "files")
        check(f"in '{to}': runs.csv, flows.csv, series.csv, report.html" in out, out)
        for bad, says in ((write(folder, "x", "a_file"), "File exists"),
                          ("/nonexistent/x", "No such file or directory"), ("/proc/self", "cannot write")):
            code, out, err = sim(SMALL, "--to", bad)
            check(code == 2 and says in err, f"{bad}: exit {code}\n{out}{err}")
            check("runs" not in out, f"{bad}: it ran")
        done = subprocess.run([*COMMAND, "sim", SMALL], cwd=folder, capture_output=True, timeout=time_left(), check=False)
        check(done.returncode == 0 and sorted(os.listdir(os.path.join(folder, "small"))) == RESULTS, "default folder")


@case
def inputs_are_found_beside_the_plan_or_among_the_workloads():
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "traffic", {"matrix": "in/one.cm", "get": "write it yourself"})
        name = write(folder, plan)
        to = os.path.join(folder, "out")
        code, _, err = sim(name, "--to", to)
        check(code == 2 and f"the plan needs the file 'in/one.cm', which is not in '{folder}'" in err, err)
        check("HAWSER_WORKLOADS names no other folder. To get it: write it yourself" in err, err)
        elsewhere = os.path.join(folder, "elsewhere")
        os.makedirs(os.path.join(elsewhere, "in"))
        code, _, err = sim(name, "--to", to, workloads=elsewhere)
        check(code == 2 and f"nor in '{elsewhere}' (HAWSER_WORKLOADS)" in err, err)
        write(os.path.join(elsewhere, "in"), "Nodes 4\nConnections 1\n0->3 start 0 size 1000\n", "one.cm")
        code, out, err = sim(name, "--to", to, workloads=elsewhere)
        check(code == 0, f"exit {code}\n{out}{err}")
        os.mkdir(os.path.join(folder, "in"))
        write(os.path.join(folder, "in"), "Nodes 4\nConnections 1\n0->3 begin 0\n", "one.cm")
        code, _, err = sim(name, "--to", to, workloads=elsewhere)
        check(code == 2 and "in/one.cm:3: " in err, f"what is beside the plan comes first: {err}")


@case(gate=True)
def a_connection_that_is_too_long_is_refused_before_any_run():
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        plan = write(folder, changed(changed(small(), "traffic", {"matrix": "in.cm"}), "faults", []))

        def lengthen(size):
            write(folder, f"Nodes 4\nConnections 2\n0->1 id 1 start 0 size 5\n2->3 id 2 start 1000 size {size}\n", "in.cm")
        lengthen(1 << 30)
        code, out, err = sim(plan, "--check")
        check(code == 0, f"exit {code}\n{out}{err}")
        for size in ((1 << 30) + 1, 1 << 31):
            lengthen(size)
            for arguments in (["--check"], ["--to", to]):
                code, out, err = sim(plan, *arguments)
                check(code == 2 and f"in.cm:4: a connection of {size} bytes" in err, f"{arguments}, {size}: {code}\n{out}{err}")
            check(not os.path.exists(to), f"{size}: it ran")


@case
def a_verdict_that_is_not_written_is_told():
    with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([*COMMAND, "sim", SMALL, "--to", os.path.join(folder, "out")], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=time_left(), check=False)
        check(done.returncode == 2 and "cannot write to standard output" in done.stderr, f"{done}")


@case
def published_plans_are_plans():
    plans = sorted(glob.glob(os.path.join(PLANS, "*.json")))
    check(len(plans) >= 7, f"{plans}")
    workloads = os.environ.get("HAWSER_WORKLOADS", os.path.join(HERE, "..", "..", "..", "shared", "workloads"))
    for plan in plans:
        code, out, err = sim(plan, "--check", workloads=workloads)
        if b"htsim_cm/" in content(plan) and not os.path.isdir(os.path.join(workloads, "htsim_cm")):
            check(code == 2 and "To get it: of github.com/ultraethernet/uet-htsim" in err, f"{plan}: {code} {err}")
        else:
            check(code == 0 and re.fullmatch(r"\d+ runs: \d+ points, \d senders, seeds \d+..\d+\n", out), f"{plan}: {err}")


def long_plan(folder):
    """A plan of two thousand runs, which the test ends long before they are over."""
    plan = changed(small(), "traffic.bytes", 30_000_000)
    plan["seeds"]["judge"] = "11..510"
    del plan["faults"]
    return write(folder, plan)


def start(folder, to, *arguments, caller=from_a_terminal):
    process = subprocess.Popen([*COMMAND, "sim", long_plan(folder), "--jobs", "2", "--to", to, *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=caller)
    STARTED.append(process)
    return process


def lines_of(path):
    try:
        return content(path).count(b"\n")
    except OSError:
        return 0


@case
def sigterm_leaves_results_of_what_was_done_and_no_process():
    for caller in (from_a_terminal, from_a_supervisor):
        with tempfile.TemporaryDirectory() as folder:
            to = os.path.join(folder, "out")
            process = start(folder, to, caller=caller)
            wait_for(lambda: lines_of(os.path.join(to, "runs.csv.part")) >= 3, "results", process)
            workers = all_children(process.pid)
            os.killpg(process.pid, signal.SIGTERM)
            out, err = process.communicate(timeout=time_left())
            check(process.returncode == 130, f"exit {process.returncode}\n{out}{err}")
            done = int(re.search(r"interrupted after (\d+) of 2000 runs; the results cover the runs that ended", out).group(1))
            check(2 <= done < 2000 and len(rows(to, "runs.csv")) == done, f"{done} done")
            check(sorted(os.listdir(to)) == RESULTS, f"{os.listdir(to)}")
            check(b"It was interrupted." in content(to, "report.html"), "the report does not say so")
            check(gone(workers), "workers are left")


@case
def ctrl_c_before_anything_is_done_leaves_nothing():
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        process = start(folder, to)
        wait_for(lambda: all_children(process.pid), "runs", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=time_left())
        check(process.returncode == 130, f"exit {process.returncode}\n{out}{err}")
        if "interrupted after 0 of 2000 runs; there are no results" in out:
            check(not os.path.exists(to), "a folder without results is left")
        else:  # the machine was busy between the two lines
            check("the results cover the runs that ended" in out, out)


@case
def a_run_that_dies_is_told():
    for caller in (from_a_terminal, from_a_supervisor):
        with tempfile.TemporaryDirectory() as folder:
            to = os.path.join(folder, "out")
            process = start(folder, to, "--seeds", "11", caller=caller)
            workers = wait_for(lambda: all_children(process.pid), "runs", process)
            os.kill(workers[0], signal.SIGKILL)
            out, err = process.communicate(timeout=time_left())
            check(process.returncode == 1, f"exit {process.returncode}\n{out}{err}")
            check("a run died: hawser" in out and "signal 9" in out, out)
            dead = [row for row in rows(to, "runs.csv") if row["outcome"].startswith("died: ")]
            check(len(dead) == 1 and dead[0]["digest"] == "" and dead[0]["last_flow_us"] == "", f"{dead}")
            check(b"a run died" in content(to, "report.html").lower(), "the report does not tell")


@case
def finished_runs_behind_a_slow_one_keep_nothing_open():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "senders", ["hawser"])
        sizes = [100_000_000, *range(4000, 4060)]
        plan["ranges"] = [{"key": "traffic.bytes", "values": sizes}]
        to = os.path.join(folder, "out")
        done = subprocess.run([*COMMAND, "sim", write(folder, plan), "--to", to, "--seeds", "11", "--jobs", "2"],
                              capture_output=True, text=True, timeout=time_left(), check=False, preexec_fn=limit)
        check(done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}")
        check([int(row["traffic.bytes"]) for row in rows(to, "runs.csv")] == sizes, "runs are missing")


@case
def too_few_descriptors_for_all_jobs_cost_no_result():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        done = subprocess.run([*COMMAND, "sim", SMALL, "--to", to, "--jobs", "16"],
                              capture_output=True, text=True, timeout=time_left(), check=False, preexec_fn=limit)
        check(done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}")
        check("concurrent runs instead of 16: " in done.stderr and "(ulimit -n)" in done.stderr, done.stderr)
        check(len(rows(to, "runs.csv")) == 8, "runs are missing")


# ---- the report


def report(folder):
    code, out, err = sim(SMALL, "--to", folder)
    check(code == 0, f"exit {code}\n{out}{err}")
    return os.path.join(folder, "report.html")


@case
def the_report_is_one_file_with_the_figures_of_the_runs():
    with tempfile.TemporaryDirectory() as folder:
        text = content(report(folder)).decode("utf-8")
        tree = xml.etree.ElementTree.fromstring(text)  # well-formed
        for reference in re.findall(r"https?://[^\s\"'<]*", text):
            check(reference == "http://www.w3.org/2000/svg", f"it refers to {reference}")
        for tag in ("script", "link", "img", "iframe", "object", "embed", "image", "use"):
            check(not list(tree.iter(tag)), f"it has <{tag}>")
        check("url(" not in text and "@import" not in text, "its style refers to something")
        plan = small()
        check(tree.find("body/main/h1").text == plan["question"], "its title is the question")
        check("The expectation holds: last_flow_us is" in text, "the verdict")
        for fact in ("leaf-spine, 2 leaves and 4 spines", "100 Gb/s, 500 ns", "4096 B of payload",
                     "90 B of headers", "200 kB each", "link_down at 10 us: leaf 0 -&gt; spine 1, for 200 us"):
            check(fact in text, f"the fabric's numbers lack '{fact}'")
        cells = {"".join(cell.itertext()) for cell in tree.iter("td")}
        runs = rows(folder, "runs.csv")
        for row in runs:
            check(row["digest"] in cells, "the table of runs")
        for adaptive in ("false", "true"):
            for sender in plan["senders"]:
                mine = [row for row in runs if row["sender"] == sender and row["fabric.adaptive"] == adaptive]
                middle = f"{statistics.median_low([float(row['p50_flow_us']) for row in mine]):.1f}"
                check(middle in cells, f"{sender}: {middle} is not told")
                last = sorted(float(row["last_flow_us"]) for row in mine)
                check(any(cell.startswith(f"{last[0]:.1f}") for cell in cells), f"{sender}: {last} is not told")
        titles = [picture.get("aria-label") for picture in tree.iter("svg")]
        for title, times in (("Flow completion times", 2), ("Throughput over time", 2), ("Links leaf to spine", 4),
                             ("Links spine to leaf", 4), ("last_flow_us by fabric.adaptive", 1)):
            check(titles.count(title) == times, f"{titles}")
        drawn = text.count("<polyline")
        check(drawn == 2 * 2 * 2 + 2, f"{drawn} lines: of two senders in two pictures at two points, and over the range")
        # A point's picture marks the faults in its first run's time: the fault ends at 210 us.
        first = [float(row["last_flow_us"]) for row in runs if (row["sender"], row["seed"]) == ("hawser", "11")]
        ended = sum(last >= 210 for last in first)
        check(text.count(">fault</text>") == len(first) == 2, "marks of the fault")
        check(ended > 0 and text.count(">fault ends</text>") == ended, f"marks of its end, of runs of {first} us")


@case
def who_is_blamed_is_told():
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "senders", ["hawser", "oblivious"])
        del plan["ranges"]
        plan["fabric"].update({"nics": 2, "placement": "rails"})
        plan["traffic"]["bytes"] = 2_000_000
        fault = {"kind": "link_down", "at_us": 20, "host": 1, "nics": 1, "lasts_us": 20, "times": 3, "every_us": 40}
        plan["faults"] = [fault]
        plan["metric"] = "blamed_wrongly"
        plan["expect"] = {"at_most": 0, "source": "what is alive is not to be left"}
        code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"))
        check(code == 0, f"exit {code}\n{out}{err}")
        check("blamed_wrongly is 0 paths at worst" in out, out)
        for row in rows(os.path.join(folder, "out"), "runs.csv"):
            mine = row["sender"] == "hawser"
            check((int(row["blamed_rightly"]) > 1) if mine else row["blamed_rightly"] == "", f"{row}")
            check(row["unblamed"] == ("0" if mine else "") and row["blamed_wrongly"] == row["unblamed"], f"{row}")
            check(0 < float(row["left_used"]) < 1.1, f"{row}")
            check((0 < float(row["blamed_us"]) < 10) if mine else row["blamed_us"] == "", f"{row}")
        text = content(folder, "out", "report.html").decode("utf-8")
        cells = ["".join(cell.itertext()) for cell in xml.etree.ElementTree.fromstring(text).iter("th")]
        for head in ("paths blamed rightly", "wrongly", "dead NICs not blamed", "left capacity used"):
            check(head in cells, f"the table of faults lacks '{head}': {cells}")
        said = "link_down at 20 us: 1 NIC of host 1, for 20 us, 3 times, each 40 us after the one before"
        check(said in text, "the fault")


@case
def words_of_a_plan_cannot_break_the_report():
    with tempfile.TemporaryDirectory() as folder:
        plan = changed(small(), "question", "Is 1 < 2 & \"3\" > 2 </h1><script>?")
        plan["expect"]["source"] = "<b>&"
        code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"))
        check(code == 0, f"exit {code}\n{out}{err}")
        tree = xml.etree.ElementTree.fromstring(content(folder, "out", "report.html").decode("utf-8"))
        check(tree.find("body/main/h1").text == plan["question"], "the title")
        # The report replaces only the characters that XML can't have, not even as numbers.
        plan["question"] = "\ufffe\uffff\x0c and \ufffd\uffef\U0010ffff?"
        code, out, err = sim(write(folder, plan), "--to", os.path.join(folder, "out"))
        check(code == 0, f"exit {code}\n{out}{err}")
        tree = xml.etree.ElementTree.fromstring(content(folder, "out", "report.html").decode("utf-8"))
        title = tree.find("body/main/h1").text
        check(title == "\ufffd\ufffd  and \ufffd\uffef\U0010ffff?", f"the title: {title!a}")


@case
def a_browser_shows_the_report_within_1200_pixels():
    browser = shutil.which("chromium")
    if not browser:
        raise Skipped("no chromium is installed, which would draw the report")
    with tempfile.TemporaryDirectory() as folder:
        plan = small()
        del plan["ranges"]
        code, out, err = sim(write(folder, plan), "--to", folder)
        check(code == 0, f"exit {code}\n{out}{err}")
        page = os.path.join(folder, "report.html")
        picture = os.path.join(folder, "report.png")
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--user-data-dir={folder}/profile", f"--screenshot={picture}", "--window-size=1200,2900",
                        "file://" + page], capture_output=True, timeout=time_left(), check=True)
        seen = {}
        margins = set()
        for row in pixels(picture):
            margins.update(row[:20])
            margins.update(row[-20:])
            for colour in row:
                seen[colour] = seen.get(colour, 0) + 1
        check(margins == {(0xf6, 0xf7, 0xf9)}, f"what is at the page's margins: {list(margins)[:5]}")
        for name, colour in (("the first sender's line", (0x00, 0x72, 0xb2)), ("the second's", (0xd5, 0x5e, 0x00)),
                             ("a fault's mark", (0xc0, 0x39, 0x2b)), ("the darkest link", (8, 48, 107)),
                             ("a verdict that holds", (0xe7, 0xf5, 0xec))):
            check(seen.get(colour, 0) > 100, f"{name} can't be seen: {seen.get(colour, 0)} pixels")


if __name__ == "__main__":
    sys.exit(main())
