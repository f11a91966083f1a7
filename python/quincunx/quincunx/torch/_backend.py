"""The backend of a process group: what torch.distributed calls, as operations of quincunx."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, Work

from quincunx import _core
from quincunx._calling import calling, passes_on
from quincunx.torch._reductions import _ELEMENTS, _op, _reduction
from quincunx.torch._stages import _Stages
from quincunx.torch._tensors import _both, _dense, _is_staged, _memory, _on_host, _spread
from quincunx.torch._work import _all, _end_all, _run_all, _when_ready, _Work

passes_on(torch)

# Tags of all_to_all with parts of any length; an application's own are below.
_OWN_TAGS = 1 << 31


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

    def __init__(
        self, store: Any, group: _core.Group, timeout: timedelta | None, leave: Callable[[QuincunxBackend], None]
    ) -> None:
        self._jobs: queue.SimpleQueue | None = None
        self._ends: queue.SimpleQueue | None = None
        super().__init__(group.rank, group.size)
        self._store = store
        self._leave = leave
        self.group = group
        self._serial = 0
        self._stages: _Stages | None = None
        if timeout is not None:
            self.set_timeout(timeout)

    # About itself.
    # Asked from Python alone; what torch defines asks whom it is overridden by, which is itself.
    supports_coalescing = False

    def getBackendName(self) -> str:
        return "quincunx"

    def name(self) -> str:
        return "quincunx"

    # A whole process group has a name, too; a backend is not asked.
    _name = _description = ""

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

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

    def _stop(self) -> None:
        """Ends its threads, when they have done what they are to do."""
        for line in (self._jobs, self._ends):
            if line is not None:
                line.put(None)
        self._jobs = self._ends = None

    def shutdown(self) -> None:
        self._stop()
        self._leave(self)

    abort = shutdown

    def __del__(self) -> None:
        # Nobody has it any more: its group goes with it.
        self._stop()

    # How work is begun.
    def _end_later(self, work: _Work) -> None:
        if self._ends is None:
            self._ends = queue.SimpleQueue()
            threading.Thread(target=_end_all, args=(self._ends,), name="quincunx-ends", daemon=True).start()
        self._ends.put(work)

    def _run(self, what: str, tensors: list[torch.Tensor], job: Callable[[_Work], None]) -> _Work:
        """Begins a job now, or after those that wait for a GPU: in the order of calls, which is the same at all ranks."""
        self._serial += 1
        work = _Work(tensors, self)
        if torch.autograd._profiler_enabled():
            work.profile(f"quincunx:{what} {self.group.design}")
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
        options.setdefault("at", calling())
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
        # What only moves has a type, too, for ranks to agree on: the tensor's, whatever it is staged in. What has no name here moves as bytes.
        moved = sink if source is None else source
        if moved is not None:
            options.setdefault("element", _ELEMENTS.get(moved.dtype))
        # A job may run in another thread.
        options["at"] = calling()

        def job(work: _Work) -> None:
            if any(tensor is not None and _is_staged(tensor) for tensor in (source, sink)):
                self._stages.run(self, work, operation, source, sink, parts, options, after)
            else:
                work.begin([self._start(operation, source, sink, **options)], after)

        return self._run(operation, tensors, job)

    # Collectives.
    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return self.allreduce_coalesced(tensors, opts) if len(tensors) > 1 else self._allreduce_one(tensors[0], _op(opts))

    def _allreduce_one(self, tensor: torch.Tensor, op: Any) -> _Work:
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        flat, after = _dense(real)
        element, name = _reduction(flat, op)
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
        sink = flat if is_root else None
        after = after if is_root else None
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

        return self._run("all_to_all", tensors, _when_ready(job))

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

        return self._run("scatter", [sink], _when_ready(job))

    def _to_root(
        self, operation: str, tensors: list[torch.Tensor], source: torch.Tensor, sinks: list[torch.Tensor], root: int
    ) -> Work:
        def job(work: _Work) -> None:
            given, _ = _on_host(source)
            flat = torch.empty((len(sinks), source.numel()), dtype=source.dtype) if sinks else None
            after = _spread(flat, sinks) if sinks else None
            work.begin([self._start(operation, given, flat, peer=root)], after)

        return self._run(operation, tensors, _when_ready(job))

    # Messages.
    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Work:
        [tensor] = tensors

        def job(work: _Work) -> None:
            memory, _ = _on_host(tensor)
            work.begin([self._start("send", memory, None, peer=peer, tag=tag)])

        return self._run("send", [tensor], _when_ready(job))

    def recv(self, tensors: list[torch.Tensor], peer: int | None, tag: int = 0) -> Work:
        [tensor] = tensors

        def job(work: _Work) -> None:
            memory, back = _on_host(tensor, is_read=False)
            if peer is not None:
                work._sender = peer
            work.begin([self._start("receive", None, memory, peer=peer, tag=tag)], back)

        return self._run("receive", [tensor], _when_ready(job))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        return self.recv(tensors, None, tag)

    recvAnysource = recv_anysource  # noqa: N815

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        self.barrier(opts).wait()
