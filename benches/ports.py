#!/usr/bin/env python3
"""DDP over a box with `quincunx switch --port` between four machines, one rank each: quincunx beside gloo, by turns, over the same box.

    sudo .venv/with_torch-*/bin/python benches/ports.py target/release/quincunx [--rates none,1gbit] [--rounds 3] [--steps 100] [--mtu 1500]

Machines are network namespaces; a rate limits every cable, both ways, by tbf. Gloo's frames pass the box as any others do. Prints for each
rate the medians over rounds: of an iteration (backward pass and exchange overlap), and of the exchange alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python/quincunx/tests/starters")]

from machines import BOX, Machines  # noqa: E402

NAMES = {name: f"10.77.0.{11 + index}" for index, name in enumerate("abcd")}


def limit(machines: Machines, rate: str) -> None:
    """Limits all cables, each way."""
    for name in NAMES:
        for space, device in (("box", f"to-{name}"), (name, "eth0")):
            words = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
            machines.call(space, *words)


def train(machines: Machines, backend: str, certificates: Path, steps: int, settings: str) -> dict:
    """What rank 0 has measured. Raises RuntimeError with what was printed if a rank fails."""
    ranks = []
    for rank, name in enumerate(NAMES):
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(NAMES)),
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": NAMES["a"],
            "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            "QUINCUNX_MANAGER": f"{BOX}:4790",
            "QUINCUNX_IDENTITY": str(certificates / "tenant-blue.pem"),
            "QUINCUNX_SET": settings,
            "PYTHONPATH": str(ROOT / "python/quincunx"),
        }
        program = [sys.executable, str(ROOT / "examples/gpt/train.py"), "--backend", backend, "--steps", str(steps)]
        ranks.append(machines.start(name, *program, **environment))
    for process in ranks:
        if process.wait(600) != 0:
            raise RuntimeError(machines.printed(process)[-3000:])
    return json.loads(next(line for line in machines.printed(ranks[0]).splitlines() if line.startswith("{")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rates", default="none,1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--set", default="", help="QUINCUNX_SET of the ranks")
    options = parser.parse_args()
    program = str(Path(options.program).resolve())
    print(f"four ranks, {options.steps} steps, MTU {options.mtu}, medians of {options.rounds} rounds, ms")
    print(f"{'rate':>8}  {'':24}{'quincunx':>10}{'gloo':>10}{'ratio':>8}")
    for rate in options.rates.split(","):
        with tempfile.TemporaryDirectory(prefix="quincunx-ports-") as folder:
            certificates = Path(folder) / "certs"
            subprocess.run([program, "manager", "init", str(certificates), "--node", "s0", "--tenant", "blue"], check=True, capture_output=True)
            machines = Machines(Path(folder), NAMES)
            try:
                for name in NAMES:
                    machines.call("box", "ip", "link", "set", f"to-{name}", "mtu", str(options.mtu))
                    machines.call(name, "ip", "link", "set", "eth0", "mtu", str(options.mtu))
                if rate != "none":
                    limit(machines, rate)
                machines.start("box", program, "manager", "--listen", "0.0.0.0:4790", "--identity", str(certificates / "manager.pem"))
                ports = [word for name in NAMES for word in ("--port", f"to-{name}")]
                switch = ["--name", "s0", "--address", f"{BOX}/24", *ports, "--memory", "64MiB", "--manager", "127.0.0.1:4790"]
                machines.start("box", program, "switch", *switch, "--identity", str(certificates / "node-s0.pem"))
                found: dict[str, list[dict]] = {"quincunx": [], "gloo": []}
                for turn in range(options.rounds):
                    for backend in sorted(found, reverse=turn % 2 == 0):
                        found[backend].append(train(machines, backend, certificates, options.steps, options.set))
            finally:
                machines.close()
        for key, what in (("iteration_s", "iteration"), ("communication_s", "exchange alone")):
            ours, theirs = (1e3 * statistics.median(run[key] for run in found[backend]) for backend in ("quincunx", "gloo"))
            print(f"{rate:>8}  {what:24}{ours:>10.1f}{theirs:>10.1f}{ours / theirs:>8.2f}", flush=True)


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("expected root, for network namespaces, found another user; run as root")
    main()
