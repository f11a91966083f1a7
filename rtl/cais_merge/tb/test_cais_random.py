"""Random packets at CAIS's merge unit and group sync table: what leaves, and why packets are dropped, is what the engine answers to the same packets in the
order of the hardware's decisions, to the bit."""

import os
import unittest

import cais_build
import rtl_tools
from cais_bench import NODE, READ, READ_RESPONSE, REDUCE, Run, differences, random_case, simulate

SEED = int(os.environ.get("CAIS_MERGE_SEED", "1"))
LONG = os.environ.get("CAIS_MERGE_LONG") == "1"


def counted(run: Run) -> tuple[int, int, int, int]:
    """Contributions that came and that left for the home; loads that came, and that were answered or went past."""
    came = left = loads = served = 0
    for _, _, line, dropped in run.steps:
        words = line.split()
        if words[0] == "packet" and not dropped:
            kind, tag = int(words[3][0], 16), int(words[3][24:30], 16)
            came += tag if kind == REDUCE else 0
            loads += kind == READ
    for _, _, _, digits in run.left:
        kind, source, tag = int(digits[0], 16), int(digits[2:5], 16), int(digits[24:30], 16)
        left += tag if kind == REDUCE else 0
        served += kind == READ_RESPONSE or (kind == READ and source != NODE)
    return came, left, loads, served


@rtl_tools.programs("verilator", "g++", "cargo")
class Random(unittest.TestCase):
    turn = 2

    def hold(self, shape: cais_build.Shape, cases: int, packets: int) -> list[Run]:
        found = [random_case(SEED * 1000 + number, shape, packets) for number in range(cases)]
        runs = simulate(shape.simulator(), [line for _, told in found for line in told])
        for number, different in enumerate(differences(shape, [setting for setting, _ in found], runs)):
            seed = f"seed {SEED * 1000 + number}, {found[number][0]}"
            self.assertEqual(different, "", seed)
            # All entries have ended, by themselves or by their timers; nothing was lost, and nothing counted twice.
            self.assertEqual(runs[number].taken, 0, seed)
            came, left, loads, served = counted(runs[number])
            self.assertEqual((left, served), (came, loads), seed)
        return runs

    def test_small_tables_in_which_all_meet(self) -> None:
        runs = self.hold(cais_build.SMALL, 3400 if LONG else 60, 300)
        # All that can happen has happened.
        steps = [step for run in runs for step in run.steps]
        self.assertEqual({step[3] for step in steps}, {"", "Source", "Home", "BadLength", "Contributions", "UnexpectedResponse", "Sync", "UnexpectedTransaction"})
        self.assertTrue(any(step[2].startswith("timer") for step in steps))

    def test_the_papers_table(self) -> None:
        self.hold(cais_build.PAPER, 100 if LONG else 2, 700)


if __name__ == "__main__":
    unittest.main()
