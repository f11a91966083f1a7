#!/usr/bin/env python3
"""Measures a switch on one core and on two: an AllReduce without channels, with two channels on one core, and with one on each of two.

    python3 benches/cores.py QUINCUNX [--ranks 4] [--size 16MiB] [--rounds 3] [--iterations 20]

Manager, switch and ranks are processes on loopback. The rounds take the three by turns. A line has medians over the rounds:

- the time of an AllReduce: the median of its repetitions at rank 0;
- the processor time that the switch takes for it;
- the share of its threads, the busiest first.

Ranks and switch share the machine's processors. Where these are few, a second core of the switch takes time from the ranks. Then the
time says little. The shares still say whether the work is divided.

Needs Python 3.11; Linux.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Cores of the switch, and channels of the group.
CASES = [(1, 1), (1, 2), (2, 2)]
# How long the switch may take to attach.
PATIENCE = 20.0


def processor_times(pid: int) -> list[float]:
    """Seconds that each thread of a process has had a processor."""
    # The first word of schedstat: nanoseconds.
    times = (Path(task, "schedstat").read_text().split()[0] for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(text) / 1e9 for text in times]


def attached(program: str, manager: str) -> bool:
    """Whether the manager has a node."""
    found = subprocess.run([program, "nodes", "--manager", manager, "--json"], capture_output=True, text=True)
    return found.returncode == 0 and '"leaf"' in found.stdout


def measure(program: str, cores: int, channels: int, arguments: argparse.Namespace) -> tuple[float, float, list[float]]:
    """Milliseconds of an AllReduce, those that the switch had a processor for it, and its threads' shares."""
    block = f"127.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
    addresses = ",".join(f"{block}.{core + 1}" for core in range(cores))
    running = []
    try:
        manager = subprocess.Popen(
            [program, "manager", "--listen", "127.0.0.1:0", "--log-level", "off"], stdout=subprocess.PIPE, text=True
        )
        running.append(manager)
        place = manager.stdout.readline().split()[-1]
        switch = subprocess.Popen(
            [program, "switch", "--name", "leaf", "--address", addresses, "--manager", place, "--log-level", "off"]
        )
        running.append(switch)
        end = time.monotonic() + PATIENCE
        while not attached(program, place):
            if time.monotonic() > end or switch.poll() is not None:
                raise SystemExit(f"expected the switch to attach within {PATIENCE:.0f} s, found that it has not; start it by hand to see why")
            time.sleep(0.05)
        before = processor_times(switch.pid)
        command = [program, "perf", "all_reduce", "--manager", place, "--ranks", str(arguments.ranks)]
        command += ["--size", arguments.size, "--iterations", str(arguments.iterations), "--json"]
        command += ["--set", f"group.channels={channels}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"expected exit status 0, found {done.returncode} of {' '.join(command)}: {done.stderr.strip()}")
        after = processor_times(switch.pid)
        row = json.loads(done.stdout)["rows"][0]
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
    spent = sorted((then - now for now, then in zip(before, after, strict=True)), reverse=True)
    # One collective more warms up.
    each = 1e3 * sum(spent) / (arguments.iterations + 1)
    return row["median_us"] / 1e3, each, [share / sum(spent) for share in spent[:2]]


def main() -> None:
    """Prints a line for each of the cases."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="the quincunx command")
    parser.add_argument("--ranks", type=int, default=4, help="[default: 4]")
    parser.add_argument("--size", default="16MiB", help="of a vector [default: 16MiB]")
    parser.add_argument("--rounds", type=int, default=3, help="[default: 3]")
    parser.add_argument("--iterations", type=int, default=20, help="AllReduces a round [default: 20]")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", file=sys.stderr)
    found = {case: [] for case in CASES}
    for _ in range(arguments.rounds):
        for case in CASES:
            found[case].append(measure(arguments.program, *case, arguments))
    print("cores channels   time (ms)   switch (ms)   its threads")
    for (cores, channels), rounds in found.items():
        clock, processor = (statistics.median(one[which] for one in rounds) for which in (0, 1))
        shares = " ".join(f"{100 * statistics.median(one[2][thread] for one in rounds):.0f}%" for thread in (0, 1))
        print(f"{cores:<5} {channels:<7} {clock:>9.1f} {processor:>13.1f}   {shares}")


if __name__ == "__main__":
    main()
