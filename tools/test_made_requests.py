"""What is in the tree is what the program makes."""

import unittest
from pathlib import Path

import made_requests

FILE = Path(__file__).resolve().parent.parent / "crates/scenario/language/requests/conversations.csv"


class MadeRequestsTest(unittest.TestCase):
    def test_the_file_is_what_the_program_prints(self) -> None:
        self.assertEqual(FILE.read_text(encoding="utf-8").splitlines(), made_requests.rows())

    def test_medians_are_those_of_conversations(self) -> None:
        lengths = [tuple(map(int, row.split(",")[1:])) for row in made_requests.rows()[1:]]
        for column, (median, *_) in enumerate((made_requests.PROMPT, made_requests.ANSWER)):
            found = sorted(row[column] for row in lengths)[len(lengths) // 2]
            self.assertLess(abs(found / median - 1), 0.1, found)


if __name__ == "__main__":
    unittest.main()
