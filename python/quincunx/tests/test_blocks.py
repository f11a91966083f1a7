"""Block formats in Python give what the Rust code gives, to the bit: `vectors/blocks.json`."""

import json
import os
import sys
import unittest
from pathlib import Path

import needs

VECTORS = Path(__file__).resolve().parents[3] / "vectors" / "blocks.json"


@needs.modules("numpy")
class GoldenVectors(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        from package import PACKAGE, build  # noqa: PLC0415: it is built when it is needed

        build()
        sys.path.insert(0, os.fspath(PACKAGE.parent))
        import numpy  # noqa: PLC0415

        from quincunx import blocks  # noqa: PLC0415

        cls.numpy, cls.blocks, cls.vectors = numpy, blocks, json.loads(VECTORS.read_text())

    def floats(self, bits: list[int]):
        return self.numpy.array(bits, self.numpy.uint32).view(self.numpy.float32)

    def tiles(self, case: dict, key: str):
        bytes_ = self.numpy.frombuffer(bytes.fromhex(case[key]), self.numpy.uint8)
        rows, block = self.blocks.FORMATS[case["format"]]
        return self.blocks.Blocks(bytes_, case["format"], len(bytes_) // rows**2 * (rows - 1) * block)

    def test_tiles_and_what_they_stand_for_are_those_of_rust(self) -> None:
        self.assertEqual(len(self.vectors["quantize"]), 26)
        for case in self.vectors["quantize"]:
            with self.subTest(case["name"], format=case["format"]):
                found = self.blocks.quantize(self.floats(case["input"]), case["format"])
                self.assertEqual(found.tiles.tobytes().hex(), case["tiles"])
                restored = found.dequantize()
                # The sign and payload of a NaN are the processor's.
                restored = self.numpy.where(self.numpy.isnan(restored), self.numpy.float32(self.numpy.nan), restored)
                self.numpy.testing.assert_array_equal(restored.view(self.numpy.uint32), self.numpy.array(case["restored"], self.numpy.uint32))

    def test_sums_are_those_of_rust(self) -> None:
        self.assertEqual(len(self.vectors["add"]), 4)
        for case in self.vectors["add"]:
            found = self.blocks.add(self.tiles(case, "a"), self.tiles(case, "b"))
            self.assertEqual(found.tiles.tobytes().hex(), case["sum"])

    def test_any_shape_and_type_is_taken_and_what_is_no_format_refused(self) -> None:
        found = self.blocks.quantize(self.numpy.full((3, 4), 3.0), "nvfp4")
        self.assertEqual((found.count, found.element, found.tiles.size), (12, "nvfp4", 64))
        self.assertEqual(list(found.dequantize()), [3.0] * 12)
        with self.assertRaisesRegex(ValueError, 'expected one of mxfp8, nvfp4, found "fp4"'):
            self.blocks.quantize([1.0], "fp4")
        with self.assertRaisesRegex(ValueError, "one format and length"):
            self.blocks.add(found, self.blocks.zeros(12, "mxfp8"))


if __name__ == "__main__":
    unittest.main()
