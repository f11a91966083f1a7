#!/usr/bin/env python3
"""Runs jobs on one manager and one switch for a long time, with faulty links, and kills some processes. Prints what manager and switch hold.

    python3 benches/soak.py QUINCUNX [--seconds 3600] [--seed N]

A manager with a store and a switch stay while jobs of four ranks come and go. All lose, double and reorder 1 % of the frames that
arrive. Of ten jobs, one loses a rank and one the process that has started the ranks. In the first half of the time, one loses the
manager and one the switch, too. These start again at once.

A job that has lost nothing but a manager or a switch must end right. The others must end with an error. After each job no group may be
left that holds anything.

Every minute of the second half a line says what manager and switch hold in memory and open files. It also says how much more that is
than at the line before the first. In the end memory may have grown by 4 MiB, files by 4: these are connections of the last job. Exit
status 1 if anything else has happened, or more, or if the store has a group.

Needs Python 3.11, nothing else; Linux.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from kills import PATIENCE, Round
from processes import groups_in_file, held

FAULTS = ["--loss", "1%", "--duplicate", "1%", "--reorder", "1%"]
DESIGNS = ["epic-1", "epic-2", "epic-3"]
# What may be added to a process that does the same again and again: caches and the allocator's reserves.
SLACK = 4 << 20
# Of the job before, where it was killed.
CONNECTIONS = 4


class Soak(Round):
    """A manager and a switch that stay, and one job at a time."""

    def __init__(self, program: str, folder: Path) -> None:
        super().__init__(program, 0, 0, folder)

    def start_one(self, name: str, *arguments: str) -> None:
        # The first job comes later.
        if name != "perf":
            super().start_one(name, *arguments, *(FAULTS if name == "switch" else []))

    def start_switch(self) -> None:
        self.start_one("switch", "switch", "--name", "leaf", "--address", f"{self.block}.250", "--manager", self.address)

    def start_job(self, design: str, seed: int) -> None:
        super().start_one(
            "perf", "perf", "all_reduce", "--manager", self.address, "--ranks", "4", "--design", design, "--sizes", "64KiB",
            "--iterations", "200", "--json", "--retry-timeout", "5ms", "--seed", str(seed), *FAULTS,
            "--addresses", ",".join(f"{self.block}.{rank + 1}" for rank in range(4)),
        )

    def wait_for_switch(self) -> None:
        """A job that comes before the switch is back runs among its hosts, and says nothing of the switch."""
        time.sleep(0.5)

    def play(self, design: str, victim: str | None, chance: random.Random) -> str | None:
        """What went wrong with a job, if anything did."""
        self.start_job(design, chance.getrandbits(32))
        try:
            if victim:
                self.wait_for_group()
                time.sleep(chance.random() / 5)
                ranks = self.ranks()
                self.kill_one(victim, chance)
                if victim == "switch":
                    self.start_switch()
            if victim == "launcher":
                self.wait_for_nothing(ranks)
                self.processes["perf"].communicate(timeout=PATIENCE)
                return None
            is_right, said = self.end()
            self.wait_for_nothing([])
            # A job that was over before its rank was killed has lost nothing.
            return None if is_right or (victim == "rank" and "error: " in said) else said or "no result, and nothing said"
        except (TimeoutError, OSError) as error:
            return str(error)
        finally:
            if victim == "switch":
                self.wait_for_switch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the quincunx command")
    parser.add_argument("--seconds", type=float, default=3600, help="[default: 3600]")
    parser.add_argument("--seed", type=int, default=1, help="[default: 1]")
    asked = parser.parse_args()
    chance, begun, jobs = random.Random(asked.seed), time.monotonic(), 0
    faults: list[str] = []
    first: dict[str, tuple[int, int]] = {}
    said = begun
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(asked.program, Path(folder))
        try:
            while time.monotonic() - begun < asked.seconds:
                victim = [None, "rank", None, "launcher", None, None, "manager", None, "switch", None][jobs % 10]
                is_late = time.monotonic() - begun > asked.seconds / 2
                if is_late and victim in ("manager", "switch"):
                    victim = None
                fault = soak.play(DESIGNS[jobs % 3], victim, chance)
                jobs += 1
                if fault:
                    faults.append(f"job {jobs}, {victim or 'nothing'} killed: {fault}")
                    print(faults[-1], file=sys.stderr, flush=True)
                now = time.monotonic()
                for name in ["manager", "switch"] if now - begun > 0.55 * asked.seconds else []:
                    holds = held(soak.processes[name].pid)
                    before = first.setdefault(name, holds)
                    if now - said > 60:
                        grown = holds[0] - before[0]
                        print(
                            f"{now - begun:6.0f} s  {jobs} jobs, {len(faults)} faults  {name}: {holds[0] / 2**20:.1f} MiB"
                            f" ({grown / 1024:+.0f} KiB), {holds[1]} files", flush=True,
                        )
                if now - said > 60:
                    said = now
            for name, before in first.items():
                more_memory, more_files = (now - then for now, then in zip(held(soak.processes[name].pid), before))
                if more_memory > SLACK or more_files > CONNECTIONS:
                    faults.append(f"{name} holds {more_memory} bytes and {more_files} files more than before")
            if kept := groups_in_file(soak.store):
                faults.append(f"the store has groups {kept} of jobs that have ended")
        finally:
            soak.close()
    print(f"{jobs} jobs in {time.monotonic() - begun:.0f} s, {len(faults)} faults")
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
