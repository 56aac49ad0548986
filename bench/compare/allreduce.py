#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: how does Hawser's all-reduce compare with an MPI's over the kernel's TCP, on this machine, in this run?

Metric: microseconds of an all-reduce. A job reports the median of many; the table has the median and quartiles over jobs that alternate A B C A B C.
The time of an all-reduce is that of the slowest rank, after a barrier. Jobs: `hawser run` with 1 NIC and with 4 a rank, Open MPI over its TCP BTL
and over UCX (UCX_TLS=tcp,self), all over loopback, no shared memory. There are more ranks than cores, so MPI is told to yield when idle.
Bytes are those of a rank's tensor; Hawser sums bf16 (the type of workload files), MPI f32 (it has no bf16). Runtime: 2 minutes.

    bench/compare/allreduce.py [--hawser build/release/tool/hawser] [--ranks 4] [--sizes 8 4194304] [--rounds 7] [--json FILE]

MPI needs mpirun and mpicc (Debian: openmpi-bin, libopenmpi-dev; ./setup.sh compare); without them it is left out.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120
MPIRUN = ["--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1", "--mca", "oob_tcp_if_include", "lo"]
MPIS = {
    "openmpi_tcp": ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"],
    "openmpi_ucx": ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any",
                    "-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=lo"],
}


def output_of(command):
    """Returns the job's output. A job that takes too long gets SIGTERM, on which launchers end their ranks."""
    done = subprocess.run(["timeout", "-k", "5", str(LIMIT_S), *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


class Jobs:
    """Each method runs one job and returns microseconds."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.names = ["hawser", "hawser_4nics"]
        missing = [program for program in ("mpirun", "mpicc") if shutil.which(program) is None]
        if missing:
            print(f"left out: MPI, as {' and '.join(missing)} is missing (./setup.sh compare)")
            return
        self.program = os.path.join(folder, "mpi_allreduce")
        subprocess.run(["mpicc", "-O3", "-march=native", os.path.join(HERE, "mpi_allreduce.c"), "-o", self.program], check=True)
        self.names += MPIS

    def run(self, name, size, count):
        if name in MPIS:
            return float(output_of(["mpirun", "-np", str(self.options.ranks), *MPIRUN, *MPIS[name], self.program, str(size), str(count)]))
        workload = os.path.join(self.folder, f"all_reduce_{size}.txt")
        with open(workload, "w", encoding="utf-8") as file:
            file.write(f"DATA\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE {size} 1\n")
        report = json.loads(output_of([self.options.hawser, "run", "--ranks", str(self.options.ranks), "--nics", "4" if name.endswith("4nics") else "1",
                                       "--workload", workload, "--steps", str(count), "--json", "-"]))
        return report["collectives"][0]["p50_ns"] / 1e3


def told(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hawser", default=os.path.join(HERE, "../../build/release/tool/hawser"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--sizes", type=int, nargs="*", default=[8, 4 << 20])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="write all jobs' medians to this file")
    options = parser.parse_args()
    samples = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = Jobs(options, folder)
        for _ in range(options.rounds):
            for size in options.sizes:
                for name in jobs.names:
                    # Smaller tensors repeat more often, so that a job measures for a second or so.
                    samples.setdefault(size, {}).setdefault(name, []).append(jobs.run(name, size, max(20, min(1000, (64 << 20) // size))))
    print("| bytes | job | hawser's time by it | us |\n|--:|---|---|---|")
    for size, by_name in samples.items():
        for name, values in by_name.items():
            ratios = [own / other for own, other in zip(by_name["hawser"], values)]
            print(f"| {size} | {name} | {told(ratios)} | {told(values)} |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(samples, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
