#!/usr/bin/env python3
"""Has four ranks of each design ask for different things, and looks at what each of them is told, and how soon.

    PYTHONPATH=python/quincunx python3 benches/disagree.py QUINCUNX [--designs epic-1,ring] [--within 100]

Rank 1 asks for another length, data type, operation, root or collective than the other three, each time in a new group. Every rank must hear, within so many
milliseconds, that rank 1 and one of the others differ, and in what; none may get a result. A line for each rank and kind goes to standard output, and how many of them
are right; exit status 1 if one is not. MultiWrite has no sums and no roots, so that it is asked with all_gather. NetReduce frames are none of the library's:
`conformance` asks it. QUINCUNX is a release build, say, and `quincunx` of Python is by the path. Needs Python 3.11 with numpy; Linux.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DESIGNS = "epic-1,epic-2,epic-3,ring,tree,direct,multiwrite"
RANKS = 4
# Whatever happens, a design's job ends.
LIMIT = 60


def one_rank(within: float) -> None:
    """What a rank does under `quincunx run`."""
    import numpy
    import quincunx

    world = quincunx.init()
    odd = world.rank == 1

    def ones(count: int = 1024, kind: str = "float32") -> numpy.ndarray:
        return numpy.ones(count, kind)

    def gather(group: quincunx.Group, part: numpy.ndarray) -> None:
        group.all_gather(part, numpy.empty(RANKS * part.size, part.dtype))

    gathers: dict[str, Callable] = {
        "length": lambda group: gather(group, ones(2048 if odd else 1024)),
        "data type": lambda group: gather(group, ones(kind="int32" if odd else "float32")),
        "collective": lambda group: group.barrier() if odd else gather(group, ones()),
    }
    sums: dict[str, Callable] = {
        "length": lambda group: group.all_reduce(ones(2048 if odd else 1024)),
        "data type": lambda group: group.all_reduce(ones(kind="int32" if odd else "float32")),
        "operation": lambda group: group.all_reduce(ones(), op="max" if odd else "sum"),
        "root": lambda group: group.broadcast(ones(), root=int(odd)),
        "root of reduce": lambda group: group.reduce(ones(), root=int(odd)),
        "collective": lambda group: group.broadcast(ones(), root=0) if odd else group.all_reduce(ones()),
    }
    kinds = gathers if world.design == "multiwrite" else sums
    for kind, call in kinds.items():
        group = world.split(0)
        # All are there when it begins.
        group.barrier()
        start = time.monotonic()
        try:
            call(group)
            said = "a result"
        except Exception as error:
            said = str(error)
        took = (time.monotonic() - start) * 1e3
        # Which of the three others it is held against depends on who has told by then.
        others = sum(f"rank {rank} (" in said for rank in (0, 2, 3))
        told = said.startswith("expected all ranks of group") and "rank 1 (" in said and others == 1
        verdict = "right" if told and took <= within else f"wrong: {said}"
        # In one piece, beside the other ranks'.
        os.write(1, f"{group.design:10} {kind:15} rank {world.rank} {took:7.1f} ms  {verdict}\n".encode())
    world.barrier()
    quincunx.shutdown()


def main() -> None:
    """Starts the ranks of each design, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quincunx", type=Path)
    parser.add_argument("--designs", default=DESIGNS)
    parser.add_argument("--within", type=float, default=100)
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
        asked += RANKS * (3 if design == "multiwrite" else 6)
        right += sum(line.endswith("right") for line in lines)
    print(f"{right} of {asked} right")
    sys.exit(right != asked)


if __name__ == "__main__":
    main()
