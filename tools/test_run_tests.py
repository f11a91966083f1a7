"""The counts of `make test` are what the runners said, and every skip is heard."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs
import python_environment
import run_tests
from run_tests import Skip

ENDED = "test result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; finished in 0.00s"


def result(passed: int, failed: int = 0, ignored: int = 0, left_out: int = 0) -> str:
    """What a test program ends with."""
    return ENDED.format("FAILED" if failed else "ok", passed, failed, ignored, left_out)


def tally(read, text: str) -> run_tests.Tally:
    with contextlib.redirect_stdout(io.StringIO()):
        return read(text.splitlines())


class CountTest(unittest.TestCase):
    def test_results_of_several_test_programs_add_up(self) -> None:
        found = tally(run_tests.read_cargo, f"running 3 tests\n{result(3)}\nrunning 3 tests\n{result(2, failed=1)}")
        self.assertEqual((found.passed, found.failed, found.skipped.total()), (5, 1, 0))

    def test_unittest_says_what_failed(self) -> None:
        found = tally(run_tests.read_unittest, "Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2)")
        self.assertEqual((found.passed, found.failed), (4, 3))

    def test_a_runner_that_broke_before_its_tests_is_a_failure(self) -> None:
        found = tally(run_tests.read_cargo, "error: could not compile")
        found.close(status=101)
        self.assertEqual((found.passed, found.failed), (0, 1))

    def test_a_test_program_that_ends_without_a_word_is_a_failure(self) -> None:
        for text in (f"running 2 tests\nrunning 3 tests\n{result(3)}", f"running 3 tests\n{result(3)}\nrunning 2 tests"):
            found = tally(run_tests.read_cargo, text)
            self.assertEqual((found.passed, found.failed), (3, 1))

    def test_a_test_program_that_lost_a_test_is_a_failure(self) -> None:
        self.assertEqual(tally(run_tests.read_cargo, f"running 3 tests\n{result(2)}").failed, 1)

    def test_what_a_passing_test_prints_is_no_result(self) -> None:
        found = tally(run_tests.read_cargo, f"running 1 test\nsuccesses:\nrunning 9 tests\nsuccesses:\n    a\n\n{result(1)}")
        self.assertEqual((found.passed, found.failed), (1, 0))


class SliceTest(unittest.TestCase):
    def test_each_test_of_the_slice_with_torch_is_there(self) -> None:
        tests = (run_tests.ROOT / "python/quincunx/tests/test_torch.py").read_text(encoding="utf-8")
        for name in run_tests.OF_TORCH:
            self.assertIn(f"def test_{name}(", tests)

    def test_an_environment_without_room_for_it_is_not_made(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            requirements = Path(folder, "requirements.txt")
            requirements.write_text(f"# Takes {1 << 40} GiB of disk.\nquincunx-nothing==1\n", encoding="utf-8")
            with self.assertRaisesRegex(python_environment.Lacking, "GiB of disk, and they take"):
                python_environment.python_with(requirements)


class LintTest(unittest.TestCase):
    def test_a_crate_with_lints_has_failed(self) -> None:
        found = tally(
            run_tests.read_lints,
            "warning: length comparison to zero\n  --> lib.rs:189:49\n"
            "warning: `a-room` (lib) generated 4 warnings (4 duplicates)\n"
            "warning: `a-room` (lib test) generated 1 warning (run `cargo clippy --fix`)\n",
        )
        self.assertEqual((found.passed, found.failed), (0, 2))
        self.assertEqual(found.faults[1], "`a-room` (lib test) generated 1 warning")

    def test_clippys_compiler_finds_lints_where_rooms_are_built(self) -> None:
        environment = {**os.environ, **run_tests.Check("lints", run_tests.read_lints, [], by_clippy=True).environment()}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "src").mkdir()
            (Path(folder) / "Cargo.toml").write_text('[package]\nname = "a-room"\nedition = "2024"\n[workspace]\n')
            (Path(folder) / "src/lib.rs").write_text("pub fn are_none(all: &[u8]) -> bool { all.len() == 0 }\n")
            command = ["cargo", "test", "--no-run", "--offline", "--target-dir", folder]
            built = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(built.returncode, 0, built.stdout)
        found = tally(run_tests.read_lints, built.stdout)
        self.assertCountEqual(found.faults, ["`a-room` (lib) generated 1 warning", "`a-room` (lib test) generated 1 warning"])


class SkipTest(unittest.TestCase):
    ROOT = Skip("a", "root", "expected root, found none")
    TSHARK = Skip("b", "packages tshark wireshark", "expected tshark, found none")
    KERNEL = Skip("c", "nothing", "expected namespaces, found none")

    def heard(self, skips: list[Skip], out_of_reach: dict[str, str] | None) -> run_tests.Tally:
        found = run_tests.Tally(passed=5)
        found.hear(skips, out_of_reach)
        return found

    def test_a_test_that_told_that_it_skipped_has_not_passed(self) -> None:
        found = self.heard([self.ROOT, self.ROOT, self.TSHARK], None)
        self.assertEqual((found.passed, found.failed), (2, 0))
        self.assertEqual(found.skipped, {self.ROOT.why: 2, self.TSHARK.why: 1})

    def test_in_ci_a_skip_that_root_or_packages_would_avoid_is_a_failure(self) -> None:
        found = self.heard([self.ROOT, self.TSHARK, self.KERNEL], {})
        self.assertEqual((found.passed, found.failed), (2, 2))
        self.assertEqual(found.skipped, {self.KERNEL.why: 1})
        self.assertIn(self.TSHARK.why, found.faults[1])

    def test_in_ci_a_skip_for_want_of_what_is_out_of_reach_is_none(self) -> None:
        found = self.heard([self.TSHARK], {"wireshark": "no network"})
        self.assertEqual((found.passed, found.failed, found.skipped.total()), (4, 0, 1))

    def test_a_skip_in_words_alone_is_a_failure(self) -> None:
        for line in (
            "skipped: expected root, found none",
            "SKIPPED dissect: expected tshark",
            "skipped the tests in namespaces",
            "test a ... skipping, for there is no root",
            "[skip] no tshark",
        ):
            for text in (f"{line}\n", f"successes:\n\n---- a stdout ----\n{line}\n\nsuccesses:\n    a\n\n"):
                found = tally(run_tests.read_cargo, f"running 1 test\n{text}{result(1)}")
                self.assertEqual(found.failed, 1, text)

    def test_the_name_of_a_test_is_no_skip(self) -> None:
        named = "test skips::skipped_frames ... ok\n\nsuccesses:\n\nsuccesses:\n    skips::skipped_frames\n\n"
        found = tally(run_tests.read_cargo, f"running 1 test\n{named}{result(1)}")
        self.assertEqual((found.passed, found.failed), (1, 0))

    def test_an_ignored_test_is_a_failure_and_so_is_one_left_out(self) -> None:
        self.assertEqual(tally(run_tests.read_cargo, f"running 2 tests\n{result(1, ignored=1)}").failed, 1)
        self.assertEqual(tally(run_tests.read_cargo, f"running 1 test\n{result(1, left_out=1)}").failed, 1)

    def test_a_skip_of_unittest_that_was_not_told_is_a_failure(self) -> None:
        for end in ("OK (skipped=2)", "OK (skipped=1, expected failures=1)"):
            found = tally(run_tests.read_unittest, f"Ran 3 tests in 0.1s\n\n{end}")
            found.hear([self.KERNEL], None)
            self.assertEqual((found.passed, found.failed, found.skipped.total()), (1, 1, 1))


class RecordTest(unittest.TestCase):
    """Whole runs, of programs that stand for runners."""

    def run_python(self, read, program: str, out_of_reach: dict[str, str] | None = None) -> run_tests.Tally:
        with contextlib.redirect_stdout(io.StringIO()):
            return run_tests.run(run_tests.Check("a run", read, [sys.executable, "-c", program]), out_of_reach)

    def test_a_skip_that_a_process_of_a_test_tells_is_heard_though_nothing_is_printed(self) -> None:
        child = "import os; open(os.environ['QUINCUNX_SKIPS'], 'a').write('a\\tnothing\\tno root\\n')"
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('running 1 test'); print({result(1)!r})"
        found = self.run_python(run_tests.read_cargo, program)
        self.assertEqual((found.passed, found.failed, found.skipped), (0, 0, {"no root": 1}))

    def test_a_record_that_cannot_be_read_is_heard(self) -> None:
        child = "import os; open(os.environ['QUINCUNX_SKIPS'], 'a').write('garbage\\n')"
        program = f"{child}; print('running 1 test'); print({result(1)!r})"
        self.assertEqual(self.run_python(run_tests.read_cargo, program).skipped, {"garbage": 1})
        self.assertEqual(self.run_python(run_tests.read_cargo, program, {}).failed, 1)

    def test_each_test_of_a_class_that_lacks_modules_is_skipped_with_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "test_lacking.py").write_text(
                "import needs, unittest\n@needs.modules('no_such_module')\nclass T(unittest.TestCase):\n"
                "    @classmethod\n    def setUpClass(cls): raise SystemError\n"
                "    def test_a(self): raise SystemError\n    def test_b(self): raise SystemError\n"
            )
            program = (
                f"import sys, unittest; sys.path.append({str(Path(needs.__file__).parent)!r})\n"
                f"unittest.main(None, argv=['u', 'discover', '-v', '-s', {folder!r}])"
            )
            found = self.run_python(run_tests.read_unittest, program)
            self.assertEqual((found.passed, found.failed, found.skipped.total()), (0, 0, 2))
            self.assertIn("no_such_module", next(iter(found.skipped)))
            self.assertEqual(self.run_python(run_tests.read_unittest, program, {}).failed, 2)


if __name__ == "__main__":
    unittest.main()
