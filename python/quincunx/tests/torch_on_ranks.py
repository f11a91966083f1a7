"""What every rank runs for the tests in test_torch.py: `torch_on_ranks.py FUNCTION`."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from package import asked_of_group, expect_groups_at_the_manager, is_told, wait_for_waits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import quincunx.torch
from quincunx import flight_recorder
from quincunx.torch import _quantization, hooks
from quincunx.torch.experts import Experts

VECTORS = json.loads((Path(__file__).resolve().parents[3] / "vectors" / "quantization.json").read_text())


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


def every_type_is_reduced_and_averaged(rank: int, size: int) -> None:
    integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    for kind in (torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, *integers):
        ones = torch.ones(3).to(kind)
        dist.all_reduce(ones)
        assert (ones.double() == size).all(), kind
        ranks = torch.full((3,), float(rank)).to(kind)
        dist.all_reduce(ranks, op=dist.ReduceOp.AVG)
        mean = torch.tensor((size - 1) / 2)
        mean = mean.trunc() if kind in integers else mean.to(kind)
        assert (ranks.double() == mean.double()).all(), kind


def objects_and_subgroups_work(rank: int, size: int) -> None:
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": one} for one in range(size)]
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        values = torch.ones(5)
        dist.all_reduce(values, group=pair)
        assert (values == 2).all()


def groups_that_are_destroyed_or_dropped_are_given_back(rank: int, size: int) -> None:
    def used(group: dist.ProcessGroup) -> None:
        values = torch.ones(1000)
        work = dist.all_reduce(values, group=group, async_op=True)
        assert (work.get_future().wait()[0] == size).all()

    # Whoever has one still does not keep it from ending.
    destroyed = []
    for _ in range(20):
        part = dist.new_group()
        used(part)
        dist.destroy_process_group(part)
        destroyed.append(part)
    assert len(quincunx.torch.designs()) == 1
    # As torch makes one, but torch does not have it.
    store = dist.distributed_c10d._get_default_store()
    for number in range(20):
        options = dist.distributed_c10d._DistributedBackendOptions()
        options.store = dist.PrefixStore(f"dropped-{number}", store)
        options.group_rank, options.group_size, options.timeout = rank, size, dist.default_pg_timeout
        options.global_ranks_in_group = list(range(size))
        part = quincunx.torch._create(options)
        opts = dist.AllreduceOptions()
        opts.reduceOp = dist.ReduceOp.SUM
        values = torch.ones(1000)
        part.allreduce([values], opts).get_future().wait()
        assert (values == size).all()
        del part
    gc.collect()
    assert len(quincunx.torch.designs()) == 1, quincunx.torch.designs()
    for thread in threading.enumerate():
        if thread.name.startswith("quincunx"):
            thread.join(10.0)
            assert not thread.is_alive(), thread
    expect_groups_at_the_manager(2)
    dist.barrier()


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


def the_profiler_shows_each_collective_with_its_design_and_bytes(rank: int, size: int) -> None:
    [design] = quincunx.torch.designs()
    ours = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 300))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(1000))
        ours(torch.randn(4, 20)).sum().backward()
        dist.all_to_all_single(torch.empty(size), torch.ones(size))
    found = {event.key: event.count for event in profiler.key_averages() if event.key.startswith("quincunx:")}
    for expected in ("all_reduce {} 4000 bytes", "all_reduce {} 4000 bytes wait", "all_to_all {} 12 bytes"):
        assert found.get("quincunx:" + expected.format(design)) == 1, found
    # Of DDP, too, which never waits by `wait`.
    assert found.get(f"quincunx:all_reduce {design} 25200 bytes") == 1, found


def work_under_way_has_futures(rank: int, size: int) -> None:
    values = [torch.full((1000,), float(index)) for index in range(5)]
    futures = [dist.all_reduce(one, async_op=True).get_future() for one in values]
    doubled = [future.then(lambda done: done.value()[0] * 2) for future in futures]
    for index, one in enumerate(doubled):
        assert (one.wait() == 2 * index * size).all()


def gradients_in_blocks_are_near_those_of_floats_and_alike_at_all_ranks(rank: int, size: int) -> None:
    inputs = torch.randn(8, 24, generator=torch.Generator().manual_seed(rank))
    for hook, share in ((hooks.mxfp8, 0.1), (hooks.nvfp4, 0.4)):
        plain, blocks = (torch.nn.parallel.DistributedDataParallel(model()) for _ in range(2))
        blocks.register_comm_hook(None, hook)
        for one in (plain, blocks):
            one(inputs).square().mean().backward()
        # Additions and what each rank quantises: at most half a step each, of the largest of a block, which the largest of all bounds.
        exact, found = (torch.cat([each.grad.flatten() for each in of.parameters()]) for of in (plain, blocks))
        assert (found - exact).abs().max() <= share * size * exact.abs().max(), hook
        assert not torch.equal(found, exact), hook
        others = [torch.empty_like(found) for _ in range(size)]
        dist.all_gather(others, found)
        assert all(torch.equal(other, found) for other in others), hook
        blocks(inputs * (float("nan") if rank == 1 else 1)).square().mean().backward()
        assert all(parameter.grad.isnan().all() for parameter in blocks.parameters()), hook


def gradients_in_fixed_point_are_those_of_floats(rank: int, size: int) -> None:
    plain, fixed = (torch.nn.parallel.DistributedDataParallel(model()) for _ in range(2))
    fixed.register_comm_hook(None, hooks.fixed_point)
    inputs = torch.randn(8, 24, generator=torch.Generator().manual_seed(rank))
    for one in (plain, fixed):
        one(inputs).square().mean().backward()
    for found, expected in zip(fixed.parameters(), plain.parameters()):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-6, atol=1e-8)
    # What is no number at one rank is none at all.
    fixed(inputs * (float("nan") if rank == 1 else 1)).square().mean().backward()
    assert all(parameter.grad.isnan().all() for parameter in fixed.parameters())


def floats(bits: list[int]) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)


def blocks_are_quantised_as_in_rust(rank: int, size: int) -> None:
    cases = [case for case in VECTORS["quantize"] if case["code"] == "int8" and case["input"]]
    assert len(cases) > 8
    for case in cases:
        values, block = floats(case["input"]), case["block"]
        count, missing = values.numel(), -values.numel() % block
        rows = _quantization.packed(torch.cat([values, torch.zeros(missing)]).view(-1, block))
        assert rows[:, :block].flatten()[:count].tolist() == case["codes"], case["name"]
        assert rows[:, block:].flatten().tolist() == case["scales"], case["name"]
        found, expected = _quantization.restored(rows).flatten()[:count], floats(case["restored"])
        assert torch.equal(found.isnan(), expected.isnan()), case["name"]
        assert torch.equal(found.view(torch.int32)[~found.isnan()], expected.view(torch.int32)[~found.isnan()]), case["name"]


def sums_of_quantised_vectors_are_those_of_rust(rank: int, size: int) -> None:
    [case] = [case for case in VECTORS["all_reduce"] if case["code"] == "int8" and len(case["inputs"]) == size]
    found = _quantization.sum_of_all(floats(case["inputs"][rank]), case["block"], None)
    assert torch.equal(found.view(torch.int32), floats(case["inq"]).view(torch.int32)), (found, case["inq"])


def gradients_in_blocks_are_those_of_floats_but_for_their_codes(rank: int, size: int) -> None:
    plain, quantised = (torch.nn.parallel.DistributedDataParallel(model()) for _ in range(2))
    quantised.register_comm_hook(None, hooks.inq)
    inputs = torch.randn(8, 24, generator=torch.Generator().manual_seed(rank))
    for one in (plain, quantised):
        one(inputs).square().mean().backward()
    largest = max(parameter.grad.abs().max() for parameter in plain.parameters())
    for found, expected in zip(quantised.parameters(), plain.parameters()):
        assert 0 < (found.grad - expected.grad).abs().max() < 2 * largest / 127
    # Every rank has the same bits.
    bits = torch.cat([parameter.grad.flatten() for parameter in quantised.parameters()])
    of_all = [torch.empty_like(bits) for _ in range(size)]
    dist.all_gather(of_all, bits)
    assert all(torch.equal(one, bits) for one in of_all)
    quantised(inputs * (float("nan") if rank == 1 else 1)).square().mean().backward()
    assert all(parameter.grad.isnan().all() for parameter in quantised.parameters())


def messages_go_in_batches(rank: int, size: int) -> None:
    found = torch.empty(1000)
    following, before = (rank + 1) % size, (rank - 1) % size
    pair = [dist.P2POp(dist.isend, torch.full((1000,), float(rank)), following), dist.P2POp(dist.irecv, found, before)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    assert (found == before).all()


def messages_say_whether_they_have_come_and_from_whom(rank: int, size: int) -> None:
    if rank:
        sent = dist.isend(torch.full((3,), float(rank)), 0)
        sent.wait()
        assert sent.is_completed() and sent.is_success()
        dist.barrier()
        return
    found, senders = torch.empty(3), set()
    for _ in range(size - 2):
        senders.add(dist.recv(found))
        assert (found == max(senders)).all() or len(senders) > 1, (found, senders)
    last = dist.irecv(found)
    last.wait()
    assert last.is_completed() and last.source_rank() == found[0] and senders | {last.source_rank()} == set(range(1, size))
    dist.barrier()


def a_rank_that_dies_is_an_exception_at_the_others(rank: int, size: int) -> None:
    values = torch.ones(1 << 18)
    dist.all_reduce(values)
    if rank == 1:
        os._exit(0)
    try:
        while True:
            dist.all_reduce(values)
    except RuntimeError as error:
        assert "rank1" in str(error), error
    future = dist.all_reduce(values, async_op=True).get_future()
    try:
        future.wait()
    except RuntimeError as error:
        assert "rank1" in str(error), error
    else:
        sys.exit("expected a future with an error, found one with a value")
    dist.destroy_process_group()
    os._exit(0)


def the_analyser_of_flight_recorders_reads_what_ranks_have_called(rank: int, size: int) -> None:
    """Rank 1 has not called the last one, which the analyser says with the line of the others."""
    for _ in range(3):
        dist.all_reduce(torch.ones(1000))
    parts = [torch.empty(10) for _ in range(size)]
    dist.all_gather(parts, torch.ones(10))
    if rank == 1:
        # Answers rank 0 only when that has looked.
        dist.recv(torch.empty(1), 0)
        dist.broadcast(torch.ones(500), 2)
        return
    pending = dist.broadcast(torch.ones(500), 2, async_op=True)
    if rank == 0:
        wait_for_waits([1], "not_called")
        with tempfile.TemporaryDirectory() as folder:
            written = flight_recorder.write(asked_of_group("calls"), Path(folder))
            assert [path.name for path in written] == [f"rank_{rank}" for rank in range(size)], written
            analyser = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder]
            ended = subprocess.run(analyser, text=True, capture_output=True)
        said = ended.stdout + ended.stderr
        assert ended.returncode == 0, said
        assert "nccl:broadcast" in said and "missing ranks: {1}" in said and "torch_on_ranks.py" in said, said
        dist.send(torch.ones(1), 1)
    pending.wait()


def ranks_that_disagree_hear_which_two_and_in_what(rank: int, size: int) -> None:
    is_odd = rank == 1
    other = lambda usual, odd: odd if is_odd else usual  # noqa: E731
    kinds = {
        "length": lambda group: dist.all_reduce(torch.ones(other(1024, 2048)), group=group),
        "data type": lambda group: dist.all_reduce(torch.ones(1024, dtype=other(torch.float32, torch.int32)), group=group),
        "data type of a broadcast": lambda group: dist.broadcast(torch.ones(1024, dtype=other(torch.float32, torch.int32)), 0, group=group),
        "operation": lambda group: dist.all_reduce(torch.ones(1024), op=other(dist.ReduceOp.SUM, dist.ReduceOp.MAX), group=group),
        "root": lambda group: dist.broadcast(torch.ones(1024), other(0, 1), group=group),
        "root of a sum": lambda group: dist.reduce(torch.ones(1024), other(0, 1), group=group),
        "collective": lambda group: dist.broadcast(torch.ones(1024), 0, group=group) if is_odd else dist.all_reduce(torch.ones(1024), group=group),
    }
    for kind, call in kinds.items():
        group = dist.new_group(list(range(size)))
        try:
            call(group)
        except RuntimeError as error:
            text = str(error)
        else:
            sys.exit(f"{kind}: expected an error, found a result")
        assert is_told(text, kind), (kind, text)


def a_job_that_torchrun_starts_again_goes_on(rank: int, size: int) -> None:
    assert quincunx.torch.designs() == ["epic-3"], quincunx.torch.designs()
    kept = Path(os.environ["KEPT"])
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    total = torch.tensor(json.loads(kept.read_text()) if kept.exists() else [0.0] * 1001)
    done = int(total[0].item()) // size
    assert done == (0 if is_first else 3)
    for step in range(done, 6):
        if is_first and rank == 1 and step == 3:
            os._exit(9)
        values = torch.ones(1001)
        dist.all_reduce(values)
        total += values
        if rank == 0:
            kept.write_text(json.dumps(total.tolist()))
        dist.barrier()
    assert (total == 6 * size).all()
    if rank == 0:
        print("went on to the end", flush=True)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.GELU(), torch.nn.Linear(48, 12))


def trained(one: torch.nn.Module, inputs: torch.Tensor) -> list[float]:
    steps = torch.optim.AdamW(one.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        loss = one(inputs).square().mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses


def fsdp2_trains_as_one_process_does(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    sharded = model()
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    # All ranks have the same data, so that the mean of their gradients is each one's.
    inputs = torch.randn(8, 24)
    alone = model()
    torch.testing.assert_close(trained(sharded, inputs), trained(alone, inputs))
    for found, expected in zip(sharded.parameters(), alone.parameters()):
        torch.testing.assert_close(found.full_tensor(), expected)


def tensor_parallel_layers_train_as_whole_ones_do(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    split = parallelize_module(model(), mesh, plan)
    inputs = torch.randn(8, 24)
    alone = model()
    torch.testing.assert_close(trained(split, inputs), trained(alone, inputs))
    for found, expected in zip(split.parameters(), alone.parameters()):
        torch.testing.assert_close(found.full_tensor(), expected)


def sequence_parallel_layers_gather_and_scatter(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    plan = {
        "0": ColwiseParallel(input_layouts=Shard(0)),
        "2": RowwiseParallel(output_layouts=Shard(0)),
    }
    split = parallelize_module(model(), mesh, plan)
    inputs = torch.randn(size * 2, 24, generator=torch.Generator().manual_seed(1))
    found = split(inputs[2 * rank : 2 * rank + 2])
    torch.testing.assert_close(found, model()(inputs)[2 * rank : 2 * rank + 2])


def distributed_tensors_change_their_layout(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(float(size * size * 6)).view(size * 2, size * 3)
    one = distribute_tensor(whole, mesh, [Shard(0)])
    # Shard to shard is all_to_all, to a replica all_gather, from a partial sum all_reduce or reduce_scatter.
    for layout in (Shard(1), Replicate(), Shard(0)):
        one = one.redistribute(mesh, [layout])
        assert torch.equal(one.full_tensor(), whole), layout
    partial = DTensor.from_local(whole, mesh, [Partial()])
    assert torch.equal(partial.redistribute(mesh, [Shard(0)]).full_tensor(), whole * size)
    assert torch.equal(partial.redistribute(mesh, [Replicate()]).to_local(), whole * size)


def functional_collectives_have_gradients(rank: int, size: int) -> None:
    group = dist.group.WORLD
    values = torch.full((size,), float(rank))
    assert (funcol.all_reduce(values, "sum", group) == size * (size - 1) / 2).all()
    assert torch.equal(funcol.all_gather_tensor(values[:1], 0, group), torch.arange(float(size)))
    assert (funcol.reduce_scatter_tensor(values, "sum", 0, group) == size * (size - 1) / 2).all()
    found = funcol.all_gather_into_tensor_coalesced([values, values[:1]], group)
    assert [one.numel() for one in found] == [size * size, size]
    # Tokens to experts and back: as many for each expert as chance has it.
    counts = [(rank + to) % 3 for to in range(size)]
    coming = [(of + rank) % 3 for of in range(size)]
    tokens = torch.arange(float(sum(counts) * 4)).view(-1, 4).requires_grad_()
    experts = funcol.all_to_all_single_autograd(tokens, coming, counts, group)
    back = funcol.all_to_all_single_autograd(experts * 2, counts, coming, group)
    assert torch.equal(back, tokens * 2)
    back.sum().backward()
    assert (tokens.grad == 2).all()


def groups_of_a_mesh_work_side_by_side(rank: int, size: int) -> None:
    # Needs four ranks: two by two.
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    for name, expected in (("replicas", rank % 2 * 2 + 2), ("shards", rank // 2 * 4 + 1)):
        values = torch.full((1000,), float(rank))
        dist.all_reduce(values, group=mesh.get_group(name))
        assert (values == expected).all(), (name, values[0], expected)
    sharded = fully_shard(model(), mesh=mesh)
    inputs = torch.randn(8, 24, generator=torch.Generator().manual_seed(1))
    alone = model()
    torch.testing.assert_close(trained(sharded, inputs), trained(alone, inputs))


def layer(tokens: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, own: range) -> torch.Tensor:
    """What those experts make of tokens that have chosen them: a bend, weighed."""
    here = torch.tensor([[one in own for one in row] for row in experts.tolist()]).reshape(weights.shape)
    return torch.tanh(tokens) * (scales[experts] * weights * here).sum(dim=1, keepdim=True)


def tokens_for_experts(rank: int, kind: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of a rank: rank 1 has none."""
    random = torch.Generator().manual_seed(rank)
    count = 0 if rank == 1 else 5 - rank
    tokens = torch.randn(count, 6, generator=random, dtype=kind)
    weights = torch.rand(count, 3, generator=random, dtype=kind)
    experts = torch.stack([torch.randperm(8, generator=random)[:3] for _ in range(count)]) if count else torch.empty(0, 3, dtype=torch.int64)
    return tokens.requires_grad_(), experts, weights.requires_grad_()


