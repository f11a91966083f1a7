#!/usr/bin/env python3
"""Measures what it costs that ranks share one address: `perf all_reduce` of eight ranks behind one, and with one each.

    python3 benches/addresses.py QUINCUNX [--rounds 30] [--sizes 4KiB,128KiB,4MiB]

Each round runs three commands in random order: one address, eight, and eight once more as a control. A row gives two ratios of
medians: one address over eight, and eight over eight. The second is the machine's own noise.

Needs Python 3.11; Linux.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys

# An address of the loopback that nothing else takes.
SHARED = ["--addresses", "127.0.0.77"]
CASES = {"one": SHARED, "eight": [], "control": []}
# Collectives in a command: enough that it takes a second.
COUNTS = {"4KiB": 2000, "128KiB": 300, "4MiB": 20}


def medians(command: str, size: str, count: int, more: list[str]) -> dict[str, float]:
    """Microseconds of each design."""
    arguments = ["perf", "all_reduce", "--ranks", "8", "--design", "epic-3,ring", "--sizes", size, "-n", str(count), "--json"]
    done = subprocess.run([command, *arguments, *more], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"expected {command} {' '.join(arguments)} to end well, found: {done.stderr.strip()}")
    return {row["design"]: row["median_us"] for row in json.loads(done.stdout)["rows"]}


def main() -> None:
    """Prints a row for each size and design."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", metavar="QUINCUNX", help="the quincunx command")
    parser.add_argument("--rounds", type=int, default=30, help="[default: 30]")
    parser.add_argument("--sizes", default=",".join(COUNTS), help="[default: all]")
    options = parser.parse_args()
    chance = random.Random(1)
    print(f"{'size':8} {'design':8} {'one/eight':>10} {'control':>8}")
    for size in options.sizes.split(","):
        times: dict[str, dict[str, list[float]]] = {}
        for number in range(options.rounds):
            print(f"\r{size}: round {number + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
            for case in chance.sample(list(CASES), len(CASES)):
                for design, time in medians(options.command, size, COUNTS.get(size, 100), CASES[case]).items():
                    times.setdefault(design, {}).setdefault(case, []).append(time)
        print("\r\033[K", end="", file=sys.stderr, flush=True)
        for design, by_case in times.items():
            one, eight, control = (statistics.median(by_case[case]) for case in CASES)
            print(f"{size:8} {design:8} {one / ((eight + control) / 2):10.3f} {control / eight:8.3f}", flush=True)


if __name__ == "__main__":
    main()
