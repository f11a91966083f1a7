#!/usr/bin/env python3
"""Runs every check and every test, and counts: what `make test` does.

The last line is `N passed, N failed, N skipped`, summed up from what the runners themselves report; a check without
cases of its own (layering, circles, format, lints) counts as one. What was skipped is listed with its reason. The exit status
is 0 only if nothing failed.

A test that cannot run here tells so in the file that QUINCUNX_SKIPS names, through `crates/base/needs` or `tools/needs.py`, so that it is
heard whatever becomes of its output. One that skips in another way has failed. With CI=true the packages that tests need are installed
first (`tools/packages.py`), and a skip that root, or a package that is not out of reach, would have avoided is a failure.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import packages

ROOT = Path(__file__).resolve().parent.parent
PYTHON_NEEDED = (3, 11)

CARGO_BEGIN = re.compile(r"^running (\d+) tests?$")
CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; (\d+) filtered out;")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")
# What cargo says of a crate with lints, in each build again; without its "(10 duplicates)" and what follows.
LINTS = re.compile(r"^warning: (`[^`]+` \([^)]+\) generated \d+ warnings?)")
# A skip in words, past the record, be it in the middle of a line that a test program had begun.
UNHEARD = re.compile(r"(?:^|\.\.\. )\W*skip(?:ped|ping|s)?\b(?!::)", re.IGNORECASE)


@dataclass(frozen=True)
class Skip:
    """A test that did not run."""

    test: str
    # "root", "packages NAME..." or "nothing": what would have let it run.
    remedy: str
    why: str

    def is_avoidable(self, out_of_reach: dict[str, str]) -> bool:
        """Whether root or packages would have let it run, but for the packages that are out of reach."""
        kind, *names = self.remedy.split() or [""]
        return kind != "nothing" and not any(name in out_of_reach for name in names)


@dataclass
class Tally:
    """How tests ended; a skipped one is there by its reason."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    # What failed though no runner said so.
    faults: list[str] = field(default_factory=list)
    # How many tests a runner itself said were skipped.
    said_skipped: int = 0

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.faults += other.faults

    def fail(self, fault: str) -> None:
        self.failed += 1
        self.faults.append(fault)

    def close(self, status: int) -> None:
        """A runner that failed without a failed test to show for it (nothing compiled, say) is itself one."""
        if status != 0 and self.failed == 0:
            self.failed = 1

    def hear(self, skips: list[Skip], out_of_reach: dict[str, str] | None) -> None:
        """Counts the tests that told that they skipped. With `out_of_reach`, by package, what is avoidable has failed."""
        # Each of them told, or nobody knows why.
        for _ in range(len(skips), self.said_skipped):
            self.passed -= 1
            self.fail("a test in Python is skipped past tools/needs.py")
        for skip in skips:
            # Such a test ends as passed, and nothing was tested.
            self.passed -= 1
            if out_of_reach is not None and skip.is_avoidable(out_of_reach):
                self.fail(f"{skip.test}: skipped, though CI has what it needs or should: {skip.why}")
            else:
                self.skipped[skip.why] += 1


def show(line: str) -> None:
    print(line, flush=True)


def read_check(lines: Iterable[str]) -> Tally:
    """Reads the output of a check that either holds or does not."""
    for line in lines:
        show(line)
    return Tally(passed=1)


def read_lints(lines: Iterable[str]) -> Tally:
    """Reads the output of a build by clippy: a crate with a lint has failed, and the tests run all the same."""
    tally = Tally(passed=1)
    for line in lines:
        show(line)
        if lints := LINTS.match(line):
            tally.passed = 0
            tally.fail(lints[1])
    return tally


def read_unittest(lines: Iterable[str]) -> Tally:
    """Reads the output of Python's `unittest -v`. Skipped tests count as passed, until they are heard."""
    tally = Tally()
    for line in lines:
        show(line)
        if ran := UNITTEST_RAN.match(line):
            tally.passed += int(ran[1])
        elif end := UNITTEST_END.match(line):
            counts = dict(part.split("=") for part in (end[1] or "").split(", ") if "=" in part)
            failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0)) + int(counts.get("unexpected successes", 0))
            tally.failed += failed
            tally.passed -= failed
            tally.said_skipped += int(counts.get("skipped", 0)) + int(counts.get("expected failures", 0))
    return tally


