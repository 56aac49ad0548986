# SPDX-License-Identifier: Apache-2.0
"""Runs functions of the test programs as the ranks of a job, and what they share.

A program calls `main(globals())`. Its arguments are the name of a function, the rank, the number of
ranks and the file of the store. The function gets rank and number.
"""

import os
import sys

import torch
import torch.distributed as dist

import hawser_torch  # noqa: F401 pylint: disable=unused-import


def say(*words):
    """Writes a line at once, as other ranks write to the same pipe."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def begin(rank, ranks, store, backend="hawser", **options):
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks, **options)


def main(functions):
    name, rank, ranks, store = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    begin(rank, ranks, store)
    functions[name](rank, ranks)
    if dist.is_initialized():
        dist.destroy_process_group()
    say("done", rank)


def raises(kind, function, *arguments, **options):
    """Calls the function, which must raise; returns the exception."""
    try:
        function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{function.__name__} did not raise {kind.__name__}")
