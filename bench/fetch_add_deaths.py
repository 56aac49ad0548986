#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: are fetching adds executed exactly once while NICs die and return all the time?

Metric: operations of four ranks with four UDP NICs each over loopback, with 2% loss, while a NIC of one rank dies or returns every 100 ms. Every
fetched value and every sum must fit one order of all operations, and none may fail; `hawser run` checks that. Runtime: some minutes for
the 10 million fetching adds of the usual run; `--operations N` makes fewer.

    bench/fetch_add_deaths.py [--build build/release] [--operations 10000000] [--interval-ms 100] [--json FILE]

The rate with deaths is told as a part of the rate of a short run without them. The exit status is that of `hawser run`.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

RANKS, NICS = 4, 4
LOSS = "0.02"
PROBE_STEPS = 5


def run(build, steps, faults):
    """The report of one run, its output and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [os.path.join(build, "tool", "hawser"), "run", "--workload", "atomics", "--ranks", str(RANKS), "--nics", str(NICS),
                   "--loss", LOSS, "--steps", str(steps), "--timeout", "3000", "--json", report, *faults]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            with open(report, encoding="utf-8") as file:
                return json.load(file), done.stdout + done.stderr, done.returncode
        except OSError:
            return None, done.stdout + done.stderr, done.returncode or 1


def deaths(events, seed):
    """Options by which a NIC dies and returns by turns, evenly over the run. Never do two NICs of a rank lie dead at once."""
    draw = random.Random(seed)
    options, dead = [], None
    for i in range(events):
        when = f"{(i + 1) / (events + 1):.6f}"
        if dead is None:
            dead = f"{draw.randrange(RANKS)}.{draw.randrange(NICS)}"
            options += ["--kill-nic", f"{dead}@{when}"]
        else:
            options += ["--revive-nic", f"{dead}@{when}"]
            dead = None
    return options


def counted(report, kind):
    return sum(row["n"] for row in report["operations"] if row["kind"] == kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--operations", type=int, default=10_000_000, help="fetching adds")
    parser.add_argument("--interval-ms", type=float, default=100.0, help="between two events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="writes the figures there")
    options = parser.parse_args()
    if options.operations < 1 or options.interval_ms <= 0:
        parser.error("--operations and --interval-ms must be positive")

    calm, output, status = run(options.build, PROBE_STEPS, [])
    if status != 0:
        sys.exit(f"the run without deaths failed:\n{output}")
    a_step = counted(calm, "fetching_add") / PROBE_STEPS
    calm_rate = counted(calm, "fetching_add") / calm["communication_s"]
    steps = max(1, -(-options.operations // int(a_step)))
    events = max(2, round(steps * a_step / calm_rate * 1000 / options.interval_ms))
    # Deaths slow the run down, so that the events come less often. Add what is missing, once.
    short_steps = max(1, steps // 20)
    slow, output, status = run(options.build, short_steps, deaths(max(2, events * short_steps // steps), options.seed))
    if status == 0:
        events = max(2, round(events * slow["communication_s"] / short_steps / (calm["communication_s"] / PROBE_STEPS)))
        slow, output, status = run(options.build, steps, deaths(events, options.seed))
    if status != 0:
        sys.exit(f"operations failed, or are wrong:\n{output}")
    took = slow["communication_s"]
    adds = counted(slow, "fetching_add")
    figures = {"fetching_adds": adds, "operations": sum(row["n"] for row in slow["operations"]), "seconds": took, "events": events,
               "ms_between_events": took / events * 1000, "paths_down": slow["counters"]["paths_down"],
               "packets_lost": slow["counters"]["packets_lost"], "repeats_answered": slow["counters"]["one_sided_repeats"],
               "rate_of_calm": adds / took / calm_rate}
    print(f"{adds} fetching adds of {figures['operations']} operations in {took:.1f} s: every value fits one order, none failed")
    print(f"{events} events, one every {figures['ms_between_events']:.0f} ms; {figures['paths_down']} times a path went down")
    print(f"{figures['packets_lost']} packets lost; {figures['repeats_answered']} packets answered by what an operation had done before")
    print(f"rate: {figures['rate_of_calm']:.2f} of that without deaths")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
