"""Experts on the ranks of a process group: tokens of a layer of experts go to them and come back, with gradients.

    experts = quincunx.torch.experts.Experts(experts=16, top_k=2, tokens=256, width=64)
    came = experts.dispatch(tokens, chosen, weights)           # (n, width): those for this rank's experts
    made = ...                                                 # of came.tokens, by came.experts and came.weights
    sums = experts.combine(came, made)                         # (tokens, width)

The gradient of a dispatch is a combine, and that of a combine a dispatch, so that all ranks call both in the same order, backward too.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from quincunx import _core
from quincunx._calling import calling
from quincunx.torch._group import QuincunxGroup
from quincunx.torch._reductions import _ELEMENTS
from quincunx.torch._tensors import _memory

__all__ = ["Came", "Experts"]


class Came:
    """What a dispatch has brought to this rank, by the rank that it is of and then by its number there."""

    def __init__(self, tokens: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor, sources: torch.Tensor, way: _Way) -> None:
        # (n, width) and (n, top_k), with gradients; (n, top_k) and (n,), int64.
        self.tokens = tokens
        self.weights = weights
        self.experts = experts
        self.sources = sources
        self._way = way


class _Way:
    """Whom a batch's tokens are for, and the last dispatch that has gone there."""

    def __init__(self, owner: Experts, experts: torch.Tensor, incoming: list[int] | None) -> None:
        self.owner = owner
        self.tokens = experts.shape[0]
        self.chosen = experts.reshape(-1).tolist()
        self.incoming = incoming
        self.last: _core.Dispatch | None = None

    def out(self, tokens: torch.Tensor, weights: list[float] | None) -> torch.Tensor:
        """Brings a vector of each token to its ranks; those that come here."""
        owner = self.owner
        given = tokens.detach().cpu().contiguous()
        length = given.shape[1] * given.element_size()
        room = torch.empty((owner._core.room, given.shape[1]), dtype=given.dtype)
        self.last = owner._core.dispatch(
            _memory(given), length, self.chosen, weights, _memory(room), incoming=self.incoming, at=calling()
        )
        owner._last = self
        self.last.handle.wait()
        return room[: self.last.count].clone().to(tokens.device)

    def back(self, vectors: torch.Tensor) -> torch.Tensor:
        """For each token the sum of what its ranks return."""
        owner = self.owner
        given = vectors.detach().cpu().contiguous()
        if owner._last is not self:
            # Another batch has gone out since: the network knows the way of the last one alone.
            self.out(torch.zeros((self.tokens, 1), dtype=given.dtype), None)
        sums = torch.empty((self.tokens, given.shape[1]), dtype=given.dtype)
        length = given.shape[1] * given.element_size()
        element = _ELEMENTS[given.dtype]
        owner._core.combine(self.last, _memory(given), _memory(sums), length, element, "sum", at=calling()).wait()
        return sums.to(vectors.device)


