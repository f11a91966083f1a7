#!/usr/bin/env python3
"""Kills one process of a running job at a random moment, again and again. Prints how long the job took to end with an error, or that it went on.

    python3 benches/kills.py QUINCUNX [ROUNDS] [SEED] [--iterations N] [--log FILE] [--quiet]
    python3 benches/kills.py --sum FILE...

Each round starts a manager with a store, a switch and four ranks on loopback. The ranks add up vectors. SIGKILL ends one process:

- the manager: it starts again at once, and the job must go on and be right;
- the switch: the group is made anew among its hosts, and the job must go on and be right;
- a rank: all others must end with an error within the limit;
- the process that has started the ranks: all ranks must be gone within the limit, and the manager must have no group of theirs.

A job runs --iterations AllReduces of 64 KiB. The kill comes within half a second of the group, or earlier if there are fewer. 300 of
them among hosts take a second or two, and some ten seconds on a busy machine. Many more could take longer than a round may.

No round takes longer than a minute: what still runs then is a fault. Every ten rounds a line on standard error says how far it is (not
with --quiet). --log adds a line of JSON for each round to a file. So many rounds can run in pieces, with seeds of their own; --sum
prints what all of them have found. Exit status 1 if one round had a fault.

Needs Python 3.11, nothing else; Linux.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import Processes, asked, free_port, is_alive

LIMIT = 3.0
RANKS = 4
VICTIMS = ["manager", "switch", "rank", "launcher"]
# Whatever happens, a round ends.
PATIENCE = 60.0
REMADE = re.compile(r"group \d+ was made anew on \S+ after (\d+) ms")


class Round(Processes):
    """A fabric and a job on it. Everything that it starts ends with it."""

    def __init__(self, program: str, number: int, iterations: int, folder: Path) -> None:
        super().__init__()
        self.program, self.folder = program, folder
        self.address = f"127.0.0.1:{free_port()}"
        # Blocks of addresses unlike those of a run beside this one.
        place = os.getpid() * 251 + number
        self.block = f"127.{96 + place // 250 % 32}.{place % 250}"
        self.store = folder / f"{self.block}.sqlite"
        self.start_manager()
        self.start_one("switch", "switch", "--name", "leaf", "--address", f"{self.block}.250", "--manager", self.address)
        # Long enough to be under way when the kill comes, and to go on for a while.
        self.start_one(
            "perf", "perf", "all_reduce", "--manager", self.address, "--ranks", str(RANKS), "--design", "epic-3",
            "--sizes", "64KiB", "--iterations", str(iterations), "--json",
            "--addresses", ",".join(f"{self.block}.{rank + 1}" for rank in range(RANKS)),
        )

    def start_one(self, name: str, *arguments: str) -> None:
        # Nobody reads what the others say: a full pipe would stop them.
        self.start(name, [self.program, *arguments], stderr=subprocess.PIPE if name == "perf" else subprocess.DEVNULL)

    def start_manager(self) -> None:
        self.start_one("manager", "manager", "--listen", self.address, "--store", str(self.store), "--log-level", "off")
        output = self.processes["manager"].stdout
        assert output is not None
        output.readline()

    def groups(self) -> list[dict[str, object]] | None:
        found = asked([self.program, "group", "list", "--manager", self.address, "--json"])
        return None if found is None else found["groups"]

    def wait_for_group(self) -> None:
        end = time.monotonic() + PATIENCE
        while not any(group["state"] == "ready" for group in self.groups() or []):
            if time.monotonic() > end or self.processes["perf"].poll() is not None:
                raise TimeoutError("no group came about")
            time.sleep(0.05)

    def ranks(self) -> list[int]:
        children = Path(f"/proc/{self.processes['perf'].pid}/task").glob("*/children")
        return [int(child) for path in children for child in path.read_text().split()]

    def kill_one(self, victim: str, chance: random.Random) -> None:
        if victim == "launcher":
            self.processes["perf"].send_signal(signal.SIGKILL)
            return
        if victim == "rank":
            ranks = self.ranks()
            if ranks:
                subprocess.run(["kill", "-KILL", str(chance.choice(ranks))], check=False)
            return
        self.kill(victim)
        if victim == "manager":
            self.start_manager()

    def end(self) -> tuple[bool, str]:
        """Whether the job was right, and what it said."""
        try:
            output, error = self.processes["perf"].communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as expired:
            raise TimeoutError("the job hangs") from expired
        try:
            rows = json.loads(output)["rows"]
        except (json.JSONDecodeError, KeyError):
            rows = []
        is_right = self.processes["perf"].returncode == 0 and len(rows) == 1 and rows[0]["wrong"] == 0
        return is_right, error.strip()

    def wait_for_nothing(self, ranks: list[int]) -> None:
        """Until the ranks are gone, and their groups hold nothing."""
        end = time.monotonic() + PATIENCE
        while True:
            left = [rank for rank in ranks if is_alive(rank)]
            groups = self.groups()
            if not left and groups is not None and all(group["state"] == "failed" for group in groups):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"ranks {left} and groups {groups} are left")
            time.sleep(0.02)


def distribution(times: list[float]) -> str:
    ordered = sorted(times)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))]  # noqa: E731
    return "  ".join(f"{name} {at(share) * 1e3:.0f} ms" for name, share in [("median", 0.5), ("90 %", 0.9), ("most", 1.0)])


def play(program: str, number: int, victim: str, chance: random.Random, iterations: int, folder: Path) -> dict[str, object]:
    """A round: who was killed, whether the job went on, and how long it took to end otherwise; `fault` if it did neither."""
    job = Round(program, number, iterations, folder)
    outcome: dict[str, object] = {"victim": victim, "went_on": False}
    try:
        job.wait_for_group()
        time.sleep(chance.random() * iterations / 3000)
        ranks = job.ranks()
        killed = time.monotonic()
        job.kill_one(victim, chance)
        if victim == "launcher":
            job.wait_for_nothing(ranks)
            is_right, said, remade = False, "error: it was killed", None
        else:
            is_right, said = job.end()
            remade = REMADE.search(said)
        took = time.monotonic() - killed
    except TimeoutError as error:
        return {**outcome, "fault": str(error)}
    finally:
        job.close()
    if is_right:
        return {**outcome, "went_on": True, "remade": int(remade[1]) / 1e3 if remade else None}
    if victim not in ("rank", "launcher") or took > LIMIT or "error: " not in said:
        return {**outcome, "fault": f"after {took:.2f} s: {' / '.join(said.splitlines()) or 'nothing said'}"}
    return {**outcome, "ended": took}


def summary(outcomes: list[dict[str, object]]) -> int:
    """Prints what the rounds have found; the exit status."""
    faults = [f"{outcome['victim']} killed, {outcome['fault']}" for outcome in outcomes if "fault" in outcome]
    for victim in VICTIMS:
        of = [outcome for outcome in outcomes if outcome["victim"] == victim]
        ended = [outcome["ended"] for outcome in of if "ended" in outcome]
        remade = [outcome["remade"] for outcome in of if outcome.get("remade") is not None]
        went_on = sum(outcome["went_on"] for outcome in of)
        times = f"; {distribution(ended)}" if ended else ""
        if remade:
            times += f"; made anew {len(remade)} times, from the loss to the word to go on: {distribution(remade)}"
        print(f"{victim:<8} killed {len(of)} times: went on {went_on}, ended with an error {len(ended)}{times}")
    print(f"{len(outcomes)} rounds, {len(faults)} faults")
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", help="the quincunx command")
    parser.add_argument("rounds", nargs="?", type=int, default=30, help="[default: 30]")
    parser.add_argument("seed", nargs="?", type=int, default=1, help="[default: 1]")
    parser.add_argument("--iterations", type=int, default=300, help="AllReduces a job [default: 300]")
    parser.add_argument("--log", type=Path, help="adds a line of JSON a round to this file")
    parser.add_argument("--quiet", action="store_true", help="says nothing of how far it is")
    parser.add_argument("--sum", nargs="+", type=Path, metavar="FILE", help="prints what these logs have found, and runs nothing")
    options = parser.parse_args()
    if options.sum:
        return summary([json.loads(line) for path in options.sum for line in path.read_text().splitlines()])
    if options.program is None:
        parser.error("expected the program to run, found none; name one, such as target/debug/quincunx")
    chance = random.Random(options.seed)
    outcomes: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            victim = VICTIMS[number % len(VICTIMS)]
            played = play(options.program, number, victim, chance, options.iterations, Path(folder))
            outcome = {"seed": options.seed, "round": number, **played}
            outcomes.append(outcome)
            if options.log:
                with options.log.open("a") as log:
                    log.write(json.dumps(outcome) + "\n")
            faults = sum("fault" in outcome for outcome in outcomes)
            if not options.quiet and (number % 10 == 9 or "fault" in outcome):
                said = f"{number + 1} of {options.rounds} rounds, {faults} faults"
                print(f"{said}: {outcome['fault']}" if "fault" in outcome else said, file=sys.stderr, flush=True)
    return summary(outcomes)


if __name__ == "__main__":
    sys.exit(main())
