"""What a release has in it, whom it belongs to, and that no time, place or order of this machine gets into it."""

import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "release"))

import bill  # noqa: E402
import build  # noqa: E402
import image  # noqa: E402
import package  # noqa: E402
from package import File  # noqa: E402

X86, ARM = build.MACHINES["x86_64"], build.MACHINES["aarch64"]
WHEN = 1_700_000_000
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
# It stands for a crate of somebody else's, outside of the workspace.
OWN = {"examples/own-design": VERSION}


class VersionTest(unittest.TestCase):
    def test_all_crates_have_the_workspaces(self) -> None:
        for member in tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]:
            with self.subTest(crate=member):
                self.assertEqual(tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]["version"], OWN.get(member, {"workspace": True}))

    def test_wheels_take_that_of_their_crate(self) -> None:
        for project in (ROOT / "python").glob("*/pyproject.toml"):
            with self.subTest(project=project.parent.name):
                self.assertIn("version", tomllib.loads(project.read_text())["project"]["dynamic"])

    def test_the_changelogs_newest_release_is_it(self) -> None:
        released = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
        self.assertEqual(released[0], VERSION)

    def test_the_page_on_installing_names_it(self) -> None:
        named = re.findall(r"quincunx[-_](\d+\.\d+\.\d+)", (ROOT / "docs/running/install.md").read_text())
        self.assertEqual(set(named), {VERSION})


class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.files = package.contents(X86, b"command", b"library", [File("usr/share/man/man1/quincunx.1.gz", b"page")], VERSION)
        self.paths = [file.path for file in self.files]

    def test_it_has_each_unit_and_what_else_is_installed(self) -> None:
        wanted = {f"usr/lib/systemd/system/{unit.name}" for unit in (ROOT / "examples/systemd").glob("*.service")}
        wanted |= {"usr/bin/quincunx", "etc/quincunx/local.env", "usr/include/quincunx.h", "usr/share/man/man1/quincunx.1.gz"}
        wanted |= {f"usr/lib/x86_64-linux-gnu/{name}" for name in ("libquincunx.so", "pkgconfig/quincunx.pc", "wireshark/plugins/quincunx.lua")}
        self.assertEqual(wanted - set(self.paths), set())

    def test_its_files_are_in_order_and_only_the_command_is_run(self) -> None:
        self.assertEqual(self.paths, sorted(self.paths))
        self.assertEqual([file.path for file in self.files if file.mode != 0o644], ["usr/bin/quincunx"])

    def test_what_it_says_of_the_library_is_where_the_library_is(self) -> None:
        [described] = [file.data.decode() for file in self.files if file.path.endswith("quincunx.pc")]
        self.assertIn("prefix=/usr\nlibdir=${prefix}/lib/x86_64-linux-gnu\n", described)
        self.assertIn(f"Version: {VERSION}\n", described)

    def test_its_fields_name_machine_version_and_size(self) -> None:
        fields = dict(line.split(": ", 1) for line in package.control(ARM, "1.2.3", [File("a", b"x" * 1025)]).splitlines() if not line.startswith(" "))
        self.assertEqual((fields["Architecture"], fields["Version"], fields["Installed-Size"]), ("arm64", "1.2.3", "2"))

    def test_its_scripts_are_what_a_shell_takes(self) -> None:
        for name, text in package.SCRIPTS.items():
            with self.subTest(script=name):
                self.assertEqual(subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, timeout=60).stderr, "")

    def test_all_that_is_laid_out_has_the_commits_time(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            package.lay(self.files, Path(name, "root"), WHEN)
            times = {path.stat().st_mtime for path in [Path(name, "root"), *Path(name, "root").rglob("*")]}
        self.assertEqual(times, {WHEN})

    def test_what_is_compressed_has_no_time_in_it(self) -> None:
        self.assertEqual(package.packed(b"page")[4:8], bytes(4))


class ImageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.tar = tarfile.open(fileobj=io.BytesIO(image.image(ARM, b"command", "1.2.3", WHEN)))
        self.addCleanup(self.tar.close)

    def blob(self, named: dict) -> bytes:
        return self.tar.extractfile("blobs/" + named["digest"].replace(":", "/")).read()

    def manifest(self) -> dict:
        [named] = json.load(self.tar.extractfile("index.json"))["manifests"]
        return json.loads(self.blob(named))

    def test_it_runs_the_command_by_a_user_that_is_not_root(self) -> None:
        configuration = json.loads(self.blob(self.manifest()["config"]))
        self.assertEqual(configuration["config"]["Entrypoint"], ["/usr/bin/quincunx"])
        self.assertEqual((configuration["config"]["User"], configuration["architecture"]), ("65532", "arm64"))

    def test_its_layer_is_the_command_alone(self) -> None:
        [layer] = self.manifest()["layers"]
        with tarfile.open(fileobj=io.BytesIO(self.blob(layer))) as files:
            self.assertEqual([(entry.name, entry.mode) for entry in files if entry.isfile()], [("usr/bin/quincunx", 0o755)])

    def test_each_entry_is_roots_and_has_the_commits_time(self) -> None:
        self.assertEqual({(entry.uid, entry.gid, entry.mtime) for entry in self.tar}, {(0, 0, WHEN)})


class BuildTest(unittest.TestCase):
    def test_paths_of_this_machine_are_mapped_for_both_compilers(self) -> None:
        where = build.environment(Path("/elsewhere/target"), WHEN)
        self.assertIn(f"--remap-path-prefix={ROOT}=/quincunx", where["CARGO_ENCODED_RUSTFLAGS"].split("\x1f"))
        self.assertIn("-ffile-prefix-map=/elsewhere/target=/target", where["CFLAGS"].split())

    def test_the_time_is_the_commits(self) -> None:
        self.assertEqual(build.environment(Path("/target"), WHEN)["SOURCE_DATE_EPOCH"], str(WHEN))

    def test_a_tool_that_is_not_there_is_told_in_a_line(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            build.run("no-such-tool")
        self.assertEqual(str(ended.exception), "expected no-such-tool on PATH, found none; install it")


class BillTest(unittest.TestCase):
    def test_it_has_what_is_needed_and_not_what_tests_need(self) -> None:
        def crate(name: str) -> dict:
            return {"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"}

        def need(name: str, kind: str | None) -> dict:
            return {"pkg": name, "dep_kinds": [{"kind": kind}]}

        nodes = [{"id": "top", "deps": [need("low", None), need("tester", "dev")]}, {"id": "low", "deps": []}, {"id": "tester", "deps": []}]
        metadata = {"packages": [crate("top"), crate("low"), crate("tester")], "resolve": {"nodes": nodes}}
        lock = {"package": [{"name": "low", "version": "1.0.0", "checksum": "ab"}]}
        written = json.loads(bill.bill(metadata, lock, "top", WHEN))
        [low] = written["components"]
        self.assertEqual((low["purl"], low["licenses"], low["hashes"][0]["content"]), ("pkg:cargo/low@1.0.0", [{"expression": "MIT OR Apache-2.0"}], "ab"))


if __name__ == "__main__":
    unittest.main()
