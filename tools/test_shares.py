"""Tests of what `benches/shares.py` works out; what it measures needs root and ten minutes."""

import argparse
import importlib.util
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "benches/shares.py"
SPEC = importlib.util.spec_from_file_location("shares", PATH)
shares = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(shares)


def row(up: list[float], down: list[float]) -> "shares.Measured":
    """Shares of a mix of one job and one pair."""
    return shares.Measured(shares.Mix(1, 1), "bbr", "epic-3", up, down, (0.0, 0.0))


class Index(unittest.TestCase):
    def test_equal_shares_have_an_index_of_one(self) -> None:
        self.assertEqual(shares.jain([50.0, 50.0, 50.0, 50.0]), 1.0)

    def test_where_one_gets_all_it_is_one_over_their_number(self) -> None:
        self.assertEqual(shares.jain([90.0, 0.0, 0.0]), 1 / 3)

    def test_twice_the_share_of_another_is_nine_tenths(self) -> None:
        self.assertAlmostEqual(shares.jain([1.0, 2.0]), 0.9)

    def test_nobody_got_anything_is_no_fairness(self) -> None:
        self.assertEqual(shares.jain([0.0, 0.0]), 0.0)

    def test_a_row_has_that_of_its_worse_direction(self) -> None:
        self.assertAlmostEqual(row([1.0, 1.0], [1.0, 2.0]).index, 0.9)
        self.assertAlmostEqual(row([1.0, 2.0], [1.0, 1.0]).index, 0.9)


class Arguments(unittest.TestCase):
    def test_a_mix_is_jobs_and_pairs(self) -> None:
        self.assertEqual(shares.Mix.parse("2+1"), shares.Mix(2, 1))
        self.assertEqual(str(shares.Mix(2, 1)), "2+1")

    def test_a_mix_of_something_else_is_refused(self) -> None:
        for text in ("2", "0+0", "a+1", "1+", "-1+2"):
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError):
                shares.Mix.parse(text)

    def test_a_row_may_have_a_bound_of_its_own(self) -> None:
        expected = dict([shares.expectation("1+1/bbr/epic-3=0.7")])
        self.assertEqual(shares.bound(expected, row([1.0], [1.0]), 0.9), 0.7)
        self.assertEqual(shares.bound({}, row([1.0], [1.0]), 0.9), 0.9)

    def test_a_bound_without_a_row_is_refused(self) -> None:
        for text in ("epic-3=0.7", "1+1/bbr/epic-3"):
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError):
                shares.expectation(text)


if __name__ == "__main__":
    unittest.main()
