"""The simulators of SCIN's switch are built: what other tests use is there, and those of a build that fails fail in one place."""

import unittest

import rtl_tools
import scin_build


@rtl_tools.programs("verilator", "g++", "make")
class Build(unittest.TestCase):
    turn = 0

    def test_four_ports_with_a_quantizer(self) -> None:
        self.assertTrue(scin_build.simulator(scin_build.PROTOTYPE).exists())

    def test_eight_ports(self) -> None:
        self.assertTrue(scin_build.simulator(scin_build.EIGHT).exists())


if __name__ == "__main__":
    unittest.main()
