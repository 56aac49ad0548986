# SPDX-License-Identifier: Apache-2.0
"""Cases of run_test.py: what the host and the caller may withhold, such as permissions and mounts."""

import os
import shutil
import tempfile

from cases import Skipped, case, check, finish, start_process
from run_harness import COMMAND, patience

HERE = os.path.dirname(os.path.abspath(__file__))
SMALLEST = ["run", "--ranks", "2", "--nics", "1", "--workload", "gpt2", "--scale", "4096", "--steps", "1"]
# A storm that fails by definition, so that there is something to shrink.
FAILING = ["storm", "--seed", "1", "--seek", "session_state:ready"]


def as_any_user():
    """The words before a command that take root's right to open every file from it."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        raise Skipped("root needs setpriv")
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]


def made_files(folder):
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            found[os.path.relpath(path, folder)] = os.stat(path).st_size
    return found


@case(gate=True)
def files_of_any_umask():
    """A umask of 0777 makes files that even their owner can't open again."""
    plan = os.path.join(HERE, "experiments", "small.json")
    commands = [
        (0, [*SMALLEST, *patience(), "--json", "report.json", "--trace", "trace"], ["report.json", "trace.0", "trace.1"]),
        (0, ["storm", "--seeds", "1..3", "--json", "figures.json"], ["figures.json"]),
        (1, [*FAILING, "--trace", "storm"], ["storm.json", "storm.txt"]),
        (1, [*FAILING, "--shrink", "small.plan.json"], ["small.plan.json"]),
        (0, ["sim", plan, "--to", "results"],
         ["results/flows.csv", "results/report.html", "results/runs.csv", "results/series.csv"]),
    ]
    for mask in (0o777, 0o077, 0o000):
        with tempfile.TemporaryDirectory() as folder:
            expected = []
            for status, arguments, files in commands:
                process = start_process([*as_any_user(), *COMMAND, *arguments], cwd=folder,
                                        preexec_fn=lambda: os.umask(mask))  # pylint: disable=cell-var-from-loop
                ended, output = finish(process)
                check(ended == status, f"umask {mask:04o}, {arguments}: {ended}\n{output}")
                expected += files
            made = made_files(folder)
            check(sorted(made) == sorted(expected) and all(made.values()), f"umask {mask:04o}: {made}")
