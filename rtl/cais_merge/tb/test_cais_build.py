"""The simulators of CAIS's merge unit are built: what other tests use is there, and a build that fails fails in one place."""

import unittest

import cais_build
import rtl_tools


@rtl_tools.programs("verilator", "g++")
class Build(unittest.TestCase):
    turn = 0

    def test_small_tables(self) -> None:
        self.assertTrue(cais_build.SMALL.simulator().exists())

    def test_the_papers_tables(self) -> None:
        self.assertTrue(cais_build.PAPER.simulator().exists())


if __name__ == "__main__":
    unittest.main()
