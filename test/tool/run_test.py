#!/usr/bin/env python3
"""The command as its users meet it: whole runs of several processes over UDP on loopback.

Usage: run_test.py HAWSER CASE     runs one case (ctest does)
       run_test.py HAWSER          runs all
       run_test.py --list          names them

Each case starts the command, looks at its exit status, its report and what is left behind.
"""

import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

HAWSER = None
CASES = {}
# Small, but with all that a run has: two steps of 13 all-reduces of up to 690 kB.
SMALL = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "256", "--steps", "2"]
# Of a case, generous: sanitizers and a busy host are slow.
LIMIT_S = 100


def case(function):
    CASES[function.__name__] = function
    return function


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def start(arguments, **options):
    """Starts `hawser run`; its standard output and error come together, line by line."""
    return subprocess.Popen([HAWSER, "run", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, bufsize=1, **options)


def finish(process, limit=LIMIT_S):
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise Failed(f"no end within {limit} s:\n{output}")
    return process.returncode, output


def run(arguments, expected=0, **options):
    """Runs to the end; returns (output, report)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        status, output = finish(start([*arguments, "--json", path], **options))
        check(status == expected, f"exit status {status} instead of {expected}:\n{output}")
        report = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
    if expected == 0:
        check(report["exit_code"] == 0 and report["complete"] and not report["wrong"], output)
        # Since all ranks came together last; what a process had received that is gone, nobody knows.
        sent, received = (report["counters"][name] -
                          sum(rank[f"{name}_before"] for rank in report["ranks"])
                          for name in ("messages_sent", "messages_received"))
        check(sent == received, f"{sent} sent, {received} received:\n{output}")
    return output, report


def read_until(process, pattern, limit=30):
    """Reads lines until one matches; returns what was read."""
    text = ""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        readable, _, _ = select.select([process.stdout], [], [], 0.2)
        if not readable:
            check(process.poll() is None, f"ended early:\n{text}")
            continue
        line = process.stdout.readline()
        check(line != "", f"ended early:\n{text}")
        text += line
        if re.search(pattern, line):
            return text
    raise Failed(f"no line like '{pattern}':\n{text}")


def wait_for(condition, what, limit=30):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        select.select([], [], [], 0.02)
    raise Failed(f"waited in vain for {what}")


def children(pid):
    """The rank processes of a launcher, by rank."""
    ranks = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) != pid or fields[0] == "Z":
            continue
        for variable in environment:
            if variable.startswith(b"HAWSER_RANK="):
                ranks[int(variable[12:])] = int(entry)
    return ranks


def gone(pids):
    return all(not os.path.exists(f"/proc/{pid}") or
               open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] == "Z"
               for pid in pids)


def all_ranks(process, count):
    return wait_for(lambda: (lambda found: found if len(found) == count else None)(
        children(process.pid)), f"{count} ranks")


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


@case
def all_kinds_of_faults_together():
    output, report = run(SMALL + ["--loss", "0.05", "--duplicate", "0.01", "--reorder", "0.05",
                                  "--corrupt", "0.001", "--seed", "3"])
    check(report["counters"]["fragments_retransmitted"] > 0, output)
    check(report["drops"].get("bad_checksum", 0) > 0, output)


@case
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
    """A run of three ranks and NICs each; returns its report of one fault, which must be all."""
    output, report = run(["--ranks", "3", "--nics", "3", "--workload", "gpt2", "--scale", "8",
                          "--steps", "16", *arguments])
    told = report["timed_faults"]
    fault = next(row for row in told["injected"] if text in row["text"])
    check(fault["hit"] > 0 and fault["path_down"]["n"] == fault["hit"], output)
    check(not told["not_injected"], output)
    return fault, output


@case
def black_holes_of_one_way_and_both():
    for way, text in (("tx", "loses all that it sends"), ("rx", "loses all that it gets"),
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
def uneven_all_to_all():
    output, report = run(["--ranks", "4", "--nics", "2", "--workload", "moe", "--scale", "512",
                          "--steps", "1", "--loss", "0.01"])
    check(report["collectives"][0]["operation"] == "all_to_all", output)
    check("expert groups of 8 ranks are clamped to 4" in output, output)


TEXT = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 all_gpus: 4
3
embedding -1 1 ALLREDUCE 100000 1 NONE 0 1 REDUCESCATTER 400001 1
attention -1 1 ALLGATHER 300000 1 REDUCESCATTER 300000 1 NONE 0 1
moe -1 1 ALLTOALL_EP 200000 1 ALLTOALL_EP 200000 1 BROADCAST 77777 1
"""
CSV = """[ pp_stage0: [rank0, rank1] ]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
CommType.barrier,CommGroup.all,4,0,init,None,None,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.all_reduce,CommGroup.tp_group,2,100001,forward,None,None,,None,None,None,1
CommType.isend,CommGroup.pp_group,1,200000,forward,None,None,send_next,None,None,None,1
CommType.irecv,CommGroup.pp_group,1,200000,backward,None,None,recv_next,None,None,None,1
CommType.all_gather,CommGroup.dp_group,2,1,step,None,None,,None,None,None,1
[ pp_stage1: [rank2, rank3] ]
"""


@case
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


@case
def one_rank_alone():
    for workload in ("gpt2", "moe"):
        output, report = run(["--ranks", "1", "--nics", "1", "--workload", workload, "--scale",
                              "1024", "--steps", "1"])
        check("1 rank x 1 NIC" in output and ", 1 step of" in output, output)
        check(report["counters"]["messages_sent"] == 0, output)


@case
def engine_threads():
    run(SMALL + ["--threads", "1", "--loss", "0.01"])


@case
def too_little_memory_may_be_locked():
    """Neither UDP nor the packet pools need locked memory."""
    def limit():
        import resource  # pylint: disable=import-outside-toplevel
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    run(SMALL, preexec_fn=limit)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@case
def ranks_that_others_start():
    """As torchrun does it; once with its variables and once with our own."""
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


@case
def random_bytes_at_the_ports():
    process = start(["--ranks", "2", "--nics", "2", "--workload", "gpt2", "--scale", "32",
                     "--steps", "12", "--json", "-"])
    ranks = all_ranks(process, 2)

    def ports():
        """Our own ranks' sockets: their inodes, looked up in the kernel's table."""
        inodes = set()
        for pid in ranks.values():
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    link = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if link.startswith("socket:["):
                        inodes.add(link[8:-1])
            except OSError:
                pass
        found = []
        with open("/proc/net/udp", encoding="utf-8") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[9] not in inodes:
                    continue
                address, number = fields[1].split(":")
                packed = bytes.fromhex(address)[::-1]
                found.append((socket.inet_ntoa(packed), int(number, 16)))
        return found if len(found) >= 8 else None

    targets = wait_for(ports, "the ranks' sockets")
    dice = random.Random(1)
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while process.poll() is None and sent < 20000:
            for target in targets:
                try:
                    sender.sendto(dice.randbytes(dice.randrange(1, 1500)), target)
                except OSError:
                    pass
                sent += 1
    status, output = finish(process)
    check(status == 0, output)
    report = json.loads(output[output.index("{\n"):output.rindex("\n}") + 2])
    dropped = sum(report["drops"].values())
    check(dropped > 50, f"{sent} sent, {dropped} dropped: {report['drops']}\n{output}")


# --- failures --------------------------------------------------------------------------------------

LONG = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "16", "--steps", "100000"]
IMPATIENT = ["--tunable", "peer_timeout_ms=1500"]


