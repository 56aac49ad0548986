#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model by DistributedDataParallel, over Hawser or another backend.

    torchrun --nproc_per_node 4 -r 2 -t 2 train.py --model gpt
    torchrun --nproc_per_node 4 -r 2 -t 2 train.py --model gpt --loss 0.01 --nic-dies 10
    torchrun --nproc_per_node 4 -r 2 -t 2 train.py --model gpt --backend gloo

`gpt` is a character-level transformer, which learns the licences in /usr/share/common-licenses, or
the file of --text. `digits` is a perceptron, which learns scikit-learn's handwritten digits.

The same command computes the same bits each time, however many packets get lost and whichever NICs
die. Rank 0 prints the last loss, a checksum of all losses and weights, and the times of the steps.
--json writes them, and every step's loss, into a file. Debian's torchrun needs the options -r and -t.
"""

import argparse
import glob
import hashlib
import json
import os
import statistics
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

NIC_THAT_DIES = 1


class Gpt(nn.Module):
    """A decoder of `depth` layers, on `context` characters."""

    def __init__(self, characters, context=64, width=128, heads=4, depth=4):
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, characters)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text):
        return self.head(self.layers(self.characters(text) + self.places, self.mask))


class Text:
    """Characters of a text, and batches of it."""

    def __init__(self, name, context=64):
        names = [name] if name else sorted(filter(os.path.isfile, glob.glob("/usr/share/common-licenses/*")))
        text = b"".join(open(one, "rb").read() for one in names)
        kinds = sorted(set(text))
        self.context = context
        self.data = torch.tensor([kinds.index(one) for one in text])
        self.model = Gpt(len(kinds), context)

    def batch(self, size, generator):
        at = torch.randint(len(self.data) - self.context - 1, (size,), generator=generator)
        rows = torch.stack([self.data[place:place + self.context + 1] for place in at.tolist()])
        return rows[:, :-1], rows[:, 1:]


class Digits:
    """Pictures of digits, and batches of them."""

    def __init__(self):
        from sklearn.datasets import load_digits  # pylint: disable=import-outside-toplevel
        digits = load_digits()
        self.pictures = torch.tensor(digits.data / 16.0, dtype=torch.float32)
        self.answers = torch.tensor(digits.target)
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                                   nn.Linear(256, 10))

    def batch(self, size, generator):
        at = torch.randint(len(self.answers), (size,), generator=generator)
        return self.pictures[at], self.answers[at]


def kill_nic_by_turns(seconds, stop):
    """Kills a NIC of this process and revives it, each after so many seconds."""
    import hawser_torch  # pylint: disable=import-outside-toplevel
    word = "kill"
    while not stop.wait(seconds):
        hawser_torch.inject_fault(NIC_THAT_DIES, word)
        word = "revive" if word == "kill" else "kill"
    if word == "revive":
        hawser_torch.inject_fault(NIC_THAT_DIES, word)


def train(options):
    """Returns the loss of every step, as the mean of all ranks, the time of each, and the model."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    data = Digits() if options.model == "digits" else Text(options.text)
    model = DistributedDataParallel(data.model, bucket_cap_mb=options.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, times = [], []
    for _ in range(options.steps):
        begun = time.monotonic()
        given, wanted = data.batch(options.batch, generator)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(given).flatten(0, -2), wanted.flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().double()
        dist.all_reduce(mean)
        losses.append((mean / dist.get_world_size()).item())
        times.append(time.monotonic() - begun)
    return losses, times, data.model


def checksum(losses, model):
    digest = hashlib.sha256(json.dumps([loss.hex() for loss in losses]).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def report(options, losses, times, model):
    ordered = sorted(times)
    result = {
        "backend": options.backend, "model": options.model, "ranks": dist.get_world_size(),
        "steps": options.steps, "checksum": checksum(losses, model), "losses": losses,
        "step_ms": {"median": 1e3 * statistics.median(times),
                    "p99": 1e3 * ordered[int(0.99 * (len(ordered) - 1))], "longest": 1e3 * ordered[-1]},
    }
    if options.backend == "hawser":
        import hawser_torch  # pylint: disable=import-outside-toplevel
        result["nics"] = hawser_torch.nics()
    print(f"{options.model} over {options.backend}: loss {losses[0]:.4f} to {losses[-1]:.4f}, "
          f"checksum {result['checksum'][:16]}, step {result['step_ms']['median']:.1f} ms median, "
          f"{result['step_ms']['p99']:.1f} ms p99", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "digits"], default="gpt")
    parser.add_argument("--backend", default="hawser")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help="examples of each rank and step")
    parser.add_argument("--bucket-mb", type=float, default=25, help="size of DDP's gradient buckets")
    parser.add_argument("--text", help="what gpt learns")
    parser.add_argument("--loss", type=float, default=0, help="share of packets that get lost")
    parser.add_argument("--nic-dies", type=float, default=0, metavar="SECONDS",
                        help=f"NIC {NIC_THAT_DIES} of every rank dies, and returns, after so long each")
    parser.add_argument("--json", help="file for the results")
    return parser.parse_args()


def main():
    options = read_options()
    if options.loss or options.nic_dies:
        os.environ["HAWSER_TORCH_FAULTS"] = f"loss={options.loss},seed={os.environ['RANK']}"
    if options.backend == "hawser":
        import hawser_torch  # noqa: F401 pylint: disable=import-outside-toplevel, unused-import
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group(options.backend)
    stop = threading.Event()
    killer = threading.Thread(target=kill_nic_by_turns, args=(options.nic_dies, stop))
    if options.nic_dies:
        killer.start()
    try:
        losses, times, model = train(options)
    finally:
        stop.set()
        if options.nic_dies:
            killer.join()
    if dist.get_rank() == 0:
        report(options, losses, times, model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
