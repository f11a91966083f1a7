"""Benches of the FIFOs, with crossed parameters."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Fifo(unittest.TestCase):
    def test_sync(self) -> None:
        for parameters in rtl_tools.crossed(WIDTH=[1, 69], DEPTH=[2, 16]):
            rtl_tools.cocotb("prim_fifo_sync", HERE / "cocotb_fifo_sync.py", parameters, rtl_tools.prim_sources())

    def test_async(self) -> None:
        for parameters in rtl_tools.crossed(WIDTH=[8, 69], DEPTH=[4, 32]):
            rtl_tools.cocotb("prim_fifo_async", HERE / "cocotb_fifo_async.py", parameters, rtl_tools.prim_sources())
