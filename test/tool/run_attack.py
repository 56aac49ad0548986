# SPDX-License-Identifier: Apache-2.0
"""Cases of run_test.py: hostile datagrams from another process while a job runs."""

import re

from cases import all_children, case, check, finish, gone, read_until, wait_for
from run_harness import LONG, RUNNING, all_ranks, run, start

# The job takes some seconds, so that there is time for an attack.
JOB = ["--ranks", "3", "--nics", "2", "--workload", "gpt2", "--scale", "16", "--steps", "6"]


def attacked(*attacks):
    arguments = JOB[:]
    for attack in attacks:
        arguments += ["--attack", attack]
    output, report = run(arguments)
    check([told["kind"] for told in report["attacks"]] == [a.split(":")[0] for a in attacks], output)
    for told in report["attacks"]:
        check(told["packets"] > 100 and told["sockets"] == 3 * 2 * 2, output)
    check("the job is right" in output, output)
    return output, report


def may_observe():
    """Whether there are packet sockets, which attackers need to read traffic. Prints if not."""
    status, output = finish(start(["--ranks", "2", "--nics", "1", "--scale", "4096", "--steps", "1",
                                   "--attack", "replay:1"]))
    if status == 2 and "CAP_NET_RAW" in output:
        print("left out: no packet socket here")
        return False
    check(status == 0, output)
    return True


@case(gate=True)
def attack_of_strangers():
    _, report = attacked("garbage:20k", "truncated:20k")
    dropped = sum(report["drops"].values())
    check(dropped > 100, str(report["drops"]))
    # The kernel drops packets for unknown receivers. Those that look like handshakes come through.
    check({"screened", "too_short", "bad_field"} <= report["drops"].keys(), str(report["drops"]))


@case
def attack_at_full_speed():
    attacked("garbage")


@case
def attack_of_replays():
    if not may_observe():
        return
    output, report = attacked("replay:20k")
    check(report["attacks"][0]["seen"] > 100, output)
    # The receivers recognized the replays as packets of the past.
    old = {"old_path_number", "duplicate_fragment", "below_floor", "stale_session", "stale_path",
           "not_connected"}
    check(sum(report["drops"].get(name, 0) for name in old) > 50, output)


@case
def attack_on_one_sided_operations():
    """Replayed writes and atomics are executed no second time: the sums and fetched values show it."""
    if not may_observe():
        return
    for workload in ("atomics", "put"):
        output, report = run(["--ranks", "3", "--nics", "2", "--workload", workload,
                              "--attack", "replay:20k", "--attack", "garbage:10k"])
        check("the job is right" in output, output)
        check(report["attacks"][0]["seen"] > 100, output)
        check(report["drops"].get("old_path_number", 0) > 50, str(report["drops"]))


@case
def attack_of_forgeries():
    """Nothing crashes, nothing stays behind, and the run names the attack; no more is promised."""
    if not may_observe():
        return
    status, output = finish(start(JOB + ["--attack", "forged:5k", "--timeout", "10"]))
    check(status in (0, 1, 3), f"exit status {status}:\n{output}")
    check(not re.search(r"was killed by SIG(ABRT|SEGV|BUS|ILL|FPE)|assertion", output), output)
    check(re.search(r"^attack forged: \d+ packets .* derived from \d+ that it saw$", output, re.M), output)
    check("outside the trust model" in output, output)


@case
def attackers_go_with_their_launcher():
    process = start(LONG + ["--attack", "garbage:1k"])
    all_ranks(process, 4)
    read_until(process, RUNNING)
    everybody = all_children(process.pid)
    check(len(everybody) == 5, str(everybody))
    process.kill()
    process.wait()
    wait_for(lambda: gone(everybody), "the attacker to go with the launcher")
