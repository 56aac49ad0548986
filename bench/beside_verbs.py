#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: how does Hawser over an RDMA device compare with other software on the same devices, in this run?

Metric: bytes a second of a stream between two processes, 8-byte messages a second, and seconds of 8-byte round trips; with no loss and with 1%.
Rounds alternate A B C A B C; medians, spread and ratios. Runtime: some minutes. Emulated devices show what software costs and how
it deals with loss. They show nothing of a device's speed.

    test/vm/run.py --cables 1 --memory 1500 --timeout 900 -- bench/beside_verbs.py build/release/bench/compare

Run it as root. On a host with two RDMA devices, --client and --server name them, and --gid-index is their index of RoCE v2 (`hawser info`).
Add --loss 0% there, because the kernel's network emulator doesn't see a device's packets. The bench needs perftest, ucx-utils and
libfabric-bin and leaves out what is missing. Peers: ib_send_bw over UD and RC (the device's own pace: UD doesn't repair losses),
UCX's ud_verbs and rc by ucx_perftest, libfabric's verbs;ofi_rxd by fi_pingpong, whose rate is that of a ping-pong.
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

LIMIT_S = 40
BYTES = 1 << 20
SMALL, SMALL_MESSAGES = 8, 10000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def pair(server, client, server_env=None, client_env=None):
    """Runs both and returns the client's output, or None if either fails or takes too long."""
    waiting = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **(server_env or {})})
    try:
        time.sleep(2)  # it has to listen; none of them says when it does
        done = subprocess.run(client, capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, **(client_env or {})})
        return done.stdout if done.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return None
    finally:
        waiting.kill()
        waiting.wait()


def number(pattern, text):
    found = re.search(pattern, text or "", re.M)
    return float(found[1]) if found else None


