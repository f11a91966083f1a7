"""The simulators of the whole switch are built: what other tests use is there, and those of a build that fails fail in one place."""

import unittest

import rtl_tools
from switch_build import EIGHT, THREE, TWO


@rtl_tools.programs("verilator", "g++")
class Build(unittest.TestCase):
    turn = 0

    def test_eight_ports(self) -> None:
        self.assertTrue(EIGHT.simulator().exists())

    def test_three_ports(self) -> None:
        self.assertTrue(THREE.simulator().exists())

    def test_two_ports_with_two_flows_of_eight_frames(self) -> None:
        self.assertTrue(TWO.simulator().exists())
