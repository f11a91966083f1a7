"""Where a tensor's memory is, and copies of what the network cannot take as it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch




def _is_staged(tensor: torch.Tensor) -> bool:
    """Whether the network cannot reach a tensor's memory."""
    return tensor.is_cuda


def _pinned(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, pin_memory=True)


def _memory(tensor: torch.Tensor) -> tuple[int, int, torch.Tensor]:
    return tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor


def _both(*calls: Callable[[], None] | None) -> Callable[[], None] | None:
    wanted = [call for call in calls if call is not None]
    if not wanted:
        return None

    def run() -> None:
        for call in wanted:
            call()

    return run


def _dense(tensor: torch.Tensor, is_read: bool = True) -> tuple[torch.Tensor, Callable[[], None] | None]:
    """The tensor, or where it has strides a copy and what brings that back."""
    if tensor.is_sparse:
        raise TypeError("expected a dense tensor, found a sparse one; call to_dense() first")
    if tensor.is_contiguous():
        return tensor.detach(), None
    copy = tensor.detach().contiguous() if is_read else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return copy, lambda: tensor.detach().copy_(copy)


def _on_host(tensor: torch.Tensor, is_read: bool = True) -> tuple[torch.Tensor, Callable[[], None] | None]:
    """Contiguous memory of the host with the tensor's contents, and what brings it back."""
    if not _is_staged(tensor):
        return _dense(tensor, is_read)
    host = _pinned(tensor.shape, tensor.dtype)
    if is_read:
        host.copy_(tensor.detach())
    return host, lambda: tensor.detach().copy_(host)


def _spread(flat: torch.Tensor, sinks: list[torch.Tensor]) -> Callable[[], None]:
    def run() -> None:
        for part, sink in zip(flat, sinks):
            sink.detach().copy_(part.view(sink.shape))

    return run
