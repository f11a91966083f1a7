"""Rules of the protocol, broken in the hardware as the checker breaks them in the engine (`crates/engines/epic/src/mutation.rs`): each is noticed, as what
leaves differs from what an engine sends that keeps all rules. Without INC_ENGINE_LONG=1 only those that the first group shows."""

import os
import unittest

import inc_build
import rtl_tools
from inc_bench import difference, in_order, random_cases, simulate
from inc_frames import ALL_REDUCE, SEND_ONLY_IMMEDIATE, frame

# With each a random group that shows it.
SHOWN_BY = {
    "window-short": 0,
    "no-duplicate-check": 0,
    "psn-no-wrap": 4,
    "nak-as-ack": 3,
    "stale-collective": 8,
    "reduce-recycled-by-completion": 3,
    "nak-forwarded": 3,
    "ack-only-if-news": 3,
    "answers-next-slot": 0,
    "never-cleared": 0,
    "arrived-never-cleared": 0,
    "recycles-start": 0,
    "window-in-messages": 0,
    "changes-an-element": 5,
}


@rtl_tools.programs("verilator", "g++", "cargo")
class Mutations(unittest.TestCase):
    turn = 3

    def test_each_is_noticed_and_nothing_is_without_one(self) -> None:
        found = [case for case in random_cases(11, 60, inc_build.EIGHT) if 60 < len(case) < 400]
        broken = {mutation: number for mutation, number in SHOWN_BY.items() if number == 0 or os.environ.get("INC_ENGINE_LONG") == "1"}
        shown = [("", number) for number in sorted(set(broken.values()))] + list(broken.items())
        lines = ["pace 40 60"]
        for mutation, number in shown:
            case = found[number]
            lines += [f"{case[0].told} {mutation}", *(step.told for step in case[1:]), "run"]
        for (mutation, number), run in zip(shown, simulate(inc_build.EIGHT.simulator(), lines), strict=True):
            differs = difference(run, in_order(found[number], run))
            self.assertEqual(bool(differs), bool(mutation), f"{mutation or 'none'}: {differs}")

    def test_ranks_that_disagree_are_noticed_unless_the_rule_is_broken(self) -> None:
        group = "group 8 8 - 4 64 0 0 255 0,1,2,3,4,5,6,7"
        frames = [f"frame {edge} {frame(edge, 0, SEND_ONLY_IMMEDIATE, word=ALL_REDUCE | 2 + edge)}" for edge in (0, 1)]
        for mutation, reason in (("", "disagreement"), ("adds-whatever-comes", "accepted")):
            (run,) = simulate(inc_build.EIGHT.simulator(), ["serial", f"{group} {mutation}", *frames, "run"])
            self.assertEqual([said for _, said in run.decided], ["accepted", reason])


if __name__ == "__main__":
    unittest.main()