def a_layer_of_experts_has_the_outputs_and_gradients_of_one_process(rank: int, size: int) -> None:
    for design in (None, "direct"):
        net = Experts(8, 3, 8, 6, dtype=torch.float64, design=design)
        scales = (torch.arange(8, dtype=torch.float64) + 1).requires_grad_()
        alone_scales = scales.detach().clone().requires_grad_()
        # Two layers with other routes, so that the way back of the first is not the last one that the network has seen.
        tokens, experts, weights = tokens_for_experts(rank)
        again = (experts + 3) % 8
        came = net.dispatch(tokens, experts, weights)
        assert came.sources.tolist() == sorted(came.sources.tolist()) and not (came.sources == 1).any()
        first = net.combine(came, layer(came.tokens, came.experts, came.weights, scales, net.own))
        came = net.dispatch(first, again, weights)
        second = net.combine(came, layer(came.tokens, came.experts, came.weights, scales, net.own))
        (second * second).sum().backward()
        alone, alone_weights = (one.detach().clone().requires_grad_() for one in (tokens, weights))
        middle = layer(alone, experts, alone_weights, alone_scales, range(8))
        expected = layer(middle, again, alone_weights, alone_scales, range(8))
        torch.testing.assert_close(first, middle)
        torch.testing.assert_close(second, expected)
        (expected * expected).sum().backward()
        torch.testing.assert_close(tokens.grad, alone.grad)
        torch.testing.assert_close(weights.grad, alone_weights.grad)
        # Of an expert the gradient is where it is, over the tokens of all.
        dist.all_reduce(alone_scales.grad)
        torch.testing.assert_close(scales.grad[net.own.start : net.own.stop], alone_scales.grad[net.own.start : net.own.stop])
        assert (scales.grad[: net.own.start] == 0).all()
        net.close()


