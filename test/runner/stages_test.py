#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of stages.sh, deep.sh and test.sh: what fails a run, and what its summary says."""

import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
STAGES = os.path.join(FOLDER, "stages.sh")
HANG_LIMIT_S = 120


class Stages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name

    def run_stages(self, text, budget=1000):
        script = f"set -uo pipefail\nroot={self.root}\nsource {STAGES}\n{text}\nend_of_stages {budget}\n"
        ended = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, check=False, timeout=HANG_LIMIT_S)
        return ended.returncode, ended.stdout.splitlines()

    def test_all_stages_pass(self):
        status, lines = self.run_stages('stage first 9 true\nstage second 9 sh -c '
                                        '\'echo "release  3 tests" >>$HAWSER_REPORT/summary\'')
        self.assertEqual(status, 0, lines)
        self.assertIn("== first", lines)
        self.assertRegex("\n".join(lines), r"first +\d+ s +\d+ s of processor  ok\nsecond .*ok\n    release  3 tests\n")
        self.assertRegex(lines[-1], r"^passed in \d+ s, within the budget of 1000 s$")

    def test_a_failed_stage_fails_the_run_and_the_next_one_runs(self):
        status, lines = self.run_stages("stage first 9 false\nstage second 9 echo here")
        self.assertEqual(status, 1, lines)
        self.assertIn("here", lines)
        self.assertTrue(any(re.match(r"first .*FAILED \(exit 1\)", line) for line in lines), lines)
        self.assertRegex(lines[-1], "^failed in")

    def test_a_stage_may_skip_itself(self):
        status, lines = self.run_stages("stage first 9 sh -c 'exit 77'")
        self.assertEqual(status, 0, lines)
        self.assertTrue(any(re.match(r"first .*skipped", line) for line in lines), lines)

    def test_a_stage_that_hangs_is_ended_with_its_processes(self):
        begun = time.monotonic()
        status, lines = self.run_stages("stage hangs 1 sh -c 'sleep 1000 & sleep 1000'")
        self.assertEqual(status, 1, lines)
        self.assertTrue(any("FAILED (over 1 s)" in line for line in lines), lines)
        self.assertFalse(any("left running" in line for line in lines), lines)
        self.assertLess(time.monotonic() - begun, HANG_LIMIT_S)

    def test_a_process_that_is_left_behind_fails_the_run_and_is_ended(self):
        pid_file = os.path.join(self.root, "pid")
        status, lines = self.run_stages(
            "stage leaves 9 sh -c 'setsid sleep 1000 >/dev/null 2>&1 & "
            "until grep -qx sleep /proc/$!/comm; do :; done; "
            f"echo $! >{pid_file}'")
        self.assertEqual(status, 1, lines)
        self.assertTrue(any(re.match(r"left running: \d+ sleep 1000", line) for line in lines), lines)
        with open(pid_file, encoding="utf-8") as file:
            pid = int(file.read())
        deadline = time.monotonic() + HANG_LIMIT_S
        while self.lives(pid) and time.monotonic() < deadline:
            os.sched_yield()
        self.assertFalse(self.lives(pid))

    @staticmethod
    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def test_three_unsteady_tests_of_all_stages_fail_the_run(self):
        def unsteady(count):
            return f"""stage tests 9 sh -c 'for k in $(seq {count}); do
                       printf "== t$k\\nits output\\n" >>$HAWSER_REPORT/unsteady; done'\n"""
        status, lines = self.run_stages(unsteady(2))
        self.assertEqual(status, 0, lines)
        self.assertIn("unsteady: t2", lines)
        self.assertIn("its output", lines)
        status, lines = self.run_stages(unsteady(2) + unsteady(1))
        self.assertEqual(status, 1, lines)
        self.assertIn("3 unsteady tests: three fail a run", lines)

    def test_failures_are_named_at_the_end(self):
        status, lines = self.run_stages("""stage tests 9 sh -c 'printf "== t\\nwhy\\n" >>$HAWSER_REPORT/failures; exit 1'""")
        self.assertEqual(status, 1, lines)
        self.assertLess(lines.index("failed: t"), lines.index("why"))

    def test_a_run_beyond_its_budget_passes_and_says_so(self):
        status, lines = self.run_stages("stage first 9 true", budget=-5)
        self.assertEqual(status, 0, lines)
        self.assertRegex(lines[-1], r"^passed in \d+ s, \d+ s over the budget of -5 s$")


