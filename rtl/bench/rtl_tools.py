"""Which sources a block has, and how the tools are run on them: simulators, lint, proofs and synthesis."""

import fcntl
import hashlib
import itertools
import os
import shutil
import subprocess
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import needs

RTL = Path(__file__).resolve().parent.parent
ROOT = RTL.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "rtl"

# The Debian package of a program that is not called like it.
PACKAGES = {"yosys-smtbmc": "yosys", "yosys-abc": "yosys"}


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


def verilate(ports: int, flows: int = 4, frames: int = 128) -> Path:
    """The switch's simulator (allreduce_switch/tb/sim.cpp), built if its sources have changed."""
    main = RTL / "allreduce_switch/tb/sim.cpp"
    sources = [*switch_sources(), RTL / "allreduce_switch/tb/observed_switch.sv"]
    parameters = [f"-GPORTS={ports}", f"-GFLOWS={flows}", f"-GFRAMES={frames}"]
    command = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal"]
    # It is the compiler's time that counts: -O1 runs as fast as Verilator's own -Os and takes half as long, and what runs once needs neither.
    command += ["-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0", "--output-split", "100000"]
    command += ["-CFLAGS", f"-DPORTS={ports} -std=c++17", *parameters]
    name = f"sim-{ports}-{flows}-{frames}"
    folder = BUILD / f"{name}-{digest([*sources, main], *command)}"
    program = folder / "sim"
    with alone(name):
        if not program.exists():
            for old in BUILD.glob(f"{name}-*"):
                shutil.rmtree(old)
            folder.mkdir(parents=True)
            # Under another name until it is whole.
            run([*command, "--Mdir", folder, "-o", "unfinished", "--prefix", "Vallreduce_switch", "--top-module", "observed_switch", *sources, main], folder)
            (folder / "unfinished").rename(program)
    return program


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


@dataclass(frozen=True)
class Twin:
    """A source with one thing changed for the worse, which a proof must refute."""

    source: str
    old: str
    new: str


@dataclass(frozen=True)
class Property:
    """A property module, the sources that it is of, and its parameters."""

    wrapper: Path
    sources: list[Path]
    parameters: dict[str, int] = field(default_factory=dict)
    several_clocks: bool = False
    # Steps that the SMT solver goes.
    steps: int = 12
    # Steps that the model checker goes; all, if there is no number: then it proves by induction.
    bound: int | None = None

    def model(self, twin: Twin | None, script: str) -> Path:
        """Reads the sources, or a broken twin of them, and has Yosys write a model: the folder that it is in."""
        name = "-".join([self.wrapper.stem, *map(str, self.parameters.values())])
        folder = BUILD / "formal" / f"{name}-{digest([self.wrapper, *self.sources], str(twin), script)}"
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for source in self.sources:
            text = source.read_text()
            if twin is not None and source.name == twin.source:
                if text.count(twin.old) != 1:
                    raise AssertionError(f"expected {twin.old!r} once in {source.name}, found it {text.count(twin.old)} times")
                text = text.replace(twin.old, twin.new)
            files.append(folder / source.name)
            files[-1].write_text(text)
        top = self.wrapper.stem
        values = "".join(f"chparam -set {name} {value} {top}; " for name, value in self.parameters.items())
        clocks = "clk2fflogic" if self.several_clocks else "async2sync"
        read = f"read_verilog -formal -sv {' '.join(map(str, [*files, self.wrapper]))}; {values}prep -flatten -top {top}; memory_map; {clocks}; opt_clean; dffunmap; "
        run(["yosys", "-q", "-p", read + script], folder)
        return folder

    def bounded(self, twin: Twin | None = None) -> bool:
        """Whether the assertions hold for so many steps, by an SMT solver."""
        folder = self.model(twin, "write_smt2 -wires model.smt2")
        command = ["yosys-smtbmc", "--unroll", "-s", "z3", "-t", str(self.steps), "model.smt2"]
        ended = subprocess.run(command, cwd=folder, text=True, capture_output=True, timeout=200)
        if "Status: PASSED" in ended.stdout:
            return True
        if "Status: FAILED" in ended.stdout and "Assert failed" in ended.stdout:
            return False
        raise AssertionError(f"{self.wrapper.stem}: expected an answer, found:\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")

    def holds(self, twin: Twin | None = None) -> bool:
        """Whether the assertions hold for ever, or for the bound, by ABC: property-directed reachability, or bounded model checking."""
        script = "setundef -undriven -anyseq; opt -full; techmap; opt -fast; dffunmap; abc -g AND -fast; opt_clean; write_aiger -I -B -zinit -no-startoffset model.aig"
        folder = self.model(twin, script)
        way = "pdr" if self.bound is None else f"bmc3 -F {self.bound}"
        ended = subprocess.run(["yosys-abc", "-c", f"read_aiger model.aig; fold; strash; {way}"], cwd=folder, text=True, capture_output=True, timeout=200)
        if "Property proved." in ended.stdout or (self.bound is not None and f"No output asserted in {self.bound} frames" in ended.stdout):
            return True
        if " was asserted in frame " in ended.stdout:
            return False
        raise AssertionError(f"{self.wrapper.stem}: expected an answer, found:\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")
