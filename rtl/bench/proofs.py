"""Proofs of property modules: some steps by an SMT solver, more or for ever by a model checker; and that both refute what is broken."""

import subprocess
import unittest
from dataclasses import dataclass, field
from pathlib import Path

import rtl_tools
from rtl_tools import BUILD


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
        folder = BUILD / "formal" / f"{name}-{rtl_tools.digest([self.wrapper, *self.sources], str(twin), script)}"
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
        rtl_tools.run(["yosys", "-q", "-p", read + script], folder)
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


@rtl_tools.programs("yosys", "yosys-smtbmc", "yosys-abc", "z3")
class Proofs(unittest.TestCase):
    """What tests of proofs begin with."""

    def check(self, what: Property, twins: list[Twin]) -> None:
        """It holds, and the model checker refutes each of its twins; the first is near enough for the solver, too."""
        self.assertTrue(what.holds(), f"{what.wrapper.stem} does not hold")
        self.assertTrue(what.bounded(), f"{what.wrapper.stem} does not hold for {what.steps} steps")
        for twin in twins:
            self.assertFalse(what.holds(twin), f"{what.wrapper.stem} holds of a twin with {twin.new!r}")
        self.assertFalse(what.bounded(twins[0]), f"{what.wrapper.stem} holds for {what.steps} steps of a twin with {twins[0].new!r}")
