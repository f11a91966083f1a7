"""Benches of the CRC step, 32 and 64 bits wide."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Crc32(unittest.TestCase):
    def test_steps(self) -> None:
        for parameters in rtl_tools.crossed(WIDTH=[32, 64]):
            rtl_tools.cocotb("prim_crc32", HERE / "cocotb_crc32.py", parameters, rtl_tools.prim_sources())
