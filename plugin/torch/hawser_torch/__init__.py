# SPDX-License-Identifier: Apache-2.0
"""Hawser as a backend of torch.distributed.

    import hawser_torch
    torch.distributed.init_process_group("hawser")

The NICs are those of HAWSER_NICS, or all of the host.
"""

import atexit
import re

import torch
import torch.distributed
from torch.distributed import distributed_c10d


class RankFailure(RuntimeError):
    """An operation failed because a rank did. `rank` is that rank in the world, and `status` is
    Hawser's name for the reason, as "peer_timeout"."""

    def __init__(self, text):
        super().__init__(text)
        # PyTorch makes exceptions of their text alone.
        found = re.search(r"\[rank (\d+), (\w+)\]", text)
        self.rank = int(found[1]) if found else None
        self.status = found[2] if found else None


from hawser_torch import _C  # noqa: E402 pylint: disable=wrong-import-position
from hawser_torch._C import inject_fault, nics  # noqa: E402 pylint: disable=wrong-import-position

__all__ = ["RankFailure", "inject_fault", "nics", "shrink"]


def shrink(group=None, without=()):
    """Returns a process group of the ranks of `group` that are left, in the order of their ranks.
    Every living rank calls it, and it blocks until all have. Those of `without`, ranks of the
    world, are given up although they may live. `group` and its operations fail. Raises RankFailure
    if the others go on without this rank."""
    former = group or distributed_c10d._get_default_group()
    places = distributed_c10d._pg_group_ranks[former]
    made, ranks = _C.shrink(former, [places[rank] for rank in without])
    # As torch.distributed.new_group does.
    distributed_c10d._pg_map[made] = distributed_c10d._pg_map[former]
    distributed_c10d._pg_names[made] = f"{distributed_c10d._pg_names[former]}-shrunk"
    distributed_c10d._pg_group_ranks[made] = {rank: place for place, rank in enumerate(ranks)}
    return made


def _create(options, _):
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return _C.make_process_group(options.store, options.group_rank, ranks, options.timeout)


torch.distributed.Backend.register_backend("hawser", _create, extended_api=True)
# Before the interpreter takes away what the threads use.
atexit.register(_C.shutdown)