class Peers:
    """Each method measures one round: MB/s, thousands of messages a second and microseconds, None for what it can't measure."""

    def __init__(self, options):
        self.compare, self.client, self.server = options.compare, options.client, options.server
        self.messages, self.gid = options.messages, str(options.gid_index)

    def hawser(self):
        def run(size, count, window, round_trips):
            done = subprocess.run(
                [self.compare, "--json", "-", "--transports", "hawser", "--rounds", "1", "--sizes", str(size), "--messages",
                 str(count), "--window", str(window), "--ping-sizes", "8", "--round-trips", str(round_trips),
                 "--client-nic", f"verbs:{self.client}@{self.gid}", "--server-nic", f"verbs:{self.server}@{self.gid}"],
                capture_output=True, text=True, timeout=2 * LIMIT_S, check=True)
            medians = {point["kind"]: point["median"] for point in json.loads(done.stdout)["points"]}
            return medians["stream"], medians["ping"]
        rate, round_trip = run(BYTES, self.messages, 4, 300)
        small, _ = run(SMALL, SMALL_MESSAGES, 128, 1)
        return rate, 1000 * small / SMALL, round_trip

    def send_bw(self, connection, size, count):
        words = ["ib_send_bw", "-x", self.gid, "-c", connection, "-s", str(size), "-m", "4096", "-n", str(count), "-p", free_port()]
        output = pair([*words, "-d", self.server], [*words, "-d", self.client, "127.0.0.1"])
        mega_packets = number(r"^ \d+ +\d+ +[\d.]+ +[\d.]+\s+([\d.]+)", output)
        return number(r"^ \d+ +\d+ +[\d.]+ +([\d.]+)", output), None if mega_packets is None else 1000 * mega_packets

    def ib(self, connection, size):
        rate, _ = self.send_bw(connection, size, self.messages * BYTES // size)
        _, small = self.send_bw(connection, SMALL, SMALL_MESSAGES)
        return rate, small, None

    def ib_ud(self):
        return self.ib("UD", 4096)

    def ib_rc(self):
        return self.ib("RC", 65536)

    def ucx(self, transport):
        def run(test, size, count):
            common = {"UCX_TLS": f"{transport},self", "UCX_IB_GID_INDEX": self.gid}
            port = free_port()
            return pair(["ucx_perftest", "-p", port],
                        ["ucx_perftest", "-p", port, "127.0.0.1", "-t", test, "-s", str(size), "-n", str(count), "-w", "3"],
                        {**common, "UCX_NET_DEVICES": f"{self.server}:1"}, {**common, "UCX_NET_DEVICES": f"{self.client}:1"})
        rate = number(r"^Final: +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)", run("tag_bw", BYTES, self.messages))
        small = number(r"^Final: +\d+(?: +[\d.]+){6} +([\d.]+)", run("tag_bw", SMALL, SMALL_MESSAGES))
        half = number(r"^Final: +\d+ +[\d.]+ +([\d.]+)", run("tag_lat", SMALL, 300))
        return rate, None if small is None else small / 1000, None if half is None else 2 * half

    def ucx_ud(self):
        return self.ucx("ud_verbs")

    def ucx_rc(self):
        return self.ucx("rc")

    def ofi_rxd(self):
        def run(size, count):
            words = ["fi_pingpong", "-e", "rdm", "-p", "verbs;ofi_rxd", "-S", str(size), "-I", str(count)]
            port = free_port()
            return pair([*words, "-d", f"{self.server}-dgram", "-B", port],
                        [*words, "-d", f"{self.client}-dgram", "-P", port, "127.0.0.1"])
        rate = number(r"^\S+ +\d+ +\S+ +\S+ +[\d.]+s +([\d.]+)", run(65536, 2 * self.messages))
        half = number(r"^\S+ +\d+ +\S+ +\S+ +[\d.]+s +[\d.]+ +([\d.]+)", run(SMALL, 100))
        return rate, None, None if half is None else 2 * half


PEERS = {"hawser": None, "ib_ud": "ib_send_bw", "ib_rc": "ib_send_bw", "ucx_ud": "ucx_perftest", "ucx_rc": "ucx_perftest",
         "ofi_rxd": "fi_pingpong"}


def median(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def told(values):
    known = [value for value in values if value is not None]
    if not known:
        return f"{'-':>26}"
    return f"{statistics.median(known):8.1f} {f'{min(known):.1f}..{max(known):.1f}':>17}"


def compare(options, loss):
    peers = Peers(options)
    names = [name for name in options.peers if PEERS[name] is None or shutil.which(PEERS[name])]
    samples = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            samples[name].append(getattr(peers, name)())
    print(f"\nloss {loss:6} {'MB/s':>8} {'min..max':>17} {'8 B k/s':>8} {'min..max':>17} {'rtt us':>8} {'min..max':>17}"
          f"   hawser / it: {'MB/s':>6} {'k/s':>6} {'rtt':>6}")
    own = [median(column) for column in zip(*samples["hawser"])] if "hawser" in samples else [None, None, None]
    for name, rows in samples.items():
        columns = list(zip(*rows))
        ratios = [f"{mine / median(column):.2f}" if mine and median(column) else "-" for mine, column in zip(own, columns)]
        failed = sum(row[0] is None for row in rows)
        print(f"{name:11} {' '.join(told(column) for column in columns)} {'':15} {' '.join(f'{ratio:>6}' for ratio in ratios)}"
              f"{f'   {failed} of {len(rows)} did not end' if failed else ''}", flush=True)


def is_soft(device):
    """Only soft RoCE has a parent: the interface that carries its packets."""
    return os.path.exists(f"/sys/class/infiniband/{device}/parent")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compare", help="the program bench/compare")
    parser.add_argument("--client", default="rxe_a0")
    parser.add_argument("--server", default="rxe_b0")
    parser.add_argument("--gid-index", type=int, default=0, help="of both devices, for all (0)")
    parser.add_argument("--interfaces", nargs=2, default=["a0", "b0"], help="whose sends netem loses")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=30, help="of 1 MiB, a stream")
    parser.add_argument("--loss", nargs="*", default=["0%", "1%"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    options = parser.parse_args()
    if options.loss != ["0%"] and not (is_soft(options.client) and is_soft(options.server)):
        parser.error("netem loses nothing of what hardware sends: --loss 0%")
    for loss in options.loss:
        if loss != "0%":
            for interface in options.interfaces:
                subprocess.run(["tc", "qdisc", "replace", "dev", interface, "root", "netem", "loss", loss], check=True)
        compare(options, loss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
