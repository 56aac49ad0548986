#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command under other projects' launchers: mpirun, and the variables of a Kubernetes job.

Usage: launch_test.py HAWSER CASE     runs one case (ctest does)
       launch_test.py HAWSER          runs all
       launch_test.py --list          names them

A case that can't run here says why and ends with 77.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import run_harness
from cases import (HANG_LIMIT_S, SKIPPED, Failed, Skipped, all_children, case, check, finish, gone, let_pass, read_until,
                   start_process, wait_for)
from run_harness import COMMAND, IMPATIENT, RUNNING, check_living_are_not_blamed, free_port, full_pipe, patience, run, start

SMALL = ["--nics", "2", "--workload", "gpt2", "--scale", "256", "--steps", "2"]
LONG = ["--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps", "100000"]
STANDSTILL_LIMIT_S = 8
HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = os.path.join(HERE, "..", "..", "docs")
ANNOTATION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# Variables that the shell or the launcher of these tests may have set.
LAUNCHERS = ("HAWSER_", "PMIX_", "PMI_", "SLURM_", "OMPI_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")


def environment(**more):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    suppressions = f"suppressions={os.path.join(HERE, 'libpmix.supp')}:print_suppressions=0"
    return {**plain, "LSAN_OPTIONS": suppressions, **more}


def mpirun(ranks, arguments, *options, behind=(), **variables):
    """Starts the command by mpirun on this host alone. mpirun's own connections use loopback."""
    launcher = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if launcher is None:
        raise Skipped("no mpirun here (Debian: openmpi-bin)")
    version = subprocess.run([launcher, "--allow-run-as-root", "--version"], capture_output=True, text=True,
                             check=False).stdout
    if "open-mpi.org" not in version:
        raise Skipped(f"{launcher} is not Open MPI's")
    return start_process(
        [launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
         "--mca", "oob_tcp_if_include", "lo", *options,
         "-n", str(ranks), *COMMAND, "run", *patience(), *arguments, *behind],
        env=environment(TMPDIR=os.getcwd(), **variables))  # it leaves folders behind


def ranks_of(process, count):
    """The command's processes below mpirun, by their ranks in PMIx."""
    def look():
        found = {}
        for child in all_children(process.pid):
            try:
                with open(f"/proc/{child}/environ", "rb") as file:
                    rank = re.search(rb"(?:^|\0)PMIX_RANK=(\d+)\0", file.read())
            except OSError:
                continue
            if rank:
                found[int(rank[1])] = child
        return found if len(found) == count else None
    return wait_for(look, f"{count} ranks", process)


@case(gate=True)
def mpirun_starts_ranks_without_any_variable():
    status, output = finish(mpirun(4, SMALL))
    check(status == 0, output)
    check("4 ranks x 2 NICs" in output, output)
    check("ok: every byte of 104 results is right" in output, output)


@case
def two_hosts_as_far_as_mpirun_knows():
    """Two of mpirun's daemons, each a PMIx server, run on this host by a script in place of ssh.

    PMIx carries data from one daemon to the other, and no rank may rely on loopback: the rendezvous
    is on an address of this host. This is the only case that leaves loopback.
    """
    addresses = [line.split()[3] for line in subprocess.run(
        ["ip", "-o", "-4", "addr", "show", "up", "scope", "global"], capture_output=True, text=True,
        check=False).stdout.splitlines()] if shutil.which("ip") else []
    if not addresses:
        raise Skipped("no address here but loopback's (or no iproute2)")
    agent = os.path.join(os.getcwd(), "agent")
    with open(agent, "w", encoding="utf-8") as file:
        # Called with HOST COMMAND... Each host gets a folder, as both have files of the same names.
        file.write('#!/bin/sh\nmkdir -p "$0.$1"\nexport TMPDIR="$0.$1"\nshift\nexec sh -c "$*"\n')
    os.chmod(agent, 0o755)
    status, output = finish(mpirun(4, SMALL + ["--nic", "udp:127.0.0.1"], "--host", "one:2,two:2", "--mca", "plm", "rsh",
                                   "--mca", "plm_rsh_agent", agent))
    check(status == 0 and "ok: every byte of 104 results is right" in output, f"{status}\n{output}")


