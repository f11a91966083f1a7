"""A small GPT trained with its weights sharded (FSDP2) or split (tensor parallel), with quincunx and with gloo in turns: what every rank runs.

    sudo quincunx run -n 4 --link netns --rate 500Mbit/s -- python shard.py

Each way has two models with the same weights, one above each backend, which do an iteration in turns. FSDP2 gathers each block's weights
and scatters its gradients: by one group, one after the other, or by two, so that a block's gradients go up while the weights of the next one come
down (EPIC 7.2, figure 14). Tensor parallel MLPs add up activations, on whole batches that are the same at all ranks. Rank 0 prints the
median time of an iteration, and the loss of the last. The exit status is not 0 if losses differ by more than rounding. Needs torch.
"""

import argparse
import os
import statistics
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from train import GPT, text

import quincunx.torch


def sharded(model: GPT, mesh: DeviceMesh) -> nn.Module:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


class ReduceScatters:
    """FSDP2's ReduceScatters, on a group of their own."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, op: dist.ReduceOp, async_op: bool = False
    ) -> dist.Work | None:
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=self.group, async_op=async_op)


def sharded_over_two(model: GPT, mesh: DeviceMesh) -> nn.Module:
    model = sharded(model, mesh)
    apart = ReduceScatters(dist.new_group(backend=dist.get_backend(mesh.get_group())))
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_reduce_scatter(apart)
    # Else each AllGather is over before the layer's computation begins: on processors FSDP2 has no streams.
    model._set_unshard_async_op(True)
    return model


def split(model: GPT, mesh: DeviceMesh) -> nn.Module:
    for block in model.blocks:
        parallelize_module(block, mesh, {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()})
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2, help="sequences of each rank")
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("quincunx")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {"quincunx": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    data = text()
    if rank == 0:
        print(f"{size} ranks, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        print(f"{'iteration, ms':18}{quincunx.torch.designs()[0]:>12}{'gloo':>12}{'ratio':>8}{'loss':>12}{'of gloo':>12}", flush=True)
    for name, wrapped in (("FSDP2", sharded), ("FSDP2, two groups", sharded_over_two), ("tensor parallel", split)):
        trained = {}
        for key, group in groups.items():
            torch.manual_seed(0)
            model = GPT(options.width, options.layers, heads=options.width // 32, context=options.context)
            model = wrapped(model, DeviceMesh.from_group(group, "cpu"))
            trained[key] = model, torch.optim.SGD(model.parameters(), lr=0.1)
        # A split model has one batch, a sharded one as many as there are ranks.
        choices = torch.Generator().manual_seed(1 + (0 if wrapped is split else rank))
        times: dict[str, list[float]] = {key: [] for key in groups}
        losses: dict[str, torch.Tensor] = {}
        for _ in range(2 + options.steps):
            starts = torch.randint(len(data) - options.context - 1, (options.batch,), generator=choices)
            sequences = torch.stack([data[start : start + options.context + 1] for start in starts])
            for key, (model, optimizer) in trained.items():
                dist.barrier(group=groups[key])
                begun = time.perf_counter()
                loss = functional.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                times[key].append(time.perf_counter() - begun)
                losses[key] = loss.detach()
        for loss in losses.values():
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        torch.testing.assert_close(losses["quincunx"], losses["gloo"], rtol=1e-4, atol=1e-4)
        if rank == 0:
            # The first two settle what is set up once.
            ours, theirs = (1e3 * statistics.median(times[key][2:]) for key in ("quincunx", "gloo"))
            row = f"{name:18}{ours:>12.1f}{theirs:>12.1f}{ours / theirs:>8.3f}"
            print(f"{row}{losses['quincunx']:>12.6f}{losses['gloo']:>12.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
