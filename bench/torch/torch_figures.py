#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: what does a PyTorch program gain or lose over Hawser, beside gloo, on this machine, in this run?

Metric of the first table: microseconds of a collective of f32 among the ranks, in a loop. The groups of both backends exist in the same
processes and take turns. Medians over the rounds, and the ratio of Hawser's time to gloo's with its quartiles, round by round.
Metric of the second table: milliseconds of a training step of plugin/torch/examples/train.py under torchrun. Jobs take turns: gloo, hawser,
and hawser with 1% loss while NIC 1 of 2 of every rank dies and returns by turns. Medians over the rounds of each job's median and p99.
Losses and weights of hawser with faults must have the bits of those without: otherwise the exit status is 1.
Runtime: 15 minutes with two processors; --short: 2 minutes. Needs ./setup.sh torch and ./build.sh torch hawser_torch.

    bench/torch/torch_figures.py [--build build/torch] [--ranks 4] [--rounds 9] [--steps 300] [--nic-dies 10] [--short] [--json FILE]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "..", "..", "plugin", "torch", "examples", "train.py")
LIMIT_S = 1800
BACKENDS = ("gloo", "hawser")
# Bytes, and calls in one round.
SIZES = [(8, 300), (4096, 200), (65536, 100), (262144, 50), (1 << 20, 20), (25 << 20, 4), (100 << 20, 2)]
MODELS = {"digits": ["--model", "digits"], "gpt": ["--model", "gpt", "--batch", "2"]}


def all_reduce(dist, tensor, _, group):
    dist.all_reduce(tensor, group=group)


def broadcast(dist, tensor, _, group):
    dist.broadcast(tensor, 0, group=group)


def all_gather(dist, tensor, parts, group):
    # Each rank gives its part; the size is that of the result.
    dist.all_gather(parts, tensor[:parts[0].numel()], group=group)


COLLECTIVES = {"all_reduce": all_reduce, "broadcast": broadcast, "all_gather": all_gather}


def measure_rank(options):
    """One rank: rank 0 writes {collective: {bytes: {backend: [us of each round]}}}."""
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    import hawser_torch  # noqa: F401 pylint: disable=import-outside-toplevel, unused-import
    torch.set_num_threads(1)
    dist.init_process_group("hawser", init_method=f"file://{options.store}", rank=options.rank, world_size=options.ranks)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    figures = {}
    for name, call in COLLECTIVES.items():
        for size, calls in SIZES:
            calls = max(2, calls // 10) if options.short else calls
            tensor = torch.zeros(size // 4)
            parts = [torch.zeros(max(1, size // 4 // options.ranks)) for _ in range(options.ranks)]
            times = figures.setdefault(name, {}).setdefault(size, {backend: [] for backend in BACKENDS})
            for turn in range(options.rounds):
                for backend in BACKENDS if turn % 2 else BACKENDS[::-1]:
                    call(dist, tensor, parts, groups[backend])
                    dist.barrier()
                    begun = time.monotonic()
                    for _ in range(calls):
                        call(dist, tensor, parts, groups[backend])
                    times[backend].append((time.monotonic() - begun) / calls * 1e6)
    if options.rank == 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    dist.barrier()
    dist.destroy_process_group()


def measure_collectives(options, environment, folder):
    result = os.path.join(folder, "collectives.json")
    words = [sys.executable, os.path.abspath(__file__), "--ranks", str(options.ranks), "--rounds", str(options.rounds), "--store",
             os.path.join(folder, "store"), "--json", result, *(["--short"] if options.short else [])]
    ranks = [subprocess.Popen([*words, "--rank", str(rank)], env=environment) for rank in range(options.ranks)]
    try:
        statuses = [rank.wait(LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(statuses):
        sys.exit(f"the ranks ended with {statuses}")
    with open(result, encoding="utf-8") as file:
        return json.load(file)


def train(options, model, job, environment, folder):
    """The results of one job under torchrun."""
    result = os.path.join(folder, "train.json")
    faults = ["--loss", "0.01", "--nic-dies", str(options.nic_dies)] if job == "hawser, faults" else []
    command = ["torchrun", "--nproc_per_node", str(options.ranks), "-r", "2", "-t", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint",
               "localhost:0", TRAIN, *MODELS[model], "--backend", job.split(",")[0], "--steps", str(options.steps), *faults,
               "--json", result]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    with open(result, encoding="utf-8") as file:
        return json.load(file)


def measure_training(options, environment, folder):
    """{model: {job: [results of each round]}}"""
    jobs = ("gloo", "hawser", "hawser, faults")
    rounds = max(1, options.rounds // 3)
    return {model: {job: results for job, results in
                    zip(jobs, zip(*[[train(options, model, job, environment, folder) for job in jobs] for _ in range(rounds)]))}
            for model in MODELS}


def tell_collectives(figures):
    print("| | bytes | hawser, us | gloo, us | ratio (quartiles) |\n|---|--:|--:|--:|--:|")
    for name, sizes in figures.items():
        for size, times in sizes.items():
            ratios = sorted(ours / theirs for ours, theirs in zip(times["hawser"], times["gloo"]))
            low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            print(f"| {name} | {size} | {statistics.median(times['hawser']):.0f} | {statistics.median(times['gloo']):.0f} | "
                  f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) |")


def tell_training(figures):
    """Returns whether faults have changed no bit."""
    print("\n| model | job | median step, ms | p99, ms | p99 of each round | packets lost | bits |\n|---|---|--:|--:|---|--:|---|")
    same = True
    for model, jobs in figures.items():
        wanted = jobs["hawser"][0]["checksum"]
        for job, results in jobs.items():
            medians = [result["step_ms"]["median"] for result in results]
            tails = [result["step_ms"]["p99"] for result in results]
            lost = sum(nic["packets_lost"] for result in results for nic in result.get("nics", []))
            equal = {result["checksum"] for result in results} == {wanted}
            same = same and (equal or job == "gloo")
            print(f"| {model} | {job} | {statistics.median(medians):.1f} | {statistics.median(tails):.1f} | "
                  f"{', '.join(f'{tail:.1f}' for tail in tails)} | {lost} | {'the same' if equal else 'others'} |")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build", "torch"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9, help="of each collective; a third as many of each training job")
    parser.add_argument("--steps", type=int, default=300, help="of each training job")
    parser.add_argument("--nic-dies", type=float, default=10, help="seconds that a NIC lives, and lies dead")
    parser.add_argument("--nics", default="udp:127.0.0.1,udp:127.0.0.2")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        measure_rank(options)
        return 0
    if options.short:
        options.rounds, options.steps = min(options.rounds, 3), min(options.steps, 60)
    environment = {**os.environ, "PYTHONPATH": os.path.join(os.path.abspath(options.build), "plugin", "torch"),
                   "HAWSER_NICS": options.nics}
    with tempfile.TemporaryDirectory() as folder:
        collectives = measure_collectives(options, environment, folder)
        tell_collectives(collectives)
        training = measure_training(options, environment, folder)
    same = tell_training(training)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"collectives": collectives, "training": training}, file, indent=1)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
