"""What the cases of run_test.py share: they start the command, wait for it, and look at what it left."""

import functools
import json
import os
import re
import socket
import sys
import tempfile

from cases import Failed, check, finish, run_cases, start_process, wait_for

COMMAND = []  # the path of `hawser`, once it is known
# Small, but with all that a run has: two steps of 13 all-reduces of up to 690 kB.
SMALL = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "256", "--steps", "2"]
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
# The machine may keep a rank waiting for 30 s, and that rank must not look dead to the others. A case about dead
# ranks sets its own peer_timeout: its --tunable comes later and wins.
PATIENT = ["--tunable", "peer_timeout_ms=60000"]
# The peer_timeout of a case about a dead rank, attempt by attempt.
PATIENCES_MS = (1500, 15_000, 60_000)


def start(arguments, **options):
    """Starts `hawser run`; its standard output and error come together."""
    return start_process([*COMMAND, "run", *PATIENT, *arguments], **options)


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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A line of progress that only ranks that have met print. The others name a rank that dies earlier in other words.
RUNNING = r"^ *\d+%.*( Gb/s| of the run)"
LONG = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "16", "--steps", "100000"]


class TakenForDead(Failed):
    """A living rank looked dead to another one."""


def patient(function):
    """Gives a case about a dead rank the options with a peer_timeout.

    Time alone tells a dead rank from one that the machine keeps waiting. If the machine stands for longer than
    peer_timeout, the ranks give up living ones, as they should, and the case repeats with more patience.
    """
    @functools.wraps(function)
    def repeated():
        for timeout_ms in PATIENCES_MS:
            try:
                return function(["--tunable", f"peer_timeout_ms={timeout_ms}"])
            except TakenForDead as found:
                if timeout_ms == PATIENCES_MS[-1]:
                    raise
                print(f"peer_timeout_ms={timeout_ms}, now longer: {found}", flush=True)
        raise AssertionError("no patience at all")
    return repeated


def check_living_are_not_blamed(output, dead, survivors):
    """Raises TakenForDead. A patient case calls this before any other check of its output."""
    for rank in survivors:
        for line in re.findall(rf"^(?:hawser: )?rank {rank}: (.*)$", output, re.M):
            blamed = {int(number) for number in re.findall(r"rank (\d+): peer_(?:timeout|unreachable)", line)}
            if blamed - {dead} or "held for dead by others" in line:
                raise TakenForDead(f"rank {rank}: {line}\n{output}")
    if "did not notice in time that others had ended" in output:
        raise TakenForDead(output)


def check_failure(output, dead, survivors):
    """Every survivor names the dead rank, and all ended without being asked to."""
    for rank in survivors:
        lines = [text for text in output.splitlines() if text.startswith(f"rank {rank}: ")]
        check(any(f"rank {dead}" in text for text in lines), f"rank {rank} does not name rank {dead}:\n{output}")
    check(re.search(r"all ranks had ended ([\d.]+) s after", output), output)


def main():
    """Of a program of cases: `--list [TIER]`, or the path of `hawser` and the cases to run (all of them)."""
    words = sys.argv[1:]
    if words[:1] != ["--list"]:
        COMMAND.append(os.path.abspath(words.pop(0)))
    return run_cases(words)