def check_failure(output, dead, survivors):
    for rank in survivors:
        line = re.search(rf"^rank {rank}: (.*)$", output, re.M)
        lines = [text for text in output.splitlines() if text.startswith(f"rank {rank}: ")]
        check(line and any(f"rank {dead}" in text for text in lines),
              f"rank {rank} does not name rank {dead}:\n{output}")
    ended = re.search(r"all ranks had ended ([\d.]+) s after", output)
    check(ended and float(ended[1]) < 15, output)


@case
def rank_kills_itself():
    output, _ = run(["--ranks", "5", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps",
                     "4", "--kill-rank", "3@0.6", *IMPATIENT], expected=3)
    check("rank 3 was ended by SIGKILL" in output, output)
    check_failure(output, 3, (0, 1, 2, 4))


@case
def rank_killed_from_outside():
    process = start(LONG + IMPATIENT)
    ranks = all_ranks(process, 4)
    read_until(process, r"^ *\d+%")
    os.kill(ranks[1], signal.SIGKILL)
    status, output = finish(process)
    check(status == 3, output)
    check_failure(output, 1, (0, 2, 3))
    check(gone(ranks.values()), "ranks are left behind")


# --- ranks that are started again ------------------------------------------------------------------

FOUR = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps", "6"]


@case
def rank_started_again():
    for extra in ([], ["--threads", "1"], ["--loss", "0.02"]):
        output, report = run(FOUR + ["--restart-rank", "2@0.55", *extra])
        check(len(re.findall(r"^rank 2 was ended by SIGKILL, and is started again$", output,
                             re.M)) == 1, output)
        for rank in (0, 1, 3):
            check(re.search(rf"^rank {rank}: .*rank 2: peer_\w+", output, re.M),
                  f"rank {rank} does not name rank 2:\n{output}")
        check(len(report["recoveries"]) == 1 and "step 4 was repeated" in report["recoveries"][0],
              output)
        told = [rank["recoveries"] for rank in report["ranks"]]
        check([len(list_) for list_ in told] == [1, 1, 0, 1], str(told))
        check([rank["life"] for rank in report["ranks"]] == [0, 0, 1, 0], output)
        check(all(row["n"] == 6 * 13 for row in report["collectives"]), output)


