#!/usr/bin/env python3
"""Makes groups of two ranks and gives them back, again and again. Prints what the processes hold, and how long a group takes.

    PYTHONPATH=python/quincunx python3 benches/groups.py QUINCUNX [--count 10000] [--by drop|close|with|torch]

A manager with a store and a switch with room for two groups stay. Two ranks split the group of both (`--by torch`: call `new_group`),
add up 4 KiB in the part, and give it back. --by says how:

- `drop` leaves it to the garbage collector;
- `close` and `with` give it back in these ways;
- `torch` calls `destroy_process_group`, in a Python with torch.

It prints:

- the memory and open files of ranks, manager and switch, after the first hundred groups and at the end;
- the mean time of a group in the first hundred, in the second and in the last;
- the bytes of the store.

Exit status 1 if one of these happened:

- a group did not run in the switch, or a sum was wrong;
- the manager has a group in the end, besides those of all ranks;
- a process has grown by more than two open files, or by more than 2 MiB (with torch a rank by 4 KiB a group more, for what torch keeps);
- the last hundred took more than twice the time of the second.

Needs Python 3.11 and the package `quincunx`; Linux.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Caches and the allocator's reserves; and what torch keeps itself of each group that a rank has destroyed, of gloo's, too.
SLACK = 2 << 20
TORCH_KEEPS = 4 << 10
DESIGN = "epic-3"
# A group takes 32,896 bytes of a switch: two windows of 4 messages of 4 KiB, and a degree of 4 bytes for each packet.
SETTINGS = "group.mtu=1024,group.message=4,group.window=4"
ROOM_FOR_TWO = "64.25KiB"


def held(process: int) -> tuple[int, int]:
    """Bytes of memory and open files."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{process}/fd").iterdir()))


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def rank_of_python(count: int, by: str) -> None:
    import array

    import quincunx

    world = quincunx.init()

    def one(group: "quincunx.Group") -> bool:
        values = array.array("f", [1.0] * 1024)
        group.all_reduce(values)
        return group.design == DESIGN and values[0] == values[-1] == 2.0

    begun, is_right = time.perf_counter(), True
    for number in range(1, count + 1):
        if by == "with":
            with world.split(0) as part:
                is_right &= one(part)
        else:
            part = world.split(0)
            is_right &= one(part)
            if by == "close":
                part.close()
            del part
        if number % 100 == 0:
            say(number=number, took=time.perf_counter() - begun, is_right=is_right, held=held(os.getpid()))
            begun = time.perf_counter()
    world.barrier()
    # Whoever asks the manager sees what is left.
    sys.stdin.readline()
    quincunx.shutdown()


def rank_of_torch(count: int) -> None:
    import torch
    import torch.distributed as dist

    import quincunx.torch

    dist.init_process_group("quincunx")
    begun, is_right = time.perf_counter(), True
    for number in range(1, count + 1):
        part = dist.new_group([0, 1])
        values = torch.ones(1024)
        dist.all_reduce(values, group=part)
        is_right &= quincunx.torch.designs()[-1] == DESIGN and bool((values == 2).all())
        dist.destroy_process_group(part)
        del part
        if number % 100 == 0:
            say(number=number, took=time.perf_counter() - begun, is_right=is_right, held=held(os.getpid()))
            begun = time.perf_counter()
    dist.barrier()
    sys.stdin.readline()
    dist.destroy_process_group()


