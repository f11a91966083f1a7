"""Types and operations of torch in the words of quincunx."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

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
_NEWER = (("uint32", "u32"), ("uint64", "u64"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2"))
_ELEMENTS.update({getattr(torch, name): code for name, code in _NEWER if hasattr(torch, name)})

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}
# Truth values are bytes of 0 and 1.
_OF_TRUTH = {"sum": "max", "prod": "min", "band": "min", "bor": "max"}


def _element(tensor: torch.Tensor) -> str:
    element = _ELEMENTS.get(tensor.dtype)
    if element is None:
        raise TypeError(f"expected a type that can be reduced, found {tensor.dtype}; convert the tensor")
    return element


def _reduction(tensor: torch.Tensor, op: Any) -> tuple[str, str]:
    """Type and operation in our words."""
    element = _element(tensor)
    name = next((name for known, name in _OPS.items() if op == known), None)
    if name is None:
        raise TypeError(f"expected one of {', '.join(sorted(set(_OPS.values())))}, found {op}; scale before or after the sum")
    if tensor.dtype == torch.bool:
        name = _OF_TRUTH.get(name, name)
    return element, name


def _op(opts: Any) -> Any:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp
