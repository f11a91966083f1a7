#!/usr/bin/env python3
"""Has four ranks of each design ask for different things. Looks at what each of them is told, and how soon.

    PYTHONPATH=python/quincunx python3 benches/disagree.py QUINCUNX [--designs epic-1,ring] [--within 100]

Rank 1 asks for another length, data type, operation, root or collective than the other three, each time in a new group. Every rank
must hear within --within milliseconds that rank 1 and one of the others differ, and in what. None may get a result.

Standard output has a line for each rank and kind, and how many of them are right. Exit status 1 if one is not.

MultiWrite has no sums and no roots, so it is asked with all_gather and barrier alone. NetReduce frames are none of the library's:
`conformance` asks it. QUINCUNX is a release build, say. Python finds `quincunx` by PYTHONPATH.

Needs Python 3.11 with numpy; Linux.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "python/quincunx/tests"))

import disagreements  # noqa: E402
from disagreements import Calls  # noqa: E402
from package import is_told  # noqa: E402

import quincunx  # noqa: E402

DESIGNS = "epic-1,epic-2,epic-3,ring,tree,direct,multiwrite"
RANKS = 4
# Whatever happens, a design's job ends.
LIMIT = 60


def calls_of(design: str, is_odd: bool) -> Calls:
    return disagreements.of_gathers(is_odd) if design == "multiwrite" else disagreements.of_all(is_odd)


def one_rank(within: float) -> None:
    """What a rank does under `quincunx run`."""
    world = quincunx.init()
    for kind, call in calls_of(world.design, world.rank == 1).items():
        group = world.split(0)
        # All are there when it begins.
        group.barrier()
        start = time.monotonic()
        try:
            call(group)
            said = "a result"
        except quincunx.GroupError as error:
            said = str(error)
        took = (time.monotonic() - start) * 1e3
        verdict = "right" if is_told(said, kind) and took <= within else f"wrong: {said}"
        # In one piece, beside the other ranks'.
        os.write(1, f"{group.design:10} {kind:32} rank {world.rank} {took:7.1f} ms  {verdict}\n".encode())
    world.barrier()
    quincunx.shutdown()


def main() -> None:
    """Starts the ranks of each design, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quincunx", type=Path, help="the quincunx command")
    parser.add_argument("--designs", default=DESIGNS, help="[default: all]")
    parser.add_argument("--within", type=float, default=100, help="milliseconds in which a rank must hear [default: 100]")
    options = parser.parse_args()
    if options.quincunx == Path("rank"):
        one_rank(options.within)
        return
    right = asked = 0
    for design in options.designs.split(","):
        ranks = [sys.executable, __file__, "rank", "--within", str(options.within)]
        command = [options.quincunx, "run", "-n", str(RANKS), "--design", design, "--", *ranks]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        lines = [line for line in done.stdout.splitlines() if " rank " in line]
        print("\n".join(sorted(lines)))
        if done.returncode != 0:
            sys.exit(f"error: expected the ranks of {design} to end with status 0, found {done.returncode}: {done.stderr.strip()}")
        asked += RANKS * len(calls_of(design, False))
        right += sum(line.endswith("right") for line in lines)
    print(f"{right} of {asked} right")
    sys.exit(right != asked)


if __name__ == "__main__":
    main()
