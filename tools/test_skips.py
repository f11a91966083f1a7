"""The check finds each way for a test to end early and say nothing to the runner."""

import unittest

import skips

PLACE = "crates/base/wire/tests/suite/psn.rs"


def in_test(body: str) -> str:
    return f"#[test]\nfn wraps() {{\n    {body}\n    assert!(true);\n}}\n"


class SkipsTest(unittest.TestCase):
    def assert_one_fault(self, faults: list[str], *parts: str) -> None:
        self.assertEqual(len(faults), 1, faults)
        self.assertEqual(len(faults[0].splitlines()), 1)
        for part in parts:
            self.assertIn(part, faults[0])

    def test_a_test_that_asks_for_what_it_needs_passes(self) -> None:
        source = in_test("let lines = need!(dissect(need!(program())));")
        self.assertEqual(skips.rust_faults(PLACE, source), [])

    def test_an_early_end_is_found_with_its_line(self) -> None:
        for body in (
            "if !has_root() { return; }",
            "let Some(x) = root() else { return };",
            "match root() { None => return, Some(_) => {} }",
            "if !has_root() { return println!(); }",
            "if !has_root() { return (); }",
        ):
            with self.subTest(body):
                self.assert_one_fault(skips.rust_faults(PLACE, in_test(body)), f"{PLACE}:3", "in wraps", "need!")

    def test_a_value_that_a_closure_returns_is_no_early_end(self) -> None:
        self.assertEqual(skips.rust_faults(PLACE, in_test("let f = |x| { if x { return 1; } 2 };")), [])
        self.assertEqual(skips.rust_faults(PLACE, in_test("// We return; it is late.")), [])

    def test_every_other_way_is_found(self) -> None:
        for source in (
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n",
            "#[cfg_attr(not(unix), ignore)]\n#[test]\nfn a() {}\n",
            "//! ```rust,ignore\n//! f();\n//! ```\n",
            in_test('eprintln!("skipped: no root");'),
            in_test('let _ = writeln!(std::io::stderr(), "SKIPPED {why}");'),
            in_test("std::process::exit(0);"),
            in_test("quincunx_needs::tell(&missing);"),
            in_test("if quincunx_driver_net::netns::available().is_ok() {}"),
            "#[test]\nfn a() -> Result<(), Error> {\n    Ok(())\n}\n",
        ):
            with self.subTest(source):
                self.assert_one_fault(skips.rust_faults(PLACE, source), "expected", "found")

    def test_a_program_may_end_as_it_likes(self) -> None:
        source = 'fn main() {\n    println!("skipped: no root");\n    std::process::exit(0);\n}\n'
        self.assertEqual(skips.rust_faults("crates/apps/cli/src/main.rs", source), [])

    def test_a_skip_in_python_past_the_helper_is_found(self) -> None:
        for source in ("self.skipTest('x')", "raise SkipTest", "@unittest.skipIf(True, 'x')", "@unittest.skip('x')", "@expectedFailure"):
            with self.subTest(source):
                self.assert_one_fault(skips.python_faults("tools/test_x.py", source), "tools/test_x.py:1", "tools/needs.py")


if __name__ == "__main__":
    unittest.main()