class Deep(unittest.TestCase):
    """deep.sh in a tree whose other scripts only say what they were called with."""

    def run_deep(self, missing, *stages):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        root = scratch.name
        runner = os.path.join(root, "test", "runner")
        os.makedirs(runner)
        for script in ("deep.sh", "stages.sh"):
            shutil.copy(os.path.join(FOLDER, script), runner)
        for script, text in (("setup.sh", f'[[ $1 != {missing} ]] || {{ echo "no package for $1"; exit 1; }}'),
                             ("build.sh", "exit 0"), ("test.sh", "exit 0")):
            path = os.path.join(root, script)
            with open(path, "w", encoding="ascii") as file:
                file.write(f'#!/usr/bin/env bash\necho "{script} $*"\n{text}\n')
            os.chmod(path, 0o755)
        ended = subprocess.run([os.path.join(runner, "deep.sh"), *stages], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG_LIMIT_S)
        return ended.returncode, ended.stdout

    def test_a_missing_package_of_one_stage_fails_the_run_and_the_stages_run(self):
        status, output = self.run_deep("suites", "suites", "storms")
        self.assertEqual(status, 1, output)
        self.assertIn("no package for suites", output)
        self.assertRegex(output, r"packages, suites .*FAILED \(exit 1\)")
        self.assertIn("test.sh release -- -L ^deep$ -R ^suites: ", output)
        self.assertRegex(output, r"\nsuites .* ok\n")
        self.assertIn("test.sh storm", output)

    def test_without_the_packages_of_all_stages_none_runs(self):
        status, output = self.run_deep("test", "suites", "storms")
        self.assertEqual(status, 1, output)
        self.assertNotIn("test.sh", output)


class LeftOut(unittest.TestCase):
    """test.sh in a tree whose tests only pass, and whose build lacks tools."""
    LACKS = ("the check of the model, as spin is not here (install spin)", "tests with MPI; see docs/mpi.md")

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        for folder in ("cmake", "test/runner"):
            os.makedirs(os.path.join(self.root, folder))
        for script in ("test.sh", "cmake/without_aslr.sh", "test/runner/stages.sh"):
            shutil.copy(os.path.join(ROOT, script), os.path.join(self.root, script))
        self.write("setup.sh", "exit 0")
        self.write("build.sh", f'mkdir -p {self.root}/build/$1\ncmake -D PROJECT_BINARY_DIR={self.root}/build/$1 -D PRESET=$1 '
                               f'-P {self.root}/lacks.cmake')
        self.write("test/runner/run_tests.py", "print('3 tests passed')", "#!/usr/bin/env python3")

    def write(self, name, text, first="#!/usr/bin/env bash"):
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{first}\n{text}\n")
        os.chmod(path, 0o755)

    def lack(self, calls):
        """Makes the build leave out what `calls` say, by the project's own lines of CMake."""
        with open(os.path.join(ROOT, "cmake", "hawser.cmake"), encoding="utf-8") as file:
            function = re.search(r"^function\(hawser_left_out .*?^endfunction\(\)$", file.read(), re.M | re.S)[0]
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            written = re.search(r"^get_property\(left_out .*\n.*left_out\.txt.*$", file.read(), re.M)[0]
        self.write("lacks.cmake", f"{function}\n{calls}\n{written}", "# A build that lacks tools")

    def lines_of(self, *command):
        # A run of stages that this test may be part of must not get the report.
        own = {name: value for name, value in os.environ.items() if name != "HAWSER_REPORT"}
        ended = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                               timeout=HANG_LIMIT_S, env=own)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout.splitlines()

    def test_every_tool_that_the_build_lacks_is_named_under_its_preset(self):
        self.lack("\n".join(f'hawser_left_out("{what}")' for what in self.LACKS) +
                  '\nif(PRESET STREQUAL "debug")\n  hawser_left_out("RDMA NICs")\nendif()')
        lines = self.lines_of("./test.sh", "release", "debug")
        both = [f"           left out: {what}" for what in self.LACKS]
        self.assertEqual(lines[lines.index("summary"):],
                         ["summary", "  release  3 tests passed", *both, "  debug    3 tests passed", *both,
                          "           left out: RDMA NICs"])

    def test_stages_repeat_it(self):
        self.lack(f'hawser_left_out("{self.LACKS[0]}")')
        lines = self.lines_of("bash", "-c", "set -uo pipefail; root=$PWD; source test/runner/stages.sh\n"
                                            "stage tests 99 ./test.sh release\nend_of_stages 1000")
        summary = lines[max(at for at, line in enumerate(lines) if line.startswith("== summary")):]
        self.assertRegex(summary[1], r"^tests .* ok$")
        self.assertEqual(summary[2:4], ["    release  3 tests passed", f"             left out: {self.LACKS[0]}"])

    def test_a_build_that_lacks_nothing_says_nothing(self):
        self.lack("")
        self.assertEqual(self.lines_of("./test.sh")[-2:], ["summary", "  release  3 tests passed"])


if __name__ == "__main__":
    unittest.main()
