"""Each room's integration tests are one program, for each program is linked with all that is below the room; and a room is compiled for unit
tests where it has any."""

import re
import tomllib
import unittest
from pathlib import Path

import layering

ROOT = Path(__file__).resolve().parent.parent

# Rooms with several, and why.
SEVERAL = {
    "crates/studies/conformance": {"catalog", "hardware", "same_outcome"},  # The walk over the catalog is run by its name, and so is what builds a simulator.
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

    def test_a_room_is_compiled_for_unit_tests_if_it_has_any(self) -> None:
        for room in layering.members(ROOT):
            sources = [path.read_text(encoding="utf-8") for path in (room / "src").rglob("*.rs")]
            has_tests = any(re.search(r"#\[test\]|proptest!", text) for text in sources)
            if not (room / "src/lib.rs").exists():
                continue
            library = tomllib.loads((room / "Cargo.toml").read_text(encoding="utf-8")).get("lib", {})
            remedy = "take `test = false` out" if has_tests else "say `test = false` below [lib]"
            self.assertEqual(library.get("test", True), has_tests, f"{room.relative_to(ROOT)}: {remedy}")


if __name__ == "__main__":
    unittest.main()
