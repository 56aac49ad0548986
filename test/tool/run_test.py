#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command as its users do: whole runs of several processes over UDP on loopback.

Usage: run_test.py HAWSER CASE     runs one case (ctest does)
       run_test.py HAWSER          runs all
       run_test.py --list          names them

Each case starts the command and checks its exit status, its report and what is left behind.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile

import run_attack  # pylint: disable=unused-import  # its cases name themselves
import run_failures  # pylint: disable=unused-import  # its cases name themselves
import run_host  # pylint: disable=unused-import  # its cases name themselves
import run_one_sided  # pylint: disable=unused-import  # its cases name themselves
from cases import SKIPPED, Skipped, case, check, finish, start_process, wait_for
from run_harness import COMMAND, CSV, SMALL, SMALL_OF_OTHERS, TEXT, free_port, main, run, start, udp_addresses_of

@case
def version():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        number = re.search(r"project\(Hawser VERSION ([\d.]+)", file.read()).group(1)
    ended = subprocess.run([*COMMAND, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    check(re.fullmatch(rf"hawser {re.escape(number)}, commit [\w+]+\n", ended.stdout), ended.stdout)


# --- runs that must be right -----------------------------------------------------------------------


@case
def all_right():
    output, report = run(SMALL)
    check("ok: every byte of" in output, output)
    row = report["collectives"][0]
    check(row["operation"] == "all_reduce" and row["n"] == 26, str(row))
    check(report["verified_bytes"] == 4 * 2 * 1944372, str(report["verified_bytes"]))
    check(report["counters"]["fragments_retransmitted"] <
          0.02 * report["counters"]["data_packets_sent"], output)
    # The report keeps doubled and late packets apart from those that look like a fault.
    for line in output.splitlines():
        if line.startswith("packets not applied:"):
            for reason in ("duplicate_fragment", "below_floor", "stale_path", "stale_session", "old_path_number"):
                check(reason not in line, output)


@case(gate=True)
def all_kinds_of_faults_together():
    output, report = run(SMALL + ["--loss", "0.05", "--duplicate", "0.01", "--reorder", "0.05",
                                  "--corrupt", "0.001", "--seed", "3",
                                  "--tunable", "fragment_bytes=4096"])
    check(report["counters"]["fragments_retransmitted"] > 0, output)
    check(report["drops"].get("bad_checksum", 0) > 0, output)


@case(gate=True)
def three_of_four_nics_die_and_return():
    output, report = run(["--ranks", "2", "--nics", "4", "--workload", "gpt2", "--scale", "64",
                          "--steps", "8", "--kill-nic", "0@1/8", "--kill-nic", "1@2/8",
                          "--kill-nic", "2@0.3", "--revive-nic", "0@5/8", "--revive-nic", "1@0.7",
                          "--revive-nic", "2@6/8"])
    parts = {row["faults"]: row["n"] for row in report["collectives"]}
    check(parts.keys() == {"before", "during", "after"}, str(parts))
    check(sum(parts.values()) == 8 * 13, str(parts))
    check(report["counters"]["paths_down"] > 0, output)
    check(len(re.findall(r"^rank \d: NIC 0 killed, silently$", output, re.M)) == 2, output)


@case
def nic_death_with_an_event_and_degraded_nic():
    run(SMALL + ["--kill-nic", "1.0@0.2:event", "--revive-nic", "1.0@0.6:event",
                 "--degrade-nic", "1@0.5:20M", "--revive-nic", "1@0.8"])


def seen_fault(arguments, text):
    """Runs three ranks with three NICs each; returns the report of the only fault."""
    output, report = run(["--ranks", "3", "--nics", "3", "--workload", "gpt2", "--scale", "8",
                          "--steps", "16", *arguments])
    told = report["timed_faults"]
    fault = next(row for row in told["injected"] if text in row["text"])
    check(fault["hit"] > 0 and fault["path_down"]["n"] == fault["hit"], output)
    # On a busy host a path may go down for a moment, but no healthy NIC is blamed for long.
    lasting = [seen for seen in told["not_injected"] if seen["verdict"].startswith("NIC") and
               seen.get("to_ns", 1e18) - seen["from_ns"] > 2e9]
    check(not lasting, f"{lasting}\n{output}")
    return fault, output


@case
def black_holes_of_one_way_and_both():
    for way, text in (("tx", "loses all that it sends"), ("rx", "loses all that it receives"),
                      ("both", "loses all packets")):
        fault, output = seen_fault(["--blackhole", f"1.2@2/16:{way}"], f"rank 1: NIC 2 {text}")
        check(fault["blamed"]["n"] == 1, f"{way}: the NIC was not blamed:\n{output}")


@case
def a_black_hole_that_ends():
    fault, output = seen_fault(["--blackhole", "1@2/16:rx", "--revive-nic", "1@8/16"],
                               "every rank: NIC 1")
    check(fault["hit"] == 3, output)
    check(re.search(r"^1 +3 UP ", output, re.M), f"NIC 1 did not come back:\n{output}")


@case
def a_dead_nic_at_one_end_and_a_black_hole_at_the_other():
    """Of the four pairs of NICs only one still carries packets both ways."""
    for _ in range(2):
        output, report = run(["--ranks", "2", "--nics", "2", "--workload", "gpt2", "--scale", "20", "--steps", "20",
                              "--kill-nic", "1.1@1/4", "--blackhole", "0.1@1/4:rx"])
        check("ok: every byte of 520 results" in output, output)
        check("rank 1: NIC 1 killed" in output and "rank 0: NIC 1 loses all that it receives" in output, output)
        check(report["counters"]["paths_down"] > 0, output)
        states = [[nic["state"] for nic in rank["nics"]] for rank in report["ranks"]]
        check(states[0][0] == states[1][0] == "UP" and states[1][1] == "DOWN", f"{states}\n{output}")


@case
def uneven_all_to_all():
    output, report = run(["--ranks", "4", "--nics", "2", "--workload", "moe", "--scale", "512",
                          "--steps", "1", "--loss", "0.01"])
    check(report["collectives"][0]["operation"] == "all_to_all", output)
    check("expert groups of 8 ranks are clamped to 4" in output, output)


@case(gate=True)
def workloads_from_files():
    with tempfile.TemporaryDirectory() as folder:
        for text, n in ((TEXT, {"all_reduce": 3, "reduce_scatter": 6, "all_gather": 3,
                                "all_to_all": 6, "broadcast": 3}),
                        (CSV, {"all_reduce": 3, "shift_next": 3, "shift_prev": 3,
                               "all_gather": 3})):
            path = os.path.join(folder, "job")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            output, report = run(["--ranks", "4", "--nics", "2", "--steps", "3", "--workload", path,
                                  "--loss", "0.01"])
            found = {row["operation"]: row["n"] for row in report["collectives"]}
            check(found == n, f"{found}\n{output}")


@case(gate=True)
def single_collectives_of_every_type():
    output, report = run(["--ranks", "3", "--nics", "2", "--collective", "all", "--types", "all",
                          "--sizes", "8:8K:1024", "--iterations", "2", "--warmup", "1"])
    rows = report["single_collectives"]
    check(len({row["operation"] for row in rows}) == 9, str(rows))
    check(len({row["type"] for row in rows}) == 11, str(rows))  # the ten, and bytes
    check(len(rows) == 3 * 10 * 2 + 5 * 2 + 1, str(len(rows)))
    check(not report["collectives"], str(report["collectives"]))
    for row in rows:
        both = [row["out_of_place"], row["in_place"]]
        figures = [one for one in both if one is not None]
        check(len(figures) == (1 if row["operation"] in ("broadcast", "barrier") else 2), str(row))
        for one in figures:
            # A barrier has no bytes that could be wrong.
            wanted = None if row["operation"] == "barrier" else 0
            check(one["n"] == 2 and one["wrong"] == wanted and one["mean_ns"] > 0, str(row))
    check(re.search(r"^reduce_scatter f8e5m2 +9 .* 0 .* 0$", output, re.MULTILINE), output)


@case
def single_collectives_while_a_nic_dies():
    output, report = run(["--ranks", "3", "--nics", "2", "--collective", "all_reduce,all_to_all", "--steps", "3",
                          "--sizes", "1K:256K:16", "--loss", "0.01",
                          "--kill-nic", "1.0@1/3", "--revive-nic", "1.0@2/3"])
    for when in ("before", "during", "after"):
        rows = [row for row in report["single_collectives"] if row["faults"] == when]
        check(len(rows) == 6, f"{when}: {rows}")
        for row in rows:
            check(row["in_place"]["n"] == 20 and row["in_place"]["wrong"] == 0, str(row))
        check(f" {when} " in output, output)
    check(report["counters"]["paths_down"] > 0, output)


@case(gate=True)
def all_reduces_follow_the_bandwidths_of_ranks():
    words = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "128", "--follow-bandwidths",
             "--check-bytes", "1000000"]
    output, report = run(words + ["--steps", "8", "--kill-nic", "1.0@1/4"])
    left = report["bandwidths"]
    check(len(left) == 4 and left[0] == left[2] == left[3] and left[1] * 2 == left[0], str(left))
    check(f"divided by {', '.join(str(one) for one in left)} at the end" in output, output)
    output, report = run(words + ["--steps", "1"])
    check(report["bandwidths"] == [] and "bandwidths: the same for all ranks" in output, output)


@case
def one_rank_alone():
    for workload in ("gpt2", "moe"):
        output, report = run(["--ranks", "1", "--nics", "1", "--workload", workload, "--scale",
                              "1024", "--steps", "1"])
        check("1 rank x 1 NIC" in output and ", 1 step of" in output, output)
        check(report["counters"]["messages_sent"] == 0, output)


@case(gate=True)
def engine_threads():
    run(SMALL + ["--threads", "1", "--loss", "0.01"])


@case
def too_little_memory_may_be_locked():
    """Neither UDP nor the packet pools need locked memory."""
    def limit():
        import resource  # pylint: disable=import-outside-toplevel
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    run(SMALL, preexec_fn=limit)


def command_starts(restrict):
    """Whether the command starts at all under a limit."""
    ended = subprocess.run([*COMMAND, "--version"], capture_output=True, check=False, preexec_fn=restrict)
    return ended.returncode == 0


@case
def limits_of_a_process_are_told_before_the_run_or_kept():
    """As `ulimit -v` and `ulimit -d` set them, and Grid Engine's h_vmem. A limit rises until the job fits."""
    import resource  # pylint: disable=import-outside-toplevel
    job = ["--ranks", "2", "--nics", "2", "--workload", "gpt2", "--steps", "1"]
    told = re.compile(r"the limits of a process \(ulimit -v, ulimit -d\) leave it (?:.*, or (--scale \d+) would fit)?")
    step = 32 << 20
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        starts, scale, status, output = False, None, None, ""
        for size in range(4 * step, 64 * step, step):
            def restrict(limit=limit, size=size):
                resource.setrlimit(limit, (size, size))
            # Where it just starts, it may have no room to say more.
            starts = command_starts(lambda restrict=restrict, size=size: restrict(size=size - step))
            if not starts:
                continue
            status, output = finish(start(job, preexec_fn=restrict))
            if status == 0:
                break
            refused = told.search(output)
            check(status == 2 and refused, f"{limit}, {size}: {status}\n{output}")
            if refused[1] and not scale:
                scale = refused[1]
                status, output = finish(start(job + scale.split(), preexec_fn=restrict))
                check(status == 0 and "ok: every byte" in output, f"{limit}, {size}, {scale}: {status}\n{output}")
        if not starts:
            raise Skipped("a program of this build doesn't start with so little address space (sanitizers)")
        check(status == 0 and scale and "ok: every byte" in output, f"{limit}: {status}, {scale}\n{output}")


@case(gate=True)
def too_few_open_files_are_told_with_what_to_do():
    for files, ranks in ((16, "1"), (16, "4"), (8, "4"), (5, "4")):  # of a rank, and of their launcher
        def limit(files=files):
            import resource  # pylint: disable=import-outside-toplevel
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        status, output = finish(start([*SMALL_OF_OTHERS, "--ranks", ranks], preexec_fn=limit))
        check("raise this process's limit of open files (ulimit -n)" in output, f"{files}: {status}\n{output}")
        check(status == 2, f"{files}: {status}\n{output}")


@case
def where_proc_is_not_mounted():
    """Without /proc ranks start all the same, and `info` makes up no figures."""
    def without_proc(arguments):
        script = 'umount -l /proc || exit 77; exec "$@"'
        return finish(start_process(["unshare", "-m", "sh", "-c", script, "sh", *COMMAND, *arguments]))
    status, output = without_proc(["run", *SMALL])
    if status == SKIPPED or "unshare failed" in output:
        raise Skipped("this user may not unmount /proc in a namespace of its own")
    check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")
    status, output = without_proc(["info"])
    check(status == 0 and re.search(r"memory available +unknown", output), f"{status}\n{output}")


@case(gate=True)
def no_file_may_grow():
    """A rank's memory is not a file, which `ulimit -f` would limit."""
    def limit():
        import resource  # pylint: disable=import-outside-toplevel
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    status, output = finish(start(SMALL, preexec_fn=limit))
    check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case(gate=True)
def ranks_that_others_start():
    """Starts ranks as torchrun does, once with its variables and once with our own."""
    for own in (False, True):
        port = free_port()
        processes = []
        for rank in range(3):
            environment = dict(os.environ)
            if own:
                environment.update(HAWSER_RANK=str(rank), HAWSER_SIZE="3",
                                   HAWSER_RENDEZVOUS=f"127.0.0.1:{port}")
            else:
                environment.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank),
                                   LOCAL_WORLD_SIZE="3", MASTER_ADDR="127.0.0.1",
                                   MASTER_PORT=str(port))
            processes.append(start(["--nics", "2", "--workload", "gpt2", "--scale", "256",
                                    "--steps", "2"], env=environment))
        outputs = []
        for process in processes:
            status, output = finish(process)
            outputs.append(output)
            check(status == 0, output)
        check("ok: every byte of 78 results is right" in outputs[0], outputs[0])


