"""Bench of prim_ram_1r1w."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Ram(unittest.TestCase):
    def test_one_port_to_write_and_one_to_read(self) -> None:
        for parameters in rtl_tools.crossed(WIDTH=[1, 64], DEPTH=[2, 12]):
            rtl_tools.cocotb("prim_ram_1r1w", HERE / "cocotb_ram.py", parameters, rtl_tools.prim_sources())
