"""Block quantization in Python gives what the Rust code gives, to the bit: `vectors/quantization.json`."""

import json
import unittest
from pathlib import Path

import needs

if not needs.missing("numpy"):
    import numpy as np
    from quantization import BlockQuantization, inq_all_reduce, rq_all_reduce

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "quantization.json"


def floats(bits: list[int]) -> "np.ndarray":
    return np.array(bits, np.uint32).view(np.float32)


def packed(codes: "np.ndarray", code: str) -> bytes:
    """Codes as they lie in memory: two of INT4 in a byte, the first in the lower half."""
    if code == "int8":
        return codes.tobytes()
    halves = np.pad(codes, (0, len(codes) % 2)).view(np.uint8) & 15
    return (halves[0::2] | halves[1::2] << 4).tobytes()


@needs.modules("numpy")
class GoldenVectors(unittest.TestCase):
    def setUp(self) -> None:
        self.vectors = json.loads(VECTORS.read_text())

    def assert_same(self, found: "np.ndarray", expected: list[int]) -> None:
        # The sign and payload of a NaN that numpy makes are the processor's.
        found = np.where(np.isnan(found), np.float32(np.nan), found)
        np.testing.assert_array_equal(found.view(np.uint32), np.array(expected, np.uint32))

    def test_codes_scales_and_what_they_stand_for_are_those_of_rust(self) -> None:
        self.assertGreater(len(self.vectors["quantize"]), 20)
        for case in self.vectors["quantize"]:
            with self.subTest(case["name"], code=case["code"]):
                quantization = BlockQuantization(case["code"], case["block"])
                codes, scales = quantization.quantize(floats(case["input"]))
                self.assertEqual(packed(codes, case["code"]), bytes(case["codes"]))
                self.assertEqual(scales.astype("<f2").tobytes(), bytes(case["scales"]))
                self.assert_same(quantization.dequantize(codes, scales), case["restored"])

    def test_all_reduces_are_those_of_rust(self) -> None:
        self.assertGreater(len(self.vectors["all_reduce"]), 6)
        for case in self.vectors["all_reduce"]:
            inputs = np.array([floats(bits) for bits in case["inputs"]])
            with self.subTest(ranks=len(inputs), code=case["code"]):
                # Rust cuts a vector at blocks into chunks for the ring, this module at rows: a row is a block here.
                block, values = case["block"], inputs.shape[1]
                rows = np.pad(inputs, [(0, 0), (0, -values % block)]).reshape(len(inputs), -1, block)
                quantization = BlockQuantization(case["code"], block)
                self.assert_same(inq_all_reduce(quantization, rows).reshape(-1)[:values], case["inq"])
                self.assert_same(rq_all_reduce(quantization, rows).reshape(-1)[:values], case["rq"])

    def test_the_last_block_of_every_row_may_be_shorter(self) -> None:
        rows = np.random.default_rng(1).standard_normal((2, 3, 80), np.float32)
        quantization = BlockQuantization("int4", 64)
        codes, scales = quantization.quantize(rows)
        self.assertEqual((codes.shape, scales.shape), ((2, 3, 80), (2, 3, 2)))
        one_by_one = [quantization.restored(row) for row in rows.reshape(-1, 80)]
        np.testing.assert_array_equal(quantization.dequantize(codes, scales).reshape(-1, 80), one_by_one)


if __name__ == "__main__":
    unittest.main()
