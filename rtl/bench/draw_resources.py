#!/usr/bin/env python3
"""Draws `rtl/allreduce_switch/resources.svg` (figure 16): the share of XCVU190 that the switch takes, by number of ports, beside what is published.

`make draw-rtl` runs it. It reads `experiments/ars/fig16.toml`, and says in the drawing's description what it has drawn.
"""

import json
import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent.parent
EXPERIMENT = ROOT / "experiments/ars/fig16.toml"
DRAWING = ROOT / "rtl/allreduce_switch/resources.svg"
NAMES = {"block-ram": ("block RAM", "tab:blue"), "luts": ("LUT", "tab:orange"), "flip-flops": ("flip-flops", "tab:green")}


def main() -> None:
    figure = tomllib.loads(EXPERIMENT.read_text())
    # The same file each time: no date, no identifiers by chance.
    matplotlib.rcParams["svg.hashsalt"] = "resources"
    matplotlib.rcParams["svg.fonttype"] = "none"
    drawing, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for key, (name, colour) in NAMES.items():
        axes.plot(figure["ports"], figure["measured"][key], marker="o", color=colour, label=f"{name}, here")
        axes.plot([8], [figure["published"]["eight"][key]], marker="x", markersize=9, linestyle="none", color=colour, label=f"{name}, published")
    axes.set_xlabel("ports")
    axes.set_ylabel("per cent of XCVU190")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    said = json.dumps({"measured": figure["measured"], "published": figure["published"]["eight"]})
    drawing.savefig(DRAWING, metadata={"Date": None, "Description": said})


if __name__ == "__main__":
    main()
