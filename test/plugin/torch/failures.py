# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, sleep or disagree: what the others see, and how they go on."""

import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist
from hawser_torch import RankFailure, shrink
from ranks import begin, main, raises, say
from torch.nn.parallel import DistributedDataParallel


def all_reduce_until_failure(rank, dies, group=None):
    """Runs collectives until one fails. Ranks of `dies` end in the midst of one."""
    for step in range(1_000_000):
        if rank in dies and step == 30:
            dist.all_reduce(torch.ones(200_000), async_op=True, group=group)
            os._exit(9)
        dist.all_reduce(torch.ones(200_000), group=group)
    raise AssertionError("no collective failed")


def go_on(rank, living, group=None):
    """Shrinks the group to the living, and uses what that makes. Returns it."""
    made = shrink(group)
    assert dist.get_world_size(made) == len(living), dist.get_world_size(made)
    assert dist.get_rank(made) == living.index(rank)
    for size in (1, 1000, 200_000):
        tensor = torch.full((size,), float(rank))
        dist.all_reduce(tensor, group=made)
        assert (tensor == sum(living)).all(), tensor
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, living[-1], group=made)
    assert tensor == living[-1]
    return made


def dying(rank, ranks, dies):
    failure = raises(RankFailure, all_reduce_until_failure, rank, dies)
    say("failure", rank, failure.rank, failure.status, failure)
    assert failure.rank in dies, failure
    # Whatever is called now fails at once, with the same rank.
    assert raises(RankFailure, dist.barrier).rank == failure.rank
    assert raises(RankFailure, dist.send, torch.ones(1), (rank + 1) % ranks).rank == failure.rank
    return go_on(rank, [one for one in range(ranks) if one not in dies])


def one_dies(rank, ranks):
    dying(rank, ranks, [2])


def first_dies(rank, ranks):
    dying(rank, ranks, [0])


def two_die(rank, ranks):
    dying(rank, ranks, [1, 2])


def one_after_the_other(rank, ranks):
    """Another rank dies in the group that the first death has left."""
    made = dying(rank, ranks, [1])
    failure = raises(RankFailure, all_reduce_until_failure, rank, [3], made)
    assert failure.rank == 3, failure
    go_on(rank, [one for one in range(ranks) if one not in (1, 3)], made)


def train(rank, model, optimizer, dies):
    generator = torch.Generator().manual_seed(rank)
    for step in range(1_000_000):
        if rank in dies and step == 10:
            os._exit(9)
        optimizer.zero_grad()
        model(torch.randn(16, 100, generator=generator)).pow(2).mean().backward()
        optimizer.step()
        if step == 20 and not dies:
            return
    raise AssertionError("no step failed")


def dies_in_training(rank, ranks):
    """The backward pass itself raises, and training goes on with the rest."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(*[torch.nn.Linear(100, 100) for _ in range(20)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    failure = raises(RankFailure, train, rank, DistributedDataParallel(net, bucket_cap_mb=0.1), optimizer, [2])
    assert failure.rank == 2, failure
    made = shrink()
    # Ranks may have failed in different steps, so one gives its weights to all.
    model = DistributedDataParallel(net, process_group=made, bucket_cap_mb=0.1)
    train(rank, model, optimizer, [])
    weights = [torch.zeros(100, 100) for _ in range(ranks - 1)]
    dist.all_gather(weights, net[0].weight.detach(), group=made)
    assert all(torch.equal(weights[0], one) for one in weights)


def sleeps(rank, ranks):
    """A rank that was stopped too long learns that the others go on without it."""
    dist.barrier()
    if rank == 3:
        say("stops", os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)
        raises(RankFailure, all_reduce_until_failure, rank, [])
        assert raises(RankFailure, shrink).status == "cancelled"
        return
    failure = raises(RankFailure, all_reduce_until_failure, rank, [])
    assert failure.rank == 3, failure
    go_on(rank, [one for one in range(ranks) if one != 3])
    say("shrunk", rank)
    sys.stdin.readline()  # it is the others' life that tells the sleeper


def given_up(rank, ranks):
    """All live, and agree to go on without one."""
    if rank == 1:
        assert raises(RankFailure, shrink, None, [1]).status == "cancelled"
        return
    made = shrink(without=[1])
    assert dist.get_world_size(made) == ranks - 1
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=made)
    assert tensor == sum(range(ranks)) - 1


def disagree(rank, _):
    """One rank calls with another length, type, operation, root or function."""
    wrong = rank == 1
    calls = [
        lambda: dist.all_reduce(torch.ones(101 if wrong else 100), group=group),
        lambda: dist.all_reduce(torch.ones(100, dtype=torch.int32 if wrong else torch.float32), group=group),
        lambda: dist.all_reduce(torch.ones(100), dist.ReduceOp.MAX if wrong else dist.ReduceOp.SUM, group=group),
        lambda: dist.broadcast(torch.ones(100), 2 if wrong else 0, group=group),
        lambda: dist.barrier(group) if wrong else dist.all_reduce(torch.ones(100_000), group=group),
    ]
    for call in calls:
        group = dist.new_group()
        failure = raises(RankFailure, repeat, call)
        assert "differ" in str(failure), failure
        assert failure.status == "invalid_argument", failure
    dist.barrier()


def repeat(call):
    """A rank may learn only from a later call that an earlier one was different."""
    for _ in range(1000):
        call()


def times_out(rank, _):
    """A rank that lives does not come: the group's timeout ends the others' waiting."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    if rank != 1:
        failure = raises(RankFailure, dist.all_reduce, torch.ones(10), group=group)
        assert failure.status == "cancelled" and "timeout" in str(failure), failure
    dist.barrier()
    # A handle's own limit ends the wait, not the operation.
    if rank == 1:
        dist.recv(torch.ones(1), 0)
    elif rank == 2:
        work = dist.irecv(torch.ones(1), 0)
        raises(RuntimeError, work.wait, datetime.timedelta(milliseconds=100))
        dist.send(torch.ones(1), 0)
        assert work.wait()
    elif rank == 0:
        dist.recv(torch.ones(1), 2)
        dist.send(torch.ones(1), 2)
        dist.send(torch.ones(1), 1)
    dist.barrier()


def other_world(rank, ranks):
    """A rank that kept the former world's groups is told so, and so are the others."""
    former = dist.group.WORLD
    dist.destroy_process_group()
    if rank != 1:
        del former
    error = raises(RuntimeError, begin, rank, ranks, sys.argv[4] + ".2")
    assert "another world" in str(error), error


if __name__ == "__main__":
    main(globals())
