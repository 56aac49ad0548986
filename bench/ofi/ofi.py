#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: what does MPI gain or lose over Hawser's libfabric provider, beside libfabric's own over TCP and over UDP, on this machine, in this run?

Metric, between two ranks: microseconds of a message one way, nanoseconds of processor for each byte, both ranks together, and microseconds
of a message among 64 that leave at once. Metric among four ranks: microseconds of an all-reduce of f32. Medians and quartiles over jobs that
alternate A B C A B C, and the ratio of Hawser's time to the other's, pair by pair.
All jobs are Debian's Open MPI with `pml cm`, `mtl ofi` over loopback, no shared memory: hawser with one UDP NIC and with two, tcp;ofi_rxm,
udp;ofi_rxd, and Open MPI's own TCP. `packed` is FI_HAWSER_FLUSH=0. `0% lost` and `1% lost` are hawser with one NIC and its fault layer,
which drops that share of the packets in both directions. Runtime: 4 minutes; --short: 25 seconds.

    bench/ofi/ofi.py [--build build/release] [--rounds 7] [--short] [--json FILE]

It needs mpirun and mpicc (Debian: openmpi-bin, libopenmpi-dev; ./setup.sh test).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 60
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--mca", "oob_tcp_if_include", "lo"]


def over_ofi(provider, *variables):
    exported = [word for variable in variables for word in ("-x", variable)]
    return ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "self",
            "--mca", "opal_common_ofi_provider_include", provider, *exported]


TRANSPORTS = {
    "hawser": over_ofi("hawser", "FI_HAWSER_NICS=udp:127.0.0.1"),
    "hawser, 2 NICs": over_ofi("hawser", "FI_HAWSER_NICS=udp:127.0.0.1,udp:127.0.0.2"),
    "hawser, packed": over_ofi("hawser", "FI_HAWSER_NICS=udp:127.0.0.1", "FI_HAWSER_FLUSH=0"),
    "hawser, 0% lost": over_ofi("hawser", "FI_HAWSER_NICS=udp:127.0.0.1", "FI_HAWSER_FAULTS=loss=0"),
    "hawser, 1% lost": over_ofi("hawser", "FI_HAWSER_NICS=udp:127.0.0.1", "FI_HAWSER_FAULTS=loss=0.01"),
    "tcp;ofi_rxm": over_ofi("tcp;ofi_rxm", "FI_TCP_IFACE=lo"),
    "udp;ofi_rxd": over_ofi("udp;ofi_rxd", "FI_UDP_IFACE=lo"),
    "Open MPI's tcp": ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"],
}
# QUESTIONS: ranks, program, bytes, repetitions, transports left out. On the last question rxd takes a minute and more, or doesn't end.
PACKED = "hawser, packed"
LOST = ("hawser, 0% lost", "hawser, 1% lost")
QUESTIONS = [
    (2, "ping_pong", 8, 5000, (PACKED, *LOST)),
    (2, "ping_pong", 65536, 2000, (PACKED, *LOST)),
    (2, "ping_pong", 4 << 20, 60, (PACKED,)),
    (2, "message_rate", 8, 1500, LOST),
    (4, "mpi_allreduce", 64 << 20, 3, (PACKED, *LOST, "udp;ofi_rxd")),
]


def run(transport, ranks, program, size, count, provider):
    """Returns the numbers that the job printed. If a job takes too long, its launcher ends it on SIGTERM."""
    idle = ["--mca", "mpi_yield_when_idle", "1"] if ranks > 2 else []
    command = ["timeout", "-k", "5", str(LIMIT_S), *MPIRUN, "-n", str(ranks), *idle, *TRANSPORTS[transport], "-x", "FI_PROVIDER_PATH",
               program, str(size), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "FI_PROVIDER_PATH": provider})
    if done.returncode != 0:
        return None
    return [float(word) for word in done.stdout.split()]


def told(values):
    if not values:
        return "-"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.3g} ({low:.3g}-{high:.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/release"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="one round, few repetitions")
    parser.add_argument("--json", help="write all samples to this file")
    options = parser.parse_args()
    rounds = 1 if options.short else options.rounds
    provider = os.path.abspath(os.path.join(options.build, "plugin/ofi/provider"))
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        sources = {"ping_pong": os.path.join(HERE, "ping_pong.c"), "message_rate": os.path.join(HERE, "message_rate.c"),
                   "mpi_allreduce": os.path.join(HERE, "../compare/mpi_allreduce.c")}
        for name, source in sources.items():
            subprocess.run(["mpicc", "-O3", source, "-o", os.path.join(folder, name)], check=True)
        print("| ranks | program | bytes | over | us | hawser's time by it | processor, ns a byte | jobs that failed |\n|--:|---|--:|---|---|---|---|--:|")
        for ranks, program, size, count, without in QUESTIONS:
            count = max(2, count // 20) if options.short else count
            found = {name: [] for name in TRANSPORTS if name not in without}
            for _ in range(rounds):
                for name in found:
                    found[name].append(run(name, ranks, os.path.join(folder, program), size, count, provider))
            for name, values in found.items():
                good = [value for value in values if value]
                ratios = [own[0] / other[0] for own, other in zip(found["hawser"], values) if own and other]
                processor = told([value[1] for value in good if len(value) > 1])
                print(f"| {ranks} | {program} | {size} | {name} | {told([value[0] for value in good])} | {told(ratios)} | {processor} | {len(values) - len(good)} |", flush=True)
            samples.append({"ranks": ranks, "program": program, "bytes": size, "samples": found})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(samples, file, indent=1)
    return 1 if any(not value for question in samples for name in ("hawser", "hawser, 2 NICs") for value in question["samples"][name]) else 0


if __name__ == "__main__":
    sys.exit(main())
