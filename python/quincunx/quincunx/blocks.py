"""MXFP8 and a format like NVFP4 for arrays of NumPy: vectors whose elements share scales block by block, added up in the network as they are.

    from quincunx import blocks

    given = blocks.quantize(gradients, "mxfp8")     # 1,024 bytes for each 992 values; "nvfp4": 64 bytes for each 112
    group.all_reduce(given)                         # quantised anew at each addition, in switches, too
    gradients[:] = given.dequantize().reshape(gradients.shape)

To the bit as `crates/base/collective/src/blocks.rs` defines it and explains why. "nvfp4" has no scale of the whole tensor: a block with a magnitude above
2,688, of a sum too, becomes NaN, and of blocks below 0.094 the scale loses digits. Multiply by the same `factor` at all ranks first. Sums and averages are
all that there is. Needs NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from quincunx._arrays import Typed

__all__ = ["FORMATS", "Blocks", "add", "factor", "quantize", "zeros"]

# By name: rows of a tile and bytes of each, values in a row. The first row of a tile has the scales of the others.
FORMATS = {"mxfp8": (32, 32), "nvfp4": (8, 16)}

_MAGNITUDE = numpy.uint32(0x7FFF_FFFF)
_INFINITY = 0x7F80_0000
_NAN = {"mxfp8": 0xFF, "nvfp4": 0x7F}
# The largest element, 6, times the largest scale, 448.
_LARGEST_OF_NVFP4 = 2688.0
# Twice the magnitudes of E2M1.
_DOUBLED = numpy.array([0, 1, 2, 3, 4, 6, 8, 12], numpy.float32)
# Halfway between neighbours; a tie goes to the upper one where that is even.
_HALFWAY = ((0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False))


def _e4m3_values() -> numpy.ndarray:
    values = numpy.empty(256, numpy.float32)
    for bits in range(256):
        exponent, fraction = bits >> 3 & 15, bits & 7
        magnitude = math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10)
        values[bits] = math.nan if bits & 0x7F == 0x7F else math.copysign(magnitude, -1 if bits & 0x80 else 1)
    return values


_E4M3 = _e4m3_values()


def _e4m3_nearest(values: numpy.ndarray) -> numpy.ndarray:
    """E4M3 of float32 values, to nearest, ties to even; what is too large becomes the NaN, without its sign."""
    bits = values.view(numpy.uint32)
    magnitude, sign = bits & _MAGNITUDE, (bits >> 24).astype(numpy.uint8) & 0x80
    odd = magnitude >> 20 & 1
    normal = (magnitude - numpy.uint32(120 << 23) + numpy.uint32(0x7FFFF) + odd) >> 20
    # The last place of this sum is that of E4M3's subnormal numbers.
    anchor = numpy.float32(2.0**14)
    subnormal = (magnitude.view(numpy.float32) + anchor).view(numpy.uint32) - anchor.view(numpy.uint32)
    rounded = numpy.where(magnitude < 121 << 23, subnormal, normal)
    return numpy.where(rounded < 0x7F, rounded.astype(numpy.uint8) | sign, 0x7F).astype(numpy.uint8)


class Blocks(Typed):
    """So many values as tiles, which collectives take as one array."""

    def __init__(self, tiles: numpy.ndarray, element: str, count: int) -> None:
        self.memory, self.element, self.count = tiles, element, count

    def __repr__(self) -> str:
        return f"<quincunx.blocks.Blocks {self.count} values of {self.element}, {self.memory.size} bytes>"

    @property
    def tiles(self) -> numpy.ndarray:
        """The bytes: uint8, one dimension."""
        return self.memory

    def dequantize(self) -> numpy.ndarray:
        """The values as float32, one dimension."""
        return _widened(self.memory, self.element).reshape(-1)[: self.count]


def zeros(count: int, element: str) -> Blocks:
    """Room for so many values, all zero. Raises ValueError for a format that there is not."""
    rows, values = _shape(element)
    tiles = -(-count // ((rows - 1) * values))
    return Blocks(numpy.zeros(tiles * rows * rows, numpy.uint8), element, count)


def quantize(values: Any, element: str = "mxfp8") -> Blocks:
    """Blocks of the values of an array of any shape, each of them as float32. Raises ValueError for a format that there is not."""
    flat = numpy.asarray(values, numpy.float32).reshape(-1)
    found = zeros(flat.size, element)
    rows, block = _shape(element)
    padded = numpy.zeros((found.memory.size // (rows * rows), rows - 1, block), numpy.float32)
    padded.reshape(-1)[: flat.size] = flat
    _narrow(padded, found)
    return found


def add(one: Blocks, other: Blocks) -> Blocks:
    """The sum, as the network makes it. Raises ValueError for blocks of different formats or lengths."""
    if (one.element, one.count) != (other.element, other.count):
        raise ValueError(f"expected blocks of one format and length, found {one} and {other}; quantise both alike")
    found = zeros(one.count, one.element)
    with numpy.errstate(all="ignore"):
        _narrow(_widened(one.memory, one.element) + _widened(other.memory, other.element), found)
    return found


def factor(largest: float, ranks: int) -> float:
    """What vectors of so many ranks are multiplied by so that their sum has a place in "nvfp4": a power of two, from the largest magnitude of all ranks.

    One where there is no such power, for zeros, infinities and NaN.
    """
    if not 0 < largest < math.inf:
        return 1.0
    # Half of what there is: rounding may make sums larger, by less than a fifth each time that they are near the largest.
    return 2.0 ** max(-100, min(100, math.floor(math.log2(_LARGEST_OF_NVFP4 / 2) - math.log2(largest) - math.log2(ranks))))


def _shape(element: str) -> tuple[int, int]:
    if element not in FORMATS:
        raise ValueError(f'expected one of {", ".join(FORMATS)}, found "{element}"; name one of these')
    return FORMATS[element]


def _narrow(values: numpy.ndarray, into: Blocks) -> None:
    """Quantises values (tiles x blocks x values of a block)."""
    rows, _ = FORMATS[into.element]
    tiles = into.memory.reshape(-1, rows, rows)
    largest = (values.view(numpy.uint32) & _MAGNITUDE).max(axis=2)
    finite = largest < _INFINITY
    nan = _NAN[into.element]
    with numpy.errstate(all="ignore"):
        if into.element == "mxfp8":
            # 448 is 1.75 times 2^8: whatever has a larger fraction than 0.75 needs the next power of two.
            scales = numpy.maximum((largest.astype(numpy.int64) + 0x1FFFFF >> 23) - 8, 0)
            scales = numpy.where(finite, scales, nan).astype(numpy.uint8)
            reciprocal = ((254 - numpy.minimum(scales, 254).astype(numpy.uint32)) << 23).view(numpy.float32)
            elements = _e4m3_nearest(values * reciprocal[..., None])
        else:
            magnitude = largest.view(numpy.float32)
            nearest = _e4m3_nearest(magnitude / numpy.float32(6))
            scales = nearest + ((_E4M3[nearest] * numpy.float32(6) < magnitude) & (nearest < nan))
            scales = numpy.where(finite, scales, nan).astype(numpy.uint8)
            # Under a scale of zero all values are zeros, and lie below any bound.
            steps = numpy.where(scales == 0, numpy.float32(numpy.inf), _E4M3[scales])[..., None]
            codes = (values.view(numpy.uint32) >> 28).astype(numpy.uint8) & 8
            for bound, is_upper in _HALFWAY:
                reached = numpy.greater_equal if is_upper else numpy.greater
                codes += reached(numpy.abs(values), numpy.float32(bound) * steps)
            elements = codes[..., 0::2] | codes[..., 1::2] << 4
    tiles[:, 0, 0] = 0
    tiles[:, 0, 1:] = scales
    tiles[:, 1:] = numpy.where((scales == nan)[..., None], 0, elements)


def _widened(tiles: numpy.ndarray, element: str) -> numpy.ndarray:
    """What tiles stand for: tiles x blocks x values of a block."""
    rows, block = FORMATS[element]
    shaped = tiles.reshape(-1, rows, rows)
    scales, elements = shaped[:, 0, 1:], shaped[:, 1:]
    with numpy.errstate(all="ignore"):
        if element == "mxfp8":
            powers = (scales.astype(numpy.uint32) << 23).view(numpy.float32)
            powers = numpy.where(scales == 0, numpy.float32(2.0**-127), numpy.where(scales == 0xFF, numpy.float32(numpy.nan), powers))
            return _E4M3[elements] * powers[..., None]
        codes = numpy.empty((*elements.shape[:2], block), numpy.uint8)
        codes[..., 0::2], codes[..., 1::2] = elements & 15, elements >> 4
        magnitude = _DOUBLED[codes & 7] * (_E4M3[scales] * numpy.float32(0.5))[..., None]
        return numpy.where(codes & 8, -magnitude, magnitude)