def read_cargo(lines: Iterable[str]) -> Tally:
    """Reads the output of `cargo test -- --show-output`; what tests print that pass is not shown.

    Skipped tests count as passed, until they are heard; ignored ones were never told.
    """
    tally = Tally()
    quiet = False
    # Tests of the program that runs, until it says how they ended.
    running: int | None = None

    def broken_off() -> None:
        if running is not None:
            tally.fail(f"a test program of {running} tests ended and did not say how they did")

    for line in lines:
        if line == "successes:":
            quiet = True
        elif line == "failures:" or CARGO_RESULT.match(line):
            quiet = False
        if not quiet and (begin := CARGO_BEGIN.match(line)):
            broken_off()
            running = int(begin[1])
        elif UNHEARD.search(line):
            tally.fail(f"a test told nobody but its output that it is skipped: {line.strip()}")
        if result := CARGO_RESULT.match(line):
            passed, failed, ignored, measured, left_out = map(int, result.groups())
            tally.passed += passed
            tally.failed += failed
            for count, what in ((ignored, "ignored"), (left_out, "filtered out")):
                if count:
                    tally.fail(f"{count} tests are {what}; every test runs, or tells why not")
            if running is not None and passed + failed + ignored + measured != running:
                tally.fail(f"a test program of {running} tests said how {passed + failed + ignored + measured} did")
            running = None
        if not quiet and line:
            show(line)
    broken_off()
    return tally


@dataclass(frozen=True)
class Check:
    """A runner: what it is called, who reads its output, and how it is started."""

    name: str
    read: Callable[[Iterable[str]], Tally]
    command: list[str]
    # Rooms are compiled by clippy's compiler, which looks for lints while it makes the programs that the tests run. `cargo clippy` would
    # look at everything by itself, and at all libraries below a second time. The variables are those that it sets.
    by_clippy: bool = False

    def environment(self) -> dict[str, str]:
        """What the runner's processes have in their environment beside what is there."""
        if not self.by_clippy:
            return {}
        found = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
        driver = Path(found.stdout.strip()) / "bin" / "clippy-driver"
        if not driver.exists():
            raise FileNotFoundError(f"expected clippy with the compiler, found no {driver}; rustup component add clippy")
        return {"RUSTC_WORKSPACE_WRAPPER": str(driver), "CLIPPY_ARGS": "", "QUINCUNX_BUILD": " ".join(FEATURES)}


# In an environment of their own, which is made here at first use.
EXPERIMENTS = [sys.executable, "tools/python_environment.py", "python/experiments/requirements.txt"]

# Hardware, with the packages of its benches.
RTL = [sys.executable, "tools/python_environment.py", "rtl/requirements.txt", "rtl/bench/run_tests.py"]

# The Python package, built by the same compiler as the tests before it.
PACKAGE = [sys.executable, "tools/python_environment.py", "python/quincunx/tests/requirements.txt"]

# What operators start from, held against the program and what takes it: systemd, Prometheus, Kubernetes' schemas.
EXAMPLES = [sys.executable, "tools/python_environment.py", "examples/tests/requirements.txt"]

# A slice of the tests of torch's backend. torch is large: only CI brings it with every run, `make test-torch` has all of them.
WITH_TORCH = [sys.executable, "tools/python_environment.py", "python/quincunx/tests/with_torch/requirements.txt"]
OF_TORCH = [
    "collectives_give_what_gloo_gives",
    "objects_and_subgroups_work",
    "ddp_trains_as_one_process_does",
    "fsdp2_trains_as_one_process_does",
    "tensor_parallel_layers_train_as_whole_ones_do",
    "a_rank_that_dies_is_an_exception_at_the_others",
]
NAMED = [word for name in OF_TORCH for word in ("-k", name)]

# What the command has that a plain build leaves out. The Python package's tests build it so, too: nothing is compiled twice.
FEATURES = ["--features", "quincunx-cli/etcd"]

# Every target, so that benchmarks are seen, too.
BUILD = ["cargo", "test", "--no-run", "--all-targets"]
TEST = ["cargo", "test", "--no-fail-fast"]

