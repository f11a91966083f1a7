"""cocotb benches: of the frame status buffer by itself, and of the whole switch by its AXI streams."""

import unittest
from pathlib import Path

import needs
import rtl_tools

HERE = Path(__file__).resolve().parent


@rtl_tools.programs("iverilog")
@needs.modules("cocotb", "find_libpython", "numpy")
class Cocotb(unittest.TestCase):
    def test_frame_status_buffer(self) -> None:
        for parameters in ({"FLOWS": 4, "FRAMES": 128}, {"FLOWS": 2, "FRAMES": 4}, {"FLOWS": 8, "FRAMES": 2}):
            rtl_tools.cocotb("frame_status_buffer", HERE / "cocotb_frame_status_buffer.py", parameters, rtl_tools.switch_sources())

    def switch(self, module: str, **parameters: int) -> None:
        sources = [*rtl_tools.switch_sources(), HERE / "allreduce_switch_tb.sv"]
        rtl_tools.cocotb("allreduce_switch_tb", HERE / module, parameters, sources, plain=True)

    def test_switch_answers_the_vectors(self) -> None:
        self.switch("cocotb_vectors.py", PORTS=3, FLOWS=4, FRAMES=128)

    def test_switch_of_three_ports(self) -> None:
        self.switch("cocotb_switch.py", PORTS=3, FLOWS=4, FRAMES=128)

    def test_switch_of_two_ports_with_two_flows_of_eight_frames(self) -> None:
        self.switch("cocotb_switch.py", PORTS=2, FLOWS=2, FRAMES=8)
