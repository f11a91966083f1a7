"""Random groups with frames on all ports at once, losses, copies and ports that rest: the hardware does what the engine does when it is told the
same frames in the order of the hardware's decisions. INC_ENGINE_LONG=1 runs many, and sixteen ports; INC_ENGINE_SEED is another beginning."""

import os
import unittest

import inc_build
import rtl_tools
from inc_bench import ACKNOWLEDGE, Run, Step, hold, random_cases, simulate
from inc_frames import ALL_REDUCE, SEND_MIDDLE, SEND_ONLY_IMMEDIATE, frame

LONG = os.environ.get("INC_ENGINE_LONG") == "1"
SEED = int(os.environ.get("INC_ENGINE_SEED", "7"))
# Frames that are far apart, close, and as close as ports allow; ports that take every beat, and that rest.
SETTINGS = (["pace 8 30", "stall 0"], ["pace 4 8", "stall 30"], ["pace 0 3", "stall 0"])

# Of an AllReduce: a Barrier.
BARRIER = 1 << 20


def run_all(program, told: list[list[Step]]) -> list[tuple[list[Step], Run]]:
    lines = []
    for number, case in enumerate(told):
        lines += [*SETTINGS[number % len(SETTINGS)], f"seed {SEED + number}", *(step.told for step in case), "run"]
    return list(zip(told, simulate(program, lines), strict=True))


@rtl_tools.programs("verilator", "g++", "cargo")
class Random(unittest.TestCase):
    turn = 3

    def test_random_groups(self) -> None:
        decided, lost = 0, 0
        shapes = ((inc_build.EIGHT, 120), (inc_build.SIXTEEN, 12)) if LONG else ((inc_build.EIGHT, 6),)
        runs = [pair for shape, count in shapes for pair in run_all(shape.simulator(), random_cases(SEED, count, shape))]
        for case, run in runs:
            hold(self, case, run)
            lost += len(run.lost)
            decided += len(run.decided)
        self.assertGreater(decided, 200)
        # Only where control frames come faster than the switch decides.
        self.assertLess(lost, decided)

    def test_a_control_message_with_a_whole_beat_of_data_keeps_its_crc(self) -> None:
        payload = bytes(range(64))
        frames = [Step(f"frame {edge} {frame(edge, 0, SEND_ONLY_IMMEDIATE, payload, ALL_REDUCE)}") for edge in range(8)]
        case = [Step("group 8 8 - 4 64 0 0 255 0,1,2,3,4,5,6,7"), *frames]
        ((_, run),) = run_all(inc_build.EIGHT.simulator(), [case])
        self.assertEqual(len(run.left), 8)
        hold(self, case, run)

    def test_a_barrier_of_any_type_passes_as_it_has_no_numbers(self) -> None:
        # The sum of each of the sixteen numbers of types, one of which is no type; and two more operations of one, one of which is none.
        words = [BARRIER | data_type << 23 for data_type in range(16)] + [6 << 27 | BARRIER | 10 << 23, 7 << 27 | BARRIER | 10 << 23]
        case = [Step("group 2 2 - 4 64 0 0 3 0,1")]
        number = 0
        for word in words:
            case += [Step(f"frame {edge} {frame(edge, number, SEND_ONLY_IMMEDIATE, word=word)}") for edge in (0, 1)]
            number += word >> 23 & 15 != 15 and word >> 27 != 7
            if number % 4 == 0:
                case += [Step(f"frame {edge} {frame(edge, number - 1, ACKNOWLEDGE, word=0x1F << 24)}") for edge in (0, 1)]
        ((_, run),) = run_all(inc_build.EIGHT.simulator(), [case])
        hold(self, case, run)
        self.assertEqual([reason for _, reason in run.decided].count("malformed"), 4)

    def test_a_barrier_of_another_type_carries_no_numbers(self) -> None:
        told = [frame(0, 0, SEND_ONLY_IMMEDIATE, bytes(8), BARRIER | data_type << 23) for data_type in (10, 0)]
        case = [Step("group 2 2 - 4 64 0 0 3 0,1"), *(Step(f"frame 0 {each}") for each in told)]
        ((_, run),) = run_all(inc_build.EIGHT.simulator(), [case])
        self.assertEqual([reason for _, reason in run.decided], ["malformed", "accepted"])

    def test_packets_of_one_number_and_several_lengths_are_decided_one_by_one(self) -> None:
        begin = [frame(edge, 0, SEND_ONLY_IMMEDIATE, word=ALL_REDUCE | 1) for edge in range(8)]
        middle = [frame(edge, 1, SEND_MIDDLE, bytes(32 if edge == 3 else 64)) for edge in range(8)]
        case = [Step("group 8 8 - 4 64 0 0 255 0,1,2,3,4,5,6,7")]
        case += [Step(f"frame {edge} {each}") for of in (begin, middle) for edge, each in enumerate(of)]
        for steps, run in run_all(inc_build.EIGHT.simulator(), [case] * len(SETTINGS)):
            hold(self, steps, run)
            self.assertIn("accepted", [reason for _, reason in run.decided[8:]])
            self.assertNotEqual({reason for _, reason in run.decided[8:]}, {"accepted"})


if __name__ == "__main__":
    unittest.main()
