#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of run_tests.py: which tests it repeats, which it never repeats, and what fails a run.

Each case makes a project of small tests, and checks the verdict on them.
"""

import os
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_tests.py")

# Counts its calls in a file, and passes from the given call on.
PASSES_FROM = 'n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) > {0}; echo "call $((n + 1))"; [ $n -ge {1} ]'


class Project:
    """A build folder with the given tests, each (name, labels, shell command)."""

    def __init__(self, folder, tests, properties=""):
        self.folder = folder
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(tests NONE)", "enable_testing()"]
        for name, labels, command in tests:
            lines.append(f'add_test(NAME "{name}" COMMAND sh -c [==[{command}]==])')
            lines.append(f'set_tests_properties("{name}" PROPERTIES LABELS "{labels}" {properties})')
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        subprocess.run(["cmake", "-S", folder, "-B", folder], check=True, stdout=subprocess.DEVNULL)

    def run(self, *arguments):
        """The exit status, the output, and the two logs."""
        ended = subprocess.run([sys.executable, RUNNER, self.folder, "--jobs", "2", *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return ended.returncode, ended.stdout, self.log("failures"), self.log("unsteady")

    def log(self, name):
        path = os.path.join(self.folder, name + ".log")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()

    def calls(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return int(file.read())


class RunTests(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def project(self, *tests, properties=""):
        return Project(self.folder, tests, properties)

    def passes_from(self, name, call):
        return PASSES_FROM.format(os.path.join(self.folder, name), call)

    def test_a_run_passes_if_all_tests_pass(self):
        status, text, failures, unsteady = self.project(
            ("a", "virtual;gate", "true"), ("b", "clock;gate", "true"), ("c", "clock;gate", "exit 77"),
            properties="SKIP_RETURN_CODE 77").run()
        self.assertEqual((status, failures, unsteady), (0, "", ""), text)
        self.assertIn("100% tests passed, 0 tests failed out of 3 (1 skipped), 0 unsteady", text)

    def test_a_virtual_test_is_never_repeated(self):
        project = self.project(("v (1)", "virtual;gate", self.passes_from("v", 1)), ("w", "clock;gate", "true"))
        status, text, failures, unsteady = project.run()
        self.assertEqual((status, project.calls("v"), unsteady), (1, 1, ""), text)
        self.assertIn("== v (1) (", failures)
        self.assertIn("call 1", failures)

    def test_a_clock_test_that_passes_alone_is_unsteady(self):
        project = self.project(("c [x] (1)", "clock;gate", self.passes_from("c", 1)),
                               ("c [x] (11)", "clock;gate", self.passes_from("other", 0)))
        status, text, failures, unsteady = project.run()
        self.assertEqual((status, project.calls("c"), project.calls("other"), failures), (0, 2, 1, ""), text)
        self.assertIn("unsteady: c [x] (1); its first failure was:\n    call 1", text)
        self.assertIn("call 1", unsteady)

    def test_a_clock_test_has_three_tries(self):
        project = self.project(("second", "clock;gate", self.passes_from("second", 2)),
                               ("third", "clock;gate", self.passes_from("third", 3)))
        status, text, failures, _ = project.run()
        self.assertEqual((status, project.calls("second"), project.calls("third")), (1, 3, 3), text)
        self.assertNotIn("== second", failures)
        self.assertIn("== third", failures)

    def test_three_unsteady_tests_fail_a_run(self):
        def tests(count):
            return [(f"c{k}", "clock;gate", self.passes_from(f"c{k}", 1)) for k in range(count)]
        status, text, _, _ = self.project(*tests(2)).run()
        self.assertEqual(status, 0, text)
        for k in range(2):
            os.unlink(os.path.join(self.folder, f"c{k}"))
        status, text, failures, _ = self.project(*tests(3)).run()
        self.assertEqual((status, failures), (1, ""), text)
        self.assertIn("3 unsteady tests", text)

    def test_if_very_many_fail_none_is_repeated(self):
        project = self.project(*((f"c{k}", "clock;gate", self.passes_from(f"c{k}", 1)) for k in range(11)))
        status, text, _, unsteady = project.run()
        self.assertEqual((status, unsteady, project.calls("c0")), (1, "", 1), text)

    def test_the_reason_of_a_failure_is_told(self):
        status, text, failures, _ = self.project(("slow", "virtual;gate", "sleep 9"), ("bad", "virtual;gate", "kill -SEGV $$"),
                                                 properties="TIMEOUT 1").run()
        self.assertEqual(status, 1, text)
        self.assertRegex(failures, r"== slow .*\n\n?\(Timeout\)")
        self.assertRegex(failures, r"== bad .*\n\n?\(Exception: SegFault\)")

    def test_a_program_that_is_missing_is_a_failure(self):
        self.project(("a", "virtual;gate", "true"))
        with open(os.path.join(self.folder, "CMakeLists.txt"), "a", encoding="utf-8") as file:
            file.write('\nadd_test(NAME gone COMMAND /no/such/program)\n'
                       'set_tests_properties(gone PROPERTIES LABELS "virtual;gate")\n')
        subprocess.run(["cmake", self.folder], check=True, stdout=subprocess.DEVNULL)
        status, text, failures, _ = Project.run(self)
        self.assertEqual(status, 1, text)
        self.assertIn("== gone", failures)

    log = Project.log

    def test_labels_choose_tests_and_every_test_needs_them(self):
        project = self.project(("a", "virtual;gate", "true"), ("b", "virtual;deep", "false"))
        self.assertEqual(project.run("--label", "gate")[0], 0)
        self.assertEqual(project.run("--", "-R", "a")[0], 0)
        self.assertEqual(project.run()[0], 1)
        self.assertEqual(project.run("--label", "nothing")[0], 2)
        for labels in ("gate", "virtual", "virtual;clock;gate", "virtual;gate;deep"):
            status, text, _, _ = self.project(("a", labels, "true")).run()
            self.assertEqual(status, 2, text)
            self.assertIn("a has the labels", text)


if __name__ == "__main__":
    unittest.main()
