#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs jobs over RDMA devices, with real faults of the kernel's links, queues and devices.

    run_verbs.py HAWSER [CASE ...]     as root, where test/vm/run.py --ports 8 has made rxe_n0 to rxe_n7

Every rank has NICs of its own, like ranks on different hosts. All ports are at one switch.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import case, check, finish, read_until
from run_harness import COMMAND, free_port, main, run, start

# Eight megabytes a step.
SHORT = ["--workload", "gpt2", "--scale", "64", "--steps", "2"]
LONG = ["--workload", "gpt2", "--scale", "64", "--steps", "8"]
LEFT, RIGHT = [0, 1, 2, 3], [4, 5, 6, 7]
# At this pace of each NIC a long job takes 10 s, however fast the host is. A fault in its middle is
# over before the job ends.
PACE = ("rate", "12mbit")
# A NIC is in use again if it carries this much in the rest of a job. Probes alone are far below.
USED_BYTES = 500_000


def ip(*words):
    subprocess.run(["ip", "link", *words], check=True)


def shape(port, *words):
    subprocess.run(["tc", "qdisc", "replace", "dev", f"n{port}", "root", "netem", *words], check=True)


@contextlib.contextmanager
def netem(ports, *words):
    """Sends the traffic of these ports through the kernel's network emulator."""
    for port in ports:
        shape(port, *words)
    try:
        yield
    finally:
        for port in ports:
            # A port that was made anew has nothing to remove.
            subprocess.run(["tc", "qdisc", "del", "dev", f"n{port}", "root"], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def short_frames(ports):
    """Gives these ports Ethernet's usual MTU."""
    for port in ports:
        ip("set", f"n{port}", "mtu", "1500")
    try:
        info = subprocess.run([*COMMAND, "info"], check=True, capture_output=True, text=True).stdout
        for port in ports:
            check(re.search(rf"verbs:rxe_n{port} .*MTU 1024", info), info)
        yield
    finally:
        for port in ports:
            ip("set", f"n{port}", "mtu", "4200")


def make_port(port):
    """Makes the port again as test/vm/guest/rxe.sh made it."""
    ip("add", f"n{port}", "mtu", "4200", "type", "veth", "peer", "name", f"port{port}", "mtu", "4200")
    pathlib.Path(f"/proc/sys/net/ipv6/conf/n{port}/accept_dad").write_text("0")
    ip("set", f"port{port}", "master", "switch", "up")
    ip("set", f"n{port}", "up")
    subprocess.run(["rdma", "link", "add", f"rxe_n{port}", "type", "rxe", "netdev", f"n{port}"], check=True)


def sent_bytes(port):
    return int(pathlib.Path(f"/sys/class/net/n{port}/statistics/tx_bytes").read_text())


class Job:
    """A job with one rank for each list of ports. A failed check ends all of them."""

    def __init__(self, ports_of_ranks, arguments):
        self.folder = tempfile.TemporaryDirectory()
        self.report = pathlib.Path(self.folder.name) / "report.json"
        self.output = ""
        rendezvous = f"127.0.0.1:{free_port()}"
        self.ranks = []
        for rank, ports in enumerate(ports_of_ranks):
            place = {"HAWSER_RANK": str(rank), "HAWSER_SIZE": str(len(ports_of_ranks)),
                     "HAWSER_RENDEZVOUS": rendezvous}
            nics = [word for port in ports for word in ("--nic", f"verbs:rxe_n{port}")]
            report = ["--json", str(self.report)] if rank == 0 else []
            self.ranks.append(start([*nics, *arguments, *report], env={**os.environ, **place}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
        self.folder.cleanup()

    def wait_until(self, percent):
        """Waits until rank 0 reports that so much is done."""
        told = 0
        while told < percent:
            self.output += read_until(self.ranks[0], r"^\s*\d+% of the run")
            told = int(re.findall(r"^\s*(\d+)% of the run", self.output, re.M)[-1])

    def finish(self):
        """Returns the report of a job in which everything is right."""
        for number, rank in enumerate(self.ranks):
            status, output = finish(rank)
            check(status == 0, f"rank {number} ended with {status}:\n{self.output}{output}")
            if number == 0:
                self.output += output
        report = json.loads(self.report.read_text())
        check_right(report, self.output)
        return report


def check_right(report, output):
    check(report["complete"] and not report["wrong"], f"incomplete or wrong:\n{output}")
    check(all(rank["operations_left"] == 0 for rank in report["ranks"]), f"operations were left:\n{output}")
    for number, nic in enumerate(report["nics"]):
        check(nic["states"]["UP"] == sum(nic["states"].values()), f"NIC {number} is not up in the end:\n{output}")


def payload_of_packets(report):
    return report["counters"]["data_bytes_sent"] / report["counters"]["data_packets_sent"]


def told(report, rank, what, nic):
    """The times at which a rank was told this about one of its NICs."""
    return [change[1] for change in report["ranks"][rank]["path_changes"] if change[0] == what and change[2] == nic]


def check_left_and_returned(job, report, port, used, witnesses):
    """Checks that NIC 2 of this port's rank was missed, blamed, and used again."""
    rank = 0 if port in LEFT else 1
    check(report["counters"]["paths_down"] > 0 and report["counters"]["paths_returned"] > 0, job.output)
    check("longest stall" in job.output, job.output)
    for who in witnesses:
        check(re.search(rf"NIC 2 of rank {rank} \(seen by {who} paths\), from .* to ", job.output),
              f"{who} paths did not say so and take it back:\n{job.output}")
    check(used >= USED_BYTES, f"{used} bytes over the NIC that returned:\n{job.output}")


def run_with_port_down(port):
    with netem(LEFT + RIGHT, *PACE), Job([LEFT, RIGHT], LONG) as job:
        job.wait_until(20)
        ip("set", f"n{port}", "down")
        job.wait_until(50)
        ip("set", f"n{port}", "up")
        before = sent_bytes(port)
        report = job.finish()
    check_left_and_returned(job, report, port, sent_bytes(port) - before, ["its own", "other ranks'"])
    rank = 0 if port in LEFT else 1
    check(told(report, rank, "driver_down", 2) and told(report, rank, "driver_up", 2), job.output)


@case
def what_packets_look_like():
    environment = {**os.environ, "HAWSER_VERBS_TRAFFIC_CLASS": "104"}
    info = subprocess.run([*COMMAND, "info"], check=True, capture_output=True, text=True, env=environment).stdout
    ports = re.search(r"UDP source ports of RoCE +(.*)\n", info)
    check(ports and len(set(re.findall(r"\d+", ports[1]))) == 8, info)
    check(re.search(r"traffic class of RoCE +104: DSCP 26, ECN-capable \(a TOS byte of 0x6a\); priority 0\n", info), info)
    environment["HAWSER_VERBS_TRAFFIC_CLASS"] = "105"
    info = subprocess.run([*COMMAND, "info"], check=True, capture_output=True, text=True, env=environment).stdout
    check("every RDMA port is refused: a traffic class of 105 sets the ECN bits" in info, info)
    status, output = finish(start(["--ranks", "2", "--nic", "verbs:rxe_n0", *SHORT], env=environment))
    check(status == 2 and "a traffic class of 105 sets the ECN bits" in output, f"{status}\n{output}")


@case
def a_device_that_this_user_may_not_open():
    files = list(pathlib.Path("/dev/infiniband").glob("uverbs*"))
    for file in files:
        file.chmod(0o600)
    try:
        done = subprocess.run([*COMMAND, "info"], check=True, capture_output=True, text=True, user=65534)
    finally:
        for file in files:
            file.chmod(0o666)
    devices = done.stdout.partition("\nRDMA devices\n")[2].partition("\n\n")[0]
    check(devices.count("this user may not open the device") == 8, done.stdout)


@case(gate=True)
def long_frames():
    with Job([LEFT, RIGHT], SHORT) as job:
        report = job.finish()
    check(payload_of_packets(report) > 3000, job.output)
    check("of payload read in place" in job.output, job.output)
    check(report["counters"]["paths_down"] == 0, job.output)


@case
def short_frames_and_loss():
    with short_frames(LEFT + RIGHT), netem(LEFT + RIGHT, "loss", "1%"), Job([LEFT, RIGHT], SHORT) as job:
        report = job.finish()
    check(500 < payload_of_packets(report) < 1024, f"{payload_of_packets(report)} bytes a packet\n{job.output}")
    check(report["counters"]["packets_lost"] > 0, job.output)


@case(gate=True)
def loss_delay_and_doubles():
    faults = ["loss", "1%", "delay", "1ms", "2ms", "duplicate", "1%"]
    with netem(LEFT + RIGHT, *faults), Job([LEFT, RIGHT], SHORT) as job:
        report = job.finish()
    check(report["counters"]["packets_marked"] == 0, job.output)
    check(report["counters"]["packets_lost"] > 0, job.output)
    check(report["counters"]["data_packets_received"] > 0, job.output)


# The emulator marks the packets it would otherwise lose, since they are ECN-capable.
@case
def marks_of_congestion():
    with netem(LEFT, "loss", "2%", "ecn"), Job([LEFT, RIGHT], SHORT) as job:
        report = job.finish()
    check(report["counters"]["packets_marked"] > 0, job.output)
    check("arrived marked by switches" in job.output, job.output)


@case
def short_frames_on_one_side():
    with short_frames(RIGHT), Job([LEFT, RIGHT], SHORT) as job:
        report = job.finish()
    check(500 < payload_of_packets(report) < 1024, f"{payload_of_packets(report)} bytes a packet\n{job.output}")


@case
def two_nics_and_four():
    with netem(LEFT + RIGHT, "loss", "1%"), Job([LEFT[:2], RIGHT], SHORT) as job:
        report = job.finish()
    used = [[nic["data_packets_sent"] for nic in rank["nics"]] for rank in report["ranks"]]
    check(len(used[0]) == 2 and len(used[1]) == 4 and all(all(nics) for nics in used), f"{used}\n{job.output}")


@case
def four_ranks_share_four_devices():
    nics = [word for port in LEFT for word in ("--nic", f"verbs:rxe_n{port}")]
    faults = ["--loss", "0.01", "--kill-nic", "1@1/3", "--revive-nic", "1@2/3"]
    output, report = run(["--ranks", "4", *nics, *SHORT, *faults])
    check(report["counters"]["packets_lost"] > 0, output)
    check(report["counters"]["paths_returned"] > 0, output)


@case
def all_ports_at_once():
    output, report = run(["--ranks", "2", "--nic", "verbs", *SHORT])
    check(output.startswith("2 ranks x 8 NICs"), output)
    check(len(report["nics"]) == 8 and "UDP" not in output, output)


@case
def a_port_that_is_left_out():
    ip("set", "n7", "down")
    try:
        output, report = run(["--ranks", "2", "--nic", "verbs", *SHORT])
    finally:
        ip("set", "n7", "up")
    check(re.search(r"^--nic verbs leaves out verbs:rxe_n7: the port is .*; bring its link up", output, re.M), output)
    check(len(report["nics"]) == 7 and output.count("leaves out") == 1, output)


# The ports of one side are up, but not connected to the switch.
@case
def nobody_is_reached():
    try:
        for port in RIGHT:
            ip("set", f"port{port}", "nomaster")
        # Forget the neighbours that earlier jobs have resolved.
        subprocess.run(["ip", "-6", "neigh", "flush", "all"], check=True)
        with Job([LEFT, RIGHT], [*SHORT, "--tunable", "peer_timeout_ms=5000"]) as job:
            for rank in job.ranks:
                status, output = finish(rank)
                check(status == 3 and "peer_unreachable" in output, f"{status}\n{output}")
                check("no RDMA port of this rank found a route to the other rank's ports" in output, output)
    finally:
        for port in RIGHT:
            ip("set", f"port{port}", "master", "switch")
    with Job([LEFT, RIGHT], SHORT) as job:
        job.finish()


@case
def local_port_down_and_up():
    run_with_port_down(2)


@case
def remote_port_down_and_up():
    run_with_port_down(6)


# The device returns as another one, with another address and other queue pairs.
@case
def device_deleted_and_made_again():
    with netem(LEFT + RIGHT, *PACE), Job([LEFT, RIGHT], LONG) as job:
        job.wait_until(20)
        ip("del", "n2")
        job.wait_until(50)
        make_port(2)
        report = job.finish()
    check_left_and_returned(job, report, 2, sent_bytes(2), ["its own", "other ranks'"])
    check(told(report, 0, "driver_down", 2) and told(report, 0, "driver_up", 2), job.output)


# The device accepts sends and completes them with success, but sends nothing.
@case
def silence_with_good_completions():
    with netem(LEFT + RIGHT, *PACE), Job([LEFT, RIGHT], LONG) as job:
        job.wait_until(20)
        shape(2, "loss", "100%")
        job.wait_until(50)
        shape(2, *PACE)
        before = sent_bytes(2)
        report = job.finish()
    check_left_and_returned(job, report, 2, sent_bytes(2) - before, ["its own"])
    check(not told(report, 0, "driver_down", 2), job.output)


if __name__ == "__main__":
    sys.exit(main())
