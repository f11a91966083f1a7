#!/usr/bin/env python3
"""How many states a second TLC and our checker explore: `spec/compare.py QUINCUNX`, the program built for release.

The cases are those of `spec/large/`, right ones on Tree-3-2. The two take turns, with as many threads as there are
cores, nothing reduced on either side (`--full`); of three rounds the median counts. Both count from the first state to
the verdict. The state spaces are those of a model and of the engines, so their sizes differ; the rates may be compared.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

SPEC = Path(__file__).resolve().parent

ROUNDS = 3
DESIGNS = {"ModeII": "epic-2", "ModeIII": "epic-3"}


def constants(case: Path) -> dict[str, str]:
    """The constants of a case."""
    pairs = (line.split("=") for line in case.read_text().splitlines() if "=" in line)
    return {name.strip(): value.strip().strip('"') for name, value in pairs}


def run(command: list[str]) -> str:
    """What a command prints; it must succeed."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def by_tlc(case: Path) -> dict:
    """TLC's line on a case."""
    workers = str(os.cpu_count() or 1)
    line = run([sys.executable, str(SPEC / "tlc.py"), str(case), "--workers", workers, "--json"])
    if line.startswith("missing:"):
        sys.exit(line)
    return json.loads(line)


def by_ours(program: str, case: Path) -> dict:
    """Our checker's row on the same case."""
    known = constants(case)
    design = DESIGNS[case.stem.split("-")[0]]
    options = ["--tree", known["Tree"], "--packets", known["Packets"], "--window", known["Window"]]
    faults = ["--losses", known["Losses"], f"--duplicate={known['Copies']}", f"--reorder={known['Delays']}"]
    line = run([program, "check", design, known["Primitive"], *options, *faults, "--full", "--json"])
    return json.loads(line)["rows"][0]


def rate(row: dict) -> float:
    """Distinct states a second."""
    return row["distinct"] / row["seconds"]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("expected the path of quincunx, built for release; make bench-check does both")
    program = sys.argv[1]
    print(f"{'case':<22} {'TLC states':>11} {'a second':>9} {'our states':>11} {'a second':>9} {'ratio':>6}")
    for case in sorted((SPEC / "large").glob("*.cfg")):
        rounds = [(by_tlc(case), by_ours(program, case)) for _ in range(ROUNDS)]
        for theirs, ours in rounds:
            if (theirs["verdict"], ours["verdict"]) != ("right", "correct"):
                sys.exit(f"expected both to find {case.name} right, found {theirs['verdict']} and {ours['verdict']}")
        theirs = statistics.median(rate(theirs) for theirs, _ in rounds)
        ours = statistics.median(rate(ours) for _, ours in rounds)
        sizes = rounds[0][0]["distinct"], rounds[0][1]["distinct"]
        print(
            f"{case.stem:<22} {sizes[0]:>11} {theirs:>9.0f} {sizes[1]:>11} {ours:>9.0f} {ours / theirs:>6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
