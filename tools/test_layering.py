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

    def room(self, place: str, manifest: str = "", source: str = PURE_SOURCE) -> None:
        """A room, such as `base/units`; what is not below `crates` begins with `/`."""
        folder = self.root / (place[1:] if place.startswith("/") else f"crates/{place}")
        (folder / "src").mkdir(parents=True)
        (folder / "Cargo.toml").write_text(f'[package]\nname = "quincunx-{folder.name}"\n{manifest}')
        (folder / "src" / "lib.rs").write_text(source)
        self.folders.append(f'"{folder.relative_to(self.root)}"')
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
        self.workspace.room("base/units")
        self.workspace.room("seams/engine", '[dependencies]\nquincunx-units.workspace = true\nthiserror = "2"\n')
        self.assertEqual(self.workspace.faults(), [])

    def test_an_import_upward_is_found(self) -> None:
        self.workspace.room("seams/engine")
        self.workspace.room("base/units", '[dependencies]\nquincunx-engine = { path = "../engine" }\n')
        self.assert_one_fault("crates/base/units/Cargo.toml", "found engine of seams", "move")

    def test_engines_transports_and_drivers_import_none_of_their_own_floor(self) -> None:
        for floor in ("engines", "transports", "drivers"):
            with self.subTest(floor):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room(f"{floor}/one")
                self.workspace.room(f"{floor}/other", "[dependencies]\nquincunx-one.workspace = true\n")
                self.assert_one_fault(f"found one of {floor}")

    def test_an_engine_that_imports_a_driver_is_found(self) -> None:
        self.workspace.room("drivers/net")
        self.workspace.room("engines/epic", "[dev-dependencies]\nquincunx-net.workspace = true\n")
        self.assert_one_fault("crates/engines/epic/Cargo.toml", "found net of drivers")

    def test_a_driver_that_knows_a_protocol_is_found(self) -> None:
        self.workspace.room("transports/roce")
        self.workspace.room("drivers/net", "[dependencies]\nquincunx-roce.workspace = true\n")
        self.assert_one_fault("found roce of transports")

    def test_rooms_of_the_machine_import_each_other_and_no_driver(self) -> None:
        self.workspace.room("machine/sockets", source="//! A room.\n")
        self.workspace.room("machine/ports", "[dependencies]\nquincunx-sockets.workspace = true\n", "//! A room.\n")
        self.workspace.room("drivers/net", "[dependencies]\nquincunx-ports.workspace = true\n", "//! A room.\n")
        self.assertEqual(self.workspace.faults(), [])
        self.workspace.room("machine/netns", "[dependencies]\nquincunx-net.workspace = true\n", "//! A room.\n")
        self.assert_one_fault("crates/machine/netns/Cargo.toml", "found net of drivers")

    def test_dependencies_of_builds_and_targets_count(self) -> None:
        for kind in ("build-dependencies", "target.'cfg(unix)'.dependencies"):
            with self.subTest(kind):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room("nodes/nodes")
                self.workspace.room("base/units", f"[{kind}]\nquincunx-nodes.workspace = true\n")
                self.assert_one_fault("found nodes of nodes")

    def test_designs_are_for_tests_alone(self) -> None:
        self.workspace.room("catalog")
        self.workspace.room("studies/sim", "[dev-dependencies]\nquincunx-catalog.workspace = true\n", "//! A room.\n")
        self.assertEqual(self.workspace.faults(), [])
        self.workspace.room("studies/check", "[dependencies]\nquincunx-catalog.workspace = true\n", "//! A room.\n")
        self.assert_one_fault("crates/studies/check/Cargo.toml", "found catalog of catalog")

    def test_a_room_for_tests_is_for_tests_alone(self) -> None:
        self.workspace.room("base/needs", source="//! A room.\n")
        self.workspace.room("base/wire", "[dev-dependencies]\nquincunx-needs.workspace = true\n")
        self.assertEqual(self.workspace.faults(), [])
        self.workspace.room("base/units", "[dependencies]\nquincunx-needs.workspace = true\n")
        self.assert_one_fault("crates/base/units/Cargo.toml", "found needs")

    def test_a_renamed_dependency_counts_by_its_package(self) -> None:
        manifest = layering.tomllib.loads('[dependencies]\ntransport = { package = "quincunx-roce" }\n')
        self.assertEqual(layering.imports(manifest, ("dependencies",)), {"quincunx-roce"})

    def test_a_room_on_no_floor_is_found(self) -> None:
        self.workspace.room("attic/chest")
        self.assert_one_fault("found chest", "one of the floors")

    def test_what_is_not_below_crates_imports_no_engine(self) -> None:
        self.workspace.room("engines/epic")
        self.workspace.room("/python/quincunx", "[dependencies]\nquincunx-epic.workspace = true\n", "//! A room.\n")
        self.assert_one_fault("python/quincunx/Cargo.toml", "found epic of engines")

    def test_an_engine_with_std_is_found(self) -> None:
        self.workspace.room("engines/ring", source="//! A room.\n")
        self.assert_one_fault("crates/engines/ring/src/lib.rs", "#![no_std]")

    def test_an_engine_that_names_the_world_is_found_with_its_line(self) -> None:
        for name in ("std::time::Instant", "std::net::UdpSocket", "std::thread::spawn", "HashMap", "HashSet", "rand::random"):
            with self.subTest(name):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room("engines/ring", source=f"{PURE_SOURCE}use {name};\n")
                self.assert_one_fault("crates/engines/ring/src/lib.rs:3", "found ")

    def test_a_comment_may_name_the_world(self) -> None:
        self.workspace.room("engines/ring", source=f"{PURE_SOURCE}// A HashMap would not do here.\n")
        self.assertEqual(self.workspace.faults(), [])

    def test_a_driver_may_name_the_world(self) -> None:
        self.workspace.room("drivers/net", source="//! A room.\nuse std::net::UdpSocket;\n")
        self.assertEqual(self.workspace.faults(), [])

    def test_a_room_that_names_a_design_is_found_with_its_line(self) -> None:
        for code in ('find("ring")', "Design::Epic", "quincunx_scin::SCIN", 'if name == "multiwrite" {}'):
            with self.subTest(code):
                self.workspace = Workspace(Path(tempfile.mkdtemp(dir=self.workspace.root)))
                self.workspace.room("studies/sim", source=f"//! A room.\n{code}\n")
                self.assert_one_fault("crates/studies/sim/src/lib.rs:2", "no design by name")

    def test_the_catalog_comments_tests_and_shapes_may_have_the_names_of_designs(self) -> None:
        self.workspace.room("catalog", source=f"{PURE_SOURCE}const ALL: X = &quincunx_epic::EPIC_1;\n")
        source = "//! A room.\n// As EPIC has it.\nstruct Ring;\n#[cfg(test)]\nmod tests { const EPIC: X = 1; }\n"
        self.workspace.room("studies/sim", source=source)
        self.assertEqual(self.workspace.faults(), [])

    def test_examples_for_people_defaults_and_operations_may_have_the_names_of_designs(self) -> None:
        text = 'const EXAMPLES: &str = "Examples:\n  quincunx sim --design epic-3\n  quincunx check scin";\n'
        rest = '#[arg(default_value = "epic-3")]\n#[serde(rename = "cais")]\nfn multi_write() {}\n'
        self.workspace.room("apps/cli", source=f"//! A room.\n{text}{rest}")
        self.assertEqual(self.workspace.faults(), [])

    def test_code_behind_a_text_of_several_lines_counts_again(self) -> None:
        text = 'const EXAMPLES: &str = "Examples:\n  quincunx sim \\"x\\" --design epic-3";\nconst QUOTE: char = \'"\';\n'
        self.workspace.room("apps/cli", source=f'//! A room.\n{text}fn find() {{ "epic-3" }}\n')
        self.assert_one_fault("crates/apps/cli/src/lib.rs:5", "found epic")

    def test_an_address_in_a_text_is_no_comment(self) -> None:
        self.workspace.room("apps/cli", source='//! A room.\nconst PAGE: &str = "https://example.org";\nfn find() { "epic-3" }\n')
        self.assert_one_fault("crates/apps/cli/src/lib.rs:3", "found epic")

    def test_every_floor_imports_only_floors_that_exist_below_it(self) -> None:
        seen: set[str] = set()
        for floor, allowed in layering.FLOORS.items():
            seen.add(floor)
            self.assertLessEqual(allowed, seen, floor)


if __name__ == "__main__":
    unittest.main()
