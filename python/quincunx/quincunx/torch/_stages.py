"""Tensors on a GPU: they go through pinned memory in chunks, one copied while the one before is exchanged (EPIC I.1)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from quincunx.torch._tensors import _pinned
from quincunx.torch._work import _Work

if TYPE_CHECKING:
    from quincunx.torch._backend import QuincunxBackend

# Bytes of a tensor on a GPU that are staged at once, and how many chunks are under way.
_CHUNK = 4 << 20
_STAGES = 3

_counts = {"copy_s": 0.0, "staged_s": 0.0, "staged_bytes": 0}


class _Stages:
    """Pinned memory through which tensors of a GPU go, chunk by chunk."""

    def __init__(self) -> None:
        self._free: dict[int, list[torch.Tensor]] = {}
        # Those that a copy to the GPU still reads, oldest first.
        self._leaving: deque[tuple[Any, torch.Tensor]] = deque()
        self._streams: dict[torch.device, tuple[Any, Any]] = {}

    def _take(self, size: int) -> torch.Tensor:
        # No more than a few are in use at once, whatever the tensor's size.
        while self._leaving and (len(self._leaving) > _STAGES or self._leaving[0][0].query()):
            end, whole = self._leaving.popleft()
            end.synchronize()
            self._free.setdefault(whole.numel(), []).append(whole)
        kept = self._free.get(size)
        return kept.pop() if kept else _pinned(size, torch.uint8)

    def run(
        self,
        backend: QuincunxBackend,
        work: _Work,
        operation: str,
        source: torch.Tensor | None,
        sink: torch.Tensor | None,
        parts: tuple[int, int],
        options: dict[str, Any],
        after: Callable[[], None] | None,
    ) -> None:
        """Copies a chunk in, has it exchanged and copies it out, while those after and before it are in other steps of that."""
        device, begun = work.device, time.perf_counter()
        if device not in self._streams:
            self._streams[device] = (torch.cuda.Stream(device), torch.cuda.Stream(device))
        inward, outward = self._streams[device]
        inward.wait_event(work.ready)
        outward.wait_event(work.ready)
        # A row for each rank's part, and chunks of columns.
        given, room = _rows(source, parts[0]), _rows(sink, parts[1])
        length = (given if room is None else room).size(1)
        step = max(4096, _CHUNK // max(parts) // 4096 * 4096)
        is_in_place = source is not None and sink is not None and source.data_ptr() == sink.data_ptr()
        times: list[tuple[Any, Any]] = []
        under_way: deque[tuple[int, dict[str, torch.Tensor], Any]] = deque()

        def copy(to: torch.Tensor, of: torch.Tensor, stream: Any) -> Any:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with torch.cuda.stream(stream):
                start.record(stream)
                to.copy_(of, non_blocking=True)
                end.record(stream)
            times.append((start, end))
            return end

        def copy_in(begin: int) -> tuple[int, dict[str, torch.Tensor], Any]:
            width = min(step, length - begin)
            stages: dict[str, torch.Tensor] = {}
            end = None
            if given is not None:
                stages["in"] = self._take(parts[0] * step)[: parts[0] * width].view(parts[0], width)
                end = copy(stages["in"], given[:, begin : begin + width], inward)
            if room is not None:
                one = stages["in"] if is_in_place else self._take(parts[1] * step)[: parts[1] * width].view(parts[1], width)
                stages["out"] = one
            return begin, stages, end

        def exchange(chunk: tuple[int, dict[str, torch.Tensor], Any]) -> None:
            begin, stages, end = chunk
            if end is not None:
                end.synchronize()
            handle = backend._start(operation, stages.get("in"), stages.get("out"), **options)
            under_way.append((begin, stages, handle))

        def give_back(stage: torch.Tensor, end: Any) -> None:
            whole = stage._base
            if end is None:
                self._free.setdefault(whole.numel(), []).append(whole)
            else:
                self._leaving.append((end, whole))

        def copy_out() -> None:
            begin, stages, handle = under_way.popleft()
            handle.wait()
            if room is not None:
                stage = stages["out"]
                give_back(stage, copy(room[:, begin : begin + stage.size(1)], stage, outward))
            if given is not None and stages["in"] is not stages.get("out"):
                give_back(stages["in"], None)

        begins = range(0, length, step)
        chunk = copy_in(0) if length else None
        for begin in begins:
            following = copy_in(begin + step) if begin + step < length else None
            exchange(chunk)
            chunk = following
            while len(under_way) >= _STAGES:
                copy_out()
        while under_way:
            copy_out()
        with torch.cuda.stream(outward):
            if after is not None:
                after()
            done = torch.cuda.Event()
            done.record(outward)
        done.synchronize()
        _counts["copy_s"] += sum(start.elapsed_time(end) for start, end in times) / 1e3
        _counts["staged_s"] += time.perf_counter() - begun
        _counts["staged_bytes"] += max(tensor.numel() for tensor in (given, room) if tensor is not None)
        work._stream_event = done
        work.begin([])


def _rows(tensor: torch.Tensor | None, rows: int) -> torch.Tensor | None:
    """A tensor's bytes, a row for each part."""
    if tensor is None:
        return None
    size = tensor.numel() * tensor.element_size()
    return tensor.reshape(-1).view(torch.uint8).view(rows, size // rows)
