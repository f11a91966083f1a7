"""The lines that every simulator answers alike: what makes no sense is an error in a line, and the next line is answered."""

import sys
import unittest

import rtl_tools
from lines import Program

sys.path[:0] = [str(rtl_tools.RTL / block / "tb") for block in ("allreduce_switch", "scin_isa", "inc_engine", "cais_merge")]

import cais_build
import inc_build
import scin_build
import switch_build

# Not a command, a word too few, too many, no number, a port that is not there, digits that are none.
WRONG = {
    switch_build.TWO: ("turn 1", "gap 1", "run 1", "cycles ten", "frame 2 00", "frame 0 0g", "frame 0 000", "sink 0 slow"),
    scin_build.EIGHT: ("turn 1", "add 1", "run 1", "cycles ten", "add 8 1", "raw 0 0g", "read 5 4", "instruction 1 64"),
    inc_build.EIGHT: ("turn 1", "pace 1", "run 1", "stall ten", "frame 8 00", "frame 0 0g", "group 2 2 - 3 64 0 0 3 0,1", "group 2 2 - 4 64 0 0 3 0,1 no-rule"),
    cais_build.SMALL: ("turn 1", "pace 1", "stall ten", "home 1", "packet 16 00", "packet 0 0g", "packet 0 00", "unit 4 3 0", "unit 3 3"),
}


@rtl_tools.programs("verilator", "g++")
class Lines(unittest.TestCase):
    # After what needs no simulator.
    turn = 2

    def test_what_makes_no_sense_is_an_error_and_the_next_line_is_answered(self) -> None:
        for shape, wrong in WRONG.items():
            with Program(shape.simulator()) as program:
                for line in wrong:
                    with self.assertRaisesRegex(AssertionError, "^error expected .*, found: " + line, msg=line):
                        program.ask(line)
                    self.assertEqual([words[0] for words in program.ask("seed 1" if shape is not switch_build.TWO else "gap 0 1")], ["end"])

    def test_much_may_be_told_at_once(self) -> None:
        # More than pipes hold each way.
        with Program(switch_build.TWO.simulator()) as program:
            program.tell(*["read 0"] * 20, *[f"frame 0 {'00' * 2000}"] * 200, *["gap 0 1"] * 20000)
            self.assertEqual(len(program.answers()), 20220)

    def test_what_must_never_be_is_told_with_the_line_that_showed_it(self) -> None:
        with Program(sys.executable, "-c", "for line in open(0): print('fault a tag in use twice\\nend', flush=True)") as program:
            with self.assertRaisesRegex(AssertionError, "^fault a tag in use twice; at run$"):
                program.ask("run")

    def test_a_program_that_ends_before_it_has_answered_is_told(self) -> None:
        with Program(sys.executable, "-c", "import sys; input(); sys.exit(3)") as program:
            with self.assertRaisesRegex(AssertionError, "ended with 3 at run$"):
                program.ask("run")


if __name__ == "__main__":
    unittest.main()
