"""Benches of the arbiters, with crossed parameters."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Arbiter(unittest.TestCase):
    def test_round_robin(self) -> None:
        for parameters in rtl_tools.crossed(N=[1, 2, 5, 9]):
            rtl_tools.cocotb("prim_arbiter_rr", HERE / "cocotb_rr.py", parameters, rtl_tools.prim_sources())

    def test_weighted(self) -> None:
        for parameters in ({"N": 2, "WEIGHT_W": 1, "WEIGHTS": 0b11}, {"N": 3, "WEIGHT_W": 4, "WEIGHTS": 0x142}, {"N": 4, "WEIGHT_W": 3, "WEIGHTS": 0o1713}):
            rtl_tools.cocotb("prim_arbiter_weighted", HERE / "cocotb_weighted.py", parameters, rtl_tools.prim_sources())
