"""`vectors/inc-engine.txt`, which the engine answered: the hardware sends the same frames, to the bit, and drops what the engine drops."""

import unittest

import inc_build
import rtl_tools
from inc_bench import VECTORS, cases, difference, simulate


@rtl_tools.programs("verilator", "g++")
class Vectors(unittest.TestCase):
    turn = 2

    def test_every_case_frame_by_frame(self) -> None:
        told = cases(VECTORS)
        lines = ["serial"]
        for case in told:
            lines += [*(step.told for step in case), "run"]
        runs = simulate(inc_build.EIGHT.simulator(), lines)
        for case, run in zip(told, runs, strict=True):
            self.assertEqual([number for number, _ in run.decided], list(range(len(case) - 1)))
            self.assertEqual(difference(run, case[1:]), "", case[0].told)


if __name__ == "__main__":
    unittest.main()
