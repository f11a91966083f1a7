"""The simulators of SCIN's switch are built: what other tests use is there, and those of a build that fails fail in one place."""

import unittest

import rtl_tools
import scin_build


@rtl_tools.programs("verilator", "g++")
class Build(unittest.TestCase):
    turn = 0

    def test_four_ports_with_a_quantizer(self) -> None:
        self.assertTrue(scin_build.PROTOTYPE.simulator().exists())

    def test_eight_ports(self) -> None:
        self.assertTrue(scin_build.EIGHT.simulator().exists())


if __name__ == "__main__":
    unittest.main()
