#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: what do Intel's MPI benchmarks take over Hawser's libfabric provider, beside libfabric's tcp;ofi_rxm and Open MPI's own TCP, on this
machine, in this run?

Metric: microseconds of an operation, as IMB-MPI1 tells them (t_avg, of PingPong t), among two ranks and among four. Medians over jobs that take
turns, and the ratio of Hawser's median to the other's. All jobs go over loopback with one NIC, no shared memory, and yield when idle.
--beside: a second job of as many ranks repeats Allreduce and Alltoall over the same transport meanwhile. Runtime of a round: 2 minutes.

    bench/ofi/imb.py --imb PATH/IMB-MPI1 [--build build/release] [--rounds 5] [--ranks 2 4] [--beside] [--json FILE]

IMB-MPI1 is built from https://github.com/intel/mpi-benchmarks with mpicxx. Debian has no package of it.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

from ofi import HERE, MPIRUN, TRANSPORTS

LIMIT_S = 300
NAMES = ("hawser", "tcp;ofi_rxm", "Open MPI's tcp")
BENCHMARKS = ("PingPong", "Exchange", "Allreduce", "Allgather", "Bcast", "Alltoall")
SIZES = (8, 4096, 16384, 65536, 131072, 1048576)


def job(options, transport, ranks, words, limit_s):
    """The words of a job. At its time limit the launcher gets SIGTERM, and ends the ranks."""
    return ["timeout", "-k", "5", str(limit_s), *MPIRUN, "-n", str(ranks), "--mca", "mpi_yield_when_idle", "1", *TRANSPORTS[transport],
            "-x", "FI_PROVIDER_PATH", options.imb, *words]


def read_times(text):
    """Finds (benchmark, bytes) and microseconds in IMB's tables."""
    times, benchmark = {}, None
    for line in text.splitlines():
        begun = re.match(r"# Benchmarking (\w+)", line)
        benchmark = begun.group(1) if begun else benchmark
        fields = line.split()
        if benchmark and len(fields) >= 4 and fields[0].isdigit() and int(fields[0]) in SIZES:
            times[f"{benchmark} {fields[0]}"] = float(fields[2 if benchmark == "PingPong" else 4])
    return times


def run(options, transport, ranks, lengths, env):
    beside = None
    if options.beside:
        words = ["-iter", "1000000", "-time", "100000", "-npmin", str(ranks), "-msglen", lengths, "Allreduce", "Alltoall"]
        beside = subprocess.Popen(job(options, transport, ranks, words, LIMIT_S), env=env,  # pylint: disable=consider-using-with
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        words = ["-iter", "300", "-time", "0.4", "-npmin", str(ranks), "-msglen", lengths, *BENCHMARKS]
        done = subprocess.run(job(options, transport, ranks, words, LIMIT_S), env=env, capture_output=True, text=True, check=False)
    finally:
        if beside:
            beside.send_signal(signal.SIGTERM)
            beside.wait()
    if done.returncode != 0:
        print(f"{transport}, {ranks} ranks: status {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        return {}
    return read_times(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imb", required=True, type=os.path.abspath)
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--beside", action="store_true", help="a second job runs meanwhile")
    parser.add_argument("--json", help="write all samples to this file")
    options = parser.parse_args()
    env = {**os.environ, "FI_PROVIDER_PATH": os.path.abspath(os.path.join(options.build, "plugin/ofi/provider"))}
    samples, failed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        lengths = os.path.join(folder, "lengths")
        with open(lengths, "w", encoding="utf-8") as file:
            file.writelines(f"{size}\n" for size in SIZES)
        for _ in range(options.rounds):
            for ranks in options.ranks:
                for name in NAMES:
                    times = run(options, name, ranks, lengths, env)
                    failed += not times
                    for what, microseconds in times.items():
                        samples.setdefault(f"{what} {ranks}", {}).setdefault(name, []).append(microseconds)
    print("| ranks | benchmark | bytes | " + " | ".join(f"{name}, us" for name in NAMES) + " | Hawser's time by theirs |\n" + "|--:|---|--:|" + "--:|" * len(NAMES) + "---|")
    for what, found in samples.items():
        benchmark, size, ranks = what.split()
        middle = {name: statistics.median(values) for name, values in found.items()}
        ratios = [f"{middle['hawser'] / middle[name]:.2f}" if {"hawser", name} <= set(middle) else "-" for name in NAMES[1:]]
        print(f"| {ranks} | {benchmark} | {size} | " + " | ".join(f"{middle[name]:.1f}" if name in middle else "-" for name in NAMES) +
              f" | {', '.join(ratios)} |")
    print(f"{failed} jobs failed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(samples, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
