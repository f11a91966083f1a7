#!/usr/bin/env python3
"""Runs every check and every test, and counts: what `make test` does.

The last line is `N passed, N failed, N skipped`, summed up from what the runners themselves report; a check without
cases of its own (layering, format, lints) counts as one. What was skipped is listed with its reason. The exit status
is 0 only if nothing failed.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_NEEDED = (3, 11)

CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")
UNITTEST_SKIPPED = re.compile(r""" \.\.\. skipped (['"])(.*)\1$""")
# What a test of ours prints when it cannot run here.
SKIPPED = re.compile(r"^skipped:? +(.+)$", re.IGNORECASE)


@dataclass
class Tally:
    """How tests ended; a skipped one is there by its reason."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def close(self, status: int) -> None:
        """A runner that failed without a failed test to show for it (nothing compiled, say) is itself one."""
        if status != 0 and self.failed == 0:
            self.failed = 1


def show(line: str) -> None:
    print(line, flush=True)


def read_check(lines: Iterable[str]) -> Tally:
    """Reads the output of a check that either holds or does not."""
    for line in lines:
        show(line)
    return Tally(passed=1)


def read_unittest(lines: Iterable[str]) -> Tally:
    """Reads the output of Python's `unittest -v`."""
    tally = Tally()
    for line in lines:
        show(line)
        if skipped := UNITTEST_SKIPPED.search(line):
            tally.skipped[skipped[2]] += 1
        elif ran := UNITTEST_RAN.match(line):
            tally.passed += int(ran[1])
        elif end := UNITTEST_END.match(line):
            counts = dict(part.split("=") for part in (end[1] or "").split(", ") if "=" in part)
            tally.failed += int(counts.get("failures", 0)) + int(counts.get("errors", 0))
            # Those whose reason another line of output tore apart.
            tally.skipped["a Python test"] += int(counts.get("skipped", 0)) - tally.skipped.total()
    tally.passed -= tally.failed + tally.skipped.total()
    tally.skipped += Counter()  # Drops what was counted zero times.
    return tally


def read_cargo(lines: Iterable[str]) -> Tally:
    """Reads the output of `cargo test -- --show-output`; what tests print that pass is not shown."""
    tally = Tally()
    quiet = False
    for line in lines:
        if line == "successes:":
            quiet = True
        elif line == "failures:" or CARGO_RESULT.match(line):
            quiet = False
        if quiet and (skipped := SKIPPED.match(line)):
            # Such a test ends as passed, and nothing was tested.
            tally.passed -= 1
            tally.skipped[skipped[1]] += 1
        if result := CARGO_RESULT.match(line):
            tally.passed += int(result[1])
            tally.failed += int(result[2])
            if int(result[3]):
                tally.skipped["marked #[ignore]"] += int(result[3])
        if not quiet and line:
            show(line)
    return tally


# The design from outside has a workspace and a lock file of its own. What it is built from lies in the project's target folder: of the
# libraries there both have nearly all, the rooms are compiled once more.
OWN_DESIGN = ["--manifest-path", "examples/own-design/Cargo.toml"]
OWN_BUILD = [*OWN_DESIGN, "--locked", "--target-dir", os.environ.get("CARGO_TARGET_DIR", "target")]

CHECKS = [
    ("layering", read_check, [sys.executable, "tools/layering.py"]),
    ("tools", read_unittest, [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tools"]),
    # In an environment of their own, which is made here at first use.
    (
        "experiments",
        read_unittest,
        [sys.executable, "tools/python_environment.py", "python/experiments/requirements.txt"]
        + ["-m", "unittest", "discover", "-v", "-s", "python/experiments"],
    ),
    # Prints the files that `make fmt` would change.
    ("format", read_check, ["cargo", "fmt", "--all", "--", "--check", "--files-with-diff"]),
    ("lints", read_check, ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    # Unit, property and documentation tests, and the fuzz corpus through the same checks as under the fuzzer.
    ("tests", read_cargo, ["cargo", "test", "--workspace", "--no-fail-fast", "--", "--show-output"]),
    ("own design, format", read_check, ["cargo", "fmt", *OWN_DESIGN, "--", "--check", "--files-with-diff"]),
    ("own design, lints", read_check, ["cargo", "clippy", *OWN_BUILD, "--all-targets", "--", "-D", "warnings"]),
    ("own design, tests", read_cargo, ["cargo", "test", *OWN_BUILD, "--no-fail-fast", "--", "--show-output"]),
]


def run(name: str, read, command: list[str]) -> Tally:
    """Runs one runner and counts."""
    show(f"\n== {name}: {' '.join(command)}")
    start = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        tally = read(line.rstrip("\n") for line in process.stdout)
    if read is read_check and process.returncode != 0:
        tally.passed = 0
    tally.close(process.returncode)
    show(f"== {name}: {tally.passed} passed, {tally.failed} failed, {time.monotonic() - start:.0f} s")
    return tally


def main() -> int:
    if sys.version_info < PYTHON_NEEDED:
        found = ".".join(map(str, sys.version_info[:2]))
        print(f"expected Python 3.11 or later, found {found} at {sys.executable}; run `make test PYTHON=python3.11`")
        return 2
    if shutil.which("cargo") is None:
        print("expected cargo on PATH, found none; install a Rust toolchain with rustup (https://rustup.rs)")
        return 2
    total = Tally()
    for name, read, command in CHECKS:
        total.add(run(name, read, command))
    show("")
    for reason, count in sorted(total.skipped.items()):
        show(f"skipped {count}: {reason}")
    show(f"{total.passed} passed, {total.failed} failed, {total.skipped.total()} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
