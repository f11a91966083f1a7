"""Rules of CAIS, broken in the hardware as the checker breaks them in the engine (`crates/engines/cais/src/mutation.rs`): each is noticed, as what leaves
differs from what an engine sends that keeps all rules."""

import unittest

import cais_build
import rtl_tools
from cais_bench import differences, random_case, simulate

# In the order of merge_control's numbers, from 1 on; the last two are the group sync table's.
MUTATIONS = (
    "evicts-waiting",
    "eviction-drops-partial",
    "timeout-drops-partial",
    "sum-counts-one",
    "partial-counts-all",
    "keeps-sum",
    "answers-before-data",
    "bypass-evicts",
    "boundary-keeps-data",
    "ignores-type",
    "counts-requests",
    "releases-early",
    "group-forgets",
    "boundary-short",
)


@rtl_tools.programs("verilator", "g++", "cargo")
class Mutations(unittest.TestCase):
    turn = 3

    def test_each_is_noticed_and_nothing_is_without_one(self) -> None:
        found = [random_case(seed, cais_build.SMALL, 300) for seed in range(8)]
        for number, name in enumerate(("", *MUTATIONS)):
            told = [f"{line} {number}" if line.startswith("unit") else line for _, case in found for line in case]
            try:
                runs = simulate(cais_build.SMALL.simulator(), told)
                noticed = any(differences(cais_build.SMALL, [setting for setting, _ in found], runs)) or any(run.taken for run in runs)
            except AssertionError as fault:
                # What must never be: answers that nobody waits for, or no end.
                self.assertIn("fault", str(fault))
                noticed = True
            self.assertEqual(noticed, number > 0, name or "none")


if __name__ == "__main__":
    unittest.main()
