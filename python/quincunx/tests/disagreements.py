"""What rank 1 of four may call otherwise than the others: for tests and for benches/disagree.py."""

from collections.abc import Callable

import numpy

import quincunx

Calls = dict[str, Callable[[quincunx.Group], object]]


def _ones(count: int = 1024, kind: str = "float32") -> numpy.ndarray:
    return numpy.ones(count, kind)


def _gather(group: quincunx.Group, part: numpy.ndarray) -> None:
    group.all_gather(part, numpy.empty(group.size * part.size, part.dtype))


def of_gathers(is_odd: bool) -> Calls:
    """Those of AllGather, for designs that have no sums and no roots."""
    return {
        "length of a gathered part": lambda group: _gather(group, _ones(2048 if is_odd else 1024)),
        "data type of a gathered part": lambda group: _gather(group, _ones(kind="int32" if is_odd else "float32")),
        "collective in place of a barrier": lambda group: _gather(group, _ones()) if is_odd else group.barrier(),
    }


def of_all(is_odd: bool) -> Calls:
    """All of them."""
    return of_gathers(is_odd) | {
        "length": lambda group: group.all_reduce(_ones(2048 if is_odd else 1024)),
        "data type": lambda group: group.all_reduce(_ones(kind="int32" if is_odd else "float32")),
        "data type of a broadcast": lambda group: group.broadcast(_ones(kind="int32" if is_odd else "float32")),
        "operation": lambda group: group.all_reduce(_ones(), op="max" if is_odd else "sum"),
        "root": lambda group: group.broadcast(_ones(), root=int(is_odd)),
        "root of a sum": lambda group: group.reduce(_ones(), root=int(is_odd)),
        "collective": lambda group: group.broadcast(_ones(), root=0) if is_odd else group.all_reduce(_ones()),
    }
