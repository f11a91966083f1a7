"""What examples/gpt/predict.py adds an iteration up from."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpt"))

import predict  # noqa: E402


class Predictions(unittest.TestCase):
    COMPUTED = {"bucket_ready_s": [0.1, 0.3], "all_ready_s": 0.35, "rest_s": 0.01}

    def hold(self, exchanges: list[float], apart: float, overlapped: float) -> None:
        found = predict.predicted(self.COMPUTED, exchanges)
        self.assertAlmostEqual(found["communication_s"], sum(exchanges))
        self.assertAlmostEqual(found["apart_iteration_s"], apart)
        self.assertAlmostEqual(found["iteration_s"], overlapped)

    def test_an_exchange_that_ends_before_the_next_bucket_is_hidden(self) -> None:
        self.hold([0.1, 0.2], apart=0.35 + 0.3 + 0.01, overlapped=0.3 + 0.2 + 0.01)

    def test_a_bucket_waits_for_the_exchange_of_the_one_before(self) -> None:
        self.hold([0.5, 0.2], apart=0.35 + 0.7 + 0.01, overlapped=0.1 + 0.5 + 0.2 + 0.01)

    def test_an_iteration_is_never_shorter_than_what_its_ranks_compute(self) -> None:
        self.hold([0.01, 0.01], apart=0.35 + 0.02 + 0.01, overlapped=0.35 + 0.01)


if __name__ == "__main__":
    unittest.main()
