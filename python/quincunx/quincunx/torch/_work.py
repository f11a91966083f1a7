"""What is under way: a handle of torch.distributed, and the threads that begin and end what must wait."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch._C._distributed_c10d import Work

from quincunx import _core

if TYPE_CHECKING:
    from quincunx.torch._backend import QuincunxBackend


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
        # What the profiler calls it, where one runs.
        self._title: str | None = None

    def profile(self, title: str) -> None:
        """Has torch's profiler show it from here to its end, with its bytes, and how long `wait` waits."""
        count = sum(tensor.numel() * tensor.element_size() for tensor in self._tensors)
        self._title = f"{title} {count} bytes"
        span = torch.autograd.profiler.record_function(self._title)
        span.__enter__()
        span._call_end_callbacks_on_future(self.get_future())

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
        with contextlib.nullcontext() if self._title is None else torch.autograd.profiler.record_function(f"{self._title} wait"):
            is_complete = self._complete(limit)
        if not is_complete:
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


def _when_ready(job: Callable[[_Work], None]) -> Callable[[_Work], None]:
    """A job that first waits for what the GPU has been asked before."""

    def run(work: _Work) -> None:
        ready = getattr(work, "ready", None)
        if ready is not None:
            ready.synchronize()
        job(work)

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
        # What has ended keeps no group.
        del item, job, work


def _end_all(works: queue.SimpleQueue) -> None:
    while (work := works.get()) is not None:
        work._settle()
        del work
