"""Collectives computed inside the network, for programs in Python.

    import numpy, quincunx

    group = quincunx.init()            # as `quincunx run` or torchrun has set the environment
    values = numpy.ones(1 << 20, dtype=numpy.float32)
    group.all_reduce(values)           # values is the sum over all ranks now
    quincunx.shutdown()

Arrays are whatever has a buffer (numpy.ndarray, array.array, bytearray, memoryview) or speaks DLPack in the host's memory (torch.Tensor
and others); none is copied before the network's own thread does so. What is strided, read-only, overlapping or of another type is refused
with an exception, and nothing has happened then. `quincunx.blocks` has MXFP8 and the like. `quincunx.torch` is the backend of torch.distributed.

`sim`, `jobs`, `cluster`, `predict`, `plan`, `check`, `reproduce` and `sweep` run simulations, predictions, model checks and published figures and
return tables (`quincunx.analysis`), which `quincunx.plots` draws. They need no fabric, but the `quincunx` command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quincunx import _core
from quincunx._arrays import described
from quincunx._calling import calling
from quincunx._command import InputError
from quincunx._core import EndpointError, GroupError, __version__
from quincunx._experts import Dispatched, Experts
from quincunx.analysis import check, cluster, curves, jobs, kept, plan, predict, reproduce, sim, sweep

__all__ = ["Dispatched", "EndpointError", "Experts", "Group", "GroupError", "InputError", "Pending", "__version__", "check", "cluster", "counts", "curves"]
__all__ += ["init", "jobs", "kept", "plan", "predict", "reproduce", "sent_to", "shutdown", "sim", "sweep"]

_world: Group | None = None
_endpoint: _core.Endpoint | None = None


class Pending:
    """An operation under way. What it uses must be left alone until it has ended; it is kept in memory until then."""

    def __init__(self, handle: _core.Handle) -> None:
        self._handle = handle

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end, at most `timeout` seconds.

        Raises TimeoutError if it is under way still, GroupError if a rank has died or ranks have called different collectives.
        """
        if not self._handle.wait(timeout):
            raise TimeoutError(f"expected the end of an operation within {timeout} s, found it under way; wait longer")

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._handle.done()

    def exception(self) -> BaseException | None:
        """What it has met, if it has ended badly."""
        return self._handle.exception()


