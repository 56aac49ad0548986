#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every bench that measures this machine, and writes the figures as one markdown page, with ratios.

Usage: bench/all.py [--build build/release] [--output FILE] [--short] [--only NAME ...]. Runtime: half an hour, of which `peers` takes
ten minutes; `--short`: one. The head of each bench's source explains its figures. Build the benches first: ./build.sh release.
A bench that fails or is not built is named, and the exit status is 1.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "compare"))
import tables  # noqa: E402

LIMIT_S = 1800
N = r"([\d.]+)"

# For each bench: the figure, its unit, and the pattern that finds it in the output. A ratio also has the other figure and its pattern.
FIGURES = {
    "engine_cost": [
        ("send 1 MiB messages, a packet", "ns", rf"^1 MiB messages, with the copy +{N}", "the NIC alone", rf"^memory NIC alone.*?  +{N}"),
        ("receive them, with the copy", "ns", rf"^1 MiB messages, with the copy +{N} +{N}", "without it", rf"^1 MiB messages, without the copy +{N} +{N}"),
        ("send 8 B messages, a packet", "ns", rf"^8 B messages  +{N}"),
        ("receive them", "ns", rf"^8 B messages  +{N} +{N}"),
    ],
    "nic_raw": [
        ("UDP, 4144 B, two threads", "GB/s", rf"^udp  +4144 B +two threads +{N}", "no offload", rf"^udp, no offload +4144 B +two threads +{N}"),
        ("memory NIC, 4144 B, two threads", "GB/s", rf"^memory  +4144 B +two threads +{N}"),
    ],
    "incast": [("31 senders to one over UDP", "GB/s", rf"^31 senders +{N}", "one sender", rf"^ ?1 sender +{N}")],
    "threads": [
        ("2 engine threads", "GB/s", rf"^2 engine threads +{N}", "one", rf"^1 engine thread +{N}"),
        ("a message to who sleeps in wait(), inline", "us", rf"^sleeps, inline +{N}", "who polls", rf"^polls, inline +{N}"),
        ("the same behind an engine thread", "us", rf"^sleeps, engine thread +{N}", "who polls", rf"^polls, inline +{N}"),
    ],
    "peer_memory": [
        ("a peer at rest", "bytes", rf"^a peer at rest, together +{N}"),
        ("a peer with a small message each way", "bytes", rf"^together +{N}"),
    ],
    "peers": [("8 B messages to 256 peers, a message", "ns", rf"(?s)^messages of 8 bytes: .*?^ +256 +{N}", "64 peers",
               rf"(?s)^messages of 8 bytes: .*?^ +64 +{N}")],
    "one_sided": [
        ("4 MiB puts over UDP", "MB/s", rf"(?s)^stream of puts, 4 MiB$.*?^  hawser +{N}", "rxm", rf"(?s)^stream of puts, 4 MiB$.*?^  rxm +{N}"),
        ("the same", "MB/s", rf"(?s)^stream of puts, 4 MiB$.*?^  hawser +{N}", "rxd", rf"(?s)^stream of puts, 4 MiB$.*?^  rxd +{N}"),
        ("8 B put with a signal over UDP, one way", "us", rf"(?s)^put with a signal, one way, 8 B$.*?^  hawser +{N}", "rxm",
         rf"(?s)^put with a signal, one way, 8 B$.*?^  rxm +{N}"),
        ("fetch-add over UDP", "us", rf"(?s)^fetch-add, 8 B$.*?^  hawser +{N}", "an 8 B round trip",
         rf"(?s)^two-sided message, there and back, 8 B$.*?^  hawser +{N}"),
        ("fetch-add over memory NICs", "us", rf"(?s)^fetch-add, 8 B$.*?^  hawser_memory +{N}", "an 8 B round trip",
         rf"(?s)^two-sided message, there and back, 8 B$.*?^  hawser_memory +{N}"),
    ],
    "reduce_kernels": [("sum of f32", "GB/s", rf"^ +f32 +{N}", "memcpy", rf"memcpy {N}")],
    "fabric": [("the simulated fabric, hops a CPU-second", "M", rf"{N} M hops/CPU-s")],
    "hosts": [("a simulated host that runs the protocol, a packet", "ns", rf"CPU-s: {N} ns")],
}


def last(pattern, text):
    """The number in the last group of the first match."""
    found = re.search(pattern, text, re.M)
    return float(found[found.re.groups]) if found else None


def row(bench, output, what, unit, pattern, other=None, other_pattern=None):
    value = last(pattern, output)
    if value is None:
        return None
    base = last(other_pattern, output) if other else None
    ratio = f"{value / base:.2f} of {other}" if base else ""
    return f"| {bench} | {what} | {value:g} {unit} | {ratio} |"


def run(options, bench, *arguments):
    command = [os.path.join(options.build, "bench", bench), *arguments, *(["--short"] if options.short else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{bench}: {error}", ""
    return (None if done.returncode == 0 else f"{bench}: exit status {done.returncode}: {done.stderr.strip()[-300:]}"), done.stdout


def run_compare(options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "compare.json")
        trouble, _ = run(options, "compare", "--json", path)
        if not os.path.exists(path):
            return trouble, []
        with open(path, encoding="utf-8") as file:
            return trouble, list(tables.tables(json.load(file)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build/release"))
    parser.add_argument("--output", help="instead of stdout")
    parser.add_argument("--short", action="store_true", help="move little")
    parser.add_argument("--only", nargs="*", choices=[*FIGURES, "compare"], help="these alone")
    options = parser.parse_args()
    wanted = options.only or [*FIGURES, "compare"]

    page = [f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}", "",
            "| bench | what | figure | ratio |", "|---|---|--:|---|"]
    troubles = []
    for bench, figures in FIGURES.items():
        if bench not in wanted:
            continue
        print(f"all.py: {bench}", file=sys.stderr)
        trouble, output = run(options, bench)
        rows = [row(bench, output, *each) for each in figures]
        page += [line for line in rows if line]
        troubles += [trouble] if trouble else [] if all(rows) else [f"{bench}: some figures were not in its output"]
    if "compare" in wanted:
        print("all.py: compare", file=sys.stderr)
        trouble, lines = run_compare(options)
        page += lines
        troubles += [trouble] if trouble else []
    page += ["", *(f"Trouble: {trouble}" for trouble in troubles)] if troubles else []
    with open(options.output, "w", encoding="utf-8") if options.output else sys.stdout as out:
        out.write("\n".join(page) + "\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
