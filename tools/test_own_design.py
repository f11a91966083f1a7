"""The design from outside is built from the same libraries as the project, so that `make test` compiles them once."""

import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def libraries(lock: Path) -> set[tuple[str, str]]:
    """Names and versions of what comes from a registry."""
    with lock.open("rb") as file:
        packages = tomllib.load(file)["package"]
    return {(package["name"], package["version"]) for package in packages if "source" in package}


class LockTest(unittest.TestCase):
    def test_the_design_from_outside_has_no_library_that_the_project_does_not_have(self) -> None:
        own = libraries(ROOT / "examples/own-design/Cargo.lock")
        others = sorted(own - libraries(ROOT / "Cargo.lock"))
        remedy = "copy Cargo.lock to examples/own-design, and run cargo metadata there"
        self.assertEqual(others, [], f"expected the project's versions, found others; {remedy}")


if __name__ == "__main__":
    unittest.main()