class _Out(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: torch.Tensor, weights: torch.Tensor, way: _Way) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.way, ctx.kind = way, weights.dtype
        came = way.out(tokens, weights.detach().reshape(-1).tolist())
        return came, torch.tensor(way.last.weights, dtype=weights.dtype, device=weights.device).reshape(-1, weights.shape[1])

    @staticmethod
    def backward(ctx: Any, tokens: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        # Those of the weights go behind those of the token: one combine for both.
        sums = ctx.way.back(torch.cat([tokens, weights.to(tokens.dtype)], dim=1))
        width = tokens.shape[1]
        return sums[:, :width], sums[:, width:].to(ctx.kind), None


class _Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, way: _Way) -> torch.Tensor:
        ctx.way = way
        return way.back(vectors)

    @staticmethod
    def backward(ctx: Any, sums: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.way.out(sums, None), None


class Experts:
    """Experts on the ranks of a process group of the backend "quincunx"; rank r of n hosts the r-th of n parts. All ranks make it, with the same
    numbers: `experts`, `top_k` of a token, at most `tokens` of a rank at once, of `width` numbers of type `dtype` each.

    `design`: what brings them; the first that suits: to each server (LOCAL_WORLD_SIZE ranks in a row) once, where there are several, "direct" to each rank
    by itself. Tensors on a GPU go by way of the host's memory.

    Raises ValueError for numbers that make no sense or are not those of other ranks, TypeError for a group of another backend and a type that
    cannot be added up.
    """

    def __init__(
        self,
        experts: int,
        top_k: int,
        tokens: int,
        width: int,
        *,
        dtype: torch.dtype = torch.float32,
        group: dist.ProcessGroup | None = None,
        design: str | None = None,
    ) -> None:
        if dtype not in _ELEMENTS or not dtype.is_floating_point:
            raise TypeError(f"expected a type of floating-point numbers that can be added up, found {dtype}; convert the tokens")
        self._core = _core_group(group).experts(experts, top_k, tokens, width * dtype.itemsize, design)
        self._shape = (top_k, width, dtype)
        # Whose way the network knows.
        self._last: _Way | None = None

    @property
    def own(self) -> range:
        """The experts of this rank."""
        return range(*self._core.own)

    @property
    def design(self) -> str:
        """What brings tokens."""
        return self._core.design

    def close(self) -> None:
        """Gives back the memory for tokens; so does dropping it."""
        self._core.close()

    def dispatch(
        self, tokens: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor, *, incoming: list[int] | None = None
    ) -> Came:
        """Brings `tokens` (t, width) to the ranks of their `experts` (t, top_k; integers), once to each, with their `weights` (t, top_k).

        `incoming`: how many tokens come from each rank, where that is not announced (`relay.announce=false`). Raises ValueError for what makes no
        sense, and nothing has happened then; GroupError if a rank dies or expects other numbers than come.
        """
        top_k, width, dtype = self._shape
        count = tokens.shape[0] if tokens.dim() == 2 else -1
        for what, tensor, shape in (("tokens", tokens, (count, width)), ("experts", experts, (count, top_k)), ("weights", weights, (count, top_k))):
            if tuple(tensor.shape) != shape:
                raise ValueError(f"expected {what} of shape (tokens, {shape[1]}), found {tuple(tensor.shape)}; correct the batch")
        if tokens.dtype != dtype:
            raise TypeError(f"expected tokens of {dtype}, found {tokens.dtype}; convert them")
        if experts.numel() and not 0 <= int(experts.min()) <= int(experts.max()) < 1 << 16:
            raise ValueError(f"expected numbers of experts, found {int(experts.min())} to {int(experts.max())}; correct the batch")
        way = _Way(self, experts, incoming)
        came, weighed = _Out.apply(tokens, weights, way)
        chosen = torch.tensor(way.last.experts, dtype=torch.int64, device=tokens.device).reshape(-1, top_k)
        sources = torch.tensor(way.last.sources, dtype=torch.int64, device=tokens.device)
        return Came(came, weighed, chosen, sources, way)

    def combine(self, came: Came, vectors: torch.Tensor) -> torch.Tensor:
        """For each of this rank's tokens of that dispatch the sum of what its ranks have made of it, in rank order: `vectors` (n, width) are this
        rank's, one for each token that has come. Raises as `dispatch` does."""
        if vectors.dim() != 2 or vectors.shape[0] != came.tokens.shape[0]:
            raise ValueError(f"expected a vector for each of {came.tokens.shape[0]} tokens, found {tuple(vectors.shape)}; correct the shape")
        return _Back.apply(vectors, came._way)


def _core_group(group: dist.ProcessGroup | None) -> _core.Group:
    group = dist.group.WORLD if group is None else group
    found = getattr(group, "group", None) or getattr(getattr(group, "_backend", None), "group", None)
    if not isinstance(found, _core.Group) or not isinstance(group, (QuincunxGroup, dist.ProcessGroup)):
        raise TypeError(f'expected a process group of the backend "quincunx", found {type(group).__name__}; make one')
    return found
