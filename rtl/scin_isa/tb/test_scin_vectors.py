"""`vectors/scin-isa.txt`, which the engine answered: the hardware has the same memories, flags and refusals, whatever links and memories do."""

import unittest

import rtl_tools
import scin_build
from scin_bench import cases, replay
from scin_reference import Reference

# Nothing in the way; answers that overtake each other, links that rest, credits that come late.
SETTINGS = (["seed 1"], ["seed 2", "read 1 400", "write 1 400", "hold 40", "bubble 20"], ["seed 3", "link 3", "read 0 40", "write 0 40", "bubble 60"])


def quantised(case: list) -> bool:
    return any(words[0] == "instruction" and int(words[3]) & 1 for words, _ in case)


def refused(case: list) -> bool:
    return any(answers and answers[0][0] == "refused" for _, answers in case)


class ReferenceVectors(unittest.TestCase):
    def test_the_reference_gives_what_the_engine_gives(self) -> None:
        held = 0
        for case in cases():
            if refused(case):
                continue
            reference = Reference(int(case[0][0][1]), int(case[0][0][2]))
            self.addCleanup(reference.close)
            for words, answers in case[1:]:
                found = reference.answer(" ".join(words))
                self.assertEqual(sorted(found), sorted(answers), (case[0], words[:3]))
                held += len(answers)
        self.assertGreater(held, 200)


@rtl_tools.programs("verilator", "g++")
class Vectors(unittest.TestCase):
    turn = 2

    def hold(self, shape: scin_build.Shape) -> int:
        program, held = shape.simulator(), 0
        for case in cases():
            if int(case[0][0][1]) != shape.ports or (quantised(case) and not shape.quant):
                continue
            for setting in SETTINGS:
                replay(self, program, case, *setting)
                held += 1
        return held

    def test_four_ports_with_a_quantizer(self) -> None:
        self.assertEqual(self.hold(scin_build.PROTOTYPE), 3 * 28)

    def test_eight_ports(self) -> None:
        self.assertEqual(self.hold(scin_build.EIGHT), 3 * 7)


if __name__ == "__main__":
    unittest.main()
