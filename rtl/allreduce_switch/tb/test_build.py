"""The simulators of the whole switch are built: what other tests use is there, and those of a build that fails fail in one place."""

import unittest

import rtl_tools


@rtl_tools.programs("verilator", "g++", "make")
class Build(unittest.TestCase):
    turn = 0

    def test_eight_ports(self) -> None:
        self.assertTrue(rtl_tools.verilate(8).exists())

    def test_three_ports(self) -> None:
        self.assertTrue(rtl_tools.verilate(3).exists())

    def test_two_ports_with_two_flows_of_eight_frames(self) -> None:
        self.assertTrue(rtl_tools.verilate(2, 2, 8).exists())
