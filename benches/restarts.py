#!/usr/bin/env python3
"""Restarts the manager, its standby or the machine's agent under ranks that are always busy. Counts jobs that end and sums that are wrong.

    python3 benches/restarts.py QUINCUNX [--restarts 20] [--kinds manager,standby,agent] [--programs python,c] [--pause 0.3] [--json FILE]

Each job has a manager with a store, a switch and two ranks on loopback. The ranks begin an all_reduce of 256 KiB before the one before
has ended, and look at every element of every sum. SIGKILL ends one process again and again while they run:

- manager: it starts again after --pause, with its store;
- standby: the one that stands by serves from then on, and after --pause another one stands by for it;
- agent: ranks and switch speak with the manager through it; it starts again after --pause.

A restart is over when the manager has the switch and the ranks again, and each rank has ended a collective since. If a job ends, its
ranks' last words are printed, and another job takes its place.

The ranks are programs in Python (by the package beside this folder), in C (by libquincunx), or with torch. QUINCUNX is
target/debug/quincunx, say, with libquincunx.so and lib_core.so beside it (`cargo build -p quincunx-cli -p quincunx-python -p quincunx-capi`).

The table goes to standard output. Exit status 1 if a job has ended or a sum was wrong. Everything that it starts ends with it.

Needs Python 3.11, and `cc` for C; Linux.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from processes import Processes, free_port

ROOT = Path(__file__).resolve().parent.parent
KINDS = ["manager", "standby", "agent"]
PROGRAMS = ["python", "c", "torch"]
RANKS = 2
# Elements of 4 bytes: 256 KiB.
COUNT = 64 << 10
# Whatever happens, a wait ends.
PATIENCE = 30.0


class Ended(Exception):
    """A job has ended."""


class Job(Processes):
    """A fabric, and ranks on it."""

    def __init__(self, program: Path, kind: str, command: list[str], number: int) -> None:
        super().__init__()
        self.program, self.kind = program, kind
        self.folder = Path(tempfile.mkdtemp(prefix="quincunx-restarts-"))
        place = os.getpid() * 251 + number
        # Blocks of addresses unlike those of a run beside this one.
        self.block = f"127.{64 + place // 250 % 32}.{place % 250}"
        self.managers = [f"127.0.0.1:{free_port()}" for _ in range(2 if kind == "standby" else 1)]
        self.agent = f"127.0.0.1:{free_port()}" if kind == "agent" else None
        # Where ranks and the switch find a manager.
        self.address = self.agent or ",".join(self.managers)
        self.progress = [0] * RANKS
        self.serving = 0
        try:
            self.start_manager(0)
            if kind == "standby":
                self.start_manager(1)
            self.start_agent()
            self.start_one("switch", "switch", "--name", "leaf", "--address", f"{self.block}.250", "--manager", self.address)
            for rank in range(RANKS):
                self.start_rank(rank, command)
            self.wait("a first collective", lambda: all(self.progress))
        except BaseException:
            self.close()
            raise

    def start_one(self, name: str, *arguments: str) -> None:
        self.start(name, [str(self.program), *arguments])

    def start_manager(self, index: int) -> None:
        """One that stands by says nothing until it serves."""
        stands_by = ["--standby"] if self.kind == "standby" else []
        name = f"manager {index}"
        self.start_one(name, "manager", "--listen", self.managers[index], "--store", str(self.folder / "store.sqlite"), "--log-level", "off", *stands_by)
        if index == self.serving:
            self.hear(name)

    def start_agent(self) -> None:
        if self.agent:
            self.start_one("agent", "agent", "--listen", self.agent, "--manager", self.managers[0], "--log-level", "off")
            self.hear("agent")

    def hear(self, name: str) -> None:
        """Until it serves."""
        output = self.processes[name].stdout
        assert output is not None
        if "listens" not in output.readline():
            raise TimeoutError(f"{name} does not serve")

    def start_rank(self, rank: int, command: list[str]) -> None:
        environment = dict(
            os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
            QUINCUNX_MANAGER=self.address, QUINCUNX_JOB="busy.", QUINCUNX_SWITCHES="1", QUINCUNX_ADDRESS=f"{self.block}.{rank + 1}",
            PYTHONPATH=str(ROOT / "python" / "quincunx"), LD_LIBRARY_PATH=str(self.program.parent), OMP_NUM_THREADS="1",
        )
        environment["MASTER_PORT"] = self.processes["rank 0"].port if rank else str(free_port())
        process = self.start(f"rank {rank}", command, environment, stderr=subprocess.PIPE, stdin=subprocess.PIPE)
        process.port = environment["MASTER_PORT"]
        threading.Thread(target=self.follow, args=(rank, process), daemon=True).start()

    def follow(self, rank: int, process: "subprocess.Popen[str]") -> None:
        """Takes what a rank says, so that it can always say more: how many collectives have ended, and in the end how many sums were wrong."""
        assert process.stdout is not None
        for line in process.stdout:
            words = line.split()
            if words[0] == "wrong":
                process.wrong = int(words[1])
            else:
                self.progress[rank] = int(words[0])

    def ranks(self) -> "list[subprocess.Popen[str]]":
        return [self.processes[f"rank {rank}"] for rank in range(RANKS)]

    def check(self) -> None:
        """Raises if the job has ended."""
        if all(rank.poll() is None for rank in self.ranks()):
            return
        said = []
        for number, rank in enumerate(self.ranks()):
            try:
                rank.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                said.append(f"rank {number} does not end")
                continue
            assert rank.stderr is not None
            lines = rank.stderr.read().strip().splitlines() or ["nothing"]
            said.append(f"rank {number}: {lines[-1]}")
        raise Ended("; ".join(said))

    def wait(self, what: str, happens: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not happens():
            self.check()
            if time.monotonic() > end:
                raise Ended(f"the job hangs: there is not {what} within {PATIENCE:.0f} s")
            time.sleep(0.01)

    def nodes(self) -> int:
        asked = [self.program, "nodes", "--manager", self.managers[self.serving], "--json"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return len(json.loads(found.stdout)["nodes"]) if found.returncode == 0 else 0

    def restart(self, pause: float) -> None:
        """Once, until all is as it was before."""
        if self.kind == "agent":
            self.kill("agent")
            time.sleep(pause)
            self.start_agent()
        else:
            was = self.serving
            self.kill(f"manager {was}")
            if self.kind == "standby":
                self.serving = 1 - was
                self.hear(f"manager {self.serving}")
            time.sleep(pause)
            self.start_manager(was)
        self.wait("the switch and all ranks at the manager", lambda: self.nodes() == RANKS + 1)
        before = list(self.progress)
        self.wait("a further collective at each rank", lambda: all(now > then for now, then in zip(self.progress, before)))

    def stop(self) -> int:
        """Ends the job in its own time; how many sums were wrong."""
        for rank in self.ranks():
            assert rank.stdin is not None
            rank.stdin.close()
        self.wait_for_ends()
        return sum(getattr(rank, "wrong", 0) for rank in self.ranks())

    def wait_for_ends(self) -> None:
        for number, rank in enumerate(self.ranks()):
            try:
                if rank.wait(timeout=PATIENCE) != 0:
                    self.check()
            except subprocess.TimeoutExpired as expired:
                raise Ended(f"rank {number} does not come to its end") from expired

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def play(program: Path, kind: str, command: list[str], restarts: int, pause: float, number: int) -> dict[str, object]:
    """So many restarts of a kind."""
    row: dict[str, object] = {"restarts": 0, "jobs ended": 0, "wrong sums": 0, "collectives": 0}
    begun, job = time.monotonic(), None

    def end(error: Ended) -> None:
        row["jobs ended"] += 1
        print(f"{kind}, restart {row['restarts']}: {error}", file=sys.stderr, flush=True)

    def close() -> None:
        if job is not None:
            row["collectives"] += min(job.progress)
            row["wrong sums"] += sum(getattr(rank, "wrong", 0) for rank in job.ranks())
            job.close()

    try:
        while row["restarts"] < restarts:
            try:
                job = job or Job(program, kind, command, number + row["jobs ended"])
                row["restarts"] += 1
                job.restart(pause)
            except Ended as error:
                end(error)
                close()
                job = None
        if job is not None:
            try:
                job.stop()
            except Ended as error:
                end(error)
    finally:
        close()
    return row | {"seconds": round(time.monotonic() - begun, 1)}


def reduce_in_python() -> int:
    """A rank: begins a collective before the one before has ended, until standard input is closed at rank 0."""
    import quincunx

    group = quincunx.init()
    buffers = [bytearray(4 * COUNT) for _ in range(2)]
    begin = lambda buffer: group.all_reduce(memoryview(buffer).cast("i"), wait=False)  # noqa: E731
    return reduce_forever(group.rank, group.size, buffers, begin, quincunx.shutdown)


def reduce_in_torch() -> int:
    import torch
    import torch.distributed as dist

    import quincunx.torch  # noqa: F401

    dist.init_process_group("quincunx")
    tensors = [torch.zeros(COUNT, dtype=torch.int32) for _ in range(2)]
    buffers = [memoryview(tensor.numpy()).cast("B") for tensor in tensors]
    by_buffer = dict(zip(map(id, buffers), tensors))
    begin = lambda buffer: dist.all_reduce(by_buffer[id(buffer)], async_op=True)  # noqa: E731
    return reduce_forever(dist.get_rank(), dist.get_world_size(), buffers, begin, dist.destroy_process_group)


def reduce_forever(rank: int, size: int, buffers: list, begin: Callable, leave: Callable[[], None]) -> int:
    is_over = threading.Event()
    if rank == 0:
        threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()

    def start(number: int) -> object:
        """The first element says whether rank 0 wants to end; all others are a number of the collective and the rank."""
        buffer = buffers[number % 2]
        buffer[:] = int.to_bytes(number % 1000 + rank, 4, "little") * COUNT
        buffer[:4] = int.to_bytes(is_over.is_set(), 4, "little")
        return begin(buffer)

    wrong, ended, told, ends_with = 0, 0, time.monotonic(), None
    pending = start(0)
    while True:
        # Known to be the last: all ranks learn it from the same sum.
        following = start(ended + 1) if ends_with is None else None
        pending.wait()
        buffer = buffers[ended % 2]
        expected = int.to_bytes(ended % 1000 * size + size * (size - 1) // 2, 4, "little")
        wrong += buffer[4:] != expected * (COUNT - 1)
        if int.from_bytes(buffer[:4], "little") > 0 and ends_with is None:
            ends_with = ended + 1
        ended += 1
        if time.monotonic() - told > 0.05:
            told = time.monotonic()
            print(ended, flush=True)
        if following is None:
            break
        pending = following
    print(ended, flush=True)
    print("wrong", wrong, flush=True)
    leave()
    return 0


def command_of(program: str, library: Path, folder: Path) -> list[str]:
    """How a rank is started that is such a program."""
    if program != "c":
        return [sys.executable, str(Path(__file__).resolve()), "--rank", program]
    source, built = ROOT / "benches" / "peers" / "busy.c", folder / "busy"
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/crates/apps/capi/include", f"-L{library}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(built), "-lquincunx"], check=True)
    return [str(built)]


def main() -> int:
    if sys.argv[1:2] == ["--rank"]:
        return {"python": reduce_in_python, "torch": reduce_in_torch}[sys.argv[2]]()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the quincunx command")
    parser.add_argument("--restarts", type=int, default=20, metavar="N", help="of each kind, by each program [default: 20]")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of manager, standby and agent [default: all]")
    parser.add_argument("--programs", default="python,c", help="of python, c and torch [default: python,c]")
    parser.add_argument("--pause", type=float, default=0.3, metavar="SECONDS", help="between end and start [default: 0.3]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the rows to this file, too")
    asked = parser.parse_args()
    kinds, programs = asked.kinds.split(","), asked.programs.split(",")
    for found, known in [(kind, KINDS) for kind in kinds] + [(name, PROGRAMS) for name in programs]:
        if found not in known:
            parser.error(f"expected some of {', '.join(known)}, found \"{found}\"; correct the list")
    program = asked.program.resolve()
    # The package's module, as it was built beside the command.
    core = program.parent / "lib_core.so"
    if core.exists() and set(programs) != {"c"}:
        fresh = ROOT / "python" / "quincunx" / "quincunx" / f"_core.abi3.so.{os.getpid()}"
        shutil.copyfile(core, fresh)
        fresh.replace(fresh.with_suffix(""))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'kind':<8} {'ranks':<7} {'restarts':>8} {'jobs ended':>10} {'wrong sums':>10} {'collectives':>11} {'seconds':>8}", flush=True)
        for name in programs:
            command = command_of(name, program.parent, Path(folder))
            for kind in kinds:
                row = play(program, kind, command, asked.restarts, asked.pause, len(rows) * asked.restarts)
                rows.append({"kind": kind, "ranks": name, **row})
                print(
                    f"{kind:<8} {name:<7} {row['restarts']:>8} {row['jobs ended']:>10} {row['wrong sums']:>10} {row['collectives']:>11}"
                    f" {row['seconds']:>8}", flush=True,
                )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["jobs ended"] or row["wrong sums"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
