"""What tests ask for is what CI installs, and no wait for a mirror is without end."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import packages

ROOT = Path(__file__).resolve().parent.parent


class WantedTest(unittest.TestCase):
    def test_every_package_that_a_test_asks_for_is_installed_in_ci(self) -> None:
        asked: set[str] = set()
        for source in sorted((ROOT / "crates").rglob("*.rs")):
            text = source.read_text(encoding="utf-8")
            if "quincunx_needs" in text:
                asked.update(re.findall(r'\bprogram\("[^"]+", "([^"]+)"\)', text))
            for names in re.findall(r"const PACKAGES: [^=]*= \[([^\]]*)\]", text):
                asked.update(re.findall(r'"([^"]+)"', names))
        for source in sorted((ROOT / "examples").rglob("test_*.py")):
            asked.update(re.findall(r'\bneeds\.programs\("([^"]+)"', source.read_text(encoding="utf-8")))
        self.assertIn("tshark", asked)
        self.assertIn("systemd", asked)
        self.assertIn("qemu-system-x86", asked)
        self.assertEqual(asked - {*packages.WANTED, packages.KERNEL}, set())

    def test_the_guest_is_built_from_packages_that_ci_installs(self) -> None:
        readme = (ROOT / "tools/rxe-guest/README.md").read_text(encoding="utf-8")
        named = set(re.search(r"apt-get install --no-install-recommends (.*)", readme)[1].split())
        self.assertEqual(named - {*packages.WANTED}, set())


class InstallTest(unittest.TestCase):
    """With an apt-get of our own on PATH."""

    def install(self, script: str, user: int = 0) -> tuple[dict[str, str], str]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        apt = Path(folder.name) / "apt-get"
        apt.write_text(f"#!/bin/sh\n{script}\n")
        apt.chmod(0o755)
        printed = io.StringIO()
        with (
            mock.patch.dict(os.environ, {"PATH": f"{folder.name}:{os.environ['PATH']}"}),
            mock.patch.object(packages, "WANTED", {"no-such-package": ("no-such-program",)}),
            mock.patch.object(packages, "is_there", lambda _: False),
            mock.patch.object(packages, "UPDATE_SECONDS", 1),
            mock.patch.object(packages.os, "geteuid", lambda: user),
            contextlib.redirect_stdout(printed),
        ):
            out = packages.install()
        return out, printed.getvalue()

    def test_a_mirror_that_does_not_answer_ends_the_wait_and_its_packages_are_out_of_reach(self) -> None:
        out, printed = self.install("sleep 1000")
        self.assertIn("timed out", out["no-such-package"])
        self.assertEqual(len(printed.splitlines()), 1)

    def test_a_mirror_that_cannot_be_reached_is_told_from_a_package_that_is_not_there(self) -> None:
        out, _ = self.install("echo \"W: Failed to fetch http://x Could not resolve 'x'\"; echo 'E: Some index files failed'; exit 100")
        self.assertIn("Could not resolve", out["no-such-package"])
        out, printed = self.install('[ "$1" = update ] || { echo "E: Unable to locate package no-such-package"; exit 100; }')
        self.assertNotIn("no-such-package", out)
        self.assertIn("Unable to locate", printed)

    def test_without_root_nothing_is_out_of_reach(self) -> None:
        out, printed = self.install("exit 1", user=1000)
        self.assertEqual(out, {})
        self.assertIn("run as root", printed)


if __name__ == "__main__":
    unittest.main()
