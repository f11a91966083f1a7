"""Shapes of IncEngine that are simulated, its sources, and the engine's programs beside it."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rtl_tools
import simulators

INC = rtl_tools.RTL / "inc_engine"


def lint_sources() -> list[Path]:
    """Of the others those that it uses."""
    return [path for path in simulators.INC.sources() if path.parent == INC / "rtl" or path.stem in ("prim_half_pkg", "prim_add_fp32")]


@dataclass(frozen=True)
class Shape(simulators.Shape):
    """Parameters of inc_engine."""

    block = simulators.INC

    ports: int
    slots: int
    mtu: int
    breakable: int = 0
    inside_f32: int = 0
    ranks: int = 16


# Eight ports and a small window, in which everything wraps and meets; the same with sixteen ports; the size of the paper's buffers.
EIGHT = Shape(8, 8, 1024, breakable=1)
SIXTEEN = Shape(16, 8, 64, ranks=32)
LARGE = Shape(8, 32, 4096)
SHAPES = (EIGHT, SIXTEEN, LARGE)


@cache
def engine(example: str) -> Path:
    """An example program of the engine: `answers`, which takes lines, or `vectors`, which makes them. Built once a test."""
    command = ["cargo", "build", "-q", "-p", "quincunx-epic", "--example", "answers", "--example", "vectors"]
    # With the features of what else was built before, if somebody says: what it stands on is there, then.
    if others := os.environ.get("QUINCUNX_BUILD", "").split():
        command += ["-p", "quincunx-cli", *others]
    rtl_tools.run(command, rtl_tools.ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", rtl_tools.ROOT / "target")) / "debug/examples" / example
