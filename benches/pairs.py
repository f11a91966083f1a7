#!/usr/bin/env python3
"""Times two builds of the program against each other: the same command by the old one and by the new one, in turn.

    python3 benches/pairs.py OLD NEW [--pairs 12] [--only NAME] [--json FILE]

What else the machine does meets both builds. OLD and NEW are release builds of `quincunx`. A command of `perf` counts by the median of
its rounds, the others by processor time. Each row gives the ratio new/old: the median over the pairs, and the ratio of the fastest of
each. `--only perf` takes the commands whose names begin so. A command that fails ends the run with what it said.

Needs Python 3.11; Linux.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PERF_DESIGNS = "epic-1,epic-2,epic-3,ring,tree,direct"
# Whatever happens, a wait ends.
LIMIT = 600

Times = dict[str, float]


def run(program: Path, arguments: list[str]) -> tuple[str, float]:
    """What a command printed, and the seconds of processor it and its children took."""
    before = os.times()
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)
    after = os.times()
    if done.returncode != 0:
        sys.exit(f"error: expected {program} {' '.join(arguments)} to end well, found exit status {done.returncode}: {done.stderr.strip()}")
    taken = after.children_user - before.children_user + after.children_system - before.children_system
    return done.stdout, taken


def perf(collective: str, *more: str) -> Callable[[Path], Times]:
    """Microseconds of each design's rounds over sockets."""

    def times(program: Path) -> Times:
        out, _ = run(program, ["perf", collective, "--ranks", "4", "-n", "3000", "--design", PERF_DESIGNS, "--json", *more])
        return {row["design"]: row["median_us"] for row in json.loads(out)["rows"]}

    return times


def processor(designs: str, *arguments: str) -> Callable[[Path], Times]:
    """Seconds of processor of a command, for each of the designs."""

    def times(program: Path) -> Times:
        return {design: run(program, [argument.format(design) for argument in arguments])[1] for design in designs.split(",")}

    return times


CASES: dict[str, Callable[[Path], Times]] = {
    "perf all_reduce 4KiB": perf("all_reduce", "--sizes", "4KiB"),
    "perf barrier": perf("barrier"),
    "sim packets": processor("epic-1,epic-2,epic-3,ring,tree,direct,netreduce", "sim", "all_reduce", "--fabric", "star-8", "--design", "{}", "--sizes", "256MiB"),
    "sim memory": processor("scin,nvls,cais,ring", "sim", "all_reduce", "--fabric", "memory-8", "--design", "{}", "--sizes", "16MiB"),
    "check tree-3-2": processor("epic-1,epic-2,epic-3", "check", "{}", "all_reduce"),
}


def main() -> None:
    """Runs the pairs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a release build")
    parser.add_argument("new", type=Path, help="another")
    parser.add_argument("--pairs", type=int, default=12, help="[default: 12]")
    parser.add_argument("--only", default="", help="commands whose names begin so [default: all]")
    parser.add_argument("--json", type=Path, help="writes the rows to this file, too")
    options = parser.parse_args()
    rows = []
    print(f"{'what':22} {'design':10} {'median':>7} {'fastest':>8} {'least':>7} {'most':>7}")
    for name, measure in CASES.items():
        if not name.startswith(options.only):
            continue
        pairs: list[tuple[Times, Times]] = []
        for number in range(options.pairs):
            print(f"\r{name}: pair {number + 1} of {options.pairs}", end="", file=sys.stderr, flush=True)
            if number % 2 == 0:
                old = measure(options.old)
                new = measure(options.new)
            else:
                new = measure(options.new)
                old = measure(options.old)
            pairs.append((old, new))
        print("\r\033[K", end="", file=sys.stderr, flush=True)
        for design in pairs[0][0]:
            ratios = [new[design] / old[design] for old, new in pairs]
            fastest = min(new[design] for _, new in pairs) / min(old[design] for old, _ in pairs)
            median = statistics.median(ratios)
            print(f"{name:22} {design:10} {median:7.3f} {fastest:8.3f} {min(ratios):7.3f} {max(ratios):7.3f}", flush=True)
            rows.append({"what": name, "design": design, "median": median, "fastest": fastest, "ratios": ratios})
    if options.json:
        options.json.write_text(json.dumps({"pairs": options.pairs, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
