#!/usr/bin/env python3
"""Two jobs whose groups share one block of a switch's memory, beside each in a block of its own, on real links.

    sudo python3 benches/shared_block.py target/release/quincunx [--rate 100mbit] [--kib 512] [--steps 60] [--rounds 3] [--think 0,60]

Machines are network namespaces, one for each of eight ranks, joined by cables to a box with `quincunx switch --port`; tbf limits every cable, both
ways. A job is four ranks, which compute (sleep) for `--think` milliseconds and then add up a vector of `--kib` KiB, again and again. By turns:

    hosts    both jobs add up among their hosts
    alone    one job in the switch, and no other
    own      both, each in a block of its own, without locks (spatial)
    locked   both, each in a block of its own, which it locks (contention)
    shared   both in one block: who finds it locked adds up among its hosts (contention)

For each the median over rounds of the mean time of a collective, as a ratio to `own`, too, and how many collectives had their locks. Each result is
looked at, element by element. Needs the package `quincunx`, built (PYTHONPATH=python/quincunx); a minute and a half for each value of `--think`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python/quincunx/tests/starters"), str(ROOT / "python/quincunx")]

NAMES = {name: f"10.77.0.{11 + index}" for index, name in enumerate("abcdefgh")}
JOBS = ["abcd", "efgh"]
DESIGN, AMONG_HOSTS = "epic-3", "ring"
# Policy, blocks of the switch's memory, design, jobs.
CASES = {
    "hosts": ("spatial", 2, AMONG_HOSTS, 2),
    "alone": ("spatial", 2, DESIGN, 1),
    "own": ("spatial", 2, DESIGN, 2),
    "locked": ("contention", 2, DESIGN, 2),
    "shared": ("contention", 1, DESIGN, 2),
}
# Not counted: the first of them find each other.
WARM_UP = 5


def rank(kib: int, steps: int, think: float) -> None:
    """One rank: prints the mean time of a collective in seconds, and what its group runs."""
    import quincunx

    group = quincunx.init()
    count = kib * 256
    times = []
    for step in range(WARM_UP + steps):
        time.sleep(think)
        values = array("i", [group.rank + step]) * count
        begin = time.monotonic()
        group.all_reduce(values)
        times.append(time.monotonic() - begin)
        expected = sum(range(group.size)) + group.size * step
        if values != array("i", [expected]) * count:
            sys.exit(f"expected {expected} in all elements after step {step}, found another")
    print(json.dumps({"design": group.design, "seconds": statistics.mean(times[WARM_UP:])}), flush=True)
    quincunx.shutdown()


class Fabric:
    """Eight machines at a box with a manager and a switch, for one case."""

    def __init__(self, folder: Path, program: str, rate: str, policy: str, memory: str) -> None:
        from machines import BOX, Machines

        self.program, self.certificates, self.box = program, folder / "certs", BOX
        init = [program, "manager", "init", str(self.certificates), "--node", "s0", "--tenant", "blue"]
        subprocess.run(init, check=True, capture_output=True)
        self.machines = Machines(folder, NAMES)
        for name in NAMES:
            for space, device in (("box", f"to-{name}"), (name, "eth0")):
                words = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
                self.machines.call(space, *words)
        manager = ["--listen", "0.0.0.0:4790", "--policy", policy, "--identity", str(self.certificates / "manager.pem")]
        self.machines.start("box", program, "manager", *manager)
        ports = [word for name in NAMES for word in ("--port", f"to-{name}")]
        switch = ["--name", "s0", "--address", f"{BOX}/24", *ports, "--memory", memory, "--manager", "127.0.0.1:4790"]
        self.machines.start("box", program, "switch", *switch, "--identity", str(self.certificates / "node-s0.pem"))
        self.machines.wait_for("a switch that the manager knows", lambda: any(self.ask("nodes")["rows"]))

    def start(self, job: int, design: str, options: argparse.Namespace, think: float) -> list[subprocess.Popen[str]]:
        """The ranks of a job."""
        ranks = []
        for number, name in enumerate(JOBS[job]):
            environment = {
                "RANK": str(number),
                "WORLD_SIZE": str(len(JOBS[job])),
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": NAMES[JOBS[job][0]],
                "MASTER_PORT": "29511",
                "QUINCUNX_MANAGER": f"{self.box}:4790",
                "QUINCUNX_IDENTITY": str(self.certificates / "tenant-blue.pem"),
                "QUINCUNX_DESIGN": design,
                "QUINCUNX_JOB": f"job-{job}",
            }
            told = ["rank", str(options.kib), str(options.steps), str(think)]
            ranks.append(self.machines.start(name, sys.executable, __file__, *told, **environment))
        return ranks

    def ask(self, *words: str) -> dict:
        """What the manager says; no rows while there is none."""
        identity = ["--identity", str(self.certificates / "operator-admin.pem")]
        command = self.machines.on("box", self.program, *words, "--json", "--manager", "127.0.0.1:4790", *identity)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else {"rows": []}

    def locks(self, seen: dict[int, list[int]]) -> None:
        """Notes how many collectives of each group had their locks, and how many had not, so far."""
        for group in self.ask("group", "list")["rows"]:
            for shared in group["locks"] or []:
                seen[group["group"]] = [shared["granted"], shared["refused"]]


def block(program: str, options: argparse.Namespace) -> int:
    """Bytes of the switch's memory that the group of a job takes."""
    with tempfile.TemporaryDirectory(prefix="quincunx-block-") as folder:
        fabric = Fabric(Path(folder), program, options.rate, "spatial", "256MiB")
        try:
            ranks = fabric.start(0, DESIGN, options, 0.0)
            while all(process.poll() is None for process in ranks):
                for group in fabric.ask("group", "list")["rows"]:
                    for switch in group["switches"]:
                        return switch["memory_bytes"]
            raise RuntimeError(fabric.machines.printed(ranks[0])[-3000:])
        finally:
            fabric.machines.close()


