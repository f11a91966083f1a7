#!/usr/bin/env python3
"""Runs the benches, lint and proofs of rtl/, those that are named or all: `run_tests.py [PATTERN...]`. Patterns are parts of test names.

A test is whatever a `test_*.py` in a folder of rtl/ has. As many run at a time as there are processors, up to four; RTL_JOBS is another
number. Seconds of processor stand beside those that passed, as others may have kept it busy. The output ends as that of `unittest` does.
"""

import importlib.util
import multiprocessing
import os
import resource
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parent


def load(path: Path) -> unittest.TestSuite:
    """The tests of a file, whose own folder is where it finds its helpers."""
    sys.path.insert(0, str(path.parent))
    name = ".".join(path.relative_to(RTL).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def flat(tests: unittest.TestSuite) -> list[unittest.TestCase]:
    return [case for test in tests for case in (flat(test) if isinstance(test, unittest.TestSuite) else [test])]


def order(case: unittest.TestCase) -> int:
    """Simulators are built first, and what needs them comes last; a test may say so by `turn`."""
    return getattr(case, "turn", 1)


def of_processor() -> float:
    """Seconds that this process has used, and those that it started and waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def run(number: int) -> tuple[unittest.TestResult, float, float]:
    """Runs a test, in a process of its own: its result, and how many seconds it took by the clock and of processor."""
    case, result, began, used = TESTS[number], unittest.TestResult(), time.monotonic(), of_processor()
    case.run(result)
    # What goes back to the first process has texts in place of tests.
    for outcomes in (result.failures, result.errors, result.skipped):
        outcomes[:] = [(case.id(), text) for _, text in outcomes]
    for outcomes in (result.expectedFailures, result.unexpectedSuccesses):
        outcomes[:] = [case.id()] * len(outcomes)
    result._original_stdout = result._original_stderr = None
    return result, time.monotonic() - began, of_processor() - used


TESTS: list[unittest.TestCase] = []


def main() -> int:
    sys.path[:0] = [str(HERE), str(RTL.parent / "tools")]
    tests = [case for path in sorted(RTL.glob("**/test_*.py")) for case in flat(load(path))]
    if patterns := sys.argv[1:]:
        tests = [case for case in tests if any(pattern in case.id() for pattern in patterns)]
    TESTS.extend(sorted(tests, key=order))
    began, total = time.monotonic(), of_processor()
    counts: Counter[str] = Counter()
    faults = []
    jobs = int(os.environ.get("RTL_JOBS", min(4, os.cpu_count() or 1)))
    # Each job begins with what is loaded here, and most of a test is programs that it starts.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for case, (result, seconds, used) in zip(TESTS, pool.imap(run, range(len(TESTS)))):
            total += used
            said = {"failures": result.failures, "errors": result.errors, "skipped": result.skipped, "unexpected successes": result.unexpectedSuccesses}
            ends = [what for what, outcomes in said.items() if outcomes]
            # A test counts once, though parts of it may have failed by themselves.
            counts.update(ends[:1])
            faults += [f"{what}: {name}\n{text}" for what in ("failures", "errors") for name, text in said[what]]
            why = f" {result.skipped[0][1]}" if result.skipped else ""
            print(f"{case.id()} ... {ends[0] if ends else 'ok'}{why} ({seconds:.1f} s, {used:.1f} s of processor)", flush=True)
    for fault in faults:
        print(f"\n{'=' * 70}\n{fault}")
    print(f"\n{'-' * 70}\nRan {len(TESTS)} tests in {time.monotonic() - began:.3f}s\n\n{total:.0f} s of processor")
    bad = any(what != "skipped" for what in counts)
    parts = ", ".join(f"{what}={number}" for what, number in counts.items())
    print(("FAILED" if bad else "OK") + (f" ({parts})" if parts else ""))
    return bad


if __name__ == "__main__":
    sys.exit(main())