def a_dispatch_without_a_combine_has_gradients(rank: int, size: int) -> None:
    net = Experts(8, 3, 8, 6, dtype=torch.float64)
    tokens, experts, weights = tokens_for_experts(rank)
    came = [net.dispatch(tokens, (experts + step) % 8, weights) for step in (0, 1, 5)]
    (sum((one.tokens * (step + 1)).sum() for step, one in enumerate(came)) + came[0].weights.sum()).backward()
    ranks = [[len({(one + step) % 8 // (8 // size) for one in row}) for step in (0, 1, 5)] for row in experts.tolist()]
    times = torch.tensor([[a + 2 * b + 3 * c] for a, b, c in ranks], dtype=torch.float64).reshape(-1, 1)
    assert torch.equal(tokens.grad, times.expand_as(tokens))
    assert torch.equal(weights.grad, torch.tensor([[float(row[0])] for row in ranks], dtype=torch.float64).reshape(-1, 1).expand_as(weights))


def a_batch_for_experts_that_makes_no_sense_is_an_exception(rank: int, size: int) -> None:
    net = Experts(8, 3, 8, 6, dtype=torch.bfloat16)
    tokens, experts, weights = tokens_for_experts(0, torch.bfloat16)
    for wrong in (
        lambda: net.dispatch(tokens[:, :5], experts, weights),
        lambda: net.dispatch(tokens, experts[:2], weights),
        lambda: net.dispatch(tokens, experts + 8, weights),
        lambda: net.dispatch(tokens, experts - 8, weights),
        lambda: net.dispatch(tokens.float(), experts, weights),
        lambda: Experts(8, 3, 8, 6, dtype=torch.int32),
        lambda: Experts(8, 3, 8, 6, group=dist.new_group(backend="gloo")),
    ):
        try:
            wrong()
        except (ValueError, TypeError) as found:
            assert str(found).startswith("expected ") and "\n" not in str(found), found
        else:
            sys.exit("expected an exception, found none")
    came = net.dispatch(tokens, experts, weights)
    try:
        net.combine(came, came.tokens[:-1] if len(came.tokens) else tokens)
    except ValueError as found:
        assert "a vector for each of" in str(found), found
    else:
        sys.exit("expected an exception, found none")
    assert torch.equal(net.combine(came, came.tokens), tokens * torch.tensor([[len({one // (8 // size) for one in row})] for row in experts.tolist()]))


def a_group_over_relays_gathers(rank: int, size: int) -> None:
    assert quincunx.torch.designs() == ["multiwrite"]
    found = torch.empty(size * 70_001)
    dist.all_gather_into_tensor(found, torch.full((70_001,), float(rank)))
    assert torch.equal(found.view(size, -1), torch.arange(float(size)).unsqueeze(1).expand(size, 70_001))
    parts = [torch.empty(3, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(parts, torch.full((3,), rank))
    assert [part[0].item() for part in parts] == list(range(size))


ON_SERVERS_OF_TWO = (a_layer_of_experts_has_the_outputs_and_gradients_of_one_process, a_dispatch_without_a_combine_has_gradients)

if __name__ == "__main__":
    if globals()[sys.argv[1]] in ON_SERVERS_OF_TWO:
        os.environ["LOCAL_WORLD_SIZE"] = "2"
    dist.init_process_group("quincunx")
    globals()[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
