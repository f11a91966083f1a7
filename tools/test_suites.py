"""Each room's integration tests are one program, for each program is linked with all that is below the room."""

import unittest
from pathlib import Path

import layering

ROOT = Path(__file__).resolve().parent.parent

# Rooms with several, and why.
SEVERAL = {
    "crates/studies/conformance": {"catalog", "same_outcome"},  # The walk over the catalog is run by its name.
    "crates/apps/cli": {"suite", "guests"},  # Kernels as hosts are run by their name, with what they print.
    "crates/processes/runtime": {"suite", "rxe"},  # The kernel's RoCE as a peer is run by its name, with what it prints.
}


class SuitesTest(unittest.TestCase):
    def test_a_room_has_one_program_of_tests(self) -> None:
        for room in layering.members(ROOT):
            place = room.relative_to(ROOT).as_posix()
            files = {path.stem for path in (room / "tests").glob("*.rs")}
            programs = files | {path.parent.name for path in (room / "tests").glob("*/main.rs")}
            if place in SEVERAL:
                self.assertEqual(programs, SEVERAL[place], place)
            else:
                self.assertLessEqual(len(programs), 1, f"{place}: make {sorted(programs)} modules of tests/suite/main.rs")


if __name__ == "__main__":
    unittest.main()