@case
def own_variables_outweigh_the_launchers():
    port = free_port()
    status, output = finish(mpirun(2, SMALL, HAWSER_RENDEZVOUS=f"127.0.0.1:{port}"))
    check(status == 0 and "ok: every byte" in output, output)
    # Each of the two processes believes that it is the only rank of a job.
    status, output = finish(mpirun(2, SMALL, HAWSER_RANK="0", HAWSER_SIZE="1",
                                   HAWSER_RENDEZVOUS="127.0.0.1:0"))
    check(output.count("1 rank x 2 NICs") == 2, output)


@case(gate=True)
def mpirun_ends_all_when_a_rank_is_killed():
    process = mpirun(4, LONG)
    ranks = ranks_of(process, 4)
    output = read_until(process, RUNNING)
    os.kill(ranks[2], signal.SIGKILL)
    status, rest = finish(process)
    check(status != 0, output + rest)
    check("exited on signal 9" in rest, output + rest)
    wait_for(lambda: gone(ranks.values()), "the ranks to go with mpirun")


@case
def ranks_that_mpirun_lets_live_name_the_killed_one():
    process = mpirun(4, LONG + IMPATIENT, "--enable-recovery")
    ranks = ranks_of(process, 4)
    output = read_until(process, RUNNING)
    os.kill(ranks[2], signal.SIGKILL)
    _, rest = finish(process)
    check_living_are_not_blamed(rest, 2, (0, 1, 3))
    for rank in (0, 1, 3):
        check(re.search(rf"^hawser: rank {rank}: .*rank 2: peer_(timeout|unreachable)", rest, re.M),
              f"rank {rank} does not name rank 2:\n{output}{rest}")
    wait_for(lambda: gone(ranks.values()), "the ranks to go with mpirun")


@case
def a_rank_that_stands_still_for_good_does_not_outlive_the_timeout():
    """Its peers wait longer than --timeout for it, and nothing but --timeout ends the job."""
    patient = ["--tunable", "peer_timeout_ms=60000", "--timeout", str(STANDSTILL_LIMIT_S)]
    for stopped in (0, 2):
        begun = time.monotonic()
        process = mpirun(4, LONG + patient)
        ranks = ranks_of(process, 4)
        output = read_until(process, RUNNING)
        os.kill(ranks[stopped], signal.SIGSTOP)
        status, rest = finish(process)
        took_s = time.monotonic() - begun
        check(status != 0, output + rest)
        check(re.search(rf"^hawser: rank [0-3]: not finished within {STANDSTILL_LIMIT_S} s \(--timeout\)", rest, re.M),
              output + rest)
        check("ok: every byte" not in rest, output + rest)
        check(took_s < 2 * STANDSTILL_LIMIT_S + 20, f"{took_s:.0f} s\n{output}{rest}")
        wait_for(lambda: gone(ranks.values()), "the ranks to go with mpirun")  # pylint: disable=cell-var-from-loop


@case
def who_never_comes_is_not_waited_for():
    # The job's fourth process never asks for its rank. mpirun ends it when the others fail.
    status, output = finish(mpirun(3, SMALL + ["--timeout", "3"],
                                   behind=[":", "-n", "1", "sleep", str(2 * HANG_LIMIT_S)]))
    check(status == 3, f"{status}\n{output}")
    check(re.search(r"^hawser: rank [012]: PMIx_Fence: not all 4 ranks joined within 3 s", output, re.M), output)


@case
def who_dies_before_the_fence_is_not_waited_for():
    status, output = finish(mpirun(3, SMALL + ["--timeout", "3"], "--enable-recovery",
                                   behind=[":", "-n", "1", "sh", "-c", "kill -9 $$"]))
    for rank in range(3):
        check(f"hawser: rank {rank}: PMIx_Fence: " in output, f"{status}\n{output}")


@case
def others_hear_why_rank_0_can_not_go_on():
    status, output = finish(mpirun(3, SMALL + ["--json", "/no/such/folder/report"], "--enable-recovery"))
    check("hawser: cannot write the report" in output, output)
    for rank in (1, 2):
        check(f"hawser: rank {rank}: rank 0 gave up: cannot write the report" in output,
              f"{status}\n{output}")


