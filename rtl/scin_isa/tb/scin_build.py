"""Builds simulators of SCIN's switch (sim.cpp), and says which sources it has."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import rtl_tools

SCIN = rtl_tools.RTL / "scin_isa"


def sources() -> list[Path]:
    """The package first: the tools read files in order."""
    own = sorted((SCIN / "rtl").glob("*.sv"), key=lambda path: (not path.stem.endswith("_pkg"), path.name))
    return [*rtl_tools.prim_sources(), *own]


@dataclass(frozen=True)
class Shape:
    """Parameters of scin_switch."""

    ports: int
    waves: int
    wave_bytes: int
    payload_bytes: int
    slots: int
    quant: int = 0
    peer_credits: int = 8
    data_flits: int = 1024

    def parameters(self) -> dict[str, int]:
        return {
            "PORTS": self.ports,
            "WAVES": self.waves,
            "WAVE_BYTES": self.wave_bytes,
            "PAYLOAD_BYTES": self.payload_bytes,
            "SLOTS": self.slots,
            "QUANT": self.quant,
            "PEER_CREDITS": self.peer_credits,
            "DATA_FLITS": self.data_flits,
        }


# The prototype's (3.5), with the quantizer that it lacks; eight accelerators, several packets to a wave and few waves; the same with one wave.
PROTOTYPE = Shape(4, 8, 4096, 4096, 8, quant=1)
EIGHT = Shape(8, 4, 256, 64, 6, peer_credits=4, data_flits=64)
SMALL = Shape(3, 1, 2048, 32, 3, quant=1, peer_credits=2, data_flits=16)
SHAPES = (PROTOTYPE, EIGHT, SMALL)


def simulator(shape: Shape) -> Path:
    """The simulator, built if its sources have changed."""
    main = SCIN / "tb/sim.cpp"
    command = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal"]
    command += ["-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0", "--output-split", "100000"]
    values = shape.parameters()
    command += ["-CFLAGS", " ".join(["-std=c++17", *(f"-D{name}={value}" for name, value in values.items())])]
    command += [f"-G{name}={value}" for name, value in values.items()]
    # Adders are compiled once, not a copy of each.
    settings = SCIN / "tb/sim.vlt"
    name = f"scin-{shape.ports}-{shape.waves}-{shape.wave_bytes}-{shape.payload_bytes}-{shape.quant}"
    files = [settings, *sources(), main]
    folder = rtl_tools.BUILD / f"{name}-{rtl_tools.digest(files, *command)}"
    program = folder / "sim"
    with rtl_tools.alone(name):
        if not program.exists():
            for old in rtl_tools.BUILD.glob(f"{name}-*"):
                shutil.rmtree(old)
            folder.mkdir(parents=True)
            rtl_tools.run([*command, "--Mdir", folder, "-o", "unfinished", "--prefix", "Vscin_switch", "--top-module", "scin_switch", *files], folder)
            (folder / "unfinished").rename(program)
    return program