class Fabric:
    """A manager, a switch and two ranks. Everything that it starts ends with it."""

    def __init__(self, program: str, folder: Path, count: int, by: str) -> None:
        self.program, self.store = program, folder / "groups.sqlite"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % probe.getsockname()[1]
        block = f"127.{96 + os.getpid() // 250 % 32}.{os.getpid() % 250}"
        quiet = ["--log-level", "off"]
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.start("manager", [program, "manager", "--listen", self.address, "--store", str(self.store), *quiet], {})
        self.processes["manager"].stdout.readline()
        leaf = ["switch", "--name", "leaf", "--address", f"{block}.250", "--manager", self.address, "--memory", ROOM_FOR_TWO]
        self.start("switch", [program, *leaf, *quiet], {})
        common = {"WORLD_SIZE": "2", "QUINCUNX_MANAGER": self.address, "QUINCUNX_JOB": "rank", "QUINCUNX_SWITCHES": "1"}
        common |= {"QUINCUNX_DESIGN": DESIGN, "QUINCUNX_SET": SETTINGS, "OMP_NUM_THREADS": "1"}
        common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29_000 + os.getpid() % 1000)}
        for rank in range(2):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "QUINCUNX_ADDRESS": f"{block}.{rank + 1}"}
            command = [sys.executable, __file__, program, "--count", str(count), "--by", by, "--rank"]
            self.start(f"rank {rank}", command, common | own)

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes[name] = subprocess.Popen(command, env=os.environ | environment, start_new_session=True, **pipes)

    def holds(self) -> dict[str, tuple[int, int]]:
        return {name: held(process.pid) for name, process in self.processes.items()}

    def stored(self) -> int:
        return sum(path.stat().st_size for path in self.store.parent.iterdir())

    def groups(self) -> list[dict[str, object]]:
        asked = [self.program, "group", "list", "--manager", self.address, "--json"]
        return json.loads(subprocess.run(asked, text=True, capture_output=True, check=True).stdout)["groups"]

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


def measure(fabric: Fabric, count: int, by: str) -> list[str]:
    """Prints what comes, and says what is wrong."""
    faults, times, first, last, stored = [], [], {}, {}, [0, 0]
    ranks = [fabric.processes[f"rank {rank}"] for rank in range(2)]
    for number in range(100, count + 1, 100):
        words = [json.loads(rank.stdout.readline() or '{"number": 0}') for rank in ranks]
        if any(word["number"] != number for word in words):
            return [*faults, f"a rank ended before group {number}"]
        if not all(word["is_right"] for word in words):
            return [*faults, f"below group {number} a sum was wrong, or a group ran outside of the switch"]
        times.append(words[0]["took"] / 100)
        last, stored[1] = fabric.holds(), fabric.stored()
        if number == 100:
            first, stored[0] = last, stored[1]
    living = [group for group in fabric.groups() if group["state"] != "failed"]
    if len(living) != 2:
        faults.append(f"expected the two groups of all ranks, found {len(living)}")
    for rank in ranks:
        rank.stdin.write("\n")
        rank.stdin.flush()
    if any(rank.wait(60) for rank in ranks):
        faults.append("a rank ended with an error")
    print(f"{'process':>8}  {'at 100':>10}  {'at ' + str(count):>10}  {'grown':>10}  files")
    for name, (memory, files) in last.items():
        before, files_before = first[name]
        grown = memory - before
        print(f"{name:>8}  {before >> 10:>6} KiB  {memory >> 10:>6} KiB  {grown >> 10:>+6} KiB  {files_before} to {files}")
        slack = SLACK + (TORCH_KEEPS * count if by == "torch" and name.startswith("rank") else 0)
        if grown > slack or files > files_before + 2:
            faults.append(f"{name} has grown by {grown} bytes and {files - files_before} files")
    print(f"store: {stored[0] >> 10} KiB at 100, {stored[1] >> 10} KiB at {count}")
    second = times[min(1, len(times) - 1)]
    print(f"a group: {1e3 * times[0]:.1f} ms in the first hundred, {1e3 * second:.1f} in the second, {1e3 * times[-1]:.1f} in the last")
    if times[-1] > 2 * second:
        faults.append("the last hundred took more than twice the time of the second")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the quincunx command")
    parser.add_argument("--count", type=int, default=10_000, help="groups [default: 10000]")
    parser.add_argument("--by", choices=["drop", "close", "with", "torch"], default="drop", help="how a group is given back [default: drop]")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rank:
        rank_of_torch(asked.count) if asked.by == "torch" else rank_of_python(asked.count, asked.by)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fabric = Fabric(asked.program, Path(folder), asked.count, asked.by)
        try:
            faults = measure(fabric, asked.count, asked.by)
        finally:
            fabric.close()
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