def udp_ports_of(pid):
    """The addresses of a rank's sockets, once all are open."""
    found = udp_addresses_of(pid)
    return found if len(found) >= 4 else []


def joined(rank, port):
    return start(["--nics", "2", "--workload", "gpt2", "--scale", "32", "--steps", "12", "--json", "-"],
                 env={**os.environ, "HAWSER_RANK": str(rank), "HAWSER_SIZE": "2",
                      "HAWSER_RENDEZVOUS": f"127.0.0.1:{port}"})


@case(gate=True)
def random_bytes_at_the_ports():
    """Rank 1 stands still until rank 0 has been sent bytes: the job can't end before them."""
    port = free_port()
    ranks = [joined(rank, port) for rank in range(2)]
    targets = wait_for(lambda: udp_ports_of(ranks[0].pid), "rank 0's sockets", ranks[0])
    ranks[1].send_signal(signal.SIGSTOP)
    stopped = True
    dice = random.Random(1)
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while ranks[0].poll() is None and sent < 20000:
            for target in targets:
                try:
                    sender.sendto(dice.randbytes(dice.randrange(1, 1500)), target)
                except OSError:
                    pass
                sent += 1
            if sent >= 2000 and stopped:
                ranks[1].send_signal(signal.SIGCONT)
                stopped = False
            elif not stopped and len(targets) == 4:
                targets = targets + udp_ports_of(ranks[1].pid)
    ends = [finish(rank) for rank in ranks]
    output = ends[0][1]
    check(len(ends) == 2 and all(status == 0 for status, _ in ends), str(ends))
    report = json.loads(output[output.index("{\n"):output.rindex("\n}") + 2])
    dropped = sum(report["drops"].values())
    check(dropped > 50, f"{sent} sent, {dropped} dropped: {report['drops']}\n{output}")


if __name__ == "__main__":
    sys.exit(main())
