# SPDX-License-Identifier: Apache-2.0
"""Hawser as a backend of torch.distributed.

    import hawser_torch
    torch.distributed.init_process_group("hawser")

The NICs are those of HAWSER_NICS, or all of the host.
"""

import atexit

import torch
import torch.distributed


class RankFailure(RuntimeError):
    """An operation failed because a rank did. `rank` is its rank in the world, and `status` is
    Hawser's name for the reason, as peer_timeout."""

    def __init__(self, text, rank, status):
        super().__init__(text)
        self.rank = rank
        self.status = status


from hawser_torch._C import inject_fault, make_process_group, nics, shutdown  # noqa: E402


def _create(options, _):
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return make_process_group(options.store, options.group_rank, ranks, options.timeout)


torch.distributed.Backend.register_backend("hawser", _create, extended_api=True)
# Before the interpreter takes away what the threads use.
atexit.register(shutdown)
