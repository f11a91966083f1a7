"""The backend "quincunx" of torch.distributed: import this module, then `init_process_group("quincunx")`.

Reductions of FP32, FP16, BF16 and INT32 by sum, minimum and maximum are done by the network; other ones are gathered and combined by
every rank, with one warning for each. Which it is follows from type and operation alone, so that all ranks decide alike. CUDA tensors
go through pinned memory in chunks: one is copied while the one before is exchanged.

Needs torch 2.11 or newer, which is an extra: `pip install quincunx[torch]`.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, Work

from quincunx import _core

__all__ = ["QuincunxBackend", "counts", "designs"]

_ELEMENTS = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "u8",
}
_ELEMENTS.update({getattr(torch, name): code for name, code in (("uint32", "u32"), ("uint64", "u64")) if hasattr(torch, name)})

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "sum",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}
# Truth values are bytes of 0 and 1.
_OF_TRUTH = {"sum": "max", "product": "min", "band": "min", "bor": "max"}

# Bytes of a tensor on a GPU that are staged at once, and how many chunks are under way.
_CHUNK = 4 << 20
_STAGES = 3

# Tags of all_to_all with parts of any length; an application's own are below.
_OWN_TAGS = 1 << 31

_warned: set[tuple[str, str]] = set()
_counts = {"copy_s": 0.0, "staged_s": 0.0, "staged_bytes": 0}


def counts() -> dict[str, float]:
    """Seconds that copies between a GPU and pinned memory took, seconds of all staged operations, and their bytes; of this process's
    node: operations, bytes copied to and from registered memory, the seconds of that, and seconds with something under way."""
    found = dict(_counts)
    if _endpoint is not None:
        names = ("operations", "copied_bytes", "host_copy_s", "busy_s", "fallbacks")
        found.update(zip(names, _endpoint.counts()))
    return found


def designs() -> list[str]:
    """What the groups of this process run, oldest first: the design that was asked for, or what it fell back to."""
    return [backend.group.design for backend in _backends]


def _element(tensor: torch.Tensor) -> str:
    element = _ELEMENTS.get(tensor.dtype)
    if element is None:
        raise TypeError(f"expected a type that can be reduced, found {tensor.dtype}; convert the tensor")
    return element


def _reduction(tensor: torch.Tensor, op: Any) -> tuple[str, str]:
    """Type and operation in our words; warns once if ranks combine themselves."""
    element = _element(tensor)
    name = next((name for known, name in _OPS.items() if op == known), None)
    if name is None:
        raise TypeError(f"expected one of {', '.join(sorted(set(_OPS.values())))} or avg, found {op}; scale before or after the sum")
    if tensor.dtype == torch.bool:
        name = _OF_TRUTH.get(name, name)
    if not _core.is_on_the_network(element, name) and (element, name) not in _warned:
        _warned.add((element, name))
        warnings.warn(f"quincunx: the network has no {name} of {element}: ranks gather all vectors and combine them", stacklevel=4)
    return element, name


def _is_staged(tensor: torch.Tensor) -> bool:
    """Whether the network cannot reach a tensor's memory."""
    return tensor.is_cuda


def _pinned(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, pin_memory=True)


def _memory(tensor: torch.Tensor) -> tuple[int, int, torch.Tensor]:
    return tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor


class _Work(Work):
    """Something under way: handles of the node, and what is left to do when they have ended."""

    def __init__(self, tensors: list[torch.Tensor], backend: QuincunxBackend) -> None:
        super().__init__()
        self._tensors = tensors
        self._backend = backend
        self._lock = threading.RLock()
        self._begun = threading.Event()
        self._handles: list[_core.Handle] = []
        self._finish: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._stream_event: Any = None
        # What is told at the end, and what comes of that: torch hears of an error from a callback alone.
        self._ended: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None
        self._sender: int | None = None
        self._over = False

    def begin(self, handles: list[_core.Handle], finish: Callable[[], None] | None = None) -> _Work:
        self._handles, self._finish = handles, finish
        self._begun.set()
        return self

    def fail(self, error: BaseException) -> _Work:
        self._error = error
        self._begun.set()
        return self

    def _complete(self, timeout: float | None) -> bool:
        """Waits, and does what is left; whether it has ended. Raises what it has met."""
        end = None if timeout is None else time.monotonic() + timeout
        left = lambda: None if end is None else max(0.0, end - time.monotonic())  # noqa: E731
        if not self._begun.wait(left()):
            return False
        try:
            for handle in self._handles:
                if not handle.wait(left()):
                    return False
        except BaseException as error:
            self._error = self._error or error
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None and self._error is None:
                finish()
            self._over = True
        if self._error is not None:
            raise self._error
        return True

    # What torch calls.
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        limit = timeout.total_seconds() if timeout and timeout > timedelta(0) else None
        if not self._complete(limit):
            raise TimeoutError(f"expected the end of a collective within {limit} s, found none; see whether all ranks call the same")
        if self._stream_event is not None:
            torch.cuda.current_stream().wait_event(self._stream_event)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._over or self._error is not None:
            return True
        return self._begun.is_set() and all(handle.done() for handle in self._handles)

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None and all(handle.exception() is None for handle in self._handles)

    def exception(self) -> BaseException | None:
        return self._error or next((found for handle in self._handles if (found := handle.exception())), None)

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def source_rank(self) -> int:
        return self._handles[0].sender if self._sender is None and self._handles else self._sender or 0

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        with self._lock:
            if self._future is None:
                devices = sorted({str(tensor.device) for tensor in self._tensors if tensor.is_cuda})
                self._ended = torch.futures.Future(devices=[torch.device(device) for device in devices] or None)
                self._future = self._ended.then(self._value)
                self._backend._end_later(self)
            return self._future

    def _value(self, ended: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return ended.value()

    def _settle(self) -> None:
        """Ends the future, by the thread that does so."""
        try:
            self._complete(None)
            if self._stream_event is not None:
                torch.cuda.current_stream(self._tensors[0].device).wait_event(self._stream_event)
            self._ended.set_result(self._tensors)
        except BaseException as error:
            self._error = self._error or error
            self._ended.set_result([])


def _base() -> type:
    """What a backend is derived from: Backend, or where Python cannot derive from that (torch 2.11) a whole ProcessGroup."""

    class Probe(Backend):
        pass

    try:
        Probe(0, 1)
    except TypeError:
        return dist.ProcessGroup
    return Backend


class QuincunxBackend(_base()):
    """A process group's backend: tensors on CPU by their own memory, on a GPU by way of pinned memory."""

    def __init__(self, store: Any, group: _core.Group, timeout: timedelta | None) -> None:
        super().__init__(group.rank, group.size)
        self._store = store
        self.group = group
        self._serial = 0
        self._jobs: queue.SimpleQueue | None = None
        self._ends: queue.SimpleQueue | None = None
        self._stages: _Stages | None = None
        if timeout is not None:
            self.set_timeout(timeout)

    # About itself.
    def getBackendName(self) -> str:
        return "quincunx"

    def name(self) -> str:
        return "quincunx"

    def set_timeout(self, timeout: timedelta) -> None:
        seconds = timeout.total_seconds()
        if seconds > 0:
            self.group.set_limit(seconds)

    _set_default_timeout = set_timeout
    setTimeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._serial

    def shutdown(self) -> None:
        for line in (self._jobs, self._ends):
            if line is not None:
                line.put(None)
        self._jobs = self._ends = None
        _leave(self)

    abort = shutdown

    # How work is begun.
    def _end_later(self, work: _Work) -> None:
        if self._ends is None:
            self._ends = queue.SimpleQueue()
            threading.Thread(target=_end_all, args=(self._ends,), name="quincunx-ends", daemon=True).start()
        self._ends.put(work)

    def _run(self, tensors: list[torch.Tensor], job: Callable[[_Work], None]) -> _Work:
        """Begins a job now, or after those that wait for a GPU: in the order of calls, which is the same at all ranks."""
        self._serial += 1
        work = _Work(tensors, self)
        if self._jobs is None and any(map(_is_staged, tensors)):
            self._stages = _Stages()
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=_run_all, args=(self._jobs,), name="quincunx-jobs", daemon=True).start()
        if self._jobs is None:
            job(work)
            return work
        if any(map(_is_staged, tensors)):
            device = next(tensor.device for tensor in tensors if _is_staged(tensor))
            ready = torch.cuda.Event()
            ready.record(torch.cuda.current_stream(device))
            work.ready, work.device = ready, device
        self._jobs.put((job, work))
        return work

    def _start(self, operation: str, source: torch.Tensor | None, sink: torch.Tensor | None, **options: Any) -> _core.Handle:
        return self.group.start(
            operation,
            None if source is None else _memory(source),
            None if sink is None else _memory(sink),
            queue=True,
            **options,
        )

    def _whole(
        self,
        operation: str,
        tensors: list[torch.Tensor],
        source: torch.Tensor | None,
        sink: torch.Tensor | None,
        after: Callable[[], None] | None = None,
        parts: tuple[int, int] = (1, 1),
        **options: Any,
    ) -> _Work:
        """One operation from a tensor to a tensor, both contiguous. `parts`: into how many, one for each rank, each of them is divided."""

        def job(work: _Work) -> None:
            if any(tensor is not None and _is_staged(tensor) for tensor in (source, sink)):
                self._stages.run(self, work, operation, source, sink, parts, options, after)
            else:
                work.begin([self._start(operation, source, sink, **options)], after)

        return self._run(tensors, job)

    def _reduced(self, op: Any, tensor: torch.Tensor) -> Callable[[], None] | None:
        """What is left of an average when there is a sum."""
        if op != dist.ReduceOp.AVG:
            return None
        size = self.group.size
        if tensor.is_floating_point() or tensor.is_complex():
            return lambda: tensor.div_(size)
        return lambda: tensor.div_(size, rounding_mode="trunc")

    # Collectives.
    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return self.allreduce_coalesced(tensors, opts) if len(tensors) > 1 else self._allreduce_one(tensors[0], _op(opts))

    def _allreduce_one(self, tensor: torch.Tensor, op: Any) -> _Work:
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        flat, after = _dense(real)
        element, name = _reduction(flat, op)
        after = _both(self._reduced(op, flat), after)
        return self._whole("all_reduce", [tensor], flat, flat, after, element=element, op=name)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return _all([self._allreduce_one(tensor, _op(opts)) for tensor in tensors], self)

    all_reduce_coalesced = allreduce_coalesced

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return _all([self._broadcast_one(tensor, opts.rootRank) for tensor in tensors], self)

    def _broadcast_one(self, tensor: torch.Tensor, root: int) -> _Work:
        flat, after = _dense(tensor)
        if root == self.group.rank:
            return self._whole("broadcast", [tensor], flat, None, peer=root)
        return self._whole("broadcast", [tensor], None, flat, after, peer=root)

    def reduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        [tensor] = tensors
        flat, after = _dense(tensor)
        element, name = _reduction(flat, opts.reduceOp)
        is_root = opts.rootRank == self.group.rank
        after = _both(self._reduced(opts.reduceOp, flat), after) if is_root else None
        sink = flat if is_root else None
        return self._whole("reduce", [tensor], flat, sink, after, element=element, op=name, peer=opts.rootRank)

    def barrier(self, opts: Any = None) -> Work:
        return self._whole("barrier", [], None, None)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:  # noqa: A002
        source, _ = _dense(input)
        sink, after = _dense(output, is_read=False)
        return self._whole("all_gather", [output], source, sink, after, parts=(1, self.group.size))

    _allgather_base = all_gather_single

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        [source], [sinks] = inputs, outputs
        flat = torch.empty((len(sinks), source.numel()), dtype=source.dtype, device=source.device)
        dense, _ = _dense(source)
        return self._whole("all_gather", sinks, dense, flat, _spread(flat, sinks), parts=(1, self.group.size))

    all_gather = allgather

    def allgather_into_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        return _all([self.all_gather_single(sink, source) for sink, source in zip(outputs, inputs)], self)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        works = [self.allgather([[of[i] for of in outputs]], [source]) for i, source in enumerate(inputs)]
        return _all(works, self)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:  # noqa: A002
        source, _ = _dense(input)
        sink, after = _dense(output, is_read=False)
        op = _op(opts)
        element, name = _reduction(source, op)
        after = _both(self._reduced(op, sink), after)
        return self._whole(
            "reduce_scatter", [output], source, sink, after, parts=(self.group.size, 1), element=element, op=name
        )

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        [sink], [sources] = outputs, inputs
        return self.reduce_scatter_single(sink, torch.cat([source.reshape(-1) for source in sources]), opts)

    def reduce_scatter_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        return _all([self.reduce_scatter_single(sink, source, opts) for sink, source in zip(outputs, inputs)], self)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        return self._exchange(outputs, list(outputs), list(inputs), None)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,  # noqa: A002
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work:
        source, _ = _dense(input)
        sink, after = _dense(output, is_read=False)
        if not output_split_sizes and not input_split_sizes:
            for what, tensor in (("input", source), ("output", sink)):
                if tensor.dim() == 0 or tensor.size(0) % self.group.size:
                    raise ValueError(f"expected an {what} that splits over {self.group.size} ranks, found {tuple(tensor.shape)}; pad it")
            if not _is_staged(source):
                return self._whole("all_to_all", [output], source, sink, after)
        split = lambda tensor, sizes: list(tensor.split(list(sizes) or tensor.size(0) // self.group.size))  # noqa: E731
        return self._exchange([output], split(sink, output_split_sizes), split(source, input_split_sizes), after)

    alltoall_base = all_to_all_single

    def _exchange(
        self, tensors: list[torch.Tensor], sinks: list[torch.Tensor], sources: list[torch.Tensor], after: Callable[[], None] | None
    ) -> Work:
        """A message to each rank and from each, of any lengths."""
        tag = _OWN_TAGS + self._serial % _OWN_TAGS

        def job(work: _Work) -> None:
            ins = [_on_host(sink, is_read=False) for sink in sinks]
            outs = [_on_host(source) for source in sources]
            handles = [
                self._start("receive", None, memory, peer=peer, tag=tag) for peer, (memory, _) in enumerate(ins) if memory.numel()
            ]
            handles += [self._start("send", memory, None, peer=peer, tag=tag) for peer, (memory, _) in enumerate(outs) if memory.numel()]
            work.begin(handles, _both(*[back for _, back in ins], after))

        return self._run(tensors, _when_ready(job))

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        [source] = inputs
        root = opts.rootRank
        sinks = outputs[0] if root == self.group.rank and outputs else []
        return self._to_root("gather", sinks or [source], source, sinks, root)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        [sink] = outputs
        root = opts.rootRank
        sources = inputs[0] if root == self.group.rank and inputs else []

        def job(work: _Work) -> None:
            to, back = _on_host(sink, is_read=False)
            given = torch.cat([source.reshape(-1).cpu() for source in sources]) if sources else None
            work.begin([self._start("scatter", given, to, peer=root)], back)

        return self._run([sink], _when_ready(job))

    def _to_root(
        self, operation: str, tensors: list[torch.Tensor], source: torch.Tensor, sinks: list[torch.Tensor], root: int
    ) -> Work:
        def job(work: _Work) -> None:
            given, _ = _on_host(source)
            flat = torch.empty((len(sinks), source.numel()), dtype=source.dtype) if sinks else None
            after = _spread(flat, sinks) if sinks else None
            work.begin([self._start(operation, given, flat, peer=root)], after)

        return self._run(tensors, _when_ready(job))

    # Messages.
    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Work:
        [tensor] = tensors

        def job(work: _Work) -> None:
            memory, _ = _on_host(tensor)
            work.begin([self._start("send", memory, None, peer=peer, tag=tag)])

        return self._run([tensor], _when_ready(job))

    def recv(self, tensors: list[torch.Tensor], peer: int | None, tag: int = 0) -> Work:
        [tensor] = tensors

        def job(work: _Work) -> None:
            memory, back = _on_host(tensor, is_read=False)
            if peer is not None:
                work._sender = peer
            work.begin([self._start("receive", None, memory, peer=peer, tag=tag)], back)

        return self._run([tensor], _when_ready(job))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        return self.recv(tensors, None, tag)

    recvAnysource = recv_anysource  # noqa: N815

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        self.barrier(opts).wait()


def _op(opts: Any) -> Any:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


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


def _when_ready(job: Callable[[_Work], None]) -> Callable[[_Work], None]:
    """A job that first waits for what the GPU has been asked before."""

    def run(work: _Work) -> None:
        ready = getattr(work, "ready", None)
        if ready is not None:
            ready.synchronize()
        job(work)

    return run


def _spread(flat: torch.Tensor, sinks: list[torch.Tensor]) -> Callable[[], None]:
    def run() -> None:
        for part, sink in zip(flat, sinks):
            sink.detach().copy_(part.view(sink.shape))

    return run


def _all(works: list[_Work], backend: QuincunxBackend) -> _Work:
    """Several as one."""
    if len(works) == 1:
        return works[0]
    whole = _Work([tensor for work in works for tensor in work.result()], backend)

    def finish() -> None:
        for work in works:
            work.wait()

    return whole.begin([], finish)


def _run_all(jobs: queue.SimpleQueue) -> None:
    while (item := jobs.get()) is not None:
        job, work = item
        try:
            job(work)
        except BaseException as error:
            work.fail(error)


def _end_all(works: queue.SimpleQueue) -> None:
    while (work := works.get()) is not None:
        work._settle()


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


# One place in the network for all groups of this process.
_endpoint: _core.Endpoint | None = None
_backends: list[QuincunxBackend] = []
_generation = 0


def _root(store: Any) -> Any:
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def _attach(options: Any) -> _core.Endpoint:
    """The process's endpoint; the first group makes it. All ranks take the name that the first of them has put into the store."""
    global _endpoint
    if _endpoint is None:
        if dist.is_initialized():
            rank, world = dist.get_rank(), dist.get_world_size()
        else:
            rank, world = options.group_rank, options.group_size
        # A fabric that knows its ranks by name says the job's itself.
        name = os.environ.get("QUINCUNX_JOB")
        key = f"quincunx/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_generation}"
        if not name:
            name = _root(options.store).compare_set(key, "", f"job-{uuid.uuid4().hex[:8]}.")
            name = name.decode() if isinstance(name, bytes) else name
        limit = options.timeout.total_seconds()
        _endpoint = _core.Endpoint(job=name, rank=rank, world=world, join_limit=min(max(limit, 1.0), 300.0))
    return _endpoint


def _create(options: Any, _pg_options: Any = None) -> QuincunxBackend:
    """What torch.distributed calls for each new group that a rank is in."""
    endpoint = _attach(options)
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    store = options.store
    if options.group_rank == 0:
        try:
            numbers = endpoint.make_group(members)
        except Exception as error:
            store.set("quincunx", f"error {error}")
            raise
        store.set("quincunx", "{} {}".format(*numbers))
    else:
        found = store.get("quincunx").decode()
        if found.startswith("error "):
            raise _core.GroupError(found.removeprefix("error "))
        numbers = [int(number) for number in found.split()]
    backend = QuincunxBackend(store, endpoint.join_group(members, numbers), options.timeout)
    _backends.append(backend)
    return backend


def _leave(backend: QuincunxBackend) -> None:
    """Takes a group off the list; the last one takes the endpoint with it, when all ranks have come so far."""
    global _endpoint, _generation
    if backend not in _backends:
        return
    _backends.remove(backend)
    if not _backends and _endpoint is not None:
        endpoint, _endpoint = _endpoint, None
        _generation += 1
        try:
            if backend.group.size == endpoint.world_size:
                handle = backend.group.start("barrier")
                handle.wait(10.0)
            endpoint.close()
        except (RuntimeError, OSError):
            # Somebody has died: there is nobody to wait for.
            pass


@atexit.register
def _at_exit() -> None:
    global _endpoint
    _backends.clear()
    _endpoint = None


dist.Backend.register_backend("quincunx", _create, extended_api=True, devices=["cpu", "cuda"])
