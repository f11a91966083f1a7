#!/usr/bin/env python3
"""Two jobs that share a fabric of 64 hosts, from 1 KiB to 1 GiB, without loss and with 0.1 % of it on every link.

    python3 benches/two_jobs.py QUINCUNX [--quick]

Each job has every second host of `leaf-spine-8x2x8` (400 Gbit/s, 500 ns): both have hosts at all leaves, and share the links between switches. One
adds up in the switches (epic-3), the other among its hosts (double-tree). A line for each size and loss, with the times of both.

Exit status 1 if a job is faster than what must cross a rank's link allows, a longer vector is faster than a shorter one without loss, or a frame
is sent again where none is lost. `--quick` ends with 1 MiB. All of it takes a minute of two processors with a release build.
"""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RATE = 400
SIZES = [1 << shift for shift in range(10, 31, 5)]
LOSSES = ["0", "0.1%"]
DESIGNS = {"in the network": ("epic-3", "0-62:2"), "among hosts": ("double-tree", "1-63:2")}


def jobs(size):
    """The file."""
    job = '[[job]]\nname = "{}"\ndesign = "{}"\nhosts = "{}"\ncollective = "all_reduce"\nsize = "{}B"\n'
    return "\n".join(job.format(name, design, hosts, size) for name, (design, hosts) in DESIGNS.items())


def simulate(command, case):
    """The rows of both jobs."""
    size, loss = case
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.toml"
        file.write_text(jobs(size), encoding="utf-8")
        arguments = ["sim", "jobs", str(file), "--fabric", "leaf-spine-8x2x8", "--json"]
        keys = [f"link.rate={RATE}Gbit/s", "link.latency=500ns", "loss.links=64", f"loss.probability={loss}"]
        for key in keys:
            arguments += ["--set", key]
        done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"expected rows of two jobs of {size} bytes with {loss} lost, found: {done.stderr.strip()}")
    return json.loads(done.stdout)["rows"]


def faults(row, size, loss, shorter):
    """What of a row cannot be."""
    # A rank hears a sum of the whole vector, at least.
    least = size * 8 / (RATE * 1e3)
    if row["time_us"] < least:
        yield f"faster than the {least:.1f} us that its bytes take"
    if loss == "0" and row["retransmitted"]:
        yield f"{row['retransmitted']} frames sent again, and none was lost"
    if loss == "0" and shorter is not None and row["time_us"] < shorter:
        yield f"faster than a shorter vector, {shorter:.1f} us"


def main(command, quick):
    """Prints all lines; how many there are with a fault."""
    sizes = [size for size in SIZES if not quick or size <= 1 << 20]
    cases = [(size, loss) for size in sizes for loss in LOSSES]
    # The longest first: two at once end together then.
    with ThreadPoolExecutor(2) as pool:
        pending = {case: pool.submit(simulate, command, case) for case in reversed(cases)}
        found = {case: pending[case].result() for case in cases}
    broken = 0
    shorter = {}
    print(f"{'size':>12} {'lost':>6} {'job':16} {'time(us)':>12} {'of theory':>10} {'frames lost':>12} {'again':>8}")
    for size, loss in cases:
        for row in found[size, loss]:
            wrong = list(faults(row, size, loss, shorter.get(row["job"])))
            if loss == "0":
                shorter[row["job"]] = row["time_us"]
            broken += bool(wrong)
            vectors = {"epic-3": 1, "double-tree": 2}[row["design"]]
            share = row["time_us"] / (vectors * size * 8 / (RATE * 1e3))
            print(
                f"{size:12} {loss:>6} {row['job']:16} {row['time_us']:12.1f} {share:10.3f} {row['lost']:12} {row['retransmitted']:8}"
                f"{'  <-- ' + '; '.join(wrong) if wrong else ''}"
            )
    return broken


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if main(sys.argv[1], "--quick" in sys.argv[2:]) else 0)
