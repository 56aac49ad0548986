# SPDX-License-Identifier: Apache-2.0
"""Cases of run_test.py: what the host and the caller may withhold, such as permissions and mounts."""

import json
import os
import re
import shutil
import subprocess
import tempfile

from cases import SKIPPED, Skipped, case, check, finish, start_process
from run_harness import COMMAND, TEXT, patience

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


def in_mounts_of_its_own(script, arguments):
    """Runs the command after this script of the shell, which ends with 77 if it is not permitted."""
    process = start_process(["unshare", "-m", "sh", "-c", f'{script} || exit {SKIPPED}; exec "$@"', "sh", *COMMAND, *arguments])
    status, output = finish(process)
    if status == SKIPPED or "unshare failed" in output:
        raise Skipped("this user may not mount anything in a namespace of its own")
    return status, output


@case(gate=True)
def where_sys_is_not_mounted():
    """Without /sys nobody knows which RDMA devices there are; what sockets tell stays the same."""
    status, output = in_mounts_of_its_own("mount -t tmpfs none /sys", ["info"])
    check(status == 0, f"{status}\n{output}")
    check("only UDP NICs" not in output and "of this host needs" not in output, output)
    check(re.search(r"^  unknown: /sys is not mounted here", output, re.M) or "no libibverbs" in output, output)
    check(re.search(r"^  udp:127\.0\.0\.1 +lo +up, MTU \d+$", output, re.M), output)
    status, output = in_mounts_of_its_own("mount -t tmpfs none /sys", ["info", "--to", "127.0.0.1"])
    check(status == 0 and re.search(r" [1-9]\d* of the device: ", output) and " 0 of the device" not in output,
          f"{status}\n{output}")
    status, output = in_mounts_of_its_own("mount -t tmpfs none /sys", [*SMALLEST, *patience()])
    check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case(gate=True)
def where_neither_proc_nor_sys_is_mounted():
    for arguments in (["info"], ["info", "--to", "127.0.0.1"]):
        status, output = in_mounts_of_its_own("mount -t tmpfs none /sys && umount -l /proc", arguments)
        check(status == 0, f"{arguments}: {status}\n{output}")
        check("only UDP NICs" not in output and " 0 of the device" not in output, output)
    status, output = in_mounts_of_its_own("mount -t tmpfs none /sys && umount -l /proc", [*SMALLEST, *patience()])
    check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case(gate=True)
def root_of_a_user_namespace_alone():
    """It has CAP_NET_ADMIN, but not for the buffers of sockets: net.core.rmem_max binds it. `ulimit -v` is told."""
    if subprocess.run(["unshare", "-U", "-r", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skipped("this user may not make a user namespace")
    exceeds = r"net\.core\.rmem_max +[^\n]*\(this process may exceed it\)"
    limited = ["sh", "-c", 'ulimit -v 400000000000; exec "$@"', "sh"]
    status, output = finish(start_process(["unshare", "-U", "-r", *limited, *COMMAND, "info"]))
    check(status == 0 and "net.core.rmem_max" in output and not re.search(exceeds, output), f"{status}\n{output}")
    check(re.search(r"^  memory \(ulimit -v\) +373 TiB$", output, re.M), output)
    status, output = finish(start_process(["unshare", "-U", "-r", *COMMAND, *SMALLEST, *patience()]))
    check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case(gate=True)
def plans_that_are_not_utf8():
    """Nothing of a plan reaches the terminal that is no character, or that controls it."""
    with open(os.path.join(HERE, "experiments", "small.json"), "rb") as file:
        small = file.read()
    refused = (
        (small.replace(b'"Do eight', b'"Do \xff eight'), "line 2 is not UTF-8, as a plan must be"),
        (small.replace(b'"runtime_s"', b'"runtime\xe9s"'), "line 5 is not UTF-8, as a plan must be"),
        (small.decode().encode("utf-16"), "line 1 is not UTF-8|is a NUL"),
        (b"{\xc3\xa9}", "is not a plan: "),
        (b'{"a\\u001b[31m": 1, "a\\u001b[31m": 2}', "the key 'a\ufffd\\[31m' occurs twice"),
        (b'{"plan": 3, "\\u009b31m": 3}', "there is no (key|field) '\ufffd31m'|'question' is missing"),
        (b'{"plan": {"\\u009b31m": 3}}', "is missing"),
    )
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.json")
        for content, says in refused:
            with open(plan, "wb") as file:
                file.write(content)
            for arguments in (["sim", plan, "--check"], ["storm", "--plan", plan]):
                done = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False)
                text = done.stderr.decode("utf-8")  # throws where it is no UTF-8
                check(done.returncode == 2 and re.search(says, text), f"{arguments}: {done.returncode} {content!a}\n{text!a}")
                check(text.rstrip("\n").isprintable(), f"{content!a}: {text!a}")


@case(gate=True)
def files_whose_names_are_not_utf8():
    """JSON and HTML are UTF-8, whatever a plan's file is called."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(os.fsencode(folder), b"na\xffme")
        shutil.copy(os.path.join(HERE, "experiments", "small.json"), name + b".json")
        done = subprocess.run([*COMMAND, "sim", name + b".json", "--to", name], capture_output=True, check=False)
        check(done.returncode == 0, f"{done.returncode}\n{done.stderr!a}")
        with open(os.path.join(name, b"report.html"), "rb") as file:
            check("<html" in file.read().decode("utf-8"), "the report")
        done = subprocess.run([*COMMAND, *FAILING, "--shrink", name + b".plan"], capture_output=True, check=False)
        check(done.returncode == 1, f"{done.returncode}\n{done.stderr!a}")
        figures = os.path.join(folder, "figures.json")
        done = subprocess.run([*COMMAND, "storm", "--plan", name + b".plan", *FAILING[3:], "--json", figures],
                              capture_output=True, check=False)
        check(done.returncode == 1, f"{done.returncode}\n{done.stderr!a}")
        report = os.path.join(folder, "report.json")
        with open(name + b".txt", "w", encoding="utf-8") as file:
            file.write(TEXT)
        done = subprocess.run([*COMMAND, "run", *patience(), "--ranks", "4", "--nics", "1", "--steps", "1", "--workload",
                               name + b".txt", "--json", report], capture_output=True, check=False)
        check(done.returncode == 0, f"{done.returncode}\n{done.stdout!a}")
        for path, says in ((figures, ""), (report, "na\ufffdme.txt")):
            with open(path, "rb") as file:
                text = file.read().decode("utf-8")
            check(json.loads(text) and says in text, f"{path}: {text}")
