#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the promises of test/vm/run.py. Exit status 77 if no machine can be had here."""

import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import machine
from reason import Impossible

RUN = pathlib.Path(__file__).resolve().parent / "run.py"


def run(*arguments, environment=None):
    done = subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True,
                          timeout=300, env=environment, check=False)
    done.stderr = without_boots(done.stderr)
    return done


def without_boots(words):
    """Removes the lines about boots, which are not the program's."""
    lines = words.splitlines(keepends=True)
    told = [line.startswith(machine.BOOTED_AGAIN) for line in lines]
    if not any(told):
        return words
    first = told.index(True)
    rest = [i for i in range(first, len(lines)) if not told[i] and not lines[i].startswith("    ")]
    return "".join(lines[:first] + [lines[i] for i in rest])


def environment_without_tools(**more):
    return {"PATH": "/nowhere", **more}


class WithoutTools(unittest.TestCase):
    def test_it_is_a_skip_with_its_reason(self):
        done = run("true", environment=environment_without_tools(HAWSER_VM_CACHE="/nowhere"))
        # The script also looks into /sbin beside PATH, which has no qemu.
        self.assertEqual(done.returncode, 77)
        self.assertIn("skipped: no emulated machine: qemu-system-x86_64 is not installed", done.stderr)

    def test_it_is_a_failure_where_the_machine_is_required(self):
        done = run("true", environment=environment_without_tools(HAWSER_VM_REQUIRED="1"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: no emulated machine", done.stderr)


class Booting(unittest.TestCase):
    """Here the machine is one that dies as often as the test says."""

    def outcome(self, *deaths):
        with unittest.mock.patch.object(machine, "run_once", side_effect=[*deaths, 7]) as once, \
                unittest.mock.patch("sys.stderr", io.StringIO()) as words:
            try:
                return machine.run(None, None, None), once.call_count, words.getvalue()
            except Impossible as reason:
                return reason, once.call_count, words.getvalue()

    def test_a_kernel_that_dies_is_booted_again_and_that_is_told(self):
        code, boots, words = self.outcome(machine.DiedBooting("Kernel panic"))
        self.assertEqual((code, boots), (7, 2))
        self.assertEqual(words, "vm: booted again: Kernel panic\n")

    def test_a_kernel_that_always_dies_is_given_up(self):
        deaths = [machine.DiedBooting(f"Kernel panic {i}") for i in range(5)]
        reason, boots, _ = self.outcome(*deaths)
        self.assertEqual((str(reason), boots), ("Kernel panic 2", 3))

    def test_what_is_missing_is_not_tried_again(self):
        reason, boots, words = self.outcome(Impossible("no memory"))
        self.assertEqual((str(reason), boots, words), ("no memory", 1, ""))

    def test_only_a_panic_counts_as_death(self):
        for words, kind in (("[ 0.5] Kernel panic - not syncing", machine.DiedBooting),
                            ("qemu: cannot set up guest memory", Impossible)):
            dead = machine.Machine.__new__(machine.Machine)
            dead.process = unittest.mock.Mock(poll=lambda: 1)
            dead.console = lambda words=words: words
            with self.assertRaises(Impossible) as raised:
                dead.wait_for(pathlib.Path("/nowhere/ready"), 60)
            self.assertIs(type(raised.exception), kind)


class Machine(unittest.TestCase):
    def test_a_program_of_the_host_runs_with_its_arguments_and_its_output_comes_back(self):
        # A file that the program writes does not stay: the host's files are unchanged.
        with tempfile.NamedTemporaryFile("w", suffix=" a file") as file:
            file.write("of the host\n")
            file.flush()
            done = run("--env", "WORD=two words", "--", "sh", "-c",
                       'cat "$1"; echo changed >"$1"; cat "$1"; echo "$WORD" "$2" >&2; '
                       "ls /sys/class/infiniband; exit 7", "sh", file.name, "a 'quoted' argument")
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertEqual(done.stdout, "of the host\nchanged\nrxe_a0\nrxe_a1\nrxe_b0\nrxe_b1\n")
            self.assertEqual(done.stderr, "two words a 'quoted' argument\n")
            self.assertEqual(pathlib.Path(file.name).read_text(), "of the host\n")

    def test_it_has_the_processors_and_cables_that_it_was_asked_for(self):
        for cpus, cables in ((1, 1), (3, 2)):
            done = run("--cpus", str(cpus), "--cables", str(cables), "--",
                       "sh", "-c", "nproc; ls /sys/class/infiniband | wc -l")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, f"{cpus}\n{2 * cables}\n")

    def test_a_program_that_takes_too_long_is_ended(self):
        done = run("--timeout", "2", "--", "sh", "-c", "echo begun; sleep 1000")
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertEqual(done.stdout, "begun\n")
        self.assertIn("ran out of time", done.stderr)

    def test_a_machine_that_dies_is_told_from_a_program_that_fails(self):
        done = run("sh", "-c", "echo begun; echo c >/proc/sysrq-trigger; sleep 1000")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertEqual(done.stdout, "begun\n")
        self.assertIn("Kernel panic", done.stderr)


if __name__ == "__main__":
    probe = run("true", environment=dict(os.environ))
    if probe.returncode != 0:
        print(probe.stderr, end="", file=sys.stderr)
        sys.exit(probe.returncode)
    unittest.main()
