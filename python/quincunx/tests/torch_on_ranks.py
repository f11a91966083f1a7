"""What every rank runs for the tests in test_torch.py: `torch_on_ranks.py FUNCTION`."""

import sys
import warnings

import torch
import torch.distributed as dist

import quincunx.torch


def collectives_give_what_gloo_gives(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")

    def both(call) -> None:
        ours, theirs = call(None), call(gloo)
        assert torch.equal(ours, theirs), (ours, theirs)

    def reduced(group, kind: torch.dtype, op) -> torch.Tensor:
        values = ((torch.arange(1001) + rank) % 5 + 1).to(kind)
        dist.all_reduce(values, op=op, group=group)
        return values

    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.float64, torch.uint8):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            both(lambda group, kind=kind, op=op: reduced(group, kind, op))

    def gathered(group) -> torch.Tensor:
        parts = [torch.empty(3, 4) for _ in range(size)]
        dist.all_gather(parts, torch.full((4, 3), float(rank)).t(), group=group)
        return torch.stack(parts)

    def turned(group) -> torch.Tensor:
        sink = torch.empty(sum(rank + 1 for _ in range(size)))
        source = torch.arange(float(size * (size + 1) // 2)) + 100 * rank
        dist.all_to_all_single(sink, source, [rank + 1] * size, [to + 1 for to in range(size)], group=group)
        return sink

    def sent_around(group) -> torch.Tensor:
        found = torch.empty(50_000)
        following = dist.isend(torch.full((50_000,), float(rank)), (rank + 1) % size, group=group)
        dist.recv(found, (rank - 1) % size, group=group)
        following.wait()
        return found

    def broadcast(group) -> torch.Tensor:
        values = torch.arange(9.0).view(3, 3).t() + rank
        dist.broadcast(values, 1, group=group)
        return values

    for call in (gathered, turned, sent_around, broadcast):
        both(call)


def fallbacks_warn_once(rank: int, size: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            dist.all_reduce(torch.ones(3, dtype=torch.int64))
            dist.all_reduce(torch.ones(3))
    found = [str(one.message) for one in caught if "quincunx" in str(one.message)]
    assert len(found) == 1 and "i64" in found[0], found


def objects_and_subgroups_work(rank: int, size: int) -> None:
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": one} for one in range(size)]
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        values = torch.ones(5)
        dist.all_reduce(values, group=pair)
        assert (values == 2).all()


def ddp_trains_as_one_process_does(rank: int, size: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2))
    alone = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2))
    alone.load_state_dict(model.state_dict())
    ours = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    inputs = torch.randn(size * 4, 20)
    for one, part in ((ours, inputs[4 * rank : 4 * rank + 4]), (alone, inputs)):
        steps = torch.optim.SGD(one.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            one(part).square().mean().backward()
            steps.step()
    for found, expected in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(found, expected)


def work_under_way_has_futures(rank: int, size: int) -> None:
    values = [torch.full((1000,), float(index)) for index in range(5)]
    futures = [dist.all_reduce(one, async_op=True).get_future() for one in values]
    doubled = [future.then(lambda done: done.value()[0] * 2) for future in futures]
    for index, one in enumerate(doubled):
        assert (one.wait() == 2 * index * size).all()


if __name__ == "__main__":
    dist.init_process_group("quincunx")
    globals()[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
