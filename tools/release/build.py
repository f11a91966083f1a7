"""Compiles for a machine. So that every folder should give the same bits, which `make release-twice` compares, paths are mapped, C's too, and nothing
keeps a time.

The linker and C compiler is zig, by cargo-zigbuild and maturin. The command is static, with musl; what other programs load (the library for C,
wheels) asks for glibc 2.17 and no newer one, which `newest_glibc` reads out of what was built.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A compiler that hangs is ended; on two busy cores one of these takes a quarter of an hour.
BUILD_SECONDS = 3 * 3600
ANSWER_SECONDS = 120

GLIBC = "2.17"
# What pip calls a system that has it.
MANYLINUX = "manylinux2014"


@dataclass(frozen=True)
class Machine:
    """A kind of processor, in the words of those who ask."""

    rust: str
    debian: str
    oci: str

    @property
    def static(self) -> str:
        return f"{self.rust}-unknown-linux-musl"

    @property
    def shared(self) -> str:
        return f"{self.rust}-unknown-linux-gnu"

    @property
    def multiarch(self) -> str:
        """Debian's name of folders of libraries."""
        return f"{self.rust}-linux-gnu"


MACHINES = {machine.rust: machine for machine in (Machine("x86_64", "amd64", "amd64"), Machine("aarch64", "arm64", "arm64"))}


def say(text: str) -> None:
    """Tells how far a release is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, seconds: float = ANSWER_SECONDS, environment: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """What a command prints. One that fails, or does not end, ends the release with its last words."""
    called = " ".join(map(str, command))
    try:
        ended = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds, env=environment)
    except FileNotFoundError:
        sys.exit(f"expected {command[0]} on PATH, found none; install it")
    except subprocess.TimeoutExpired:
        sys.exit(f"expected an end of `{called}` within {seconds:.0f} s, found none; run it by hand")
    if ended.returncode != 0:
        sys.exit(f"expected `{called}` to succeed, found status {ended.returncode}; its last words:\n" + "\n".join((ended.stdout + ended.stderr).splitlines()[-20:]))
    return ended.stdout


def epoch(root: Path = ROOT) -> int:
    """The time of all that is released: that of the commit."""
    return int(run("git", "log", "-1", "--format=%ct", folder=root))


def mapped(root: Path, target: Path, cargo: Path) -> list[tuple[str, str]]:
    """Folders of this machine, and what stands for them in what is built. The last one that fits is taken."""
    sources = sorted((cargo / "registry" / "src").glob("*"))
    return [(str(root), "/quincunx"), (str(target), "/target"), *((str(source), "/crates") for source in sources)]


def environment(target: Path, when: int) -> dict[str, str]:
    """Of a build of the tree: nothing of how this machine builds otherwise."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    pairs = mapped(ROOT, target, cargo)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_PROFILE", "CARGO_BUILD", "RUSTC", "RUSTFLAGS", "CLIPPY"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(target),
        "CARGO_INCREMENTAL": "0",
        # Line numbers would be stripped.
        "CARGO_PROFILE_DIST_DEBUG": "none",
        "CARGO_PROFILE_DIST_STRIP": "symbols",
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={old}={new}" for old, new in pairs),
        "CFLAGS": " ".join(f"-ffile-prefix-map={old}={new}" for old, new in pairs),
        "SOURCE_DATE_EPOCH": str(when),
    }


def prepare(machines: list[Machine]) -> None:
    """Fetches the standard library for each machine, and all crates."""
    if os.environ.get("RUSTUP_HOME") or (Path.home() / ".rustup").exists():
        run("rustup", "target", "add", *(target for machine in machines for target in (machine.static, machine.shared)), seconds=BUILD_SECONDS)
    run("cargo", "fetch", "--locked", seconds=BUILD_SECONDS)


def compile(target: str, package: str, where: dict[str, str], *options: str, flags: tuple[str, ...] = ()) -> Path:
    """Builds a package for a target, by flags of the compiler that are its own; the folder with what became of it."""
    plain = target.removesuffix(f".{GLIBC}")
    asked = ("--locked", "--profile", "dist", "--target", target, "-p", package, *options)
    run("cargo-zigbuild", "rustc", *asked, "--", *flags, seconds=BUILD_SECONDS, environment=where)
    return Path(where["CARGO_TARGET_DIR"]) / plain / "dist"


def command(machine: Machine, where: dict[str, str]) -> Path:
    """The static command, with etcd as a store: who installs it has no compiler to add that."""
    return compile(machine.static, "quincunx-cli", where, "--bin", "quincunx", "--features", "etcd") / "quincunx"


def soname(version: str) -> str:
    """What programs ask for that are linked with libquincunx: until 1.0 each minor release may break them."""
    major, minor, _ = version.split(".")
    return f"libquincunx.so.{major}" if major != "0" else f"libquincunx.so.{major}.{minor}"


def library(machine: Machine, where: dict[str, str], version: str) -> Path:
    """libquincunx for C, under its versioned name inside."""
    flags = (f"-Clink-arg=-Wl,-soname,{soname(version)}",)
    return compile(f"{machine.shared}.{GLIBC}", "quincunx-capi", where, "--lib", flags=flags) / "libquincunx.so"


def wheels(machine: Machine, where: dict[str, str], folder: Path) -> list[Path]:
    """The wheels of the Python package and of the command. maturin refuses to name one after a glibc that is older than what it asks for."""
    before = set(folder.glob("*.whl"))
    for project in ("quincunx", "command"):
        asked = ("--zig", "--compatibility", MANYLINUX, "--target", machine.shared, "--profile", "dist", "--locked", "--out", folder)
        run("maturin", "build", *asked, seconds=BUILD_SECONDS, environment=where, folder=ROOT / "python" / project)
    return sorted(set(folder.glob("*.whl")) - before)


def newest_glibc(binary: bytes) -> str:
    """The newest version of glibc that a program or library asks for, by the names of its symbols' versions."""
    found = re.findall(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)", binary)
    return max((version.decode() for version in found), key=lambda version: [int(part) for part in version.split(".")], default="0")
