"""Experts on the ranks of a group: tokens go to the ranks of their experts, once to each, and what these make of them comes back as sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quincunx import _core
from quincunx._arrays import described
from quincunx._calling import calling


class Dispatched:
    """Tokens on their way to this rank, or those that have come, by their rank and then by their number there.

    All but `wait` and `done` are of no account before the end.
    """

    def __init__(self, core: _core.Dispatch, top_k: int) -> None:
        self._core = core
        self._top_k = top_k

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end, at most `timeout` seconds. Raises TimeoutError if it is under way still, GroupError if it has failed."""
        if not self._core.handle.wait(timeout):
            raise TimeoutError(f"expected the end of a dispatch within {timeout} s, found it under way; wait longer")

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._core.handle.done()

    @property
    def count(self) -> int:
        """Tokens that have come: the first `count` of the output."""
        return self._core.count

    @property
    def sources(self) -> list[int]:
        """By token: the rank that it is of."""
        return self._core.sources

    @property
    def numbers(self) -> list[int]:
        """By token: which of that rank's it is."""
        return self._core.numbers

    @property
    def experts(self) -> list[list[int]]:
        """By token: all of its experts, those of other ranks too, in the order in which its rank has named them."""
        return self._rows(self._core.experts)

    @property
    def weights(self) -> list[list[float]]:
        """By token: the weights of these (float32)."""
        return self._rows(self._core.weights)

    def _rows(self, flat: list) -> list:
        return [flat[start : start + self._top_k] for start in range(0, len(flat), self._top_k)]


class Experts:
    """Experts on the ranks of a group, made by `Group.experts`. All ranks call `dispatch` and `combine` by turns."""

    def __init__(self, core: _core.Experts, top_k: int, length: int) -> None:
        self._core = core
        self._top_k = top_k
        self._length = length

    def __repr__(self) -> str:
        return f"<quincunx.Experts {self.own.start} to {self.own.stop - 1} here, {self.design}>"

    @property
    def design(self) -> str:
        """What brings tokens."""
        return self._core.design

    @property
    def own(self) -> range:
        """The experts of this rank."""
        return range(*self._core.own)

    @property
    def room(self) -> int:
        """How many tokens may come to a rank at most: those of all ranks."""
        return self._core.room

    def close(self) -> None:
        """Gives back the memory for tokens; so does dropping it. What is under way goes on to its end."""
        self._core.close()

    def dispatch(
        self,
        tokens: Any,
        experts: Any,
        weights: Any = None,
        *,
        output: Any,
        length: int | None = None,
        incoming: Sequence[int] | None = None,
        wait: bool = True,
    ) -> Dispatched:
        """Brings each of this rank's `tokens` to every rank that hosts one of its `experts`, once.

        `tokens`: so many times `length` bytes, which is as long as a token may be if it is not said, and the same at all ranks. `experts` and
        `weights`: `top_k` for each token, nested or flat. `output`: an array with room for `room` tokens, of which the first get what comes;
        the rest stays as it is. `incoming`: how many tokens come from each rank, where that is not announced (`relay.announce=false`).
        Raises ValueError for what makes no sense, and nothing has happened then; GroupError if a rank dies or expects other numbers than come.
        """
        given, element = described(tokens)
        room, found = described(output)
        if found != element:
            raise TypeError(f"expected input and output of one type, found {element} and {found}; convert one of them")
        length = self._length if length is None else length
        chosen = _flat(experts)
        weighed = None if weights is None else _flat(weights)
        counted = None if incoming is None else _flat(incoming)
        core = self._core.dispatch(given, length, _numbers(chosen), weighed, room, incoming=counted, at=calling())
        dispatched = Dispatched(core, self._top_k)
        if wait:
            dispatched.wait()
        return dispatched

    def combine(
        self,
        dispatched: Dispatched,
        results: Any,
        output: Any,
        *,
        op: str = "sum",
        length: int | None = None,
        wait: bool = True,
    ) -> _core.Handle | None:
        """Brings back `results`, a vector of `length` bytes for each token that the last dispatch has brought, in the order of their coming, and
        puts into `output` for each of this rank's own tokens the reduction of what its ranks have made of it, in rank order.

        What a token's weights do is the caller's: a rank returns the weighted sum over its own experts. Returns something to wait for if
        `wait` is false. Raises ValueError for what makes no sense, GroupError if a rank dies.
        """
        given, element = described(results)
        room, found = described(output)
        if found != element:
            raise TypeError(f"expected input and output of one type, found {element} and {found}; convert one of them")
        length = self._length if length is None else length
        handle = self._core.combine(dispatched._core, given, room, length, element, op, at=calling())
        if not wait:
            return handle
        handle.wait()
        return None


def _flat(values: Any) -> list:
    values = values.tolist() if hasattr(values, "tolist") else values
    flat: list = []
    for value in values:
        flat.extend(value if isinstance(value, Iterable) else (value,))
    return flat


def _numbers(experts: list) -> list[int]:
    """What is no number of an expert is told as such, not as a number too large for the machine."""
    for expert in experts:
        if not 0 <= expert < 1 << 16:
            raise ValueError(f"expected numbers of experts, found {expert}; correct the batch")
    return experts
