"""Which sources a block has, and how the tools are run on them: simulators, lint, proofs and synthesis."""

import fcntl
import hashlib
import itertools
import os
import shutil
import subprocess
import unittest
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import needs

RTL = Path(__file__).resolve().parent.parent
ROOT = RTL.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "rtl"

# The Debian package of a program that is not called like it.
PACKAGES = {"yosys-smtbmc": "yosys", "yosys-abc": "yosys"}


def packages_first(sources: Iterable[Path]) -> list[Path]:
    """In the order in which they are otherwise: the tools read one after the other."""
    return sorted(sources, key=lambda path: not path.stem.endswith("_pkg"))


def prim_sources() -> list[Path]:
    return packages_first(sorted(RTL.glob("prim/*/rtl/*.sv")))


def switch_sources() -> list[Path]:
    return [*prim_sources(), *packages_first(sorted((RTL / "allreduce_switch/rtl").glob("*.sv")))]


def programs(*names: str):
    """For a class of tests that need programs: where one is missing, each test of it is skipped."""
    lacking = [name for name in names if shutil.which(name) is None]

    def skip(self: unittest.TestCase) -> None:
        found = sorted({PACKAGES.get(name, name) for name in lacking})
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


def lint(top: str, sources: list[Path], **parameters: int) -> None:
    """Raises AssertionError with what Verilator says of a module, if it says anything."""
    waivers = sorted(RTL.glob("**/lint/*.vlt"))
    run(["verilator", "--lint-only", "-Wall", "--top-module", top, *(f"-G{name}={value}" for name, value in parameters.items()), *waivers, *sources], RTL)


def digest(files: list[Path], *words: str) -> str:
    """Names a build by all that it is made of."""
    whole = hashlib.sha256("\0".join(words).encode())
    for file in files:
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:12]


@contextmanager
def alone(name: str) -> Iterator[None]:
    """While nobody else, in whatever process, does what has this name."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cocotb(top: str, module: Path, parameters: dict[str, int], sources: list[Path], *, plain: bool = False) -> None:
    """Runs the cocotb tests of a Python file on a module under Icarus Verilog. Raises AssertionError with the log if one fails.

    With `plain`, of copies in which `always_comb` is `always @*`: with several hundred of the former Icarus 11 wakes all of them
    again and again, and time stands still.
    """
    from cocotb_tools.runner import get_results, get_runner

    name = "-".join([module.stem, top, *(f"{value}" for value in parameters.values())])
    folder = BUILD / "cocotb" / name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    if plain:
        copies = [folder / source.name for source in sources]
        for source, copy in zip(sources, copies):
            copy.write_text(source.read_text().replace("always_comb", "always @*"))
        sources = copies
    runner = get_runner("icarus")
    try:
        # Icarus says of each selection from a vector in always_comb that it waits for the whole of it, which is meant.
        runner.build(sources=sources, hdl_toplevel=top, parameters=parameters, build_dir=folder, build_args=["-g2012"], timescale=("1ns", "1ps"), always=True, log_file=log)
        environment = {"PYTHONPATH": os.pathsep.join([str(module.parent), str(RTL / "bench"), os.environ.get("PYTHONPATH", "")]), "COCOTB_ANSI_OUTPUT": "0"}
        results = runner.test(hdl_toplevel=top, test_module=module.stem, build_dir=folder, extra_env=environment, log_file=log)
        tests, failed = get_results(results)
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{top} {parameters}: {error}\n{log.read_text()[-4000:]}") from error
    if failed or not tests:
        raise AssertionError(f"{top} {parameters}: {failed} of {tests} tests failed\n{log.read_text()[-4000:]}")


def crossed(**values: list[int]) -> list[dict[str, int]]:
    """All combinations of parameters."""
    return [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]
