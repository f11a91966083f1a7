"""Which sources a block has, and how the tools are run on them: simulators, lint, proofs and synthesis."""

import hashlib
import os
import shutil
import subprocess
import unittest
from pathlib import Path

import needs

RTL = Path(__file__).resolve().parent.parent
ROOT = RTL.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "rtl"

# The Debian package of each program.
PACKAGES = {"verilator": "verilator", "iverilog": "iverilog", "yosys": "yosys", "yosys-smtbmc": "yosys", "z3": "z3", "boolector": "boolector", "g++": "g++", "make": "make"}


def prim_sources() -> list[Path]:
    return sorted(RTL.glob("prim/*/rtl/*.sv"))


def switch_sources() -> list[Path]:
    """The package first: the tools read files in order."""
    sources = sorted((RTL / "allreduce_switch/rtl").glob("*.sv"))
    return [*prim_sources(), *sorted(sources, key=lambda path: not path.stem.endswith("_pkg"))]


def programs(*names: str):
    """For a class of tests that need programs: where one is missing, each test of it is skipped."""
    lacking = [name for name in names if shutil.which(name) is None]

    def skip(self: unittest.TestCase) -> None:
        found = sorted({PACKAGES[name] for name in lacking})
        why = f"expected {', '.join(lacking)} on PATH, found none; apt-get install {' '.join(found)}"
        needs.tell(self.id(), f"packages {' '.join(found)}", why)
        self.skipTest(why)

    def decorate(tests: type[unittest.TestCase]) -> type[unittest.TestCase]:
        if lacking:
            tests.setUpClass = classmethod(lambda _: None)
            tests.setUp = skip
        return tests

    return decorate


def run(command: list[str | Path], folder: Path) -> str:
    """Runs a tool: what it says. Raises AssertionError with that if the tool fails."""
    ended = subprocess.run([str(word) for word in command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(str(word) for word in command[:3])}... ended with {ended.returncode}:\n{ended.stdout[-4000:]}")
    return ended.stdout


def digest(files: list[Path], *words: str) -> str:
    """Names a build by all that it is made of."""
    whole = hashlib.sha256("\0".join(words).encode())
    for file in files:
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:12]


def verilate(ports: int, flows: int = 4, frames: int = 128) -> Path:
    """The switch's simulator (allreduce_switch/tb/sim.cpp), built if its sources have changed."""
    main = RTL / "allreduce_switch/tb/sim.cpp"
    sources = switch_sources()
    parameters = [f"-GPORTS={ports}", f"-GFLOWS={flows}", f"-GFRAMES={frames}"]
    folder = BUILD / f"sim-{ports}-{flows}-{frames}-{digest([*sources, main])}"
    program = folder / "sim"
    if not program.exists():
        for old in BUILD.glob(f"sim-{ports}-{flows}-{frames}-*"):
            shutil.rmtree(old)
        folder.mkdir(parents=True)
        command = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal"]
        # Many functions and little to gain from more optimisation: it is the compiler's time that counts.
        command += ["-CFLAGS", f"-O1 -DPORTS={ports} -std=c++17", "--Mdir", str(folder), "-o", "sim", "--top-module", "allreduce_switch"]
        run([*command, *parameters, *sources, main], folder)
    return program
