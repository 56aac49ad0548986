"""What the cases of run_test.py share: they start the command, wait for it, and look at what it left."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

COMMAND = []  # the path of `hawser`, once it is known
CASES = {}
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
    return subprocess.Popen([*COMMAND, "run", *arguments], stdout=subprocess.PIPE,
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


def all_children(pid):
    """All processes that a launcher has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


def gone(pids):
    return all(not os.path.exists(f"/proc/{pid}") or
               open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] == "Z"
               for pid in pids)


def all_ranks(process, count):
    return wait_for(lambda: (lambda found: found if len(found) == count else None)(
        children(process.pid)), f"{count} ranks")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


def main():
    """Of a program of cases: `--list`, or the path of `hawser` and the cases to run (all of them)."""
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return 0
    COMMAND.append(os.path.abspath(sys.argv[1]))
    for name in sys.argv[2:] or CASES:
        begun = time.monotonic()
        try:
            CASES[name]()
        except Failed as failure:
            print(f"{name}: {failure}")
            return 1
        print(f"{name}: ok, {time.monotonic() - begun:.1f} s", flush=True)
    return 0
