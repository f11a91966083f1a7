#!/usr/bin/env python3
"""Checks that rivals among hosts run as fast as their links allow, and send nothing twice. Designs in the network are compared with these.

    python3 benches/rivals.py QUINCUNX [--quick]

It simulates them on fabrics by their shape, without loss. Each line has the time over what theory has, and the frames that were sent
again. Theory is:

- ring, halving-doubling: 2(n-1)/n of the vector;
- direct: bytes on the busiest link;
- double-tree: two vectors;
- tree: three vectors, pipelined.

Exit status 1 if ring, direct, double-tree or, on a star, halving-doubling takes more than 1.06 of that, or anything was sent again. (Double-tree may
take 1.065 at eight leaves and 400 Gbit/s.) The tests of `crates/studies/sim` hold a part of these to the same bounds. All of it takes some minutes of a
processor with a release build; `--quick` leaves 64 MiB on 64 hosts out.
"""

import json
import subprocess
import sys

BOUND = 1.06
# Two trees of 64 hosts at eight leaves: at 400 Gbit/s 36 links, 18 us, are 2.7 % of the time of 16 MiB, and frames and acknowledges 2.9 %.
LEAVES_BOUND = 1.065
MIB = 1 << 20
SHAPES = {"star-8": 8, "star-64": 64, "leaf-spine-8x2x8": 64}
COLLECTIVES = {
    "ring": ("all_reduce", "reduce_scatter", "all_gather"),
    "direct": ("all_reduce", "reduce_scatter", "all_gather"),
    "double-tree": ("all_reduce",),
    "halving-doubling": ("all_reduce",),
    "tree": ("all_reduce", "all_gather"),
}


def simulate(command, shape, rate, design, collective, size):
    """A row of `quincunx sim`."""
    arguments = ["--fabric", shape, "--design", design, "--size", f"{size}B", "--json"]
    links = ["--set", f"link.rate={rate}Gbit/s", "--set", "link.latency=500ns"]
    done = subprocess.run([command, "sim", collective, *arguments, *links], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"expected a row of {design} {collective} {size} on {shape}, found: {done.stderr.strip()}")
    return json.loads(done.stdout)["rows"][0]


def main(command, quick):
    """Prints all lines; how many break a bound."""
    broken = 0
    for shape, ranks in SHAPES.items():
        for rate in (100, 400):
            for size in (16 * MIB, 64 * MIB):
                if quick and ranks * size > 1024 * MIB:
                    continue
                for design, collectives in COLLECTIVES.items():
                    for collective in collectives:
                        row = simulate(command, shape, rate, design, collective, size)
                        busiest = max(link["bytes"] for link in row["links"])
                        steps = 2 if collective == "all_reduce" else 1
                        vectors = {"tree": 3, "double-tree": 2}.get(design, steps * (ranks - 1) / ranks)
                        # A fabric with fewer links between switches than hosts carries more on those.
                        least = busiest if design == "direct" else vectors * size
                        share = row["time_us"] * rate * 1e3 / 8 / least
                        # Between leaves its exchanges share two uplinks, which is no measure of it.
                        is_star = shape.startswith("star")
                        is_bound = design != "tree" and (design != "halving-doubling" or is_star)
                        is_far = design == "double-tree" and rate == 400 and not is_star
                        bound = LEAVES_BOUND if is_far else BOUND
                        is_broken = row["retransmitted"] > 0 or (is_bound and share > bound)
                        broken += is_broken
                        print(
                            f"{shape:16} {rate:3} Gbit/s {design:16} {collective:14} {size // MIB:3} MiB "
                            f"{row['time_us']:10.1f} us {share:6.3f} {row['retransmitted']:6} sent again"
                            f"{'  <-- out of bounds' if is_broken else ''}",
                            flush=True,
                        )
    return broken


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if main(sys.argv[1], "--quick" in sys.argv[2:]) else 0)
