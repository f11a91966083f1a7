"""Runs collectives by torch.distributed on quincunx and on gloo, on the same links in one run. Every rank runs this.

    sudo quincunx run -n 4 --link netns --rate 500Mbit/s -- python benches/torch_peers.py

Rank 0 prints three tables:

- small operations: the median of many, in turns on either, and the processor time of all ranks and of the switch that one takes;
- the bytes that each primitive moves over the busiest link, either way, by the kernel's counters. Headers and acknowledges are
  included. It is the least of some, for what is lost is sent again;
- a ReduceScatter on one group while an AllGather runs on another (EPIC 7.2, figure 14).

Needs torch.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

import quincunx.torch  # noqa: F401: registers the backend

TURNS, OPERATIONS = 5, 20
# For acknowledges that are under way when an operation has ended.
SETTLING_SECONDS = 0.2
VECTOR = 1 << 20
# Four windows of quincunx: long enough that links count, and not latency.
LONG = 1 << 22


def processor_seconds() -> float:
    """Of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def switches() -> list[Path]:
    """The switches that `quincunx run` has started beside this rank, as folders of /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getppid() and b"switch" in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process)
        except OSError:
            # It has ended meanwhile.
            continue
    return found


def switch_seconds(processes: list[Path]) -> float:
    """Processor time of these, by the scheduler's nanoseconds."""
    return sum(int(task.read_text().split()[0]) for process in processes for task in process.glob("task/*/schedstat")) / 1e9


def link_bytes() -> torch.Tensor:
    """What this rank's link has carried out and in, by the kernel's counters."""
    found = torch.zeros(2, dtype=torch.int64)
    for link in Path("/sys/class/net").iterdir():
        if link.name != "lo":
            found += torch.tensor([int((link / "statistics" / name).read_text()) for name in ("tx_bytes", "rx_bytes")])
    return found


def small(groups: dict[str, dist.ProcessGroup], beside: list[Path]) -> None:
    """Prints times and processor times of small operations."""
    rank = dist.get_rank()
    operations: dict[str, Callable[[dist.ProcessGroup], object]] = {}
    for kib in (4, 16, 64):
        values = torch.zeros(kib << 8)
        operations[f"all_reduce {kib} KiB"] = lambda group, values=values: dist.all_reduce(values, group=group)
    operations["barrier"] = lambda group: dist.barrier(group=group)
    if rank == 0:
        print(f"{'':20}{'time, us':>26}{'ratio':>8}{'ranks, us':>20}{'switch, us':>14}")
        print(f"{'':20}{'quincunx':>14}{'gloo':>12}{'':>8}{'quincunx':>12}{'gloo':>8}{'quincunx':>14}")
    for name, call in operations.items():
        times: dict[str, list[float]] = {key: [] for key in groups}
        used = {key: torch.zeros(2, dtype=torch.float64) for key in groups}
        for _ in range(TURNS):
            for key, group in groups.items():
                call(group)
                dist.barrier(group=group)
                before = processor_seconds(), switch_seconds(beside)
                for _ in range(OPERATIONS):
                    begun = time.perf_counter()
                    call(group)
                    times[key].append(time.perf_counter() - begun)
                used[key] += torch.tensor([processor_seconds() - before[0], switch_seconds(beside) - before[1]])
        for key, group in groups.items():
            dist.all_reduce(used[key], group=groups["gloo"])
            # Every rank has looked at the same switches.
            used[key] *= torch.tensor([1e6, 1e6 / dist.get_world_size()]) / (TURNS * OPERATIONS)
        if rank == 0:
            ours, theirs = (1e6 * statistics.median(times[key]) for key in ("quincunx", "gloo"))
            ranks = [used[key][0].item() for key in ("quincunx", "gloo")]
            switch = used["quincunx"][1].item()
            print(f"{name:20}{ours:>14.0f}{theirs:>12.0f}{ours / theirs:>8.2f}{ranks[0]:>12.0f}{ranks[1]:>8.0f}{switch:>14.0f}", flush=True)


