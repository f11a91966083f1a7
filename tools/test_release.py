"""What a release has in it, whom it belongs to, and that no time, place or order of this machine gets into it."""

import gzip
import hashlib
import importlib.util
import io
import json
import os
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
import needs  # noqa: E402
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

    def test_wheels_have_no_bill_of_materials_with_this_machines_folders(self) -> None:
        for project in ("quincunx", "command"):
            told = tomllib.loads((ROOT / "python" / project / "pyproject.toml").read_text())["tool"]["maturin"]
            self.assertEqual(told.get("sbom"), {"rust": False}, project)

    def test_the_changelogs_newest_release_is_it(self) -> None:
        released = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
        self.assertEqual(released[0], VERSION)

    def test_the_page_on_installing_names_it(self) -> None:
        named = re.findall(r"quincunx[-_](\d+\.\d+\.\d+)", (ROOT / "docs/running/install.md").read_text())
        self.assertEqual(set(named), {VERSION})


class ProfileTest(unittest.TestCase):
    def test_what_is_linked_has_the_level_that_link_time_optimisation_then_has(self) -> None:
        profiles = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]
        linked = [tomllib.loads(path.read_text())["package"]["name"] for path in (*ROOT.glob("crates/apps/*/Cargo.toml"), *ROOT.glob("python/*/Cargo.toml"))]
        self.assertIn("quincunx-cli", linked)
        for crate in linked:
            levels = [profiles[name].get("package", {}).get(crate, {}).get("opt-level") for name in ("dist", profiles["dist"]["inherits"])]
            with self.subTest(crate=crate):
                self.assertEqual(next((level for level in levels if level is not None), profiles["dist"]["opt-level"]), profiles["dist"]["opt-level"])


