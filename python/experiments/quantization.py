"""Block quantization and quantised AllReduces, as `crates/base/collective/src/quantization.rs` defines them, to the bit.

There the arithmetic is explained; here it runs over whole arrays, so that a model can be evaluated with it.
`vectors/quantization.json` holds the two together.
"""

from dataclasses import dataclass

import numpy as np

LARGEST_CODE = {"int8": 127, "int4": 7}
# Rows that are worked on together: few enough to stay in a cache.
TILE = 32


@dataclass(frozen=True)
class BlockQuantization:
    """Codes of a type ("int8", "int4"), and a binary16 scale for each `block` values of the last axis."""

    code: str
    block: int

    @property
    def largest(self) -> np.float32:
        """The largest code."""
        return np.float32(LARGEST_CODE[self.code])

    def quantize(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes (int8, shape of `values`) and scales (float16, one for each block begun) of float32 values."""
        blocks = self._blocks(values)
        magnitude = np.abs(blocks).max(axis=-1)
        with np.errstate(over="ignore"):
            nearest = (magnitude / self.largest).astype(np.float16)
            next_up = np.nextafter(nearest, np.float16(np.inf))
        scales = np.where(nearest.astype(np.float32) * self.largest < magnitude, next_up, nearest)
        finite = np.isfinite(scales)
        if not finite.all():
            scales = np.where(finite, scales, np.float16(np.nan))
            blocks = np.where(finite[..., None], blocks, np.float32(0))
        # Where a scale is zero or NaN, all values are zeros by now, and so are their codes.
        steps = np.where(finite & (scales > 0), scales, np.float16(1)).astype(np.float32)
        codes = np.rint(blocks / steps[..., None]).astype(np.int8)
        return codes.reshape(*values.shape[:-1], -1)[..., : values.shape[-1]], scales

    def dequantize(self, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The float32 values that codes and scales stand for."""
        values = self._blocks(codes) * scales.astype(np.float32)[..., None]
        return values.reshape(*codes.shape[:-1], -1)[..., : codes.shape[-1]]

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Values as they are after a journey: quantised and dequantised."""
        return self.dequantize(*self.quantize(values))

    def _blocks(self, values: np.ndarray) -> np.ndarray:
        """The last axis as two: blocks, values of a block. Zeros fill the last block up, and change nothing in it."""
        missing = -values.shape[-1] % self.block
        if missing:
            values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
        return values.reshape(*values.shape[:-1], -1, self.block)


def exact_all_reduce(partials: np.ndarray) -> np.ndarray:
    """The sum over ranks, the first axis, in float32 from the first to the last."""
    total = partials[0].copy()
    for partial in partials[1:]:
        total += partial
    return total


def inq_all_reduce(quantization: BlockQuantization, partials: np.ndarray) -> np.ndarray:
    """What all ranks get when the switch adds up quantised vectors and quantises the sum: (ranks, rows, values) to
    (rows, values)."""
    result = np.empty_like(partials[0])
    for start in range(0, len(result), TILE):
        tile = slice(start, start + TILE)
        result[tile] = quantization.restored(exact_all_reduce(quantization.restored(partials[:, tile])))
    return result


def rq_all_reduce(quantization: BlockQuantization, partials: np.ndarray) -> np.ndarray:
    """What all ranks get on a ring of quantised links: (ranks, rows, values) to (rows, values). The rows are cut into
    as many chunks as there are ranks; chunk c starts at rank c."""
    ranks, rows = partials.shape[:2]
    result = np.empty_like(partials[0])
    for chunk in range(ranks):
        end = rows * (chunk + 1) // ranks
        for start in range(rows * chunk // ranks, end, TILE):
            tile = slice(start, min(start + TILE, end))
            total = partials[chunk, tile]
            for hop in range(1, ranks):
                total = quantization.restored(total) + partials[(chunk + hop) % ranks, tile]
            result[tile] = quantization.restored(total)
    return result