@case(gate=True)
def launchers_without_pmix_are_told_what_to_do():
    output, _ = run(SMALL, expected=2, env=environment(
        SLURM_PROCID="1", SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="4", SLURM_LOCALID="1",
        SLURM_STEP_NODELIST="node[1-2]"))
    check("SLURM_PROCID=1" in output and "srun --mpi=pmix" in output, output)
    output, _ = run(SMALL, expected=2, env=environment(PMI_RANK="0", PMI_SIZE="2"))
    check("PMI_RANK=0" in output and "HAWSER_RENDEZVOUS" in output, output)


@case
def a_launcher_that_is_gone():
    output, _ = run(SMALL, expected=2, env=environment(PMIX_RANK="0", PMIX_NAMESPACE="of-yesterday"))
    check("PMIx_Init: " in output or "libpmix.so.2" in output, output)


def pods():
    """The command and the environment of each pod that docs/kubernetes.yaml asks for."""
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Skipped("no yaml here (Debian: python3-yaml)") from error
    with open(os.path.join(PAGES, "kubernetes.yaml"), encoding="utf-8") as file:
        service, job = yaml.safe_load_all(file)
    check(service["kind"] == "Service" and service["spec"]["clusterIP"] == "None", str(service))
    check(job["kind"] == "Job" and job["spec"]["completionMode"] == "Indexed", str(job))
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    check(spec["completions"] == spec["parallelism"], str(spec))
    check(pod["subdomain"] == service["metadata"]["name"], "the service names no pods")
    check(service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}, "it selects others")
    container = pod["containers"][0]
    port = service["spec"]["ports"][0]["port"]
    for index in range(spec["completions"]):
        variables = {}
        for entry in container["env"]:
            if "valueFrom" in entry:
                check(entry["valueFrom"] == {"fieldRef": {"fieldPath": ANNOTATION}}, str(entry))
                variables[entry["name"]] = str(index)
            else:
                check(isinstance(entry["value"], str), f"{entry}: values are strings")
                variables[entry["name"]] = entry["value"]
        check(variables["HAWSER_SIZE"] == str(spec["completions"]), str(variables))
        first = f"{job['metadata']['name']}-0.{pod['subdomain']}"
        check(variables["HAWSER_RENDEZVOUS"] == f"{first}:{port}", str(variables))
        yield container["command"], variables


@case(gate=True)
def a_job_of_kubernetes():
    """Starts the pods of the manifest on this host. Only the address of rank 0 differs."""
    port = free_port()
    processes = []
    for command, variables in pods():
        check(command[:2] == ["hawser", "run"], str(command))
        variables["HAWSER_RENDEZVOUS"] = f"127.0.0.1:{port}"
        arguments = dict(zip(command[2::2], command[3::2]))
        check(set(arguments) == {"--workload", "--scale", "--steps"}, str(command))
        # The manifest's job would take long where eight ranks share a processor or two.
        arguments.update({"--scale": "256", "--steps": "1", "--nics": "1"})
        processes.append(start([word for pair in arguments.items() for word in pair],
                               env=environment(**variables)))
    outputs = [finish(process) for process in processes]
    check(all(status == 0 for status, _ in outputs), str(outputs))
    check("8 ranks x 1 NIC" in outputs[0][1] and "ok: every byte" in outputs[0][1], outputs[0][1])


def ranks_by_environment(count, arguments):
    port = free_port()
    return [start(arguments, env=environment(HAWSER_RANK=str(rank), HAWSER_SIZE=str(count),
                                             HAWSER_RENDEZVOUS=f"127.0.0.1:{port}"))
            for rank in range(count)]


@case(gate=True)
def ranks_that_others_start_end_themselves_after_their_timeout():
    outputs = [finish(process) for process in ranks_by_environment(2, LONG + ["--timeout", "4"])]
    for rank, (status, output) in enumerate(outputs):
        check(status in (1, 3) and f"hawser: rank {rank}: " in output, str(outputs))
    # The rank that gives up first tells the others, which may report that instead.
    check(any("not finished within 4 s (--timeout)" in output for _, output in outputs), str(outputs))
    check(any(status == 1 for status, _ in outputs), str(outputs))


@case
def a_rank_that_can_not_end_is_ended_after_its_timeout():
    """Rank 0 writes its report into a pipe that nobody reads."""
    with full_pipe(os.path.join(os.getcwd(), "report")) as fifo:
        process, = ranks_by_environment(1, SMALL + ["--timeout", "5", "--json", fifo])
        status, output = finish(process)
    check(status == 1 and "still runs 10 s after --timeout" in output, f"{status}\n{output}")


@case(gate=True)
def the_first_process_of_a_container_ends_on_sigterm():
    """Also before all ranks have met: the kernel gives it no signal that it has no handler for."""
    container = start_process(["unshare", "-pf", *COMMAND, "run", *patience(), *SMALL], env=environment(
        HAWSER_RANK="0", HAWSER_SIZE="2", HAWSER_RENDEZVOUS=f"127.0.0.1:{free_port()}"))
    try:
        output = read_until(container, "rank 0 of 2, according to HAWSER_RANK")
    except Failed as failure:
        if "unshare failed" in str(failure):
            raise Skipped("this user may not make PID namespaces") from failure
        raise
    rank, = all_children(container.pid)
    os.kill(rank, signal.SIGTERM)
    status, rest = finish(container)
    check(status == 130, f"{status}\n{output}{rest}")


@case
def a_rank_without_its_number_is_no_job_of_its_own():
    output, _ = run(SMALL, expected=2, env=environment(
        HAWSER_RANK="", HAWSER_SIZE="8", HAWSER_RENDEZVOUS="127.0.0.1:1"))
    check("hawser: HAWSER_RANK is not set or empty, though HAWSER_SIZE is" in output, output)


@case
def a_name_that_is_never_known():
    for rank in ("0", "1"):
        begun = time.monotonic()
        process = start(SMALL + ["--timeout", "8"], env=environment(  # a dead name server takes 15 s
            HAWSER_RANK=rank, HAWSER_SIZE="2", HAWSER_RENDEZVOUS="no-such-host.invalid:29400"))
        status, output = finish(process)
        check(status == 2 and "host no-such-host.invalid is not known" in output, f"{rank}: {status}\n{output}")
        check(time.monotonic() - begun > 1, f"rank {rank} did not wait for the name:\n{output}")


@case
def a_name_that_becomes_known_later():
    """Both ranks start before the name of rank 0's host exists, as in pods. At first the name has a
    predecessor's address."""
    name, port = "hawser-0.hawser", free_port()
    for file in ("hosts", "resolv.conf"):  # without a name server only the file of hosts counts
        with open(file, "w", encoding="utf-8") as new:
            new.write("127.0.0.1 localhost\n" if file == "hosts" else "")
    script = 'for f in hosts resolv.conf; do mount --bind $f /etc/$f || exit 77; done; exec "$@"'
    job = [*SMALL, "--nic", "udp:127.0.0.1"]  # the host may have no other
    ranks = [start_process(["unshare", "-m", "sh", "-c", script, "sh", *COMMAND, "run", *patience(), *job],
                           env=environment(HAWSER_RANK=str(rank), HAWSER_SIZE="2",
                                           HAWSER_RENDEZVOUS=f"{name}:{port}"))
             for rank in (0, 1)]
    try:
        output = read_until(ranks[0], f"host {name} is not known: .*; trying again")
    except Failed as failure:
        if "unshare failed" in str(failure) or ("ended early" in str(failure) and ranks[0].wait() == SKIPPED):
            raise Skipped("this user may not mount files in a namespace of its own") from failure
        raise
    for address in ("203.0.113.77", "127.0.0.1"):  # TEST-NET-3 is on no host
        with open("hosts", "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{address} {name}\n")
        let_pass(1)
    ends = [finish(rank) for rank in ranks]
    check(all(status == 0 for status, _ in ends), f"{output}{ends}")
    check("ok: every byte" in ends[0][1], str(ends))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return run_harness.main()
        finally:
            os.chdir(HERE)


if __name__ == "__main__":
    if os.path.sep in sys.argv[1]:
        sys.argv[1] = os.path.abspath(sys.argv[1])
    sys.exit(main())
