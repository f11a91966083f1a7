"""The simulator of IncEngine is built: what other tests use is there, and a build that fails fails in one place."""

import unittest

import inc_build
import rtl_tools


@rtl_tools.programs("verilator", "g++")
class Build(unittest.TestCase):
    turn = 0

    def test_eight_ports(self) -> None:
        self.assertTrue(inc_build.EIGHT.simulator().exists())


if __name__ == "__main__":
    unittest.main()
