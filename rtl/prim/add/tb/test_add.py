"""Benches of the adders."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython", "numpy")
class Add(unittest.TestCase):
    def test_binary32(self) -> None:
        rtl_tools.cocotb("prim_add_fp32", HERE / "cocotb_add.py", {}, rtl_tools.prim_sources())

    def test_fixed_point(self) -> None:
        rtl_tools.cocotb("prim_add_fixed", HERE / "cocotb_add.py", {}, rtl_tools.prim_sources())
