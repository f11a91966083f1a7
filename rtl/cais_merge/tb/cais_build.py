"""Shapes of CAIS's merge unit that are simulated, its sources, and the engine's program beside it."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rtl_tools
import simulators

CAIS = rtl_tools.RTL / "cais_merge"


def lint_sources() -> list[Path]:
    """Of the others those that it uses."""
    used = ("prim_half_pkg", "prim_flit_pkg", "prim_add_fp32", "prim_add_lane", "prim_fifo_sync", "prim_ram_1r1w")
    return [path for path in simulators.CAIS.sources() if path.parent == CAIS / "rtl" or path.stem in used]


@dataclass(frozen=True)
class Shape(simulators.Shape):
    """Parameters of cais_merge."""

    block = simulators.CAIS

    ports: int
    entries: int
    payload_bytes: int
    groups: int
    streams: int
    timeout: int
    group_timeout: int
    breakable: int = 0


# Few entries and short times, in which all meet; the paper's (V-A2), eight accelerators and 40 KB.
SMALL = Shape(4, 4, 32, 4, 2, 300, 2000, breakable=1)
PAPER = Shape(8, 320, 128, 1024, 8, 5000, 100000)


@cache
def engine() -> Path:
    """The engine's example `merge_answers`. Built once a test."""
    command = ["cargo", "build", "-q", "-p", "quincunx-cais", "--example", "merge_answers"]
    # With the features of what else was built before, if somebody says: what it stands on is there, then.
    if others := os.environ.get("QUINCUNX_BUILD", "").split():
        command += ["-p", "quincunx-cli", *others]
    rtl_tools.run(command, rtl_tools.ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", rtl_tools.ROOT / "target")) / "debug/examples/merge_answers"
