#!/usr/bin/env python3
"""What test/vm/run.py promises of itself. Exit status 77 if no machine can be had here."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run.py"


def run(*arguments, environment=None):
    return subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True,
                          timeout=300, env=environment, check=False)


def environment_without_tools(**more):
    return {"PATH": "/nowhere", **more}


class WithoutTools(unittest.TestCase):
    def test_it_is_a_skip_with_its_reason(self):
        done = run("true", environment=environment_without_tools(HAWSER_VM_CACHE="/nowhere"))
        # /sbin is looked at beside PATH, and has no qemu.
        self.assertEqual(done.returncode, 77)
        self.assertIn("skipped: no emulated machine: qemu-system-x86_64 is not installed", done.stderr)

    def test_it_is_a_failure_where_the_machine_is_required(self):
        done = run("true", environment=environment_without_tools(HAWSER_VM_REQUIRED="1"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: no emulated machine", done.stderr)


class Machine(unittest.TestCase):
    def test_a_program_of_the_host_runs_with_its_arguments_and_its_output_comes_back(self):
        # What it writes does not: the host's files stay as they are.
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
