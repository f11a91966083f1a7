"""cocotb benches of blocks of the switch by themselves."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython", "numpy")
class Blocks(unittest.TestCase):
    def test_frame_status_buffer(self) -> None:
        for parameters in ({"FLOWS": 4, "FRAMES": 128}, {"FLOWS": 2, "FRAMES": 4}, {"FLOWS": 8, "FRAMES": 2}):
            rtl_tools.cocotb("frame_status_buffer", HERE / "cocotb_frame_status_buffer.py", parameters, rtl_tools.switch_sources())
