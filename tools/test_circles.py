"""The check for circles finds what it is for, and nothing else, in rooms of a few modules."""

import tempfile
import unittest
from pathlib import Path

import circles

TWO = "mod one;\nmod other;\n"


class CirclesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.room = self.root / "crates" / "base" / "units"
        (self.root / "Cargo.toml").write_text('[workspace]\nmembers = ["crates/*/*"]\n')
        self.room.mkdir(parents=True)

    def faults(self, **sources: str) -> list[str]:
        """Those of a room of these files: `one__two` is `one/two.rs`."""
        for name, source in sources.items():
            file = self.room / "src" / f"{name.replace('__', '/')}.rs"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        return circles.check(self.root)[1]

    def assert_one(self, faults: list[str], *parts: str) -> None:
        self.assertEqual(len(faults), 1, faults)
        self.assertEqual(len(faults[0].splitlines()), 1)
        for part in ("crates/base/units: expected modules without circles", *parts):
            self.assertIn(part, faults[0])

    def test_imports_downward_pass(self) -> None:
        self.assertEqual(self.faults(lib=TWO, one="use crate::other::Other;\nfn f(_: Other) {}\n", other="pub struct Other;\n"), [])

    def test_two_that_import_each_other_are_found(self) -> None:
        faults = self.faults(
            lib=TWO,
            one="use crate::other::Other;\n\npub struct One(Other);\n",
            other="\nuse crate::one::One;\n\npub struct Other(Box<One>);\n",
        )
        self.assert_one(faults, "one imports other::Other (src/one.rs:1)", "other imports one::One (src/other.rs:2)")

    def test_a_circle_around_three_is_found(self) -> None:
        faults = self.faults(
            lib="mod a;\nmod b;\nmod c;\n",
            a="pub fn a() {\n    crate::b::b();\n}\n",
            b="pub fn b() {\n    crate::c::c();\n}\n",
            c="pub fn c() {\n    crate::a::a();\n}\n",
        )
        self.assert_one(faults, "a imports b::b (src/a.rs:2)", "b imports c::c", "c imports a::a")

    def test_a_knot_is_shown_by_a_shortest_circle(self) -> None:
        faults = self.faults(
            lib="mod a;\nmod b;\nmod c;\n",
            a="pub fn a() {\n    crate::b::b();\n}\n",
            b="pub fn b() {\n    crate::a::a();\n    crate::c::c();\n}\n",
            c="pub fn c() {\n    crate::a::a();\n}\n",
        )
        self.assert_one(faults, "a imports b::b", "b imports a::a", "in a knot of 3 modules")

    def test_who_hands_a_name_on_does_not_import_it(self) -> None:
        one = "use super::Other;\n\npub struct One(Other);\n"
        for lib in ("pub use one::One;\npub use other::Other;\n", "pub use one::One;\npub use other::*;\n", "pub use one::{self, One};\nuse other::Other;\n"):
            with self.subTest(lib):
                self.assertEqual(self.faults(lib=TWO + lib, one=one, other="pub struct Other;\n"), [])

    def test_what_is_handed_on_is_imported_from_where_it_is_defined(self) -> None:
        faults = self.faults(
            lib=TWO + "pub use one::One;\npub use other::Other as Another;\n",
            one="use super::Another;\n\npub struct One(Another);\n",
            other="pub struct Other(Box<crate::One>);\n",
        )
        self.assert_one(faults, "one imports other::Other (src/one.rs:1)", "other imports one::One (src/other.rs:1)")

    def test_a_parent_that_uses_its_child_is_not_to_be_used_by_it(self) -> None:
        one = "use super::Error;\n\npub struct One;\n\nimpl One {\n    fn f(_: Error) {}\n}\n"
        for use in ("use one::One;\nstruct Two(One);\n", "pub use one::One;\nstruct Two(One);\n", "struct Two(one::One);\n", "struct Two(self::one::One);\n"):
            with self.subTest(use):
                faults = self.faults(lib=f"mod one;\n{use}\npub enum Error {{}}\n", one=one)
                self.assert_one(faults, "lib imports one::One", "one imports lib::Error")

    def test_children_may_add_to_what_their_parent_defines(self) -> None:
        folder = self.room / "src" / "one"
        folder.mkdir(parents=True)
        (folder / "mod.rs").write_text("mod two;\n\npub struct One;\n\nimpl One {\n    fn f(&self) {\n        self.g();\n    }\n}\n")
        faults = self.faults(lib="mod one;\n", one__two="use super::One;\n\nimpl One {\n    pub(super) fn g(&self) {}\n}\n")
        self.assertEqual(faults, [])

    def test_modules_in_folders_are_called_by_their_path(self) -> None:
        faults = self.faults(
            lib="mod one;\n",
            one="mod two;\nmod three;\n",
            one__two="use super::three;\n\npub fn two() {\n    three::three();\n}\n",
            one__three="pub fn three() {\n    super::two::two();\n}\n",
        )
        self.assert_one(faults, "one::two imports one::three::three (src/one/two.rs:4)", "one::three imports one::two::two (src/one/three.rs:2)")

    def test_tests_are_left_out(self) -> None:
        one = "pub struct One;\n"
        for tests in (
            "#[cfg(test)]\nmod tests {\n    use crate::other::Other;\n    fn f(_: Other) {}\n}\n",
            "#[cfg(test)]\nuse crate::other::{\n    Other,\n};\n\n#[cfg(test)]\nimpl One {\n    fn f(_: Other) {}\n}\n",
            "impl One {\n    #[cfg(test)]\n    fn f(_: crate::other::Other) {\n        g();\n    }\n}\n",
            "#[cfg(test)]\nmod tests;\n",
            "#[cfg(test)]\n#[path = \"one/tests.rs\"]\nmod tests;\n",
        ):
            with self.subTest(tests):
                faults = self.faults(
                    lib=TWO, one=one + tests, one__tests="use crate::other::Other;\n", other="use crate::one::One;\n\npub struct Other(One);\n"
                )
                self.assertEqual(faults, [])

    def test_what_follows_a_test_counts(self) -> None:
        one = "#[cfg(test)]\nuse crate::one::f;\n\npub struct One(crate::other::Other);\n"
        self.assert_one(self.faults(lib=TWO, one=one, other="pub struct Other(Box<crate::one::One>);\n"), "(src/one.rs:4)")

    def test_comments_and_texts_import_nothing(self) -> None:
        one = (
            "//! See [`crate::other::Other`].\n\n/* crate::other::Other */\npub struct One<'a>(&'a str);\n\n"
            'const TEXT: &str = "\\"crate::other::Other";\nconst RAW: &str = r#""crate::other::Other"#;\nconst QUOTE: char = \'"\';\n'
            "const LAST: &str = \"crate::other::Other\";\n"
        )
        self.assertEqual(self.faults(lib=TWO, one=one, other="pub struct Other(Box<crate::one::One<'static>>);\n"), [])

    def test_a_trait_counts_that_is_there_for_its_methods(self) -> None:
        one = "use crate::other::Other;\n\npub struct One;\n\nfn f(what: impl Copy) {\n    what.g();\n}\n"
        self.assert_one(self.faults(lib=TWO, one=one, other="pub trait Other {\n    fn g(&self) -> crate::one::One;\n}\n"), "one imports other::Other")

    def test_all_names_of_a_module_count_where_they_are_used(self) -> None:
        parent = "mod one;\n\npub struct Error;\n\nfn f() {\n    one::g();\n}\n"
        self.assert_one(self.faults(lib=parent, one="use super::*;\n\npub fn g() -> Error {\n    Error\n}\n"), "one imports lib::Error (src/one.rs:1)")
        self.assertEqual(self.faults(lib=parent, one="use super::*;\n\npub fn g() {}\n"), [])

    def test_modules_without_a_file_are_part_of_that_around_them(self) -> None:
        one = "pub mod inner {\n    use super::One;\n\n    pub struct Inner(One);\n}\n\npub struct One;\n\nfn f(_: inner::Inner) {}\n"
        self.assertEqual(self.faults(lib="mod one;\n", one=one), [])
        faults = self.faults(
            lib=TWO,
            one="pub mod inner {\n    pub struct Inner(super::super::other::Other);\n}\n",
            other="use crate::one::inner::Inner;\n\npub struct Other(Box<Inner>);\n",
        )
        self.assert_one(faults, "one imports other::Other (src/one.rs:2)", "other imports one::Inner (src/other.rs:1)")

    def test_a_function_that_is_called_as_a_module_is_another_name(self) -> None:
        faults = self.faults(
            lib="mod one;\nmod other;\npub use one::one;\n",
            one="use crate::other;\n\npub fn one() {\n    other::other();\n}\n",
            other="use crate::one;\n\npub fn other() {\n    one();\n}\n",
        )
        self.assert_one(faults, "one imports other::other", "other imports one::one")

    def test_attributes_may_name_what_they_use(self) -> None:
        one = '#[serde(try_from = "crate::other::Keys")]\npub struct One;\n'
        self.assert_one(self.faults(lib=TWO, one=one, other="pub struct Keys(crate::one::One);\n"), "one imports other::Keys (src/one.rs:1)")

    def test_macros_are_where_they_are_written(self) -> None:
        faults = self.faults(
            lib=TWO,
            one="#[macro_export]\nmacro_rules! made {\n    () => {\n        $crate::other::Other\n    };\n}\n",
            other="pub struct Other;\n\nfn f() -> Other {\n    crate::made!()\n}\n",
        )
        self.assert_one(faults, "one imports other::Other (src/one.rs:4)", "other imports one::made (src/other.rs:4)")

    def test_what_a_macro_makes_is_where_it_is_named(self) -> None:
        other = "made!(Other);\n\nfn f(_: crate::one::One) {}\n"
        for use in ("use crate::other::Other;", "use crate::Other;"):
            with self.subTest(use):
                faults = self.faults(lib=TWO + "pub use other::Other;\n", one=use + "\n\npub struct One(Other);\n", other=other)
                self.assert_one(faults, "one imports other::Other (src/one.rs:1)", "other imports one::One (src/other.rs:3)")

    def test_all_variants_of_a_type_are_where_it_is(self) -> None:
        one = "use crate::other::Other::*;\n\npub struct One;\n\nconst FIRST: u8 = A as u8;\n"
        self.assert_one(self.faults(lib=TWO, one=one, other="pub enum Other {\n    A(crate::one::One),\n}\n"), "one imports other::Other")

    def test_other_rooms_are_out_of_sight(self) -> None:
        one = "use other::Other;\nuse quincunx_other::other::*;\nuse quincunx_other::one::Two;\n\npub struct One(Other, Two, other::f::Three);\n"
        self.assertEqual(self.faults(lib=TWO, one=one, other="pub struct Other(crate::one::One);\n"), [])


if __name__ == "__main__":
    unittest.main()
