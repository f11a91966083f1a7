#!/usr/bin/env python3
"""Measures what a program in C or Python pays for a collective by one tree of this project against another: what it costs to note each call.

    python3 benches/calls.py OLD NEW [--rounds 30] [--ranks 2]

OLD and NEW are checkouts with a release build (`cargo build --release -p quincunx-cli -p quincunx-capi -p quincunx-python`). Each round runs three
commands in random order: OLD, NEW, and OLD once more as a control. A row gives two ratios of medians over all rounds: NEW over OLD, and OLD over OLD.

Needs Python 3.11, a C compiler and NumPy; Linux.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM_IN_C = r"""
#include <quincunx.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static int by_value(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }
static double times[COUNT];
int main(void) {
  static float values[1024];
  qxComm_t world;
  int rank, i;
  if (qxCommInit(&world) || qxCommUserRank(world, &rank)) return 1;
  for (int barrier = 0; barrier < 2; barrier++) {
    for (i = 0; i < COUNT; i++) {
      double begin = now();
      if (barrier ? qxBarrier(world, NULL) : qxAllReduce(values, values, 1024, qxFloat32, qxSum, world, NULL)) return 1;
      times[i] = now() - begin;
    }
    qsort(times, COUNT, sizeof *times, by_value);
    if (rank == 0) printf("c %s %f\n", barrier ? "barrier" : "all_reduce", times[COUNT / 2]);
  }
  return qxCommDestroy(world);
}
"""

PROGRAM_IN_PYTHON = """
import statistics, time
import numpy, quincunx
group = quincunx.init()
values = numpy.zeros(1024, numpy.float32)
for name, call in (("all_reduce", lambda: group.all_reduce(values)), ("barrier", group.barrier)):
    times = []
    for _ in range(COUNT):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    if group.rank == 0:
        print("python", name, statistics.median(times) * 1e6)
quincunx.shutdown()
"""


class Tree:
    """A checkout with a release build, and the programs by it."""

    def __init__(self, root: Path, folder: Path, count: int) -> None:
        self.command = root / "target/release/quincunx"
        folder.mkdir()
        package = shutil.copytree(root / "python/quincunx/quincunx", folder / "quincunx")
        shutil.copy(root / "target/release/lib_core.so", package / "_core.abi3.so")
        (folder / "calls.c").write_text(f"#define COUNT {count}\n" + PROGRAM_IN_C)
        (folder / "calls.py").write_text(f"COUNT = {count}\n" + PROGRAM_IN_PYTHON)
        flags = ["-O2", f"-I{root}/crates/apps/capi/include", f"-L{root}/target/release"]
        subprocess.run(["cc", *flags, folder / "calls.c", "-o", folder / "calls", "-lquincunx"], check=True)
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(root / "target/release"), PYTHONPATH=str(folder), OMP_NUM_THREADS="1")
        self.programs = [[str(folder / "calls")], [sys.executable, str(folder / "calls.py")]]

    def run(self, ranks: int, design: str) -> dict[tuple[str, str], float]:
        """Median microseconds of each kind of call, in each language."""
        found = {}
        for program in self.programs:
            started = [str(self.command), "run", "-n", str(ranks), "--design", design, "--", *program]
            ended = subprocess.run(started, env=self.environment, text=True, capture_output=True, timeout=300, check=False)
            if ended.returncode:
                sys.exit(f"expected {' '.join(started)} to end well, found: {ended.stderr.strip()}")
            for language, name, micros in map(str.split, ended.stdout.splitlines()):
                found[language, name] = float(micros)
        return found


def main() -> None:
    """Prints a row for each language and kind of call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout with a release build")
    parser.add_argument("new", type=Path, help="another")
    parser.add_argument("--rounds", type=int, default=30, help="[default: 30]")
    parser.add_argument("--ranks", type=int, default=2, help="[default: 2]")
    parser.add_argument("--count", type=int, default=5000, help="calls of each kind in a command [default: 5000]")
    parser.add_argument("--design", default="epic-3", help="[default: epic-3]")
    options = parser.parse_args()
    chance = random.Random(1)
    times: dict[tuple[str, str], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        old = Tree(options.old.resolve(), Path(folder) / "old", options.count)
        trees = {"old": old, "new": Tree(options.new.resolve(), Path(folder) / "new", options.count), "control": old}
        for number in range(options.rounds):
            print(f"\rround {number + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
            for case in chance.sample(list(trees), len(trees)):
                for kind, micros in trees[case].run(options.ranks, options.design).items():
                    times.setdefault(kind, {}).setdefault(case, []).append(micros)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(f"{'language':10}{'call':12}{'old (us)':>10}{'new/old':>10}{'control':>10}")
    for (language, name), by_case in times.items():
        old_time, new_time, control = (statistics.median(by_case[case]) for case in ("old", "new", "control"))
        print(f"{language:10}{name:12}{old_time:10.1f}{new_time / ((old_time + control) / 2):10.3f}{control / old_time:10.3f}")


if __name__ == "__main__":
    main()