class Group:
    """Ranks that do things together. All of them call the same collectives in the same order: if one calls another collective, type, operation,
    root or length than the others, all raise GroupError, which names two ranks and what each has called.

    A group is given back by `close()`, at the end of a `with`, or when nobody has it any more; when all of its ranks have done so, its
    memory in switches and its queue pairs are free for others.

    Each method takes `wait=False` to return a `Pending` at once. Operations: "sum", "min", "max", "prod" (or "product"), "band", "bor",
    "bxor", the last three of integers alone, and "avg", for which every rank divides the sum, integers towards zero.
    """

    def __init__(self, core: _core.Group) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<quincunx.Group rank {self.rank} of {self.size}, {self.design}>"

    @property
    def rank(self) -> int:
        """This rank in the group, from zero."""
        return self._core.rank

    @property
    def size(self) -> int:
        """Ranks of the group."""
        return self._core.size

    @property
    def design(self) -> str:
        """What it runs: the design that was asked for, or what it fell back to."""
        return self._core.design

    def close(self) -> None:
        """Gives the group back. Returns at once: what is under way goes on to its end, and nothing else begins.

        Of the group of all ranks it is `shutdown()`.
        """
        if self is _world:
            shutdown()
        self._core.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an exception the other ranks may never come.
        (self.close if kind is None else self._core.close)()

    def set_timeout(self, seconds: float) -> None:
        """How long what is begun from now on may take."""
        self._core.set_limit(seconds)

    def split(self, color: int) -> Group:
        """Groups of those that name the same color, in this group's order. Every rank calls it."""
        return Group(self._core.split(color))

    def experts(self, experts: int, top_k: int, tokens: int, length: int, *, design: str | None = None) -> Experts:
        """Sets the ranks up for `experts` experts, of which rank r hosts the r-th part. Every rank calls it, with the same numbers.

        `top_k`: experts of a token; `tokens`: the most that a rank dispatches at once; `length`: bytes of the longest. `design`: what brings them;
        the first that suits: to each server (LOCAL_WORLD_SIZE ranks in a row) once, where there are several, "direct" to each rank by itself.
        Raises ValueError if the numbers make no sense or are not those of the other ranks.
        """
        return Experts(self._core.experts(experts, top_k, tokens, length, design), top_k, length)

    def waits(self) -> str:
        """Whom its ranks wait for, in words: what `quincunx group waits` prints. For a thread beside one that waits."""
        return self._core.waits()

    def _run(self, wait: bool, operation: str, source: Any, sink: Any, **options: Any) -> Pending | None:
        handle = self._core.start(operation, source, sink, at=calling(), **options)
        if not wait:
            return Pending(handle)
        handle.wait()
        return None

    def _reduce(self, wait: bool, operation: str, source: Any, sink: Any, op: str, **options: Any) -> Pending | None:
        given, element = described(source)
        room = None if sink is None else given if sink is source else _same(sink, element)
        return self._run(wait, operation, given, room, element=element, op=op, **options)

    def all_reduce(self, values: Any, output: Any = None, *, op: str = "sum", wait: bool = True) -> Pending | None:
        """Puts the reduction of all ranks' `values` (any shape) into `output` of as many elements, or in their own place."""
        return self._reduce(wait, "all_reduce", values, values if output is None else output, op)

    def reduce(self, values: Any, output: Any = None, *, root: int = 0, op: str = "sum", wait: bool = True) -> Pending | None:
        """The same at `root` alone."""
        sink = (values if output is None else output) if self.rank == root else None
        return self._reduce(wait, "reduce", values, sink, op, peer=root)

    def broadcast(self, values: Any, *, root: int = 0, wait: bool = True) -> Pending | None:
        """Makes every rank's `values` those of `root`."""
        memory, element = described(values)
        given, room = (memory, None) if self.rank == root else (None, memory)
        return self._run(wait, "broadcast", given, room, element=element, peer=root)

    def barrier(self, *, wait: bool = True) -> Pending | None:
        """No rank passes before every rank has come."""
        return self._run(wait, "barrier", None, None)

    def reduce_scatter(self, values: Any, output: Any, *, op: str = "sum", wait: bool = True) -> Pending | None:
        """Puts part r of the reduction of all ranks' `values` (size times as many elements) into rank r's `output`."""
        return self._reduce(wait, "reduce_scatter", values, output, op)

    def _moved(self, wait: bool, operation: str, source: Any, sink: Any, **options: Any) -> Pending | None:
        given, element = (None, None) if source is None else described(source)
        room = None if sink is None else described(sink)[0] if element is None else _same(sink, element)
        return self._run(wait, operation, given, room, element=element, **options)

    def all_gather(self, values: Any, output: Any, *, wait: bool = True) -> Pending | None:
        """Puts all ranks' `values` in rank order into `output`, of size times as many elements."""
        return self._moved(wait, "all_gather", values, output)

    def all_to_all(self, values: Any, output: Any, *, wait: bool = True) -> Pending | None:
        """Puts part r of every rank's `values`, in rank order, into rank r's `output` of as many elements."""
        return self._moved(wait, "all_to_all", values, output)

    def gather(self, values: Any, output: Any = None, *, root: int = 0, wait: bool = True) -> Pending | None:
        """Puts all ranks' `values` in rank order into `output` of `root`."""
        return self._moved(wait, "gather", values, output if self.rank == root else None, peer=root)

    def scatter(self, values: Any, output: Any, *, root: int = 0, wait: bool = True) -> Pending | None:
        """Puts part r of `values` of `root` into rank r's `output`."""
        return self._moved(wait, "scatter", values if self.rank == root else None, output, peer=root)

    def send(self, values: Any, to: int, *, tag: int = 0, wait: bool = True) -> Pending | None:
        """Sends `values` to a rank."""
        return self._moved(wait, "send", values, None, peer=to, tag=tag)

    def multi_write(self, values: Any, to: Sequence[int], *, tag: int = 0, wait: bool = True) -> Pending | None:
        """Sends `values` to several ranks as one message, which each of them receives as any other.

        To each server (LOCAL_WORLD_SIZE ranks in a row) it goes once: the rank there with this one's place passes it on to the others. No
        group is made for it. Raises ValueError for nobody, for a rank twice, and for one that is not in the group.
        """
        handle = self._core.multi_write(described(values)[0], list(to), tag=tag)
        if not wait:
            return Pending(handle)
        handle.wait()
        return None

    def receive(self, output: Any, source: int, *, tag: int = 0, wait: bool = True) -> Pending | None:
        """Puts the oldest message of rank `source` with that tag into `output`, which has its length."""
        return self._moved(wait, "receive", None, output, peer=source, tag=tag)


def _same(array: Any, element: str) -> Any:
    memory, found = described(array)
    if found != element:
        raise TypeError(f"expected input and output of one type, found {element} and {found}; convert one of them")
    return memory


def init(**options: Any) -> Group:
    """Attaches this process and returns the group of all ranks. Every rank calls it once.

    What is not said is as the environment says. `manager`: HOST:PORT; `job`: what the nodes' names begin with; `rank`, `world`;
    `server`: how many ranks in a row are on one (LOCAL_WORLD_SIZE); `address`:
    the address of this rank's frames, IPv4 or IPv6; `design`: what groups run; `settings`: pairs of keys and values; `join_limit`, `limit`: seconds
    that ranks wait for each other, and that an operation may take; `identity`: a file with a certificate.
    """
    global _world, _endpoint
    if _world is not None:
        raise RuntimeError("expected a process without a group of all ranks, found one; call shutdown() first")
    endpoint = _core.Endpoint(**options)
    _world = Group(endpoint.world())
    _endpoint = endpoint
    return _world


def shutdown() -> None:
    """Leaves together with all other ranks, each of which calls it when nothing of its own is under way."""
    global _world, _endpoint
    world, endpoint, _world, _endpoint = _world, _endpoint, None, None
    if world is not None and endpoint is not None:
        if not world._core.is_closed:
            world.barrier()
        endpoint.close()


def sent_to() -> dict[str, int]:
    """Of this process: bytes that its node has sent, by the address that they were for, with RoCE's headers."""
    return {address: sent for address, _, sent in _endpoint.sent_to()} if _endpoint is not None else {}


def counts() -> dict[str, float]:
    """Of this process: operations, bytes copied between its arrays and registered memory, the seconds of that, and seconds with something
    under way."""
    names = ("operations", "copied_bytes", "copy_s", "busy_s")
    return dict(zip(names, _endpoint.counts())) if _endpoint is not None else dict.fromkeys(names, 0)
