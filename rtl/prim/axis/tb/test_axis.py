"""Benches of what AXI streams pass through, with crossed parameters."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Axis(unittest.TestCase):
    def test_register(self) -> None:
        for parameters in rtl_tools.crossed(WIDTH=[1, 73]):
            rtl_tools.cocotb("prim_axis_register", HERE / "cocotb_register.py", parameters, rtl_tools.prim_sources())

    def test_width(self) -> None:
        for parameters in rtl_tools.crossed(S_BYTES=[1, 4, 8], M_BYTES=[2, 4, 16]):
            rtl_tools.cocotb("prim_axis_width", HERE / "cocotb_width.py", parameters, rtl_tools.prim_sources())
