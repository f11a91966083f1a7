"""Communication hooks of DDP: `model.register_comm_hook(None, hooks.fixed_point)`. DDP compares annotations as objects: they are no strings here."""

from typing import Any

import torch
import torch.distributed as dist

__all__ = ["fixed_point"]

_LARGEST = (1 << 31) - 1


def fixed_point(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Exchanges gradients as INT32 (EPIC I.1): one factor for a bucket, the same at all ranks, then the mean in the gradients' type.

    Integers have the same sum in any order, so that every run has the same bits without reproducible sums. The factor leaves room for all
    ranks at their largest: nothing wraps or saturates. A bucket with an infinity or NaN at any rank becomes NaN at all.
    `group`: None for all ranks. Gradients must be floating-point numbers, or TypeError is raised.
    """
    gradients = bucket.buffer()
    if not gradients.is_floating_point():
        raise TypeError(f"expected gradients of floating-point numbers, found {gradients.dtype}; use no hook for these")
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
