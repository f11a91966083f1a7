"""Calls of the Python API with arguments that hypothesis draws, right and wrong ones: `quincunx run -n 2 -- python fuzz_on_ranks.py [CALLS]`.

Rank 0 draws and sends each call to the other by a socket of its own, so that both make the same. A call that is misuse must be an
exception at both of them, one of those that the documentation names; every other one must do what it says. What hangs is found by the
group's limit, or by each rank's watchdog, which says what it is at. Every half minute there is a line with the calls so far; it ends with
the number of calls of each kind.
"""

import array
import faulthandler
import os
import pickle
import socket
import struct
import sys
import threading
import time
from collections import Counter
from typing import Any

import hypothesis
import numpy
from hypothesis import strategies as draw

import quincunx

# Misuse. A group that fails, a time-out, or a panic of the module (which is no Exception) is a fault of ours.
REFUSALS = (TypeError, ValueError, BufferError, OverflowError)
# What a call at once is over in, on a machine that is busy.
LIMIT_SECONDS = 60.0
# Above the limits of all waits that a call has: what takes longer has no end.
STUCK_SECONDS = 4 * LIMIT_SECONDS
PROGRESS_SECONDS = 30.0
# How the outcome of a call begins that was neither done nor refused.
FAILED = "failed: "

NUMBERS = ["float32", "float16", "int32", "float64", "int64", "int8", "uint8", "int16", "uint32", "uint64", "bool"]
OTHERS = ["complex64", "uint16", ">f4", ">i4", "datetime64[s]", "S3", "U2", "object", "f4,i4", "longdouble", "timedelta64[s]"]
COUNTS = draw.one_of(draw.integers(0, 40), draw.sampled_from([1000, 4096, 20_000]))
LAYOUTS = draw.sampled_from(["plain"] * 6 + ["matrix", "strided", "reversed", "read-only", "fortran", "scalar"])
THINGS = draw.sampled_from(["none", "list", "str", "int", "bytes", "bytearray", "memoryview", "cast", "array", "released", "dlpack", "liar"])


def mostly(usual: draw.SearchStrategy, *rest: draw.SearchStrategy) -> draw.SearchStrategy:
    """The first two times in three, else one of the others."""
    return draw.integers(0, 2 * len(rest) + len(rest) - 1).flatmap(lambda number: rest[number] if number < len(rest) else usual)


RIGHT = draw.tuples(draw.just("numpy"), draw.sampled_from(NUMBERS), COUNTS, draw.just("plain"))
ARRAYS = mostly(
    RIGHT,
    draw.tuples(draw.just("numpy"), draw.sampled_from(NUMBERS), COUNTS, LAYOUTS),
    draw.tuples(draw.just("numpy"), draw.sampled_from(NUMBERS + OTHERS), COUNTS, LAYOUTS),
    draw.tuples(THINGS, draw.just("uint8"), COUNTS, draw.just("plain")),
)
# The output beside the input: in place, overlapping, fitting, or anything.
OUTPUTS = mostly(
    draw.sampled_from([("none",), ("same",), ("fits",), ("fits",), ("fits",)]),
    draw.sampled_from([("overlaps",), ("shorter",), ("other type",)]),
    ARRAYS,
)
OPS = mostly(
    draw.sampled_from(["sum", "sum", "min", "max", "product", "band", "bor", "bxor"]),
    draw.sampled_from(["mean", "", "SUM", "su\0m", None, 3, b"sum"]),
)
# Any rank that is none: at all ranks the same misuse.
NO_RANKS = draw.one_of(draw.integers(2, 70_000), draw.integers(max_value=-1), draw.sampled_from([None, 0.5, "0", 1 << 80]))
NOT_SEVERAL = draw.one_of(
    NO_RANKS,
    draw.lists(NO_RANKS, max_size=3),
    draw.lists(draw.integers(0, 1), min_size=3, max_size=40),
    draw.sampled_from([[0, 0], [1, 2], "10", b"1", {"0": 1}, [[0]], [0.0]]),
)
TIMES = mostly(
    draw.one_of(draw.none(), draw.floats(0, 1e-3)), draw.floats(), draw.integers(-5, 5), draw.sampled_from([1e18, 1e300, "1", 1 << 70])
)
CALLS = draw.one_of(
    draw.tuples(draw.sampled_from(["all_reduce", "reduce_scatter"]), ARRAYS, OUTPUTS, OPS, draw.booleans(), TIMES),
    draw.tuples(draw.sampled_from(["all_gather", "all_to_all"]), ARRAYS, OUTPUTS, draw.none(), draw.booleans(), TIMES),
    # At the root alone more can be wrong, which the others could not know: what is wrong here is so everywhere.
    draw.tuples(
        draw.sampled_from(["reduce", "broadcast", "gather", "scatter", "message", "several"]),
        draw.tuples(draw.just("numpy"), draw.sampled_from(NUMBERS), COUNTS, draw.just("plain")),
        draw.sampled_from([("fits",)]),
        OPS,
        draw.booleans(),
        draw.integers(0, 1),
    ),
    draw.tuples(draw.sampled_from(["reduce", "broadcast", "gather", "scatter", "send", "receive"]), ARRAYS, OUTPUTS, OPS, draw.booleans(), NO_RANKS),
    draw.tuples(draw.just("multi_write"), ARRAYS, draw.none(), draw.none(), draw.booleans(), NOT_SEVERAL),
    draw.tuples(draw.sampled_from(["barrier", "set_timeout", "split"]), draw.none(), draw.none(), draw.none(), draw.booleans(), TIMES),
)