@case
def ranks_started_again_twice_and_together():
    output, report = run(FOUR + ["--restart-rank", "1@0.5", "--restart-rank", "3@0.5",
                                 "--restart-rank", "1@0.75", "--restart-rank", "0@0"])
    check([rank["life"] for rank in report["ranks"]] == [1, 2, 0, 1], output)


@case
def rank_started_again_among_groups_and_stages():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job")
        for text in (TEXT, CSV):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for when in ("0", "0.4", "0.5", "0.9"):
                run(["--ranks", "4", "--nics", "2", "--steps", "3", "--workload", path,
                     "--restart-rank", f"3@{when}"])


@case
def another_rank_dies_after_one_was_started_again():
    output, _ = run(FOUR + ["--restart-rank", "2@0.3", "--kill-rank", "1@0.7", *IMPATIENT],
                    expected=3)
    check("rank 2 was ended by SIGKILL, and is started again" in output, output)
    check_failure(output, 1, (0, 2, 3))


@case
def rank_started_again_dies_at_once():
    process = start(LONG + IMPATIENT + ["--restart-rank", "2@0.0001"])
    ranks = all_ranks(process, 4)
    output = read_until(process, "and is started again")
    again = wait_for(lambda: children(process.pid).get(2) not in (None, ranks[2]) and
                     children(process.pid)[2], "the new process")
    os.kill(again, signal.SIGKILL)
    status, rest = finish(process)
    output += rest
    check(status == 3, f"exit status {status}:\n{output}")
    for rank in (0, 1, 3):
        check(re.search(rf"^rank {rank}: .*[Rr]ank 2", output, re.M), f"rank {rank}:\n{output}")
    check(gone([*ranks.values(), again]), "ranks are left behind")


@case
def who_was_not_started_here_is_not_started_again():
    environment = dict(os.environ, HAWSER_RANK="0", HAWSER_SIZE="2",
                       HAWSER_RENDEZVOUS=f"127.0.0.1:{free_port()}")
    status, output = finish(start(SMALL + ["--restart-rank", "0@0.5"], env=environment))
    check(status == 2 and "who started this rank" in output, f"{status}\n{output}")


@case
def rank_stopped_for_a_moment():
    process = start(["--ranks", "3", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps",
                     "20"])
    ranks = all_ranks(process, 3)
    os.kill(ranks[1], signal.SIGSTOP)
    output = read_until(process, "rank 1 is stopped")
    deadline = time.monotonic() + 1.5  # far below peer_timeout
    wait_for(lambda: time.monotonic() > deadline, "time to pass")
    os.kill(ranks[1], signal.SIGCONT)
    status, rest = finish(process)
    check(status == 0, output + rest)
    check("rank 1 goes on" in rest, rest)


