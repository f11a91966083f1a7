"""The backend "quincunx" of torch.distributed: import this module, then `init_process_group("quincunx")`.

Every type and operation is reduced in the network; of an average ranks divide the sum. CUDA tensors go through pinned memory in
chunks: one is copied while the one before is exchanged.

Needs torch 2.11 or newer, which is an extra: `pip install quincunx[torch]`.
"""

from __future__ import annotations

import atexit
import os
import uuid
import weakref
from typing import Any

import torch.distributed as dist

from quincunx import _core
from quincunx.torch._backend import QuincunxBackend
from quincunx.torch._group import QuincunxGroup
from quincunx.torch._launch import fill_environment
from quincunx.torch._stages import _counts

__all__ = ["QuincunxBackend", "counts", "designs", "sent_to"]

# One place in the network for all groups of this process.
_endpoint: _core.Endpoint | None = None
# Groups that were not destroyed; one that nobody has any more is given back, and is not among them.
_backends: list[weakref.ref[QuincunxBackend]] = []
_generation = 0


def counts() -> dict[str, float]:
    """Seconds that copies between a GPU and pinned memory took, seconds of all staged operations, and their bytes; of this process's
    node: operations, bytes copied to and from registered memory, the seconds of that, and seconds with something under way."""
    found = dict(_counts)
    if _endpoint is not None:
        names = ("operations", "copied_bytes", "host_copy_s", "busy_s")
        found.update(zip(names, _endpoint.counts()))
    return found


def sent_to(own: bool = False) -> dict[str, int] | str:
    """Of this process: bytes that its node has sent, by the address that they were for, with RoCE's headers; `own`: the address that its frames come
    from, for others to find it."""
    if _endpoint is None:
        return "" if own else {}
    return _endpoint.address if own else {address: sent for address, _, sent in _endpoint.sent_to()}


def designs() -> list[str]:
    """What the groups of this process run, oldest first: the design that was asked for, or what it fell back to."""
    return [backend.group.design for reference in _backends if (backend := reference()) is not None]


def _root(store: Any) -> Any:
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def _key() -> str:
    """Under which ranks find each other's words in a store: torchrun's outlives the processes that it starts again."""
    return f"quincunx/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_generation}"


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
        if not name:
            name = _root(options.store).compare_set(_key(), "", f"job-{uuid.uuid4().hex[:8]}.")
            name = name.decode() if isinstance(name, bytes) else name
        limit = options.timeout.total_seconds()
        _endpoint = _core.Endpoint(job=name, rank=rank, world=world, join_limit=min(max(limit, 1.0), 300.0))
    return _endpoint


def _create(options: Any, _pg_options: Any = None) -> dist.ProcessGroup:
    """What torch.distributed calls for each new group that a rank is in."""
    endpoint = _attach(options)
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    store = options.store
    if options.group_rank == 0:
        try:
            numbers = endpoint.make_group(members)
        except Exception as error:
            store.set(_key(), f"error {error}")
            raise
        store.set(_key(), "{} {}".format(*numbers))
    else:
        found = store.get(_key()).decode()
        if found.startswith("error "):
            raise _core.GroupError(found.removeprefix("error "))
        numbers = [int(number) for number in found.split()]
    backend = QuincunxBackend(store, endpoint.join_group(members, numbers), options.timeout, _leave)
    _backends.append(weakref.ref(backend, _backends.remove))
    # Of torch 2.11 the backend is a whole process group itself.
    return backend if isinstance(backend, dist.ProcessGroup) else QuincunxGroup(store, backend)


def _leave(backend: QuincunxBackend) -> None:
    """Takes a group off the list, and gives it back; the last one takes the endpoint with it, when all ranks have come so far."""
    global _endpoint, _generation
    found = next((known for known in _backends if known() is backend), None)
    if found is None:
        return
    _backends.remove(found)
    if _backends:
        backend.group.close()
    elif _endpoint is not None:
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


# Before `init_process_group` reads it.
fill_environment()
dist.Backend.register_backend("quincunx", _create, extended_api=True, devices=["cpu", "cuda"])
