"""Benches of what passes between clocks."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython")
class Sync(unittest.TestCase):
    def bench(self, top: str, module: str, **parameters: int) -> None:
        rtl_tools.cocotb(top, HERE / module, parameters, rtl_tools.prim_sources())

    def test_levels(self) -> None:
        for width in (1, 7):
            self.bench("prim_sync", "cocotb_sync.py", WIDTH=width)

    def test_pulses(self) -> None:
        for width in (1, 2):
            self.bench("prim_sync_pulse", "cocotb_sync_pulse.py", WIDTH=width)

    def test_reset(self) -> None:
        self.bench("prim_sync_reset", "cocotb_sync_reset.py")
