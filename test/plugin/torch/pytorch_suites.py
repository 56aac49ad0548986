#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of its backend gloo, with Hawser in gloo's place. By hand, for 40 minutes.

Usage: pytorch_suites.py BUILD SOURCE [--only TEXT] [--failures FILE]

BUILD is the folder of the package hawser_torch. SOURCE is the folder of PyTorch's source of the same
version, for its test/distributed ("apt-get source pytorch"). The program prints a line for each test
that didn't pass, and a table of counts.

Every process takes ProcessGroupGloo away from torch.distributed and puts a maker of Hawser's groups in
its place. The tests therefore can't reach gloo. A test that fails for a reason in EXPECTED counts as
"differs"; it counts as failed if it passes after all.
"""

import argparse
import logging
import os
import sys
import types
import unittest

# The tests' own processes import this file, too, before they run a test.
os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("TEMP_DIR", "/tmp")
os.environ.setdefault("HAWSER_NICS", "udp:127.0.0.1,udp:127.0.0.2")


def stand_in_for_expecttest():
    """PyTorch's helpers import this module, which Debian doesn't have. These suites need no more of it."""
    module = types.ModuleType("expecttest")
    module.ACCEPT = False
    module.TestCase = type("TestCase", (unittest.TestCase,), {"assertExpectedInline": lambda self, got, wanted: self.assertEqual(got, wanted)})
    return module


sys.path[:0] = [os.environ.get("HAWSER_SUITES_BUILD", ""), os.environ.get("HAWSER_SUITES_TESTS", "")]
for argument, variable, tail in ((1, "HAWSER_SUITES_BUILD", ""), (2, "HAWSER_SUITES_TESTS", "test/distributed")):
    if __name__ == "__main__" and len(sys.argv) > argument and not sys.argv[argument].startswith("-"):
        os.environ[variable] = os.path.abspath(os.path.join(sys.argv[argument], tail))
        sys.path.insert(0, os.environ[variable])
try:
    import expecttest  # noqa: F401 pylint: disable=unused-import
except ImportError:
    sys.modules["expecttest"] = stand_in_for_expecttest()

# pylint: disable=wrong-import-position
from datetime import timedelta  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402

import hawser_torch  # noqa: E402


class Gloo:
    """What the tests use of ProcessGroupGloo: a maker of groups, its options and devices."""

    class _Options:  # pylint: disable=too-few-public-methods
        def __init__(self):
            self._timeout = timedelta(seconds=60)

    @staticmethod
    def create_device(**_):
        return None

    def __new__(cls, store, rank, size, options=None, timeout=timedelta(seconds=60)):
        timeout = getattr(options, "_timeout", timeout)
        if not isinstance(timeout, timedelta):
            timeout = timedelta(seconds=timeout)
        return hawser_torch._C.make_process_group(store, int(rank), list(range(int(size))), timeout)


distributed_c10d.ProcessGroupGloo = dist.ProcessGroupGloo = Gloo
logging.disable(logging.CRITICAL)

# Each test that Hawser doesn't pass, and why.
EXPECTED = {}

SUITES = [
    "test_distributed_spawn",
    "test_c10d_gloo",
    "test_c10d_common",
    "test_c10d_object_collectives",
    "test_c10d_spawn_gloo",
    "test_pg_wrapper",
]


class Result(unittest.TestResult):
    """Counts, and tells each test that didn't pass."""

    def __init__(self, failures):
        super().__init__()
        self.counts = {"passed": 0, "skipped": 0, "differs": 0, "failed": 0}
        self.texts = failures

    def count(self, test, outcome, text=""):
        name = ".".join(test.id().split(".")[-2:])
        reason = EXPECTED.get(name)
        if outcome == "failed" and reason:
            outcome = "differs"
        elif outcome == "passed" and reason:
            outcome, text = "failed", f"it passes, but was expected to fail: {reason}"
        self.counts[outcome] += 1
        if outcome != "passed":
            line = reason if outcome == "differs" else text.strip().splitlines()[-1]
            print(f"{outcome}: {name}: {line}", flush=True)
        self.texts.write(f"== {outcome}: {name}\n{text}\n")
        self.texts.flush()

    def addSuccess(self, test):
        self.count(test, "passed")

    def addSkip(self, test, reason):
        self.count(test, "skipped", reason)

    def addFailure(self, test, err):
        self.count(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


def tests_of(suite):
    """The tests in a flat list."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from tests_of(part)
        else:
            yield part


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("source")
    parser.add_argument("--only", default="", help="run the tests whose names contain this text")
    parser.add_argument("--failures", default=os.devnull, help="write the whole text of each test here")
    arguments = parser.parse_args()
    rows = []
    with open(arguments.failures, "w", encoding="utf-8") as failures:
        for name in SUITES:
            result = Result(failures)
            for test in tests_of(unittest.defaultTestLoader.loadTestsFromName(name)):
                if arguments.only in test.id():
                    unittest.TestSuite([test]).run(result)
            rows.append((name, result.counts))
    print("\n| suite | passed | skipped | differs | failed |\n|---|---|---|---|---|")
    for name, counts in rows:
        print(f"| `{name}` | " + " | ".join(str(count) for count in counts.values()) + " |")
    return any(counts["failed"] for _, counts in rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