def measured(program: str, case: str, memory: int, options: argparse.Namespace, think: float) -> tuple[list[float], list[int]]:
    """Mean seconds of a collective, by job, with blocks of so many bytes, and how many collectives had their locks and had not."""
    policy, blocks, design, jobs = CASES[case]
    seen: dict[int, list[int]] = {}
    with tempfile.TemporaryDirectory(prefix="quincunx-block-") as folder:
        fabric = Fabric(Path(folder), program, options.rate, policy, f"{blocks * memory}B")
        try:
            ranks = [fabric.start(job, design, options, think) for job in range(jobs)]
            everyone = [process for job in ranks for process in job]
            while any(process.poll() is None for process in everyone):
                time.sleep(0.3)
                if policy == "contention":
                    fabric.locks(seen)
            for process in everyone:
                if process.returncode != 0:
                    raise RuntimeError(fabric.machines.printed(process)[-3000:])
            said = [[json.loads(fabric.machines.printed(process).splitlines()[-1]) for process in job] for job in ranks]
        finally:
            fabric.machines.close()
    for job in said:
        if any(rank["design"] != design for rank in job):
            raise RuntimeError(f"expected {case} in {design}, found {job}")
    times = [statistics.mean(rank["seconds"] for rank in job) for job in said]
    return times, [sum(counts[verdict] for counts in seen.values()) for verdict in (0, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--kib", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--think", default="0,60", help="milliseconds, several with commas")
    options = parser.parse_args()
    program = str(Path(options.program).resolve())
    memory = block(program, options)
    told = f"{options.kib} KiB at {options.rate}, blocks of {memory // 1024} KiB, medians of {options.rounds} rounds"
    print(f"two jobs of four ranks, {told}")
    print(f"{'think(ms)':>9}  {'':8}{'mean(ms)':>10}{'of own':>8}{'locked':>12}", flush=True)
    for think in options.think.split(","):
        found: dict[str, list[float]] = {case: [] for case in CASES}
        locks = {case: [0, 0] for case in CASES}
        for turn in range(options.rounds):
            for case in sorted(CASES, reverse=turn % 2 == 1):
                times, counts = measured(program, case, memory, options, float(think) / 1e3)
                found[case].append(statistics.mean(times))
                locks[case] = [all + more for all, more in zip(locks[case], counts)]
        own = statistics.median(found["own"])
        for case, times in found.items():
            had, had_not = locks[case]
            share = f"{100 * had / (had + had_not):.0f} %" if had + had_not else "-"
            median = statistics.median(times)
            print(f"{think:>9}  {case:8}{1e3 * median:>10.1f}{median / own:>8.2f}{share:>12}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    elif os.geteuid() != 0:
        sys.exit("expected root, for network namespaces, found another user; run as root")
    else:
        main()
