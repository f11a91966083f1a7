"""What ranks run, whoever starts them: `job.py [torch] [FAILS]`. Each prints a line of its rank and what the sum's bits are.

With `torch` by torch.distributed. Rank FAILS ends in the middle, without a word; the others say what they have heard.
"""

import hashlib
import os
import sys


def values(rank: int) -> list[float]:
    """Whose sum has other bits in another order."""
    return [(rank + 1) * 1e-3 / (index + 1) + 1e4 * (rank % 2) for index in range(4096)]


def by_torch(fails: int) -> tuple[int, int, bytes]:
    import torch
    import torch.distributed as dist

    import quincunx.torch  # noqa: F401

    dist.init_process_group("quincunx")
    rank, size = dist.get_rank(), dist.get_world_size()
    vector = torch.tensor(values(rank), dtype=torch.float32)
    dist.all_reduce(vector)
    end_if(rank == fails)
    dist.barrier()
    dist.destroy_process_group()
    return rank, size, vector.numpy().tobytes()


def by_arrays(fails: int) -> tuple[int, int, bytes]:
    import array

    import quincunx

    group = quincunx.init()
    vector = array.array("f", values(group.rank))
    group.all_reduce(vector)
    end_if(group.rank == fails)
    group.barrier()
    group.close()
    return group.rank, group.size, vector.tobytes()


def end_if(wanted: bool) -> None:
    if wanted:
        os._exit(7)


def main() -> None:
    words = sys.argv[1:]
    run = by_torch if "torch" in words else by_arrays
    fails = next((int(word) for word in words if word.isdigit()), -1)
    try:
        rank, size, result = run(fails)
    except Exception as error:
        sys.exit(f"heard: {error}")
    print(f"rank {rank} of {size}", hashlib.sha256(result).hexdigest())


if __name__ == "__main__":
    main()
