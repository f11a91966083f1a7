"""Ranks that never pause, and take a new group when the first of them finds a number in a file: `steps.py FILE`.

Each sum is held against what it must be. The first rank prints what each group runs; every rank that hears of an end prints `heard: ` and why.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import quincunx.torch


def hold(group: dist.ProcessGroup | None, asked: int, size: int) -> int:
    """A sum of all ranks that has to be right; how many groups the first rank has been asked for."""
    vector = torch.arange(4096, dtype=torch.float32)
    vector[0] = asked
    dist.all_reduce(vector, group=group)
    assert torch.equal(vector[1:], torch.arange(1, 4096, dtype=torch.float32) * size), vector
    return int(vector[0])


def main() -> None:
    file = Path(sys.argv[1])
    dist.init_process_group("quincunx")
    rank, size = dist.get_rank(), dist.get_world_size()
    made, steps = 0, 0
    while True:
        wanted = hold(None, int(file.read_text() or 0) if rank == 0 else 0, size)
        steps += 1
        if made == 0:
            if rank == 0:
                print("group 0 runs", quincunx.torch.designs()[-1], flush=True)
            made = 1
        if wanted < 0:
            break
        if wanted >= made:
            group = dist.new_group()
            hold(group, 0, size)
            if rank == 0:
                print(f"group {made} runs", quincunx.torch.designs()[-1], flush=True)
            # What it took is free when all have given it back.
            dist.destroy_process_group(group)
            made += 1
    dist.destroy_process_group()
    print(f"rank {rank} of {size} is right {steps} times", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print(f"heard: {error}", flush=True)
        sys.exit(3)
