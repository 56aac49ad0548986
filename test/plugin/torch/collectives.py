# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over Hawser, with the results that its definition asks for."""

import threading

import torch
import torch.distributed as dist
from hawser_torch import nics
from ranks import begin, main, raises, say

INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
# A few elements, and more than one piece of a ring.
SIZES = (0, 1, 7, 1000, 200_000)


def of_rank(rank, size, kind):
    """Small whole numbers: exact in every type, whatever the order of the operations."""
    return ((torch.arange(size) * 7 + rank * 5) % 3 + 1).to(kind)


WAYS = {
    dist.ReduceOp.SUM: torch.add, dist.ReduceOp.AVG: torch.add, dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum, dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def reduced(op, size, kind, ranks):
    wide = torch.complex128 if kind.is_complex else torch.float64 if kind.is_floating_point else torch.int64
    result = of_rank(0, size, wide)
    for rank in range(1, ranks):
        result = WAYS[op](result, of_rank(rank, size, wide))
    if op == dist.ReduceOp.AVG:
        result = result // ranks if wide == torch.int64 else result / ranks
    return result.to(kind)


def reductions():
    """Every reduction that a type has."""
    for kind in INTEGERS + FLOATS + COMPLEX:
        ops = [dist.ReduceOp.SUM, dist.ReduceOp.AVG]
        if kind not in COMPLEX:
            ops += [dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
        if kind in INTEGERS:
            ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
        yield from ((kind, op) for op in ops)


def same(got, wanted, what):
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), f"{what}: {got} instead of {wanted}"


def all_reduce(rank, ranks):
    for kind, op in reductions():
        for size in SIZES:
            tensor = of_rank(rank, size, kind)
            dist.all_reduce(tensor, op)
            same(tensor, reduced(op, size, kind, ranks), f"all_reduce {kind} {op} {size}")
    truth = torch.tensor([rank == 0, rank == 1, True, False])
    dist.all_reduce(truth)
    same(truth, torch.tensor([True, ranks > 1, True, False]), "sum of truth values")
    truth = torch.tensor([rank == 0, True])
    dist.all_reduce(truth, dist.ReduceOp.MIN)
    same(truth, torch.tensor([ranks == 1, True]), "minimum of truth values")
    # Not dense, and a single number.
    matrix = torch.zeros(6, 8)
    column = matrix[:, 2]
    column += rank
    dist.all_reduce(column)
    assert matrix.sum() == 6 * sum(range(ranks)) and (matrix[:, 2] == sum(range(ranks))).all()
    number = torch.tensor(float(rank))
    dist.all_reduce(number)
    assert number == sum(range(ranks))
    several = [of_rank(rank, size, torch.float32) for size in SIZES]
    dist.all_reduce_coalesced(several)
    for size, tensor in zip(SIZES, several):
        same(tensor, reduced(dist.ReduceOp.SUM, size, torch.float32, ranks), "all_reduce_coalesced")
    # The same memory more than once.
    size = SIZES[-1]
    tensor = of_rank(rank, size, torch.float32)
    wanted = reduced(dist.ReduceOp.SUM, size, torch.float32, ranks)
    dist.all_reduce_coalesced([tensor, tensor, tensor[size // 2:]])
    same(tensor, wanted, "all_reduce_coalesced of one tensor three times")


def rooted(rank, ranks):
    for root in range(ranks):
        for kind in INTEGERS + FLOATS + COMPLEX + (torch.bool,):
            for size in SIZES:
                tensor = of_rank(rank, size, kind)
                dist.broadcast(tensor, root)
                same(tensor, of_rank(root, size, kind), "broadcast")
                lists = [torch.zeros(size, dtype=kind) for _ in range(ranks)] if rank == root else None
                dist.gather(of_rank(rank, size, kind), lists, dst=root)
                for other, got in enumerate(lists or []):
                    same(got, of_rank(other, size, kind), "gather")
                lists = [of_rank(other, size, kind) for other in range(ranks)] if rank == root else None
                got = torch.zeros(size, dtype=kind)
                dist.scatter(got, lists, src=root)
                same(got, of_rank(rank, size, kind), "scatter")
        for size in SIZES:
            tensor = of_rank(rank, size, torch.int32)
            dist.reduce(tensor, root)
            if rank == root:
                same(tensor, reduced(dist.ReduceOp.SUM, size, torch.int32, ranks), "reduce")


def gathered(rank, ranks):
    for kind in INTEGERS + FLOATS + COMPLEX + (torch.bool,):
        for size in SIZES:
            wanted = [of_rank(other, size, kind) for other in range(ranks)]
            got = [torch.zeros(size, dtype=kind) for _ in range(ranks)]
            dist.all_gather(got, wanted[rank])
            for one, other in zip(got, wanted):
                same(one, other, "all_gather")
            whole = torch.zeros(ranks * size, dtype=kind)
            dist.all_gather_into_tensor(whole, wanted[rank])
            same(whole, torch.cat(wanted), "all_gather_into_tensor")
    # Lengths that differ, and two dimensions.
    got = [torch.zeros(other + 1, 3) for other in range(ranks)]
    dist.all_gather(got, torch.full((rank + 1, 3), float(rank)))
    assert all((one == other).all() for other, one in enumerate(got))
    # A list for each rank, with a tensor for each size.
    lists = [[torch.zeros(size) for size in SIZES] for _ in range(ranks)]
    dist.all_gather_coalesced(lists, [of_rank(rank, size, torch.float32) for size in SIZES])
    for other, tensors in enumerate(lists):
        for size, tensor in zip(SIZES, tensors):
            same(tensor, of_rank(other, size, torch.float32), "all_gather_coalesced")
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 1000 * rank})
    assert [one["rank"] for one in objects] == list(range(ranks))
    words = ["word", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(words)
    assert words == ["word", 0]


def scattered(rank, ranks):
    for kind, op in reductions():
        for size in SIZES:
            wanted = reduced(op, ranks * size, kind, ranks)[rank * size:(rank + 1) * size]
            whole = of_rank(rank, ranks * size, kind)
            got = torch.zeros(size, dtype=kind)
            dist.reduce_scatter(got, list(whole.chunk(ranks)) if size else [got.clone()] * ranks, op)
            same(got, wanted, "reduce_scatter")
            got.zero_()
            dist.reduce_scatter_tensor(got, whole, op)
            same(got, wanted, "reduce_scatter_tensor")


def exchanged(rank, ranks):
    for kind in INTEGERS + FLOATS + COMPLEX + (torch.bool,):
        for size in SIZES:
            to = [of_rank(rank * ranks + other, size, kind) for other in range(ranks)]
            wanted = [of_rank(other * ranks + rank, size, kind) for other in range(ranks)]
            got = [torch.zeros(size, dtype=kind) for _ in range(ranks)]
            dist.all_to_all(got, to)
            for one, other in zip(got, wanted):
                same(one, other, "all_to_all")
            whole = torch.zeros(ranks * size, dtype=kind)
            dist.all_to_all_single(whole, torch.cat(to))
            same(whole, torch.cat(wanted), "all_to_all_single")
    # Rank i sends i + j rows to rank j.
    rows = [rank + other for other in range(ranks)]
    given = torch.cat([torch.full((count, 2), 10.0 * rank + other) for other, count in enumerate(rows)])
    got = torch.zeros(sum(rows), 2)
    dist.all_to_all_single(got, given, rows, rows)
    wanted = torch.cat([torch.full((count, 2), 10.0 * other + rank) for other, count in enumerate(rows)])
    same(got, wanted, "all_to_all_single with splits")


def messages(rank, ranks):
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for size in SIZES:
        sent = dist.isend(of_rank(rank, size, torch.float32), right, tag=5)
        got = torch.zeros(size)
        assert dist.recv(got, left, tag=5) == left
        same(got, of_rank(left, size, torch.float32), "recv")
        sent.wait()
    # Two tags, received in the opposite order of sending.
    sends = [dist.isend(torch.tensor([tag]), right, tag=tag) for tag in (1, 2)]
    for tag in (2, 1):
        got = torch.tensor([0])
        dist.recv(got, left, tag=tag)
        assert got == tag
    for send in sends:
        send.wait()
    # From anyone.
    if rank == 0:
        seen = set()
        for _ in range(ranks - 1):
            got = torch.zeros(3)
            source = dist.recv(got)
            assert (got == source).all()
            seen.add(source)
        assert seen == set(range(1, ranks))
    else:
        dist.send(torch.full((3,), float(rank)), 0)
    dist.barrier()  # what follows is not for those receives
    batch = [dist.P2POp(dist.isend, torch.full((4,), float(rank)), right),
             dist.P2POp(dist.irecv, torch.zeros(4), left)]
    for request in dist.batch_isend_irecv(batch):
        request.wait()
    assert (batch[1].tensor == left).all()


def groups(rank, ranks):
    """Groups of some ranks, whose numbering differs, used at once and from two threads."""
    halves = [dist.new_group(list(range(part, ranks, 2))) for part in (0, 1)]
    mine = halves[rank % 2]
    members = list(range(rank % 2, ranks, 2))
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=mine)
    assert tensor == sum(members)
    dist.broadcast(tensor, members[-1], group=mine)
    failures = []

    def work(group, wanted):
        try:
            for step in range(200):
                value = torch.tensor([rank + step])
                dist.all_reduce(value, group=group)
                assert value == wanted(step), (value, step)
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine, lambda step: sum(members) + step * len(members))),
               threading.Thread(target=work, args=(None, lambda step: sum(range(ranks)) + step * ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for group in halves:
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    dist.barrier()


def handles(rank, ranks):
    """Operations under way at once, awaited in any order, and twice, and futures."""
    tensors = [torch.full((size,), float(rank)) for size in (10, 100_000) * 40]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait() and work.wait() and work.is_completed()
    assert all((tensor == sum(range(ranks))).all() for tensor in tensors)
    total = float(sum(range(ranks)))

    # A callback that itself runs a collective.
    def again(future):
        second = future.value()[0].clone()
        dist.all_reduce(second)
        return second

    work = dist.all_reduce(torch.tensor([float(rank)]), async_op=True)
    assert work.get_future().then(again).wait() == total * ranks
    # The program computes, and asks now and then.
    work = dist.all_reduce(torch.full((1_000_000,), float(rank)), async_op=True)
    while not work.is_completed():
        pass
    assert (work.result()[0] == total).all()
    dist.barrier()


def worlds(rank, ranks):
    """One world after the other, in the same processes."""
    for number in range(3):
        dist.destroy_process_group()
        begin(rank, ranks, f"{WORLD}.{number}")
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor)
        assert tensor == sum(range(ranks))


def wrong(rank, ranks):
    """Wrong arguments raise at once, where they were given, and the group goes on."""
    one = torch.ones(3)
    raises(ValueError, dist.all_reduce, torch.ones(3).to_sparse())
    raises(ValueError, dist.all_reduce, one, dist.ReduceOp.BAND)
    raises(ValueError, dist.all_reduce, torch.ones(3, dtype=torch.bool), dist.ReduceOp.AVG)
    raises(ValueError, dist.all_gather_into_tensor, torch.ones(ranks * 3 + 1), one)
    raises(ValueError, dist.all_gather_into_tensor, torch.ones(ranks * 3, dtype=torch.int32), one)
    raises(ValueError, dist.reduce_scatter_tensor, one, torch.ones(ranks * 3 - 1))
    raises(ValueError, dist.all_to_all_single, torch.ones(ranks), torch.ones(ranks), None, [1] * ranks + [0])
    raises(ValueError, dist.all_to_all_single, torch.ones(ranks), torch.ones(ranks), None, [2] * ranks)
    raises(ValueError, dist.all_to_all_single, torch.ones(ranks), torch.ones(ranks), None,
           [-1, ranks + 1] + [0] * (ranks - 2))
    raises(ValueError, dist.all_gather, [one.clone()] * (ranks - 1), one)
    same(one, torch.ones(3), "a refused tensor")
    # A message that is longer than its tensor, and one that is shorter.
    if rank == 0:
        for size in (5, 1, 3):
            dist.send(torch.ones(size), 1)
    elif rank == 1:
        for words in ("longer", "sent 4 bytes"):
            assert words in str(raises(ValueError, dist.recv, torch.zeros(3), 0))
        dist.recv(one, 0)
    dist.barrier()


def report(rank, _):
    """Says what the NICs did, for those who ran other functions before."""
    for nic in nics():
        say("nic", rank, nic["name"], nic["state"], nic["packets_sent"], nic["packets_lost"])


def everything(rank, ranks):
    for function in (all_reduce, rooted, gathered, scattered, exchanged, messages, groups, handles, wrong, report):
        function(rank, ranks)


if __name__ == "__main__":
    import sys
    WORLD = sys.argv[4]
    main(globals())
