"""Lint: Verilator finds nothing in the sources, at every number of ports and with small and large parameters."""

import unittest

import rtl_tools


@rtl_tools.programs("verilator")
class Lint(unittest.TestCase):
    def test_switch(self) -> None:
        for ports in range(2, 9):
            rtl_tools.lint("allreduce_switch", rtl_tools.switch_sources(), PORTS=ports)
        rtl_tools.lint("allreduce_switch", rtl_tools.switch_sources(), PORTS=3, FLOWS=2, FRAMES=8)

    def test_primitives(self) -> None:
        for top, parameters in (
            ("prim_fifo_sync", {"WIDTH": 69, "DEPTH": 512}),
            ("prim_fifo_async", {"WIDTH": 69, "DEPTH": 64}),
            ("prim_arbiter_rr", {"N": 9}),
            ("prim_arbiter_rr", {"N": 1}),
            ("prim_arbiter_weighted", {"N": 3}),
            ("prim_crc32", {"WIDTH": 32}),
            ("prim_crc32", {"WIDTH": 64}),
            ("prim_add_fp32", {}),
            ("prim_add_fixed", {}),
            ("prim_axis_register", {}),
            ("prim_axis_width", {"S_BYTES": 8, "M_BYTES": 4}),
            ("prim_axis_width", {"S_BYTES": 4, "M_BYTES": 8}),
            ("prim_axis_width", {"S_BYTES": 8, "M_BYTES": 8}),
            ("prim_ram_1r1w", {}),
            ("prim_sync_pulse", {}),
        ):
            rtl_tools.lint(top, rtl_tools.prim_sources(), **parameters)

    def test_parameters_out_of_range_stop_the_build(self) -> None:
        for top, parameters in (("prim_fifo_sync", {"DEPTH": 12}), ("prim_fifo_async", {"DEPTH": 2}), ("prim_crc32", {"WIDTH": 16}), ("prim_arbiter_weighted", {"N": 2, "WEIGHTS": 16}), ("prim_axis_width", {"M_BYTES": 3})):
            with self.assertRaisesRegex(AssertionError, "expected_", msg=f"{top} {parameters}"):
                rtl_tools.lint(top, rtl_tools.prim_sources(), **parameters)
        for parameters in ({"PORTS": 9}, {"PORTS": 1}, {"FLOWS": 3}, {"FRAMES": 256}):
            with self.assertRaisesRegex(AssertionError, "expected_", msg=f"{parameters}"):
                rtl_tools.lint("allreduce_switch", rtl_tools.switch_sources(), **parameters)
