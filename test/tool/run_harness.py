# SPDX-License-Identifier: Apache-2.0
"""Helpers of run_test.py's cases: they start the command, wait for it, and check what it left."""

import contextlib
import json
import os
import re
import socket
import sys
import tempfile

from cases import check, finish, run_cases, runs_in_gate, start_process, wait_for

COMMAND = []  # the path of `hawser`, once it is known
# Small, but with all parts of a run: two steps of 13 all-reduces of up to 690 kB.
SMALL_OF_OTHERS = ["--nics", "2", "--workload", "gpt2", "--scale", "256", "--steps", "2"]  # who starts it says how many
SMALL = ["--ranks", "4", *SMALL_OF_OTHERS]
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
# The machine may keep a rank of a gate case waiting for 30 s, and that rank must not seem dead.
# Other cases have the command's own peer_timeout, or set one: the last option on the line wins.
PATIENT = ["--tunable", "peer_timeout_ms=60000"]
BY_DEFAULT = ["--tunable", "peer_timeout_ms=10000"]
IMPATIENT = ["--tunable", "peer_timeout_ms=1500"]


def patience():
    return PATIENT if runs_in_gate() else []


def start(arguments, **options):
    """Starts `hawser run`, with standard error in the same stream as standard output."""
    return start_process([*COMMAND, "run", *patience(), *arguments], **options)


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
        # Counts since all ranks last came together: nobody knows what a dead process had received.
        sent, received = (report["counters"][name] -
                          sum(rank[f"{name}_before"] for rank in report["ranks"])
                          for name in ("messages_sent", "messages_received"))
        check(sent == received, f"{sent} sent, {received} received:\n{output}")
    return output, report


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


def all_ranks(process, count):
    return wait_for(lambda: (lambda found: found if len(found) == count else None)(
        children(process.pid)), f"{count} ranks")


def udp_addresses_of(pid):
    """The addresses of a process' UDP sockets, which the kernel's table lists by inode."""
    inodes = set()
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
    return found


def clog(path):
    """Fills a pipe with lines, until its reader reads them."""
    end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(end, b"." * 4095 + b"\n")
    except BlockingIOError:
        os.close(end)


@contextlib.contextmanager
def full_pipe(path):
    """Makes a named pipe that is full and has a reader, which never reads."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        clog(path)
        yield path
    finally:
        os.close(reader)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A progress line that only connected ranks print. Before it, a rank's death gets another message.
RUNNING = r"^ *\d+%.*( Gb/s| of the run)"
LONG = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "16", "--steps", "100000"]


def check_living_are_not_blamed(output, dead, survivors):
    for rank in survivors:
        for line in re.findall(rf"^(?:hawser: )?rank {rank}: (.*)$", output, re.M):
            blamed = {int(number) for number in re.findall(r"rank (\d+): peer_(?:timeout|unreachable)", line)}
            check(not blamed - {dead} and "declared dead by other ranks" not in line,
                  f"a living rank was taken for dead: rank {rank}: {line}\n{output}")
    check("did not notice in time that others had ended" not in output, output)


def check_failure(output, dead, survivors, within_s=15):
    """Checks that every survivor names the dead rank, and that all ended by themselves."""
    for rank in survivors:
        lines = [text for text in output.splitlines() if text.startswith(f"rank {rank}: ")]
        check(any(f"rank {dead}" in text for text in lines), f"rank {rank} does not name rank {dead}:\n{output}")
    ended = re.search(r"all ranks had ended ([\d.]+) s after", output)
    check(ended and float(ended[1]) < within_s, output)


def main():
    """A program's main: `--list [TIER]`, or the path of `hawser` and the cases (all)."""
    words = sys.argv[1:]
    if words[:1] != ["--list"]:
        COMMAND.append(os.path.abspath(words.pop(0)))
    return run_cases(words)
