"""The layering check finds what it is for, in workspaces of one or two rooms."""

import tempfile
import unittest
from pathlib import Path

import layering

PURE_SOURCE = "//! A room.\n#![no_std]\n"


class Workspace:
    """A workspace in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders: list[str] = []

    def room(self, name: str, manifest: str = "", source: str = PURE_SOURCE) -> None:
        folder = self.root / "crates" / name
        (folder / "src").mkdir(parents=True)
        (folder / "Cargo.toml").write_text(f'[package]\nname = "quincunx-{name}"\n{manifest}')
        (folder / "src" / "lib.rs").write_text(source)
        self.folders.append(f'"crates/{name}"')
        (self.root / "Cargo.toml").write_text(f"[workspace]\nmembers = [{', '.join(self.folders)}]\n")

    def faults(self) -> list[str]:
        return layering.check(self.root)[1]


class LayeringTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.workspace = Workspace(Path(folder.name))

    def assert_one_fault(self, *parts: str) -> None:
        faults = self.workspace.faults()
        self.assertEqual(len(faults), 1, faults)
        self.assertEqual(len(faults[0].splitlines()), 1)
        for part in parts:
            self.assertIn(part, faults[0])

    def test_imports_downward_pass(self) -> None:
        self.workspace.room("units")
        self.workspace.room("engine", '[dependencies]\nquincunx-units.workspace = true\nthiserror = "2"\n')
        self.assertEqual(self.workspace.faults(), [])

    def test_an_import_upward_is_found(self) -> None:
        self.workspace.room("units", '[dependencies]\nquincunx-engine = { path = "../engine" }\n')
        self.assert_one_fault("crates/units/Cargo.toml", "found engine", "move")

    def test_an_engine_that_imports_an_engine_is_found(self) -> None:
        self.workspace.room("epic", "[dependencies]\nquincunx-roce.workspace = true\n")
        self.assert_one_fault("found roce")

    def test_a_driver_that_knows_a_protocol_is_found(self) -> None:
        self.workspace.room("driver-net", "[dependencies]\nquincunx-wire.workspace = true\n")
        self.assert_one_fault("found wire")

    def test_dependencies_of_tests_builds_and_targets_count(self) -> None:
        for kind in ("dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"):
            found = layering.imports(layering.tomllib.loads(f"[{kind}]\nquincunx-nodes.workspace = true\n"))
            self.assertEqual(found, {"nodes"}, kind)

    def test_a_room_for_tests_is_for_tests_alone(self) -> None:
        self.workspace.room("wire", "[dev-dependencies]\nquincunx-needs.workspace = true\n")
        self.assertNotIn("needs", " ".join(self.workspace.faults()))
        self.workspace.room("units", "[dependencies]\nquincunx-needs.workspace = true\n")
        self.assertIn("found needs", " ".join(self.workspace.faults()))

    def test_a_renamed_dependency_counts_by_its_package(self) -> None:
        manifest = layering.tomllib.loads('[dependencies]\ntransport = { package = "quincunx-roce" }\n')
        self.assertEqual(layering.imports(manifest), {"roce"})

    def test_a_room_without_a_place_is_found(self) -> None:
        self.workspace.room("attic")
        self.assert_one_fault("found attic", "MAY_IMPORT")

    def test_an_engine_with_std_is_found(self) -> None:
        self.workspace.room("ring", source="//! A room.\n")
        self.assert_one_fault("crates/ring/src/lib.rs", "#![no_std]")

    def test_an_engine_that_names_the_world_is_found_with_its_line(self) -> None:
        for name in ("std::time::Instant", "std::net::UdpSocket", "std::thread::spawn", "HashMap", "HashSet", "rand::random"):
            with self.subTest(name):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room("ring", source=f"{PURE_SOURCE}use {name};\n")
                self.assert_one_fault("crates/ring/src/lib.rs:3", "found ")

    def test_a_comment_may_name_the_world(self) -> None:
        self.workspace.room("ring", source=f"{PURE_SOURCE}// A HashMap would not do here.\n")
        self.assertEqual(self.workspace.faults(), [])

    def test_a_driver_may_name_the_world(self) -> None:
        self.workspace.room("driver-net", source="//! A room.\nuse std::net::UdpSocket;\n")
        self.assertEqual(self.workspace.faults(), [])

    def test_a_room_that_names_a_design_is_found_with_its_line(self) -> None:
        for code in ('find("ring")', "Design::Epic", "quincunx_scin::SCIN", 'if name == "multiwrite" {}'):
            with self.subTest(code):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room("sim", source=f"//! A room.\n{code}\n")
                self.assert_one_fault("crates/sim/src/lib.rs:2", "no design by name")

    def test_the_catalog_comments_tests_and_shapes_may_have_the_names_of_designs(self) -> None:
        self.workspace.room("designs", source=f"{PURE_SOURCE}const ALL: X = &quincunx_epic::EPIC_1;\n")
        source = "//! A room.\n// As EPIC has it.\nstruct Ring;\n#[cfg(test)]\nmod tests { const EPIC: X = 1; }\n"
        self.workspace.room("sim", source=source)
        self.assertEqual(self.workspace.faults(), [])

    def test_an_exception_without_a_name_is_found(self) -> None:
        self.workspace.room("wire")
        self.assert_one_fault("crates/wire/", "take the exception out")

    def test_every_room_is_allowed_only_rooms_that_exist_below_it(self) -> None:
        seen: set[str] = set()
        for room, allowed in layering.MAY_IMPORT.items():
            self.assertLessEqual(allowed, seen, room)
            seen.add(room)


if __name__ == "__main__":
    unittest.main()