# What is built once and thrown away needs neither notes for the next build nor line numbers: less than half of the disk.
BUILT_ONCE = {"CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "none"}

CHECKS = [
    Check("layering", read_check, [sys.executable, "tools/layering.py"]),
    Check("circles", read_check, [sys.executable, "tools/circles.py"]),
    Check("skips", read_check, [sys.executable, "tools/skips.py"]),
    Check("tools", read_unittest, [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tools"]),
    Check("experiments", read_unittest, [*EXPERIMENTS, "-m", "unittest", "discover", "-v", "-s", "python/experiments"]),
    # Prints the files that `make fmt` would change.
    Check("format", read_check, ["cargo", "fmt", "--all", "--", "--check", "--files-with-diff"]),
    Check("build and lints", read_lints, [*BUILD, "--workspace", *FEATURES], by_clippy=True),
    # Benches, lint and proofs. Engines stand beside it, which are built by now; simulators are for who comes later.
    Check("hardware", read_unittest, RTL, by_clippy=True),
    # Unit, property and documentation tests, and the fuzz corpus through the same checks as under the fuzzer.
    Check("tests", read_cargo, [*TEST, "--workspace", *FEATURES, "--", "--show-output"], by_clippy=True),
    Check("python package", read_unittest, [*PACKAGE, "-m", "unittest", "discover", "-v", "-s", "python/quincunx/tests"], by_clippy=True),
    Check("open mpi", read_unittest, [*PACKAGE, "-m", "unittest", "discover", "-v", "-s", "openmpi/tests"], by_clippy=True),
    Check("nccl", read_unittest, [*PACKAGE, "-m", "unittest", "discover", "-v", "-s", "nccl/tests"], by_clippy=True),
    Check("examples", read_unittest, [*EXAMPLES, "-m", "unittest", "discover", "-v", "-s", "examples/tests"], by_clippy=True),
]

IN_CI = [
    Check("torch", read_unittest, [*WITH_TORCH, "-m", "unittest", "discover", "-v", *NAMED, "-s", "python/quincunx/tests", "-p", "test_torch.py"], by_clippy=True),
]


def told(record: Path) -> list[Skip]:
    """The skips that tests told."""
    lines = (line.split("\t", 2) for line in record.read_text(encoding="utf-8", errors="replace").splitlines())
    # Whoever writes something else there is heard, too.
    return [Skip(*line) if len(line) == 3 else Skip(line[0], "unknown", " ".join(line)) for line in lines]


def run(check: Check, out_of_reach: dict[str, str] | None) -> Tally:
    """Runs one runner and counts."""
    show(f"\n== {check.name}: {' '.join(check.command)}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "skips"
        record.touch()
        with subprocess.Popen(
            check.command,
            cwd=ROOT,
            env={**os.environ, **check.environment(), "QUINCUNX_SKIPS": str(record)},
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            tally = check.read(line.rstrip("\n") for line in process.stdout)
        skips = told(record)
    if check.read in (read_check, read_lints) and process.returncode != 0:
        tally.passed = 0
    tally.close(process.returncode)
    tally.hear(skips, out_of_reach)
    counts = f"{tally.passed} passed, {tally.failed} failed, {tally.skipped.total()} skipped"
    show(f"== {check.name}: {counts}, {time.monotonic() - start:.0f} s")
    return tally


def main() -> int:
    if sys.version_info < PYTHON_NEEDED:
        found = ".".join(map(str, sys.version_info[:2]))
        print(f"expected Python 3.11 or later, found {found} at {sys.executable}; run `make test PYTHON=python3.11`")
        return 2
    if shutil.which("cargo") is None:
        print("expected cargo on PATH, found none; install a Rust toolchain with rustup (https://rustup.rs)")
        return 2
    # What is out of reach, by package; None where a skip is nobody's fault.
    out_of_reach = None
    if os.environ.get("CI", "").lower() in ("true", "1"):
        os.environ.update(BUILT_ONCE)
        show("== packages")
        out_of_reach = packages.install()
    total = Tally()
    for check in CHECKS if out_of_reach is None else CHECKS + IN_CI:
        total.add(run(check, out_of_reach))
    show("")
    for package, why in sorted((out_of_reach or {}).items()):
        show(f"could not be installed: {package}: {why}")
    for fault in total.faults:
        show(f"failed: {fault}")
    for reason, count in sorted(total.skipped.items()):
        show(f"skipped {count}: {reason}")
    show(f"{total.passed} passed, {total.failed} failed, {total.skipped.total()} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