class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.files = package.contents(X86, b"command", b"library", [File("usr/share/man/man1/quincunx.1.gz", b"page")], VERSION)
        self.paths = [file.path for file in self.files]

    def test_it_has_each_unit_and_what_else_is_installed(self) -> None:
        wanted = {f"usr/lib/systemd/system/{unit.name}" for unit in (ROOT / "examples/systemd").glob("*.service")}
        wanted |= {f"usr/share/doc/quincunx/{name}" for name in ("copyright", "changelog.gz")}
        wanted |= {"usr/bin/quincunx", "etc/quincunx/local.env", "usr/include/quincunx.h", "usr/share/man/man1/quincunx.1.gz"}
        wanted |= {f"usr/lib/x86_64-linux-gnu/{name}" for name in (f"libquincunx.so.{VERSION}", "pkgconfig/quincunx.pc", "wireshark/plugins/quincunx.lua")}
        self.assertEqual(wanted - set(self.paths), set())

    def test_its_units_are_those_that_the_page_on_services_names(self) -> None:
        named = set(re.findall(r"^\| `(quincunx-[\w@.-]+)` \|", (ROOT / "docs/running/services.md").read_text(), re.M))
        units = {Path(path).name.replace("@.", "@NAME.") for path in self.paths if path.startswith("usr/lib/systemd/system/")}
        self.assertEqual(units, named)

    def test_its_units_run_as_users_that_systemd_makes_and_with_what_keeps_them_there(self) -> None:
        for file in self.files:
            if file.path.startswith("usr/lib/systemd/system/"):
                with self.subTest(unit=file.path):
                    self.assertLessEqual({"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=always"}, set(file.data.decode().splitlines()))

    def test_its_drop_ins_are_those_that_the_page_on_services_names(self) -> None:
        named = set(re.findall(r"^\| `([\w-]+\.conf)` \|", (ROOT / "docs/running/services.md").read_text(), re.M))
        self.assertEqual({Path(path).name for path in self.paths if path.startswith("usr/share/quincunx/")}, named)

    def test_whoever_has_ports_may_open_their_sockets_and_look_at_them(self) -> None:
        texts = {Path(file.path).name: (file.data or b"").decode(errors="replace") for file in self.files}
        for unit, drop_in in (("quincunx-ports@.service", ""), ("quincunx-agent@.service", "cables.conf")):
            lines = [line.partition("=") for line in (texts[unit] + texts.get(drop_in, "")).splitlines()]
            held = {key: {word for name, _, value in lines if name == key for word in value.split()} for key, _, _ in lines}
            with self.subTest(unit=unit):
                self.assertIn("$PORTS", held["ExecStart"])
                for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
                    self.assertIn("CAP_NET_RAW", held[key])
                self.assertLessEqual({"AF_PACKET", "AF_NETLINK"}, held["RestrictAddressFamilies"])

    def test_programs_ask_for_the_library_by_its_version_and_find_it(self) -> None:
        links = {Path(file.path).name: file.link for file in self.files if file.link}
        self.assertEqual(links, {"libquincunx.so": build.soname(VERSION), build.soname(VERSION): f"libquincunx.so.{VERSION}"})
        self.assertIn(f"usr/lib/x86_64-linux-gnu/libquincunx.so.{VERSION}", self.paths)

    def test_its_configuration_alone_is_the_persons(self) -> None:
        self.assertEqual(package.configured(self.files), "/etc/quincunx/local.env\n")

    def test_what_the_command_makes_is_where_each_shell_and_man_look(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            command = Path(name, "command")
            command.write_text('#!/bin/sh\n[ "$1" = man ] && echo page > "$2/quincunx.1" || echo for "$2"\n')
            command.chmod(0o755)
            pages = Path(name, "pages")
            pages.mkdir()
            made = {file.path: file.data for file in package.documentation(command, pages)}
        self.assertEqual(gzip.decompress(made.pop("usr/share/man/man1/quincunx.1.gz")), b"page\n")
        shells = {"bash-completion/completions/quincunx": b"for bash\n", "zsh/vendor-completions/_quincunx": b"for zsh\n", "fish/vendor_completions.d/quincunx.fish": b"for fish\n"}
        self.assertEqual(made, {f"usr/share/{place}": data for place, data in shells.items()})

    def test_its_files_are_in_order_and_only_the_command_is_run(self) -> None:
        self.assertEqual(self.paths, sorted(self.paths))
        self.assertEqual([(file.path, file.mode) for file in self.files if file.mode != 0o644], [("usr/bin/quincunx", 0o755)])

    def test_what_it_says_of_the_library_is_where_the_library_is(self) -> None:
        [described] = [file.data.decode() for file in self.files if file.path.endswith("quincunx.pc")]
        self.assertIn("prefix=/usr\nlibdir=${prefix}/lib/x86_64-linux-gnu\n", described)
        self.assertIn(f"Version: {VERSION}\n", described)

    def test_its_fields_name_machine_version_and_size(self) -> None:
        fields = dict(line.split(": ", 1) for line in package.control(ARM, "1.2.3", [File("a", b"x" * 1025)]).splitlines() if not line.startswith(" "))
        self.assertEqual((fields["Architecture"], fields["Version"], fields["Installed-Size"]), ("arm64", "1.2.3", "2"))
        self.assertEqual(fields["Depends"], f"libc6 (>= {build.GLIBC})")

    def test_its_scripts_are_what_a_shell_takes(self) -> None:
        for name, text in package.SCRIPTS.items():
            with self.subTest(script=name):
                self.assertEqual(subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, timeout=60).stderr, "")

    def test_purged_it_takes_along_every_folder_that_its_units_have_systemd_make(self) -> None:
        script = 'rm() { printf "%s\\n" "$@"; }\n' + package.SCRIPTS["postrm"].replace("/run/systemd/system", "/nowhere")
        removed = {end: subprocess.run(["sh", "-c", script, "postrm", end], check=True, capture_output=True, text=True, timeout=60).stdout for end in ("purge", "remove", "upgrade")}
        self.assertEqual((removed["remove"], removed["upgrade"]), ("", ""))
        wanted = {"/etc/quincunx"}
        for kind, base in (("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log")):
            for unit in (ROOT / "examples/systemd").glob("*.service"):
                for name in re.findall(rf"^{kind}=(\S+)$", unit.read_text(), re.M):
                    wanted |= {f"{base}/{name}", f"{base}/private/{name}"}
        self.assertEqual(len(wanted), 5)
        self.assertLessEqual(wanted, set(removed["purge"].splitlines()))

    def test_all_that_is_laid_out_has_the_commits_time(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            package.lay(self.files, Path(name, "root"), WHEN)
            times = {path.lstat().st_mtime for path in [Path(name, "root"), *Path(name, "root").rglob("*")]}
        self.assertEqual(times, {WHEN})

    def test_what_is_compressed_has_no_time_in_it(self) -> None:
        self.assertEqual(package.packed(b"page")[4:8], bytes(4))


@needs.programs("dpkg", "dpkg-deb")
class PackedTest(unittest.TestCase):
    """The package as dpkg-deb has packed it, of a command that is a few bytes."""

    def packed(self, folder: str) -> Path:
        files = package.contents(X86, b"command", b"library", [File("usr/share/man/man1/quincunx.1.gz", b"page")], VERSION)
        return package.build(X86, VERSION, files, Path(folder), WHEN)

    def test_it_has_the_same_bits_wherever_and_whoever_packs_it(self) -> None:
        found = []
        for umask in (0o022, 0o077):
            before = os.umask(umask)
            self.addCleanup(os.umask, before)
            with tempfile.TemporaryDirectory(prefix="x" * umask) as folder:
                found.append(hashlib.sha256(self.packed(folder).read_bytes()).hexdigest())
        self.assertEqual(found[0], found[1])

    def test_dpkg_reads_its_parts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            packed = self.packed(folder)
            control = Path(folder, "control")
            subprocess.run(["dpkg-deb", "--control", packed, control], check=True, timeout=60)
            self.assertEqual({path.name for path in control.iterdir()}, {"control", "conffiles", "triggers", *package.SCRIPTS})
            self.assertEqual({path.name for path in control.iterdir() if path.stat().st_mode & 0o111}, set(package.SCRIPTS))
            listed = subprocess.run(["dpkg-deb", "--contents", packed], check=True, timeout=60, capture_output=True, text=True).stdout
        self.assertEqual({line.split()[1] for line in listed.splitlines()}, {"root/root"})
        self.assertRegex(listed, rf"(?m)^l.* \./usr/lib/x86_64-linux-gnu/libquincunx\.so -> {re.escape(build.soname(VERSION))}$")


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

    def test_each_blob_has_the_hash_and_size_that_it_is_named_by(self) -> None:
        manifest = self.manifest()
        for named in [manifest["config"], *manifest["layers"], *json.load(self.tar.extractfile("index.json"))["manifests"]]:
            data = self.blob(named)
            self.assertEqual((f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)), (named["digest"], named["size"]))

    def test_its_layer_unpacked_has_the_hash_that_the_configuration_says(self) -> None:
        [layer] = self.manifest()["layers"]
        unpacked = hashlib.sha256(gzip.decompress(self.blob(layer))).hexdigest()
        self.assertEqual(json.loads(self.blob(self.manifest()["config"]))["rootfs"]["diff_ids"], [f"sha256:{unpacked}"])

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

    def test_the_folder_that_crates_lie_in_is_mapped_too(self) -> None:
        with tempfile.TemporaryDirectory() as cargo:
            sources = Path(cargo, "registry/src/index.crates.io-1")
            sources.mkdir(parents=True)
            self.assertIn((str(sources), "/crates"), build.mapped(ROOT, Path("/target"), Path(cargo)))

    def test_the_time_is_the_commits(self) -> None:
        self.assertEqual(build.environment(Path("/target"), WHEN)["SOURCE_DATE_EPOCH"], str(WHEN))

    def test_a_librarys_name_changes_with_each_release_that_may_break_programs(self) -> None:
        names = {version: build.soname(version) for version in ("0.1.0", "0.1.9", "0.2.0", "1.0.0", "1.7.2")}
        ends = {"0.1.0": "0.1", "0.1.9": "0.1", "0.2.0": "0.2", "1.0.0": "1", "1.7.2": "1"}
        self.assertEqual(names, {version: f"libquincunx.so.{end}" for version, end in ends.items()})

    def test_the_newest_glibc_that_is_asked_for_is_read_as_numbers(self) -> None:
        self.assertEqual(build.newest_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0"), "2.17")
        self.assertEqual(build.newest_glibc(b"\0memcpy\0"), "0")

    def test_a_tool_that_is_not_there_is_told_in_a_line(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            build.run("no-such-tool")
        self.assertEqual(str(ended.exception), "expected no-such-tool on PATH, found none; install it")


class SumsTest(unittest.TestCase):
    def test_what_checks_them_finds_every_file_and_one_that_has_changed(self) -> None:
        spec = importlib.util.spec_from_file_location("release_main", ROOT / "tools/release/__main__.py")
        release = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(release)
        with tempfile.TemporaryDirectory() as name:
            for file in ("b", "a"):
                Path(name, file).write_text(file)
            sums = release.sums(Path(name))
            Path(name, "SHA256SUMS").write_text(sums)
            self.assertEqual(release.sums(Path(name)), sums)
            checked = [subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=name, capture_output=True, text=True, timeout=60)]
            Path(name, "a").write_text("other")
            checked.append(subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=name, capture_output=True, text=True, timeout=60))
        self.assertEqual([ended.returncode for ended in checked], [0, 1])
        self.assertEqual(checked[0].stdout, "a: OK\nb: OK\n")


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

    def test_that_of_the_command_has_each_crate_that_cargo_shows_below_it(self) -> None:
        asked = ["--locked", "-p", "quincunx-cli", "--features", "etcd", "--target", X86.static, "-e", "normal,build", "--prefix", "none", "--format", "{p}"]
        shown = subprocess.run(["cargo", "tree", *asked], cwd=ROOT, check=True, capture_output=True, text=True, timeout=build.ANSWER_SECONDS).stdout
        wanted = {tuple(line.split()[:2]) for line in shown.splitlines() if line.strip()} - {("quincunx-cli", f"v{VERSION}")}
        found = {(each["name"], "v" + each["version"]) for each in json.loads(bill.of_command(X86, WHEN))["components"]}
        self.assertEqual(wanted - found, set())


if __name__ == "__main__":
    unittest.main()
