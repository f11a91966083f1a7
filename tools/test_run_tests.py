"""The counts of `make test` are what the runners said."""

import contextlib
import io
import unittest

import run_tests


def tally(read, text: str) -> run_tests.Tally:
    with contextlib.redirect_stdout(io.StringIO()):
        return read(text.splitlines())


class CountTest(unittest.TestCase):
    def test_results_of_several_test_programs_add_up(self) -> None:
        found = tally(
            run_tests.read_cargo,
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        )
        self.assertEqual((found.passed, found.failed, found.skipped.total()), (5, 1, 1))

    def test_a_test_that_says_it_skipped_has_not_passed(self) -> None:
        found = tally(
            run_tests.read_cargo,
            "successes:\n\n---- over_namespaces stdout ----\nskipped: expected root, found none\n\n"
            "successes:\n    over_namespaces\n    another\n\n"
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        )
        self.assertEqual((found.passed, found.failed), (1, 0))
        self.assertEqual(found.skipped, {"expected root, found none": 1})

    def test_unittest_says_what_failed(self) -> None:
        found = tally(run_tests.read_unittest, "Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)")
        self.assertEqual((found.passed, found.failed, found.skipped.total()), (3, 3, 1))

    def test_unittest_says_why_it_skipped(self) -> None:
        found = tally(
            run_tests.read_unittest,
            "test_a (test_x.X.test_a) ... ok\n"
            "test_b (test_x.X.test_b) ... skipped 'expected numpy, found none'\n"
            "test_c (test_x.X.test_c)\nIt's a sentence. ... skipped \"expected root, found 'nobody'\"\n"
            "Ran 3 tests in 0.1s\n\nOK (skipped=2)",
        )
        self.assertEqual((found.passed, found.failed), (1, 0))
        self.assertEqual(found.skipped, {"expected numpy, found none": 1, "expected root, found 'nobody'": 1})

    def test_a_runner_that_broke_before_its_tests_is_a_failure(self) -> None:
        found = tally(run_tests.read_cargo, "error: could not compile")
        found.close(status=101)
        self.assertEqual((found.passed, found.failed), (0, 1))


if __name__ == "__main__":
    unittest.main()
