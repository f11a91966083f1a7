"""Communication hooks of DDP: `model.register_comm_hook(None, hooks.fixed_point)`. DDP compares annotations as objects: they are no strings here."""

from typing import Any

import torch
import torch.distributed as dist

from quincunx.torch._backend import QuincunxBackend
from quincunx.torch._quantization import sum_of_all

__all__ = ["fixed_point", "inq", "mxfp8", "nvfp4"]

_LARGEST = (1 << 31) - 1
# What SCIN chooses (section 4.2).
_BLOCK = 64


def fixed_point(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Exchanges gradients as INT32 (EPIC I.1): one factor for a bucket, the same at all ranks, then the mean in the gradients' type.

    Integers have the same sum in any order, so that every run has the same bits without reproducible sums. The factor leaves room for all
    ranks at their largest: nothing wraps or saturates. A bucket with an infinity or NaN at any rank becomes NaN at all.
    `group`: None for all ranks. Gradients must be floating-point numbers, or TypeError is raised.
    """
    gradients = _floats(bucket)
    size = dist.get_world_size(group)
    largest = gradients.abs().max().to(torch.float32) if gradients.numel() else torch.zeros(())
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    bound = largest.item()
    future: torch.futures.Future = torch.futures.Future()
    if not bound < float("inf"):
        future.set_result(gradients.fill_(float("nan")))
        return future
    if bound == 0:
        future.set_result(gradients)
        return future
    # One less than its share for each rank, since every one rounds.
    factor = (_LARGEST // size - 1) / bound
    integers = (gradients.double() * factor).round().to(torch.int32)
    under_way = dist.all_reduce(integers, group=group, async_op=True).get_future()

    def mean(ended: torch.futures.Future) -> torch.Tensor:
        # Raises what the exchange has met.
        ended.value()
        return gradients.copy_(integers.double() / (factor * size))

    return under_way.then(mean)


def inq(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Exchanges gradients as INT8 with a binary16 scale for each 64 of them, as SCIN's switch does (INQ): quantised once by each rank, and
    once more when they are added up; then the mean in the gradients' type.

    A quarter of the bytes of FP32 leave a rank. EPIC's switches add up no numbers of different scales: ranks do, each a part, in rank order. A block with an infinity
    or NaN at any rank becomes NaN at all. The exchange has ended when the hook returns: it overlaps no computation.
    `group`: None for all ranks. Gradients must be floating-point numbers, or TypeError is raised.
    """
    gradients = _floats(bucket)
    total = sum_of_all(gradients.float(), _BLOCK, group)
    future: torch.futures.Future = torch.futures.Future()
    future.set_result(gradients.copy_(total.div_(dist.get_world_size(group))))
    return future


def mxfp8(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Exchanges gradients as MXFP8 (`quincunx.blocks`), 8.26 bits each, then the mean in the gradients' type.

    They are quantised once by each rank, and at each addition anew, in switches, too: with `group.reproducible=true` every run has the same bits. A
    block of 32 with an infinity or NaN at any rank becomes NaN at all. The exchange has ended when the hook returns: it overlaps no computation.
    `group`: None for all ranks, else a group of the backend "quincunx". Gradients must be floating-point numbers, or TypeError is raised. Needs NumPy.
    """
    return _in_blocks(group, bucket, "mxfp8", 1.0)


def nvfp4(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The same as blocks of 16 E2M1 with a scale E4M3, 4.57 bits each, and one power of two for a bucket, the same at all ranks: the largest that
    leaves room for the sum of all ranks at their largest.
    """
    gradients = _floats(bucket)
    largest = gradients.abs().max().to(torch.float32) if gradients.numel() else torch.zeros(())
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    from quincunx import blocks  # noqa: PLC0415: other hooks need no NumPy

    return _in_blocks(group, bucket, "nvfp4", blocks.factor(largest.item(), dist.get_world_size(group)))


def _in_blocks(group: Any, bucket: dist.GradBucket, element: str, factor: float) -> torch.futures.Future[torch.Tensor]:
    from quincunx import blocks  # noqa: PLC0415: other hooks need no NumPy

    gradients = _floats(bucket)
    given = blocks.quantize((gradients.float() * factor).cpu().numpy(), element)
    tiles = torch.from_numpy(given.tiles)
    of = dist.group.WORLD if group is None else group
    # Of torch 2.11 the backend is the group.
    backend = of if isinstance(of, QuincunxBackend) else of._get_backend(torch.device("cpu"))
    backend._whole("all_reduce", [tiles], tiles, tiles, element=element, op="sum").wait()
    total = torch.from_numpy(given.dequantize()).div_(factor * dist.get_world_size(group))
    future: torch.futures.Future = torch.futures.Future()
    future.set_result(gradients.copy_(total.view_as(gradients)))
    return future


def _floats(bucket: dist.GradBucket) -> torch.Tensor:
    gradients = bucket.buffer()
    if not gradients.is_floating_point():
        raise TypeError(f"expected gradients of floating-point numbers, found {gradients.dtype}; use no hook for these")
    return gradients
