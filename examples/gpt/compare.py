"""Trains the GPT of train.py with quincunx and with gloo on the same links, and prints one table: `python compare.py QUINCUNX`.

As root, in network namespaces with a limited link for each rank. QUINCUNX is the program (target/release/quincunx). Communication is what
DDP's buckets take, exchanged once all ranks have ended their backward pass; bytes are those of an iteration over the busiest link, either
way, by the kernel's counters. Then the losses and weights of three runs are compared to the last bit: two in reproducible mode, and one on
gloo that gathers gradients and adds them up in rank order. The exit status is 1 if these bits differ.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TRAIN = Path(__file__).resolve().with_name("train.py")


def train(program: str, options: argparse.Namespace, backend: str, *more: str, settings: tuple[str, ...] = ()) -> dict:
    """What rank 0 says of a run."""
    fabric = ["run", "-n", str(options.ranks), "--link", "netns", "--rate", options.rate, "--design", options.design]
    for setting in (*options.set, *settings):
        fabric += ["--set", setting]
    script = [sys.executable, str(TRAIN), "--backend", backend, "--steps", str(options.steps), "--bucket-mb", str(options.bucket_mb), *more]
    ended = subprocess.run([program, *fabric, "--", *script], text=True, stdout=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if ended.returncode != 0:
        raise SystemExit(f"expected exit status 0, found {ended.returncode} of {backend}; see above")
    return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rate", default="500Mbit/s")
    parser.add_argument("--design", default="epic-3")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bucket-mb", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, alternating; the table has the best of each")
    options = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)

    runs: dict[str, list[dict]] = {"quincunx": [], "gloo": []}
    for _ in range(options.rounds):
        for backend, found in runs.items():
            found.append(train(options.program, options, backend))
    best = {backend: min(found, key=lambda run: run["communication_s"]) for backend, found in runs.items()}
    ours, theirs = best["quincunx"], best["gloo"]
    print(f"{ours['ranks']} ranks, links of {options.rate}, {ours['gradient_bytes']:,} bytes of gradients, buckets of {options.bucket_mb:g} MiB")
    print(f"{'':34}{ours['design']:>14}{'gloo':>14}{'ratio':>8}")
    rows = [
        ("communication of an iteration, ms", 1e3, "communication_s"),
        ("iteration with overlap, ms", 1e3, "iteration_s"),
        ("busiest link out, bytes", 1, "busiest_link_bytes_out"),
        ("busiest link in, bytes", 1, "busiest_link_bytes_in"),
    ]
    for title, scale, key in rows:
        digits = 1 if scale > 1 else 0
        print(f"{title:34}{scale * ours[key]:>14,.{digits}f}{scale * theirs[key]:>14,.{digits}f}{ours[key] / theirs[key]:>8.3f}")
    print(f"{'loss of the last step':34}{ours['losses'][-1]:>14.6f}{theirs['losses'][-1]:>14.6f}")
    for backend, found in runs.items():
        print(f"communication of each run of {backend}, ms: " + ", ".join(f"{1e3 * run['communication_s']:.1f}" for run in found))

    bits = {
        "reproducible": train(options.program, options, "quincunx", settings=("group.reproducible=true",))["bits"],
        "reproducible again": train(options.program, options, "quincunx", settings=("group.reproducible=true",))["bits"],
        "gloo, added up in rank order": train(options.program, options, "gloo", "--in-rank-order")["bits"],
    }
    for name, value in bits.items():
        print(f"bits of losses and weights, {name}: {value}")
    if len(set(bits.values())) > 1:
        raise SystemExit("expected the same bits of all three, found others")


if __name__ == "__main__":
    main()
