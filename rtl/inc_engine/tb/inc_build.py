"""Builds simulators of IncEngine (sim.cpp) and the engine's filter of lines, and says which sources there are."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import rtl_tools

INC = rtl_tools.RTL / "inc_engine"


def sources() -> list[Path]:
    """Packages first: the tools read files in order."""
    found = [*rtl_tools.prim_sources(), *(INC / "rtl").glob("*.sv")]
    return sorted(found, key=lambda path: (not path.stem.endswith("_pkg"), path.name))


def lint_sources() -> list[Path]:
    """Of the others those that it uses."""
    return [path for path in sources() if path.parent == INC / "rtl" or path.stem in ("prim_half_pkg", "prim_add_fp32")]


@dataclass(frozen=True)
class Shape:
    """Parameters of inc_engine."""

    ports: int
    slots: int
    mtu: int
    breakable: int = 0
    inside_f32: int = 0
    ranks: int = 16

    def parameters(self) -> dict[str, int]:
        return {
            "PORTS": self.ports,
            "SLOTS": self.slots,
            "MTU": self.mtu,
            "RANKS": self.ranks,
            "INSIDE_F32": self.inside_f32,
            "BREAKABLE": self.breakable,
        }


# Eight ports and a small window, in which everything wraps and meets; the same with sixteen ports; the size of the paper's buffers.
EIGHT = Shape(8, 8, 1024, breakable=1)
SIXTEEN = Shape(16, 8, 64, ranks=32)
LARGE = Shape(8, 32, 4096)
SHAPES = (EIGHT, SIXTEEN, LARGE)


def simulator(shape: Shape) -> Path:
    """The simulator, built if its sources have changed."""
    main = INC / "tb/sim.cpp"
    command = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal"]
    command += ["-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0", "--output-split", "100000"]
    values = shape.parameters()
    command += ["-CFLAGS", " ".join(["-std=c++17", *(f"-D{name}={value}" for name, value in values.items())])]
    command += [f"-G{name}={value}" for name, value in values.items()]
    settings = INC / "tb/sim.vlt"
    name = "inc-" + "-".join(map(str, values.values()))
    files = [settings, *sources(), main]
    folder = rtl_tools.BUILD / f"{name}-{rtl_tools.digest(files, *command)}"
    program = folder / "sim"
    with rtl_tools.alone(name):
        if not program.exists():
            for old in rtl_tools.BUILD.glob(f"{name}-*"):
                shutil.rmtree(old)
            folder.mkdir(parents=True)
            rtl_tools.run([*command, "--Mdir", folder, "-o", "unfinished", "--prefix", "Vinc_engine", "--top-module", "inc_engine", *files], folder)
            (folder / "unfinished").rename(program)
    return program


def engine(example: str) -> Path:
    """An example program of the engine: `answers`, which takes lines, or `vectors`, which makes them."""
    rtl_tools.run(["cargo", "build", "-q", "-p", "quincunx-epic", "--examples"], rtl_tools.ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", rtl_tools.ROOT / "target")) / "debug/examples" / example
