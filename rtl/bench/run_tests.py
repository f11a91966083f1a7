#!/usr/bin/env python3
"""Runs the benches, lint and proofs of rtl/, those of the folders that are named or all: `run_tests.py [PATTERN...]`.

A test is whatever `test_*.py` in a `tb/`, `lint/` or `formal/` folder has. Patterns are parts of test names.
"""

import importlib.util
import sys
import unittest
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


def main() -> int:
    sys.path[:0] = [str(HERE), str(RTL.parent / "tools")]
    tests = [case for path in sorted(RTL.glob("**/test_*.py")) for case in flat(load(path))]
    if patterns := sys.argv[1:]:
        tests = [case for case in tests if any(pattern in case.id() for pattern in patterns)]
    return not unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(tests)).wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
