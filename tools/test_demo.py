"""That the README shows lines of the demo as docs/demo.md has them, and how the two are made."""

import unittest

import demo

WHOLE = """A manager, 3 switches: a
epic-3     all_reduce        1048576    262144
epic-3     reduce            1048576    262144

epic-star8  epic-3   all_reduce           4096      1024
"""


class Demo(unittest.TestCase):
    def test_the_readme_shows_lines_of_the_whole_and_nothing_else(self) -> None:
        whole, part = demo.block(demo.WHOLE.read_text()), demo.block(demo.PART.read_text())
        self.assertEqual(demo.shown(part, whole), part)
        self.assertGreater(len(part.splitlines()), 10)

    def test_a_row_is_known_by_all_that_stands_before_its_times(self) -> None:
        keys = [demo.key(line) for line in WHOLE.splitlines()]
        self.assertEqual(
            keys,
            ["A manager, # switches:", "epic-3 all_reduce 1048576", "epic-3 reduce 1048576", None, "epic-star8 epic-3 all_reduce 4096"],
        )

    def test_lines_are_renewed_and_what_is_left_out_stays_out(self) -> None:
        old = "A manager, 3 switches: b\nepic-3     all_reduce        1048576    1\n...\n\n"
        self.assertEqual(
            demo.shown(old, WHOLE), "A manager, 3 switches: a\nepic-3     all_reduce        1048576    262144\n...\n\n"
        )

    def test_a_line_that_the_demo_prints_no_more_is_an_error(self) -> None:
        with self.assertRaises(SystemExit):
            demo.shown("epic-4     all_reduce        1048576    1\n", WHOLE)
