"""Block quantization to INT8 of tensors, to the bit as `crates/base/collective/src/quantization.rs` defines it and explains why (SCIN 3.4)."""

from __future__ import annotations

import torch
import torch.distributed as dist

_LARGEST = 127.0
# Bytes of a scale, binary16.
_SCALE = 2


def packed(blocks: torch.Tensor) -> torch.Tensor:
    """Bytes (uint8, blocks x values + 2) of float32 blocks (blocks x values): the codes of each, then its scale."""
    magnitude = blocks.abs().amax(dim=1, keepdim=True)
    nearest = (magnitude / _LARGEST).to(torch.float16)
    above = (nearest.view(torch.int16) + 1).view(torch.float16)
    scales = torch.where(nearest.float() * _LARGEST < magnitude, above, nearest)
    finite = scales.isfinite()
    # One pattern of NaN, and no code for what has no scale, or a scale of zero.
    scales = torch.where(finite, scales, torch.tensor(0x7E00, dtype=torch.int16, device=blocks.device).view(torch.float16))
    steps = torch.where(finite & (scales > 0), scales, 1.0).float()
    codes = torch.where(finite, blocks / steps, 0.0).round().to(torch.int8)
    return torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)], dim=1)


def restored(rows: torch.Tensor) -> torch.Tensor:
    """The float32 blocks that packed ones stand for."""
    scales = rows[:, -_SCALE:].contiguous().view(torch.float16).float()
    return rows[:, :-_SCALE].contiguous().view(torch.int8).float() * scales


def sum_of_all(values: torch.Tensor, block: int, group: dist.ProcessGroup | None) -> torch.Tensor:
    """What `inq_all_reduce` makes of all ranks' float32 `values` (any number, one dimension), each block of them with a scale of its own.

    Each rank quantises once and sends the part r to rank r, which adds up in rank order what the parts stand for, as SCIN's switch does
    for all, and quantises the sum for everybody.
    """
    size = dist.get_world_size(group)
    rows = -(-values.numel() // (block * size))
    blocks = torch.zeros((size * rows, block), device=values.device)
    blocks.view(-1)[: values.numel()] = values
    given = packed(blocks)
    parts = torch.empty_like(given)
    dist.all_to_all_single(parts, given, group=group)
    total, *others = restored(parts).view(size, rows, block)
    for other in others:
        total += other
    dist.all_gather_into_tensor(given, packed(total), group=group)
    return restored(given).flatten()[: values.numel()]
