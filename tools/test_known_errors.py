"""Only what engines have predicted of times says how far the simulator is off."""

import tomllib
import unittest

import known_errors


def row(paper: str, name: str, kind: str, error: float) -> dict[str, object]:
    return {"paper": paper, "id": name, "kind": kind, "error": error}


class KnownErrorsTest(unittest.TestCase):
    experiments = {
        "epic/t": {"quantity": "time", "series": [{}]},
        "scin/t": {"series": [{"quantity": "speedup"}]},
        "epic/jobs": {"quantity": "time", "series": [{"quantity": "job-time"}]},
    }

    def test_a_share_is_that_of_nine_of_ten_whatever_its_sign(self) -> None:
        self.assertEqual(known_errors.nine_in_ten([0.01] * 8 + [-0.0501, 0.9]), 0.051)
        self.assertEqual(known_errors.nine_in_ten([-0.2]), 0.2)

    def test_what_set_a_parameter_and_what_is_no_time_of_a_collective_are_left_out(self) -> None:
        rows = [
            row("epic", "t", "predicted", 0.02),
            row("epic", "t", "calibrated", 0.5),
            row("epic", "jobs", "predicted", 0.5),
            row("scin", "t", "predicted", -0.04),
        ]
        found = tomllib.loads(known_errors.known(rows, self.experiments))
        self.assertEqual(found["packets"], {"figures": 1, "nine_in_ten": 0.02})
        self.assertEqual(found["memory"], {"figures": 1, "nine_in_ten": 0.04})


if __name__ == "__main__":
    unittest.main()
