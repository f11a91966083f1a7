"""From a Debian package to an AllReduce, timed, and back: `make test-release`, after `make release`.

In a bare Debian, whose systemd runs in namespaces: the package is installed, its units are started as docs/running/install.md says, four ranks
add up through the switch and check every result, and the package is purged: then nothing of it is left. And which glibc all asks for that was
built. Needs root, mmdebstrap, iproute2 and systemd. The bare system is kept in target/bare-debian.
"""

import io
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "examples" / "tests")]

from build import BUILD_SECONDS, GLIBC, MACHINES, MANYLINUX, newest_glibc, run, soname  # noqa: E402
from machine import Machine  # noqa: E402

MOST_SECONDS = 60
ANSWER_SECONDS = 120
BARE = ROOT / "target" / "bare-debian"
IDENTITY = ("--manager", "127.0.0.1:4790", "--identity")


def bare() -> Path:
    """A Debian with systemd and no more, made at first."""
    if not (BARE / "etc/debian_version").exists():
        shutil.rmtree(BARE, ignore_errors=True)
        run("mmdebstrap", "--variant=minbase", "--include=systemd,iproute2,procps", "--format=directory", "bookworm", BARE, seconds=BUILD_SECONDS)
    return BARE


def package() -> Path:
    """The package for this machine."""
    of = MACHINES[platform.machine()].debian
    found = sorted((ROOT / "target").glob(f"release-[0-9]*/quincunx_*_{of}.deb"))
    if not found:
        sys.exit(f"expected a package for {of} in target/release-VERSION, found none; run `make release`")
    return found[-1]


def is_old_enough(binary: bytes) -> bool:
    """Whether a system with the glibc that is promised runs it."""
    return [int(part) for part in newest_glibc(binary).split(".")] <= [int(part) for part in GLIBC.split(".")]


class BuiltTest(unittest.TestCase):
    def test_the_library_asks_for_no_newer_glibc_and_the_command_for_none(self) -> None:
        unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", package()], check=True, capture_output=True, timeout=ANSWER_SECONDS).stdout
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as files:
            data = {entry.name: files.extractfile(entry).read() for entry in files if entry.isfile()}
        [library] = [each for name, each in data.items() if "/libquincunx.so." in name]
        self.assertTrue(is_old_enough(library), newest_glibc(library))
        self.assertEqual(newest_glibc(data["./usr/bin/quincunx"]), "0")

    def test_wheels_ask_for_no_newer_glibc_than_they_are_named_after(self) -> None:
        wheels = sorted(package().parent.glob("*.whl"))
        self.assertEqual(sorted({wheel.name.split("-")[0] for wheel in wheels}), ["quincunx", "quincunx_command"])
        for wheel in wheels:
            with self.subTest(wheel=wheel.name), zipfile.ZipFile(wheel) as files:
                self.assertIn(MANYLINUX, wheel.name)
                binaries = [data for data in map(files.read, files.namelist()) if data.startswith(b"\x7fELF")]
                self.assertEqual(len(binaries), 1)
                self.assertTrue(is_old_enough(binaries[0]), newest_glibc(binaries[0]))


class InstalledTest(unittest.TestCase):
    def setUp(self) -> None:
        self.machine = Machine(None, {}, bare())
        self.addCleanup(self.machine.close)
        held = Path("/proc", self.machine.inside, "root/root/quincunx.deb")
        shutil.copy(package(), held)
        self.before = self.files()

    def files(self) -> set[str]:
        """All that lies there, but for the packages' own lists and what systemd and ldconfig keep of every service and library."""
        listed = self.machine.run("find", "/etc", "/usr", "/var", "/opt", "/srv", "-xdev").stdout.splitlines()
        return {path for path in listed if not re.match(r"/var/(lib/dpkg|log/(dpkg|journal|alternatives)|lib/systemd|cache/ldconfig)", path)}

    def install(self) -> None:
        self.machine.run("dpkg", "--install", "/root/quincunx.deb")
        self.machine.run("quincunx", "manager", "init", "/etc/quincunx", "--node", "local", "--tenant", "blue")
        self.machine.run("systemctl", "enable", "--now", "quincunx-manager", "quincunx-switch@local")

    def test_a_minute_leads_from_the_package_to_a_checked_all_reduce_in_the_switch(self) -> None:
        begin = time.monotonic()
        self.install()
        nodes = ("quincunx", "nodes", *IDENTITY, "/etc/quincunx/operator-admin.pem")
        self.machine.until("the switch is attached", lambda: re.search(r"^local ", self.machine.run(*nodes, check=False).stdout, re.M))
        asked = ("all_reduce", "--ranks", "4", "--design", "epic-3", "--sizes", "1MiB", "--iterations", "3")
        printed = self.machine.run("quincunx", "perf", *asked, *IDENTITY, "/etc/quincunx/tenant-blue.pem").stdout
        took = time.monotonic() - begin
        self.assertRegex(printed, r"(?m)^epic-3 .* 0$")
        print(f"from {package().name} to a checked AllReduce of four ranks: {took:.1f} s")
        self.assertLess(took, MOST_SECONDS)

    def test_programs_find_the_library_by_its_version(self) -> None:
        self.install()
        version = package().name.split("_")[1]
        self.assertRegex(self.machine.run("ldconfig", "-p").stdout, rf"{re.escape(soname(version))} .* => /\S+/{re.escape(soname(version))}\n")

    def test_systemd_and_shells_find_what_is_theirs(self) -> None:
        self.install()
        units = self.machine.run("systemctl", "list-unit-files", "--no-legend", "quincunx*.service").stdout
        self.assertEqual({line.split()[0] for line in units.splitlines()}, {unit.name for unit in (ROOT / "examples/systemd").glob("*.service")})
        completions = self.machine.run("quincunx", "completions", "bash").stdout
        self.assertEqual(self.machine.run("cat", "/usr/share/bash-completion/completions/quincunx").stdout, completions)

    def test_what_was_written_into_the_configuration_outlives_the_next_package(self) -> None:
        self.install()
        self.machine.run("sh", "-c", "echo MEMORY=8MiB > /etc/quincunx/local.env")
        self.machine.run("dpkg", "--install", "/root/quincunx.deb")
        self.assertEqual(self.machine.run("cat", "/etc/quincunx/local.env").stdout, "MEMORY=8MiB\n")

    def test_nothing_is_left_of_a_package_that_is_purged(self) -> None:
        self.install()
        self.assertTrue(self.files() > self.before)
        self.machine.run("dpkg", "--purge", "quincunx")
        self.assertEqual(self.files() ^ self.before, set())
        self.assertEqual(self.machine.run("pgrep", "-a", "quincunx", check=False).stdout, "")

    def test_a_removed_package_keeps_certificates_and_store(self) -> None:
        self.install()
        self.machine.until("the store is there", lambda: "/var/lib/private/quincunx/groups.sqlite" in self.files())
        self.machine.run("dpkg", "--remove", "quincunx")
        kept = self.files() - self.before
        self.assertIn("/etc/quincunx/manager.pem", kept)
        self.assertIn("/var/lib/private/quincunx/groups.sqlite", kept)
        self.assertNotIn("/usr/bin/quincunx", kept)


if __name__ == "__main__":
    unittest.main()