class Liar:
    """Says that it speaks DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self) -> object:
        return object()


class OnlyDLPack:
    """An array that has no buffer."""

    def __init__(self, kept: numpy.ndarray) -> None:
        self.kept = kept

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kept.__dlpack_device__()

    def __dlpack__(self) -> object:
        return self.kept.__dlpack__()


def made(described: tuple) -> Any:
    """The array or other thing that a description means; numbers are ones."""
    kind, element, count, layout = described
    if kind == "numpy":
        plain = numpy.ones(count, element) if element in NUMBERS else numpy.zeros(count, element)
        if layout == "matrix":
            return numpy.ones((2, count), plain.dtype) if element in NUMBERS else numpy.zeros((2, count), element)
        if layout == "strided":
            return numpy.repeat(plain, 2)[::2]
        if layout == "reversed":
            return plain[::-1]
        if layout == "read-only":
            plain.flags.writeable = False
        if layout == "fortran":
            return numpy.asfortranarray(numpy.stack([plain, plain, plain]))
        if layout == "scalar":
            return numpy.zeros((), element)
        return plain
    if kind == "released":
        view = memoryview(bytearray(8))
        view.release()
        return view
    things = {
        "none": lambda: None,
        "list": lambda: [1] * count,
        "str": lambda: "1" * count,
        "int": lambda: count,
        "bytes": lambda: bytes(count),
        "bytearray": lambda: bytearray(count),
        "memoryview": lambda: memoryview(bytearray(count)),
        "cast": lambda: memoryview(bytearray(4 * count)).cast("f") if count else memoryview(b""),
        "array": lambda: array.array("i", [1] * count),
        "dlpack": lambda: OnlyDLPack(numpy.ones(count, numpy.float32)),
        "liar": Liar,
    }
    return things[kind]()


def beside(described: tuple, values: Any, size: float) -> Any:
    """The output; `size`: how many times the input's elements it must have to fit."""
    kind = described[0]
    if len(described) > 1:
        return made(described)
    if kind in ("none", "same"):
        return None if kind == "none" else values
    if not isinstance(values, numpy.ndarray):
        return values
    count = int(values.size * size)
    if kind == "overlaps":
        # The second of two is where rank 1 would have its part of a ReduceScatter: no misuse there.
        return values.reshape(-1)[1:] if values.size > 2 else values
    if kind == "other type":
        return numpy.empty(count, numpy.int8 if values.dtype != numpy.int8 else numpy.int16)
    return numpy.zeros(max(0, count - 1) if kind == "shorter" else count, values.dtype)


