#!/usr/bin/env python3
"""Kills one process of a running job at a random moment, again and again, and prints how long the job took to end with an error, or that it went on.

    python3 benches/kills.py QUINCUNX [ROUNDS] [SEED]

Each round starts a manager with a store, a switch and four ranks on loopback, lets the ranks add up vectors, and ends the manager, the switch or a rank
with SIGKILL. A manager that was killed is started again at once; then the job must go on and be right. Without its switch the group is made anew among
its hosts, and the job must go on and be right, too. Without a rank all others must end with an error within the limit. Exit status 1 if one round
did neither. Needs Python 3.11, nothing else; Linux.
"""

import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 3.0
RANKS = 4
VICTIMS = ["manager", "switch", "rank"]
REMADE = re.compile(r"group \d+ was made anew on \S+ after (\d+) ms")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Round:
    """A fabric and a job on it. Everything that it starts ends with it."""

    def __init__(self, program: str, number: int, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.address = f"127.0.0.1:{free_port()}"
        self.block = f"127.{96 + number // 250 % 32}.{number % 250}"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.start_manager()
        self.start("switch", "switch", "--name", "leaf", "--address", f"{self.block}.250", "--manager", self.address)
        # Long enough to be under way when it comes, and to go on for a while.
        self.start(
            "perf", "perf", "all_reduce", "--manager", self.address, "--ranks", str(RANKS), "--design", "epic-3",
            "--sizes", "64KiB", "--iterations", "1500", "--json",
            "--addresses", ",".join(f"{self.block}.{rank + 1}" for rank in range(RANKS)),
        )

    def start(self, name: str, *arguments: str) -> None:
        self.processes[name] = subprocess.Popen(
            [self.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def start_manager(self) -> None:
        store = str(self.folder / f"{self.block}.sqlite")
        self.start("manager", "manager", "--listen", self.address, "--store", store, "--log-level", "off")
        output = self.processes["manager"].stdout
        assert output is not None
        output.readline()

    def groups(self) -> list[dict[str, object]]:
        asked = [self.program, "group", "list", "--manager", self.address, "--json"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        return json.loads(found.stdout)["groups"] if found.returncode == 0 else []

    def wait_for_group(self) -> None:
        end = time.monotonic() + 20
        while not any(group["state"] == "ready" for group in self.groups()):
            if time.monotonic() > end:
                raise SystemExit("error: expected a group within 20 s, found none; run the commands by hand")
            time.sleep(0.05)

    def ranks(self) -> list[int]:
        children = Path(f"/proc/{self.processes['perf'].pid}/task").glob("*/children")
        return [int(child) for path in children for child in path.read_text().split()]

    def kill(self, victim: str, chance: random.Random) -> None:
        if victim == "rank":
            ranks = self.ranks()
            if ranks:
                subprocess.run(["kill", "-KILL", str(chance.choice(ranks))], check=False)
            return
        self.processes[victim].send_signal(signal.SIGKILL)
        self.processes[victim].wait()
        if victim == "manager":
            self.start_manager()

    def end(self) -> tuple[bool, str]:
        """Whether the job was right, and what it said."""
        output, error = self.processes["perf"].communicate(timeout=60)
        try:
            rows = json.loads(output)["rows"]
        except (json.JSONDecodeError, KeyError):
            rows = []
        is_right = self.processes["perf"].returncode == 0 and len(rows) == 1 and rows[0]["wrong"] == 0
        return is_right, error.strip()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()


def distribution(times: list[float]) -> str:
    ordered = sorted(times)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))]  # noqa: E731
    return "  ".join(f"{name} {at(share) * 1e3:.0f} ms" for name, share in [("median", 0.5), ("90 %", 0.9), ("most", 1.0)])


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    ended: dict[str, list[float]] = {victim: [] for victim in VICTIMS}
    went_on = dict.fromkeys(VICTIMS, 0)
    made_anew: list[float] = []
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            victim = VICTIMS[number % len(VICTIMS)]
            job = Round(program, number, Path(folder))
            try:
                job.wait_for_group()
                time.sleep(chance.random() * 0.5)
                killed = time.monotonic()
                job.kill(victim, chance)
                is_right, said = job.end()
                took = time.monotonic() - killed
            finally:
                job.close()
            remade = REMADE.search(said)
            if is_right:
                went_on[victim] += 1
                if remade:
                    made_anew.append(int(remade[1]) / 1e3)
            elif victim != "rank" or took > LIMIT or "error: " not in said:
                faults.append(f"round {number}: {victim} killed, after {took:.2f} s: {' / '.join(said.splitlines()) or 'nothing said'}")
            else:
                ended[victim].append(took)
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {rounds}, {len(faults)} faults", end="", file=sys.stderr, flush=True)
    for victim in VICTIMS:
        times = f"; {distribution(ended[victim])}" if ended[victim] else ""
        if victim == "switch" and made_anew:
            times = f"; made anew {len(made_anew)} times, from the loss to the word to go on: {distribution(made_anew)}"
        print(f"{victim:<8} killed: went on {went_on[victim]}, ended with an error {len(ended[victim])}{times}")
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
