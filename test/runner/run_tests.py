#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ctests of a build folder, and repeats those that may be repeated.

Usage: run_tests.py BUILD_FOLDER [--label L ...] [--jobs N] [-- CTEST_ARGUMENT ...]

A test that is labelled `clock` and fails beside others runs again, alone, up to twice. If it passes then,
it is unsteady: the run goes on, and the summary names it with the output of its first failure. A test that
is labelled `virtual` is never repeated. Three unsteady tests in one run fail it. If more than ten clock
tests fail, the cause is not the clock, and none of them is repeated.

Failed tests go to BUILD_FOLDER/failures.log and unsteady ones to BUILD_FOLDER/unsteady.log, each
with a heading `== NAME` and the end of its output. The exit status is 0 if the run passed, 1 if it
failed, and 2 if the tests can't be run (there is none, or one lacks its labels).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

REPEATS = 2
TOO_MANY_UNSTEADY = 3
MOST_REPEATED = 10
KINDS = ("virtual", "clock")
TIERS = ("gate", "deep")
OUTPUT_LINES = 60


class CannotRun(Exception):
    pass


class Result(NamedTuple):
    """The result of one test: passed, failed or skipped."""
    name: str
    status: str
    seconds: float
    output: str


class Verdict(NamedTuple):
    """The results of a run."""
    results: list  # the last Result of each test
    unsteady: list  # the first Result of each test that failed and then passed
    seconds: float

    @property
    def failed(self):
        return [result for result in self.results if result.status == "failed"]

    @property
    def passed(self):
        return not self.failed and len(self.unsteady) < TOO_MANY_UNSTEADY


def selection(labels, more):
    return [word for label in labels for word in ("-L", f"^{label}$")] + more


def kinds_of_tests(folder, chosen):
    """The kind of each chosen test. CannotRun unless it has its own name, one kind and one tier."""
    shown = subprocess.run(["ctest", "--show-only=json-v1", *chosen], cwd=folder, text=True,
                           stdout=subprocess.PIPE, check=False)
    if shown.returncode != 0:
        raise CannotRun(f"ctest can't list the tests of {folder}")
    kinds = {}
    for test in json.loads(shown.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        labels = properties.get("LABELS", [])
        kind = [label for label in labels if label in KINDS]
        tier = [label for label in labels if label in TIERS]
        if len(kind) != 1 or len(tier) != 1:
            raise CannotRun(f"{test['name']} has the labels {labels}: one of {KINDS} and one of {TIERS} "
                            "are needed (cmake/tests.cmake)")
        if test["name"] in kinds:
            raise CannotRun(f"two tests are called '{test['name']}'")
        kinds[test["name"]] = kind[0]
    if not kinds:
        raise CannotRun(f"no test in {folder} is chosen by: ctest {' '.join(chosen)}")
    return kinds


def read_results(path, reasons):
    """The results in ctest's report. `reasons` says why tests failed, which the report does not."""
    results = []
    for node in ElementTree.parse(path).getroot().iter("testcase"):
        status = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(node.get("status"), "failed")
        output = node.findtext("system-out") or ""
        # A test whose program is missing is not one that skipped itself.
        skipped = node.find("skipped")
        if status == "skipped" and not (skipped.get("message") or "").startswith("SKIP_"):
            status = "failed"
        if status == "failed":
            output += f"\n({reasons.get(node.get('name'), 'failed')})"
        results.append(Result(node.get("name"), status, float(node.get("time", 0)), output))
    return results


def run_ctest(folder, chosen, jobs):
    """Runs the chosen tests and prints a line for each as it ends."""
    reasons = {}
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "results.xml")
        command = ["ctest", "--output-on-failure", "--no-tests=error", "--parallel", str(jobs),
                   "--output-junit", report, *chosen]
        with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace") as ctest:
            for line in ctest.stdout:
                ended = re.search(r" Test +#\d+: (.*?) \.*\*\*\*(.*?)(  |$)", line)
                if ended:
                    reasons[ended[1]] = ended[2].strip()
                if not re.match(r" +Start +\d+: ", line):
                    print(line, end="", flush=True)
        if not os.path.exists(report):
            raise CannotRun(f"ctest wrote no results (exit status {ctest.returncode})")
        return read_results(report, reasons)


def exactly(name):
    """Arguments of ctest that choose only the test of this name."""
    return ["-R", "^" + re.sub(r"([][.*+?^$|()\\])", r"\\\1", name) + "$"]


def run(kinds, run_once, run_alone):
    """Runs all tests by `run_once()`, and repeats clock tests by `run_alone(name)`."""
    begun = time.monotonic()
    results = {result.name: result for result in run_once()}
    for name in kinds:
        if name not in results:
            results[name] = Result(name, "failed", 0, "ctest did not report it")
    unsteady = []
    repeatable = [result for result in results.values()
                  if result.status == "failed" and kinds[result.name] == "clock"]
    if len(repeatable) > MOST_REPEATED:
        print(f"\n{len(repeatable)} clock tests failed: that is too many to repeat them", flush=True)
        repeatable = []
    for first in repeatable:
        for _ in range(REPEATS):
            print(f"\n{first.name} failed beside others: it runs again, alone", flush=True)
            again = run_alone(first.name)
            if again.status == "passed":
                unsteady.append(first)
                results[first.name] = again
                break
    return Verdict(list(results.values()), unsteady, time.monotonic() - begun)


def end_of(output):
    return "\n".join(output.rstrip().splitlines()[-OUTPUT_LINES:])


def write_log(path, results):
    with open(path, "w", encoding="utf-8") as file:
        for result in results:
            file.write(f"== {result.name} ({result.seconds:.1f} s)\n{end_of(result.output)}\n")


def summary(verdict):
    """The lines of the summary. The last one is in ctest's words."""
    lines = []
    for name in sorted(result.name for result in verdict.failed):
        lines.append(f"failed: {name}")
    for first in verdict.unsteady:
        lines.append(f"unsteady: {first.name}; its first failure was:")
        lines += ["    " + line for line in end_of(first.output).splitlines()]
    if len(verdict.unsteady) >= TOO_MANY_UNSTEADY:
        lines.append(f"{len(verdict.unsteady)} unsteady tests: fewer than {TOO_MANY_UNSTEADY} may be")
    total, failed = len(verdict.results), len(verdict.failed)
    skipped = sum(result.status == "skipped" for result in verdict.results)
    percent = 100 * (total - failed) // total
    notes = f" ({skipped} skipped)" if skipped else ""
    lines.append(f"{percent}% tests passed, {failed} tests failed out of {total}{notes}, "
                 f"{len(verdict.unsteady)} unsteady, {verdict.seconds:.0f} s")
    return lines


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1].split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--label", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    chosen = selection(options.label, words[cut + 1:])
    try:
        kinds = kinds_of_tests(options.folder, chosen)
        verdict = run(kinds,
                      lambda: run_ctest(options.folder, chosen, options.jobs),
                      lambda name: run_ctest(options.folder, exactly(name), 1)[0])
    except CannotRun as error:
        print(f"run_tests.py: {error}", file=sys.stderr)
        return 2
    write_log(os.path.join(options.folder, "failures.log"), verdict.failed)
    write_log(os.path.join(options.folder, "unsteady.log"), verdict.unsteady)
    print("\n" + "\n".join(summary(verdict)), flush=True)
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