def run(group: quincunx.Group, call: tuple) -> None:
    """One call. Raises what it raises."""
    name, described, output, op, wait, more = call
    size = group.size
    if name == "set_timeout":
        try:
            group.set_timeout(more)
            if more > 10:
                group.barrier()
        finally:
            group.set_timeout(LIMIT_SECONDS)
        return
    if name == "split":
        # Groups that are made are the manager's work, not memory's: only what is no color.
        if not isinstance(more, int) or abs(more) >= 1 << 31:
            group.split(more)
        return
    if name == "barrier":
        pending = group.barrier(wait=wait)
        values = None
    else:
        values = made(described)
        fits = {"reduce_scatter": 1 / size, "all_gather": size, "gather": size}.get(name, 1)
        pending = begun(group, name, values, output, fits, op, wait, more)
    if pending is not None:
        try:
            pending.wait(more if name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier") else None)
        except TimeoutError:
            pass
        finally:
            pending.wait(LIMIT_SECONDS)
        assert pending.done() and pending.exception() is None
    if name == "all_reduce" and op == "sum" and output[0] in ("none", "same") and isinstance(values, numpy.ndarray) and values.dtype != bool:
        assert (values == size).all() or described[3] == "scalar", (call, values)


def begun(group: quincunx.Group, name: str, values: Any, output: tuple, fits: float, op: Any, wait: bool, more: Any) -> Any:
    if name == "message":
        if group.rank == more:
            return group.send(values, 1 - more, wait=wait)
        return group.receive(numpy.empty_like(values), more, wait=wait)
    if name == "several":
        if group.rank == more:
            group.multi_write(values, [1, 0], wait=wait)
        return group.receive(numpy.empty_like(values), more, wait=wait)
    if name == "multi_write":
        return group.multi_write(values, more, wait=wait)
    if name == "send":
        return group.send(values, more, wait=wait)
    if name == "receive":
        return group.receive(values, 0 if more is None else more, wait=wait, tag=-1 if more is None else 0)
    if name == "broadcast":
        return group.broadcast(values, root=more, wait=wait)
    if name == "scatter":
        whole = numpy.concatenate([values] * group.size) if isinstance(values, numpy.ndarray) and values.ndim == 1 else values
        return group.scatter(whole, values, root=more, wait=wait)
    to = beside(output, values, fits)
    if name in ("reduce", "gather"):
        options = {"op": op} if name == "reduce" else {}
        return getattr(group, name)(values, to, root=more, wait=wait, **options)
    if name in ("all_reduce", "reduce_scatter"):
        return getattr(group, name)(values, to, op=op, wait=wait)
    return getattr(group, name)(values, to, wait=wait)


class Watchdog:
    """What this rank is at. A thread of it says so now and then, and ends the process if one call has no end."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.number = 0
        self.call: tuple | None = None
        self.since = time.monotonic()
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self, call: tuple | None) -> None:
        """The next call, or that rank 0 is waited for."""
        self.number += call is not None
        self.call, self.since = call, time.monotonic()

    def _look(self) -> None:
        begun = said = time.monotonic()
        while True:
            time.sleep(0.5)
            now = time.monotonic()
            if now - self.since > STUCK_SECONDS:
                print(f"rank {self.rank}: no end after {now - self.since:.0f} s of call {self.number}, {self.call}", flush=True)
                faulthandler.dump_traceback()
                # The other rank is to say the same before it is ended.
                time.sleep(5.0)
                os._exit(1)
            if self.rank == 0 and now - said > PROGRESS_SECONDS:
                said = now
                print(f"{self.number} done after {now - begun:.0f} s", flush=True)


class Line:
    """Calls from rank 0 to rank 1, and how each ended back, over a socket that is none of quincunx's."""

    def __init__(self, group: quincunx.Group) -> None:
        port = numpy.zeros(1, numpy.int32)
        if group.rank == 0:
            listening = socket.create_server(("127.0.0.1", 0))
            port[0] = listening.getsockname()[1]
            group.broadcast(port)
            self.socket, _ = listening.accept()
        else:
            group.broadcast(port)
            self.socket = socket.create_connection(("127.0.0.1", int(port[0])))
        self.file = self.socket.makefile("rwb")

    def send(self, what: Any) -> None:
        data = pickle.dumps(what)
        self.file.write(struct.pack("<I", len(data)) + data)
        self.file.flush()

    def receive(self) -> Any:
        """What the other has sent. Raises EOFError if it has ended."""
        head = self.file.read(4)
        if len(head) < 4:
            raise EOFError("expected what the other rank sends, found its end; see what it has printed")
        (length,) = struct.unpack("<I", head)
        return pickle.loads(self.file.read(length))


def outcome(group: quincunx.Group, call: tuple) -> str:
    """How a call ends; a panic of the module is no Exception."""
    try:
        run(group, call)
    except REFUSALS as refusal:
        return type(refusal).__name__ if str(refusal) else f"{FAILED}{type(refusal).__name__} without a word"
    except BaseException as error:
        return f"{FAILED}{type(error).__name__}: {error}"
    return "done"


def received(line: Line) -> tuple | None:
    try:
        return line.receive()
    except (EOFError, OSError) as error:
        sys.exit(f"rank 1: {error}")


def answer(group: quincunx.Group, line: Line, watchdog: Watchdog) -> None:
    """Makes the calls that rank 0 sends; ends the process where rank 0 has ended before it had sent them all."""
    while (call := received(line)) is not None:
        watchdog.begin(call)
        line.send(outcome(group, call))
        watchdog.begin(None)


def hold(group: quincunx.Group, line: Line, watchdog: Watchdog, call: tuple) -> str:
    """One call at both ranks; how it ends at this one. What is neither done nor refused ends the process."""
    watchdog.begin(call)
    line.send(call)
    mine = outcome(group, call)
    try:
        theirs = line.receive()
    except (EOFError, OSError) as error:
        theirs = f"{FAILED}{error}"
    # What is wrong first may differ: where a part of an array begins depends on the rank.
    if FAILED in mine + theirs or (mine == "done") != (theirs == "done"):
        # The group may be of no use any more, so nothing can be made smaller.
        found = f"rank 0 {mine}, rank 1 {theirs}"
        print(f"expected call {watchdog.number}, {call}, to be done or refused alike, found {found}", flush=True)
        os._exit(1)
    return mine


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    group = quincunx.init(limit=LIMIT_SECONDS)
    assert group.size == 2, "expected two ranks; start with `quincunx run -n 2`"
    line, watchdog = Line(group), Watchdog(group.rank)
    counted: Counter[str] = Counter()
    if group.rank == 1:
        answer(group, line, watchdog)
    else:

        @hypothesis.settings(max_examples=calls, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(CALLS)
        def drawn(call: tuple) -> None:
            counted[f"{call[0]} {hold(group, line, watchdog, call)}"] += 1

        hypothesis.seed(int(os.environ.get("FUZZ_SEED", "0")))(drawn)()
        line.send(None)
        group.set_timeout(LIMIT_SECONDS)
    quincunx.shutdown()
    if counted:
        print(f"{sum(counted.values())} calls: " + ", ".join(f"{many} {what}" for what, many in sorted(counted.items())))


if __name__ == "__main__":
    main()
