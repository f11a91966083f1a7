"""The process group of a backend, by which programs in Python get a message's work as it is."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from quincunx.torch._backend import QuincunxBackend


class QuincunxGroup(dist.ProcessGroup):
    """torch's process group above the backend, but for messages.

    A work that a Backend written in Python makes torch gives to its callers in a holder, which forwards `wait` and `get_future` alone: it
    knows neither whether a message has come nor who has sent it. Collectives stay torch's, with its hooks and its profiler.
    """

    def __init__(self, store: Any, backend: QuincunxBackend) -> None:
        super().__init__(store, backend.rank(), backend.size())
        self._backend = backend
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._set_default_backend(kind)
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), kind, backend)

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Work:
        return self._backend.send(tensors, peer, tag)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Work:
        return self._backend.recv(tensors, peer, tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        return self._backend.recv_anysource(tensors, tag)
