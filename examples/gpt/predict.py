"""Predicts an iteration of train.py by simulated collectives, then measures it: `python predict.py QUINCUNX`.

As root, in network namespaces with a limited link for each rank. QUINCUNX is the program (target/release/quincunx). What ranks compute is
measured over links without a limit, with communication apart: when each bucket of gradients is ready, and what follows the exchange. What
a bucket's exchange takes is simulated on a star of the same links. From these an iteration is added up, without overlap and with it; nothing
is fitted to what is measured then over the limited links. Runs alternate, and of each the best is taken, as in compare.py: other work only adds.
The exit status is 0 however far off it is.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TRAIN = Path(__file__).resolve().with_name("train.py")
# Ethernet's header, IP's, UDP's and RoCE's have room beside such packets in frames of this length; what `quincunx run` chooses, too.
MTU, PACKET = 9000, "4KiB"


def train(options: argparse.Namespace, design: str, *rate: str) -> dict:
    """What rank 0 says of a run."""
    fabric = ["run", "-n", str(options.ranks), "--link", "netns", "--mtu", str(MTU), *rate, "--design", design]
    script = [sys.executable, str(TRAIN), "--steps", str(options.steps), "--bucket-mb", str(options.bucket_mb)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    ended = subprocess.run([options.program, *fabric, "--", *script], text=True, stdout=subprocess.PIPE, env=environment)
    if ended.returncode != 0:
        raise SystemExit(f"expected exit status 0, found {ended.returncode} of {design}; see above")
    return json.loads(ended.stdout.splitlines()[-1])


def simulated(options: argparse.Namespace, design: str, size: int) -> float:
    """Seconds of an AllReduce of so many bytes."""
    fabric = ["--fabric", f"star-{options.ranks}", "--set", f"link.rate={options.rate}", "--set", f"group.mtu={PACKET}"]
    asked = [options.program, "sim", "all_reduce", "--design", design, "--size", f"{size}B", *fabric, "--json"]
    ended = subprocess.run(asked, text=True, stdout=subprocess.PIPE)
    if ended.returncode != 0:
        raise SystemExit(f"expected a simulation, found exit status {ended.returncode} of {design}; see above")
    [row] = json.loads(ended.stdout)["rows"]
    return row["time_us"] / 1e6


def predicted(computed: dict, exchanges: list[float]) -> dict[str, float]:
    """Seconds of an iteration: each bucket is exchanged when all ranks have it and the one before is done."""
    ended = 0.0
    for ready, exchange in zip(computed["bucket_ready_s"], exchanges, strict=True):
        ended = max(ended, ready) + exchange
    return {
        "communication_s": sum(exchanges),
        "apart_iteration_s": computed["all_ready_s"] + sum(exchanges) + computed["rest_s"],
        "iteration_s": max(ended, computed["all_ready_s"]) + computed["rest_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rate", default="500Mbit/s")
    parser.add_argument("--designs", default="epic-3,ring")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bucket-mb", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, alternating; the best of each is taken")
    parser.add_argument("--json", metavar="FILE", help="write what is predicted and measured, and what each run said")
    options = parser.parse_args()
    designs = options.designs.split(",")
    load = os.getloadavg()[0]
    print(f"load before: {load:.1f} on {os.cpu_count()} processors", flush=True)

    computing: list[dict] = []
    measured: dict[str, list[dict]] = {design: [] for design in designs}
    for _ in range(options.rounds):
        computing.append(train(options, designs[0]))
        for design, runs in measured.items():
            runs.append(train(options, design, "--rate", options.rate))
    computed = min(computing, key=lambda run: run["all_ready_s"])
    buckets = computed["bucket_bytes"]
    print(f"{options.ranks} ranks, links of {options.rate}, buckets of {', '.join(f'{size:,}' for size in buckets)} bytes, load {os.getloadavg()[0]:.1f} after")
    print(f"computing, ms: buckets ready at {', '.join(f'{1e3 * at:.1f}' for at in computed['bucket_ready_s'])}, all ranks at {1e3 * computed['all_ready_s']:.1f}, then {1e3 * computed['rest_s']:.1f}")
    print(f"{'ms':8}{'':34}{'predicted':>11}{'measured':>11}{'error':>9}   each run")
    rows = []
    for design, runs in measured.items():
        expected = predicted(computed, [simulated(options, design, size) for size in buckets])
        for key, title in (("communication_s", "communication"), ("apart_iteration_s", "iteration, communication apart"), ("iteration_s", "iteration with overlap")):
            found = min(run[key] for run in runs)
            error = expected[key] / found - 1
            rows.append({"design": design, "what": key, "predicted_s": expected[key], "measured_s": found, "error": error})
            each = ", ".join(f"{1e3 * run[key]:.1f}" for run in runs)
            print(f"{design:8}{title:34}{1e3 * expected[key]:>11.1f}{1e3 * found:>11.1f}{100 * error:>+8.1f}%   {each}")
    if options.json:
        whole = {"rows": rows, "ranks": options.ranks, "rate": options.rate, "load": load, "computing": computing, "measured": measured}
        Path(options.json).write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
