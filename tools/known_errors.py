#!/usr/bin/env python3
"""How far the simulator is off what papers have published of collectives: `quincunx reproduce --json | known_errors.py`.

Prints what crates/studies/sim/src/prediction/known_errors.toml has: of each kind of fabric the figures that engines have predicted (times,
rates and ratios of times of collectives, of layers with theirs, and the network's share of a step; none that has set a parameter), and the relative error that nine of ten of them do not exceed.
"""

import json
import math
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"
KINDS = {"memory": ("scin", "cais"), "packets": ("epic", "ars")}
TIMES = {"time", "gibit-per-second", "gigabit-per-second", "rate", "payload-share", "speedup", "layer-speedup", "first-token-share", "next-token-share"}


def is_of_times(experiment: Mapping[str, Any]) -> bool:
    """Whether all that an experiment measures are times of collectives, in whatever unit."""
    series = experiment.get("series", [])
    return all(one.get("quantity", experiment.get("quantity")) in TIMES for one in series)


def nine_in_ten(errors: Iterable[float]) -> float:
    """The least share that nine of ten errors do not exceed, by the nearest rank, rounded up to a thousandth."""
    ordered = sorted(map(abs, errors))
    return math.ceil(ordered[math.ceil(len(ordered) * 0.9) - 1] * 1000) / 1000


def known(rows: Iterable[Mapping[str, Any]], experiments: Mapping[str, Mapping[str, Any]]) -> str:
    """The file, of rows of `reproduce` and of experiments by `paper/id`."""
    rows, text = list(rows), "# What tools/known_errors.py makes of `quincunx reproduce --json`.\n"
    for kind, papers in KINDS.items():
        errors = [
            row["error"]
            for row in rows
            if row["kind"] == "predicted" and row["paper"] in papers and is_of_times(experiments[f"{row['paper']}/{row['id']}"])
        ]
        text += f"\n[{kind}]\nfigures = {len(errors)}\nnine_in_ten = {nine_in_ten(errors)}\n"
    return text


if __name__ == "__main__":
    files = sorted(EXPERIMENTS.glob("*/*.toml"))
    found = {f"{file.parent.name}/{file.stem}": tomllib.loads(file.read_text(encoding="utf-8")) for file in files}
    sys.stdout.write(known(json.load(sys.stdin)["rows"], found))