def primitives(groups: dict[str, dist.ProcessGroup]) -> None:
    """Prints the bytes of each primitive."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, part = torch.zeros(VECTOR >> 2), torch.zeros((VECTOR >> 2) // size)
    operations: dict[str, Callable[[dist.ProcessGroup], object]] = {
        "all_reduce": lambda group: dist.all_reduce(whole, group=group),
        "reduce": lambda group: dist.reduce(whole, 0, group=group),
        "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_gather": lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(torch.empty_like(whole), whole, group=group),
    }
    if rank == 0:
        print(f"\n{'vectors of 1 MiB':20}{'out, bytes':>24}{'ratio':>8}{'in, bytes':>24}{'ratio':>8}")
        print(f"{'':20}{'quincunx':>12}{'gloo':>12}{'':8}{'quincunx':>12}{'gloo':>12}")
    for name, call in operations.items():
        crossed = {}
        for key, group in groups.items():
            found = []
            for _ in range(TURNS):
                dist.barrier(group=group)
                time.sleep(SETTLING_SECONDS)
                before = link_bytes()
                call(group)
                time.sleep(SETTLING_SECONDS)
                found.append(link_bytes() - before)
                dist.all_reduce(found[-1], op=dist.ReduceOp.MAX, group=groups["gloo"])
            crossed[key] = torch.stack(found).amin(dim=0)
        if rank == 0:
            row = f"{name:20}"
            for way in range(2):
                ours, theirs = (crossed[key][way].item() for key in ("quincunx", "gloo"))
                row += f"{ours:>12,}{theirs:>12,}{ours / theirs:>8.2f}"
            print(row, flush=True)


def at_once(groups: dict[str, dist.ProcessGroup]) -> None:
    """Prints the times of a ReduceScatter and an AllGather, one after the other and at once."""
    size = dist.get_world_size()
    # Two of each: the second of quincunx is a group of its own in the switch.
    pairs = {key: (group, dist.new_group(backend=key)) for key, group in groups.items()}
    whole, gathered = torch.zeros(LONG >> 2), torch.zeros(LONG >> 2)
    part, own = torch.zeros((LONG >> 2) // size), torch.zeros((LONG >> 2) // size)

    def begin(pair: tuple[dist.ProcessGroup, dist.ProcessGroup], which: int) -> dist.Work:
        if which == 0:
            return dist.reduce_scatter_tensor(part, whole, group=pair[0], async_op=True)
        return dist.all_gather_into_tensor(gathered, own, group=pair[1], async_op=True)

    def in_turn(pair: tuple[dist.ProcessGroup, dist.ProcessGroup]) -> None:
        for which in range(2):
            begin(pair, which).wait()

    def together(pair: tuple[dist.ProcessGroup, dist.ProcessGroup]) -> None:
        for work in [begin(pair, which) for which in range(2)]:
            work.wait()

    ways = {"one after the other": in_turn, "at once": together}
    times: dict[tuple[str, str], list[float]] = {(key, way): [] for key in pairs for way in ways}
    for _ in range(1 + TURNS):
        for key, pair in pairs.items():
            for way, call in ways.items():
                dist.barrier(group=pair[0])
                begun = time.perf_counter()
                call(pair)
                times[key, way].append(time.perf_counter() - begun)
    if dist.get_rank() == 0:
        print(f"\n{'reduce_scatter and all_gather of 4 MiB, ms':44}{'quincunx':>12}{'gloo':>12}{'ratio':>8}")
        for way in ways:
            # The first one finds no connections.
            ours, theirs = (1e3 * statistics.median(times[key, way][1:]) for key in ("quincunx", "gloo"))
            print(f"{way:44}{ours:>12.1f}{theirs:>12.1f}{ours / theirs:>8.2f}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("quincunx")
    groups = {"quincunx": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors, medians of {TURNS * OPERATIONS}", flush=True)
    small(groups, switches())
    primitives(groups)
    at_once(groups)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
