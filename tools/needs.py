"""What tests in Python need that not every machine has, and the one way to tell that it is not there.

As `crates/base/needs` is for tests in Rust: a skip is told to `unittest`, and in the file that QUINCUNX_SKIPS names, where
`tools/run_tests.py` reads what would have avoided it. `tools/skips.py` holds that tests skip in no other way.
"""

import importlib.util
import os
import shutil
import unittest

# The path of the file that skips are told in.
RECORD = "QUINCUNX_SKIPS"
# Set by tools/python_environment.py where it could not make the environment: what would help, a colon, and what was found.
NO_ENVIRONMENT = "QUINCUNX_NO_PYTHON_ENVIRONMENT"


def missing(*names: str) -> list[str]:
    """Those of the modules that are not there."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def tell(test: str, remedy: str, why: str) -> None:
    """Tells the runner that a test is skipped, and what would have avoided it: `packages NAME...` or `nothing`."""
    if path := os.environ.get(RECORD):
        why = why.replace("\n", " ").replace("\t", " ")
        with open(path, "a", encoding="utf-8") as record:
            record.write(f"{test}\t{remedy}\t{why}\n")


def modules(*names: str, by: str | None = None):
    """For a class of tests that need modules: where one is missing, each test of it is skipped. Those that a command `by` brings are too
    large for every run, and CI may lack them; all others tools/python_environment.py installs.
    """
    lacking = missing(*names)
    why = f"expected {', '.join(lacking)}, found none; run {by or 'through tools/python_environment.py'}"
    remedy = "nothing" if by else f"packages {' '.join(lacking)}"
    if not by and (failure := os.environ.get(NO_ENVIRONMENT)):
        remedy, _, found = failure.partition(": ")
        why = f"expected to install {', '.join(lacking)}, found {found}; look at the network, or at Python"
    return _unless(bool(lacking), remedy, why)


def root():
    """For a class of tests that make network namespaces: without root, each test of it is skipped."""
    return _unless(os.geteuid() != 0, "root", "expected root, for network namespaces, found another user; run as root")


def programs(package: str, *names: str):
    """For a class of tests that run programs of a package of Debian's: where one is missing, each test of it is skipped."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    lacking = [name for name in names if shutil.which(name, path=path) is None]
    why = f"expected {', '.join(lacking)}, found none; apt-get install {package}"
    return _unless(bool(lacking), f"packages {package}", why)


def _unless(lacks: bool, remedy: str, why: str):
    """For a class of tests: where something is lacking, each test of it is skipped."""

    def skip(self: unittest.TestCase) -> None:
        tell(self.id(), remedy, why)
        self.skipTest(why)

    def decorate(tests: type[unittest.TestCase]) -> type[unittest.TestCase]:
        if lacks:
            tests.setUpClass = classmethod(lambda _: None)
            tests.setUp = skip
        return tests

    return decorate
