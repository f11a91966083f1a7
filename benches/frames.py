#!/usr/bin/env python3
"""Compares two builds of the program: the frames on their links, to the bit, and the states that they explore.

    python3 benches/frames.py OLD NEW

It simulates each design on each kind of fabric with a seed. Frames are lost where they can be. It compares the captures of the two
builds. Then it compares the numbers of states of small explorations. Each comparison prints a line. Exit status 1 if any differs.

Takes a minute. Needs Python 3.11.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TREES = "epic-1,epic-2,epic-3,epic-mixed,ring,tree,direct,netreduce"
LOSSES = ["--loss", "1%@3"]
# Fabric, collective, designs, and what else is asked for.
RUNS = [
    ("star-4", "all_reduce", TREES, ["--size", "256KiB", *LOSSES]),
    ("tree-3-2", "broadcast", "epic-1,epic-2,epic-3,ring,tree,direct", ["--size", "64KiB", *LOSSES]),
    ("leaf-spine-2x2x4", "reduce_scatter", "epic-1,epic-2,epic-3,ring,direct", ["--size", "64KiB"]),
    ("star-4", "all_gather", "multiwrite", ["--size", "64KiB"]),
    ("mesh8", "all_gather", "multiwrite,unicast-multipath,direct", ["--size", "1MiB"]),
    ("two-servers", "dispatch", "multiwrite,direct", ["--set", "tokens=16"]),
    ("scin-dgx8", "all_reduce", "scin,nvls,cais,ring,direct,scin-inq,ring-rq", ["--size", "64KiB"]),
    ("scin-dgx16", "reduce_scatter", "scin,nvls,cais,ring,direct", ["--size", "64KiB"]),
]
EXPLORED = [
    ("star-2", "all_reduce", "epic-1,epic-2,epic-3,netreduce"),
    ("tree-2-2", "broadcast", "epic-1,epic-2,epic-3"),
    ("star-2", "reduce", "ring,direct,tree"),
    ("memory-2", "all_reduce", "scin,nvls,cais,ring,direct"),
]
# Whatever happens, a wait ends.
LIMIT = 600


def frames(program: str, fabric: str, collective: str, design: str, more: list[str]) -> str:
    """The digest of a run's capture and of its row."""
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "frames.pcapng"
        arguments = ["sim", collective, "--fabric", fabric, "--design", design, "--seed", "7", "--pcap", str(capture), "--json", *more]
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode:
            sys.exit(f"expected {program} {' '.join(arguments)} to end well, found: {done.stderr.strip()}")
        row = json.loads(done.stdout)["rows"][0]
        return f"{hashlib.sha256(capture.read_bytes()).hexdigest()[:16]} {capture.stat().st_size} {row['time_us']}"


def states(program: str, tree: str, collective: str, design: str) -> str:
    """What an exploration has found."""
    arguments = ["check", design, collective, "--tree", tree, "--packets", "1", "--json"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"expected {program} {' '.join(arguments)} to end well, found: {done.stderr.strip()}")
    row = json.loads(done.stdout)["rows"][0]
    return f"{row['states']} {row['distinct']} {row['diameter']}"


def main(old: str, new: str) -> int:
    """Prints all lines; how many differ."""
    cases = [
        *((fabric, collective, design, lambda at, *case, more=more: frames(at, *case, more)) for fabric, collective, designs, more in RUNS for design in designs.split(",")),
        *((tree, collective, design, states) for tree, collective, designs in EXPLORED for design in designs.split(",")),
    ]
    differ = 0
    for place, collective, design, told in cases:
        first, second = (told(program, place, collective, design) for program in (old, new))
        differ += first != second
        verdict = "same" if first == second else f"differs: {second}"
        print(f"{place:18} {collective:15} {design:18} {first:45} {verdict}", flush=True)
    return differ


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(1 if main(*sys.argv[1:]) else 0)