@case
def rank_stopped_for_too_long():
    process = start(LONG + ["--tunable", "peer_timeout_ms=1000"])
    ranks = all_ranks(process, 4)
    output = read_until(process, r"^ *\d+%")
    os.kill(ranks[2], signal.SIGSTOP)
    others = [pid for rank, pid in ranks.items() if rank != 2]
    wait_for(lambda: gone(others), "the others to give up")
    check(process.poll() is None, "the launcher did not wait for the stopped rank")
    os.kill(ranks[2], signal.SIGCONT)
    status, rest = finish(process)
    output += rest
    check(status == 3, output)
    check_failure(output, 2, (0, 1, 3))
    check(re.search(r"^rank 2: held for dead by others", output, re.M),
          f"rank 2 does not report failure:\n{output}")


@case
def interrupted():
    process = start(LONG, start_new_session=True)
    ranks = all_ranks(process, 4)
    read_until(process, r"^ *\d+%.* Gb/s")
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all of the group
    status, output = finish(process)
    check(status == 130, f"{status}\n{output}")
    check(time.monotonic() - begun < 10, "took too long")
    check("ending all ranks" in output, output)
    check(not re.search(r"^ *\d+%", output.split("ending all ranks")[1], re.M),
          f"progress of a run that has been ended:\n{output}")
    check(gone(ranks.values()), "ranks are left behind")


@case
def launcher_killed():
    process = start(LONG)
    ranks = all_ranks(process, 4)
    read_until(process, r"^ *\d+%")
    process.kill()
    process.wait()
    wait_for(lambda: gone(ranks.values()), "the ranks to go with their launcher", 5)


@case
def not_in_time():
    begun = time.monotonic()
    output, _ = run(LONG + ["--timeout", "3"], expected=1)
    check("not finished within 3 s" in output, output)
    check(time.monotonic() - begun < 12, output)


# --- bad input -------------------------------------------------------------------------------------


def refused(arguments, text, expected=2):
    output, _ = run(arguments, expected)
    check(re.search(text, output), f"no '{text}' in:\n{output}")


@case
def bad_workloads():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE lots 5\n")
        refused(["--workload", path],
                r"job.txt:3: weight gradient bytes must be a whole number, not 'lots'")
        with open(path, "w", encoding="utf-8") as file:
            file.write("DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 900000000000000 5\n")
        refused(["--workload", path], r"8 ranks need [\d.]+ GB of memory .* are available; --scale")
    refused(["--workload", "gpt5"], "neither a file nor built in")


@case
def bad_options():
    refused(["--loss", "2"], "fault 'loss=2' is not a probability")
    refused(["--kill-nic", "9@1/3"], "names NIC 9; NICs go from 0 to 3")
    refused(["--kill-nic", "2"], r"expected \[RANK.\]NIC@WHEN")
    refused(["--blackhole", "2@1/3:up"], r"expected \[RANK.\]NIC@WHEN\[:tx\|:rx\|:both\]")
    refused(["--ranks", "many"], "ranks")
    refused(["--nosuch"], "nosuch")
    refused(SMALL + ["--tunable", "peer_timeout_ms=0"], "takes 10 to 86400000")
    status, output = finish(start(SMALL + ["--json", "/nosuch/folder/report.json"]))
    check(status == 2 and "cannot write the report" in output, output)


@case
def addresses_that_do_not_exist():
    # TEST-NET-3 (RFC 5737) is on no host.
    refused(["--ranks", "2", "--nic", "udp:203.0.113.77"], r"203\.0\.113\.77")
    refused(["--ranks", "2", "--nic", "carrier-pigeon"], "carrier-pigeon")


@case
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environment = dict(os.environ, HAWSER_RANK="0", HAWSER_SIZE="2",
                           HAWSER_RENDEZVOUS=f"127.0.0.1:{taken.getsockname()[1]}")
        status, output = finish(start(SMALL, env=environment))
        check(status == 2 and "another program has that port" in output, f"{status}\n{output}")


@case
def info():
    output = subprocess.run([HAWSER, "info"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for word in ("udp:127.0.0.1", "memlock", "rmem_max", "hugepages", "peer_timeout_ms",
                 "fragment_bytes", "command_budget"):
        check(word in output, f"no {word} in:\n{output}")


def main():
    global HAWSER  # pylint: disable=global-statement
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return 0
    HAWSER = os.path.abspath(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        begun = time.monotonic()
        try:
            CASES[name]()
        except Failed as failure:
            print(f"{name}: {failure}")
            return 1
        print(f"{name}: ok, {time.monotonic() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
