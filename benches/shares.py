#!/usr/bin/env python3
"""Measures how collectives and TCP share a link: Jain's fairness index of what each of them gets of one bottleneck, in network namespaces.

    sudo python3 benches/shares.py QUINCUNX [--designs epic-1,epic-2,epic-3] [--mixes 0+2,2+0,1+1,2+2] [--algorithms cubic,bbr] [--json FILE]

    a1 --+                               +-- s1 --+-- rank 1 .. of job 1
         +-- left == bottleneck == right +        +-- ...
    a2 --+                               +-- s2 --+-- rank 1 .. of job 2, or the other end of TCP streams

A contender is a job or a pair of TCP streams. A job is an AllReduce over and over: its rank 0 is at a1, its switch and the other ranks are beyond the
bottleneck, so that each vector crosses that once each way. A pair has a stream each way, of the algorithm that the row names
(TCP_CONGESTION). A mix of 2+1 is two jobs and one pair. Each direction of the bottleneck has a rate and a drop-tail queue (tbf), which takes
apart what hosts have merged. By default its frames are of one size: 4096 bytes of a job's, or as many of TCP's.

Each row gives, for each contender, what the bottleneck delivered to it (Mbit/s of Ethernet frames, rank 0's sending direction and the other one),
and the index of each direction: (sum x)^2 / (n sum x^2), 1 if all get the same and 1/n if one gets all. Then what the queue dropped of all
frames, each way; what a job's rank 0 sent more for a collective than alone, and what TCP sent again of its segments; the time
of a job's collective, alone and beside the others (medians).

Exit status 1 if an index is below `--least` where a job is there, or a result was wrong. A mix without jobs shows how TCP shares with itself. `--expect MIX/ALGORITHM/DESIGN=INDEX` replaces the bound of a row.

Needs root, iproute2, Python 3.11; Linux.
"""

import argparse
import contextlib
import json
import math
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Whatever happens, a wait ends.
LIMIT = 120.0
# What passes before the shares count: ranks join, TCP leaves slow start.
WARM_UP = 2.0
PORT = 5300
# Linux's number, which Python has no name for.
TCP_INFO_TOTAL_RETRANS = 100
TCP_INFO_SEGS_OUT = 136


def jain(shares: list[float]) -> float:
    """Jain's fairness index (Jain, Chiu and Hawe, DEC-TR-301, 1984)."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else 0.0


@dataclass(frozen=True)
class Mix:
    """How many contenders of each kind share the link."""

    jobs: int
    pairs: int

    @classmethod
    def parse(cls, text: str) -> "Mix":
        """`2+1`: two jobs and a pair of streams."""
        jobs, plus, pairs = text.partition("+")
        if plus != "+" or not (jobs.isdecimal() and pairs.isdecimal()) or int(jobs) + int(pairs) < 1:
            raise argparse.ArgumentTypeError(f"expected JOBS+PAIRS such as 1+1, found {text}")
        return cls(int(jobs), int(pairs))

    def __str__(self) -> str:
        return f"{self.jobs}+{self.pairs}"


@dataclass
class Measured:
    """A row: what each contender got, in order, jobs first."""

    mix: Mix
    algorithm: str
    design: str
    up: list[float]
    down: list[float]
    dropped: tuple[float, float]
    # Medians of jobs, in ms; what their rank 0 sent a collective, in bytes.
    times: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    # Share of segments that TCP has sent again, by pair.
    again: list[float] = field(default_factory=list)
    wrong: int = 0

    @property
    def index(self) -> float:
        """The lesser of both directions'."""
        return min(jain(self.up), jain(self.down))


def bound(expected: dict[str, float], row: Measured, least: float) -> float:
    """The index that a row is to have."""
    return expected.get(f"{row.mix}/{row.algorithm}/{row.design}", least)


def expectation(text: str) -> tuple[str, float]:
    """`1+1/bbr/epic-3=0.8`."""
    name, equals, index = text.rpartition("=")
    if equals != "=" or name.count("/") != 2:
        raise argparse.ArgumentTypeError(f"expected MIX/ALGORITHM/DESIGN=INDEX, found {text}")
    return name, float(index)


class Dumbbell:
    """Contenders at both sides of a bottleneck, as namespaces; all gone at the end."""

    def __init__(self, contenders: int, ranks: int, rate: str, queue: str, mtu: int) -> None:
        self.prefix = f"qxs-{os.getpid()}"
        self.contenders, self.mtu = contenders, mtu
        self.spaces: list[str] = []
        try:
            for name in ("left", "right"):
                self._space(name)
            self._link("left", "bottleneck", "10.88.1.1", "right", "bottleneck", "10.88.1.2")
            # A burst of some frames: more would pass the queue by, and what is longer is taken apart.
            for name in ("left", "right"):
                self._tc(name, "qdisc", "add", "dev", "bottleneck", "root", "tbf", "rate", rate, "burst", "16kb", "limit", queue)
            self._ip("left", "route", "add", "default", "via", "10.88.1.2")
            self._ip("right", "route", "add", "default", "via", "10.88.1.1")
            for number in range(contenders):
                a, s = f"a{number}", f"s{number}"
                self._space(a)
                self._space(s)
                self._link("left", a, f"10.88.{10 + number}.1", a, "eth0", self.near(number))
                self._ip(a, "route", "add", "default", "via", f"10.88.{10 + number}.1")
                self._link("right", s, f"10.{60 + number}.0.1", s, "eth0", self.far(number))
                self._ip(s, "route", "add", "default", "via", f"10.{60 + number}.0.1")
                self._ip("right", "route", "add", f"10.{60 + number}.0.0/16", "via", self.far(number))
                for rank in range(1, ranks):
                    b = f"b{number}-{rank}"
                    self._space(b)
                    self._link(s, f"to{rank}", f"10.{60 + number}.{rank}.1", b, "eth0", self.rank(number, rank))
                    self._ip(b, "route", "add", "default", "via", f"10.{60 + number}.{rank}.1")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def near(number: int) -> str:
        """Where rank 0 of a contender is."""
        return f"10.88.{10 + number}.2"

    @staticmethod
    def far(number: int) -> str:
        """Where its switch is."""
        return f"10.{60 + number}.0.2"

    def rank(self, number: int, rank: int) -> str:
        """Where a rank of it is."""
        return f"10.{60 + number}.{rank}.2" if rank else self.near(number)

    def on(self, name: str, *command: str) -> list[str]:
        """The command line that runs a command there."""
        return ["ip", "netns", "exec", f"{self.prefix}-{name}", *command]

    def bytes(self) -> list[tuple[int, int]]:
        """What the bottleneck has delivered to each contender, each way."""
        pairs = []
        for number in range(self.contenders):
            up, down = (self._counter(side, f"{end}{number}") for side, end in (("right", "s"), ("left", "a")))
            pairs.append((up, down))
        return pairs

    def queue(self) -> list[tuple[int, int]]:
        """Frames that the bottleneck's queues have let pass and dropped, each way."""
        counts = []
        for name in ("left", "right"):
            shown = self._run(["tc", "-n", f"{self.prefix}-{name}", "-s", "-j", "qdisc", "show", "dev", "bottleneck"])
            tbf = next(one for one in json.loads(shown) if one["kind"] == "tbf")
            counts.append((tbf["packets"], tbf["drops"]))
        return counts

    def close(self) -> None:
        """Ends it all."""
        for name in self.spaces:
            subprocess.run(["ip", "netns", "del", f"{self.prefix}-{name}"], timeout=20, check=False)
        self.spaces.clear()

    def _counter(self, name: str, device: str) -> int:
        shown = json.loads(self._run(["ip", "-n", f"{self.prefix}-{name}", "-s", "-j", "link", "show", "dev", device]))
        return shown[0]["stats64"]["tx"]["bytes"]

    def _space(self, name: str) -> None:
        self._run(["ip", "netns", "add", f"{self.prefix}-{name}"])
        self.spaces.append(name)
        self._ip(name, "link", "set", "lo", "up")
        self._run(self.on(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))

    def _link(self, one: str, device: str, address: str, other: str, peer: str, far: str) -> None:
        ends = [device, "netns", f"{self.prefix}-{one}", "type", "veth", "peer", "name", peer, "netns", f"{self.prefix}-{other}"]
        self._run(["ip", "link", "add", *ends])
        # Each flow is received by one processor: the limiter's timer and the sender hand frames on from different ones, and these would overtake.
        processors = format((1 << min(32, os.cpu_count() or 1)) - 1, "x")
        for name, end, here in ((one, device, address), (other, peer, far)):
            self._ip(name, "addr", "add", f"{here}/24", "dev", end)
            self._ip(name, "link", "set", end, "up", "mtu", str(self.mtu))
            self._run(self.on(name, "sh", "-c", f"echo {processors} > /sys/class/net/{end}/queues/rx-0/rps_cpus"))

    def _ip(self, name: str, *words: str) -> None:
        self._run(["ip", "-n", f"{self.prefix}-{name}", *words])

    def _tc(self, name: str, *words: str) -> None:
        self._run(["tc", "-n", f"{self.prefix}-{name}", *words])

    @staticmethod
    def _run(words: list[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode:
            raise RuntimeError(f"expected `{' '.join(words)}` to succeed, found: {done.stderr.strip()}")
        return done.stdout


def stream(sends: bool, address: str, port: int, algorithm: str) -> None:
    """An end of a TCP stream: sends until its input ends, then prints the share of segments that were sent again; or receives."""
    chunk = bytes(1 << 16)
    if not sends:
        with socket.create_server((address, port)) as server:
            connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 18):
                pass
        return
    end = time.monotonic() + LIMIT
    while True:
        connection = socket.socket()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        try:
            connection.connect((address, port))
            break
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    connection.settimeout(1.0)
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            connection.send(chunk)
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    again, segments = (struct.unpack_from("I", info, offset)[0] for offset in (TCP_INFO_TOTAL_RETRANS, TCP_INFO_SEGS_OUT))
    connection.close()
    print(again / max(1, segments), flush=True)


class Job:
    """A manager, a switch, and ranks that repeat an AllReduce."""

    def __init__(self, dumbbell: Dumbbell, number: int, design: str, options: argparse.Namespace, folder: Path) -> None:
        self.dumbbell, self.number, self.design, self.options, self.folder = dumbbell, number, design, options, folder
        self.running: list[subprocess.Popen[str]] = []
        self.manager = f"{dumbbell.far(number)}:4790"
        here, certificates = f"s{number}", folder / f"certificates-{number}"
        issue = [options.program, "manager", "init", str(certificates), "--node", "leaf", "--tenant", "blue"]
        subprocess.run(issue, capture_output=True, check=True, timeout=20)
        self.identity = lambda name: ["--identity", str(certificates / f"{name}.pem")]
        self._start(here, "manager", "--listen", self.manager, "--log-level", "off", *self.identity("manager"))
        where = ["--name", "leaf", "--address", dumbbell.far(number), "--manager", self.manager]
        self._start(here, "switch", *where, "--log-level", "off", *self.identity("node-leaf"))
        end = time.monotonic() + LIMIT
        shown = dumbbell.on(here, options.program, "nodes", "--manager", self.manager, "--json", *self.identity("operator-admin"))
        while '"leaf"' not in subprocess.run(shown, capture_output=True, text=True, timeout=20, check=False).stdout:
            if time.monotonic() > end:
                raise RuntimeError(f"expected a switch of job {number} within {LIMIT:.0f} s, found none")
            time.sleep(0.05)
        launcher = folder / f"launch-{number}"
        spaces = [f"{dumbbell.rank(number, 0)}) space=a{number};;"]
        spaces += [f"{dumbbell.rank(number, rank)}) space=b{number}-{rank};;" for rank in range(1, options.ranks)]
        lines = ["#!/bin/sh", "case $QUINCUNX_ADDRESS in", *spaces, "esac", f'exec ip netns exec {dumbbell.prefix}-$space "$@"']
        launcher.write_text("\n".join(lines) + "\n")
        launcher.chmod(0o755)
        self.launcher = launcher

    def begin(self, repetitions: int) -> None:
        """Starts the ranks."""
        addresses = ",".join(self.dumbbell.rank(self.number, rank) for rank in range(self.options.ranks))
        command = ["perf", "all_reduce", "--manager", self.manager, *self.identity("tenant-blue"), "--ranks", str(self.options.ranks), "--addresses", addresses]
        command += ["--design", self.design, "--size", self.options.size, "-n", str(repetitions), "--json", "--rank-launcher", str(self.launcher), "--payload", str(self.options.payload)]
        command += ["--retry-timeout", self.options.retry_timeout, *(word for key in self.options.set for word in ("--set", key))]
        self.perf = self._start(f"s{self.number}", *command)

    def is_running(self) -> bool:
        """Whether repetitions are left."""
        return self.perf.poll() is None

    def row(self) -> dict | None:
        """What it has measured, once it is over; nothing if that takes too long."""
        try:
            out, said = self.perf.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None
        if not out.strip():
            raise RuntimeError(f"expected a row of {self.design}, found: {said.strip()[-500:]}")
        return json.loads(out)["rows"][0]

    def close(self) -> None:
        """Ends its processes."""
        for process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait(10)

    def _start(self, name: str, *words: str) -> subprocess.Popen[str]:
        command = self.dumbbell.on(name, self.options.program, *words)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process


class Streams:
    """A TCP stream each way between the ends of a contender."""

    def __init__(self, dumbbell: Dumbbell, number: int, algorithm: str) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.senders = []
        ends = [(f"a{number}", f"s{number}", dumbbell.far(number)), (f"s{number}", f"a{number}", dumbbell.near(number))]
        for way, (source, sink, address) in enumerate(ends):
            words = [address, str(PORT + way), algorithm]
            self._start(dumbbell.on(sink, sys.executable, __file__, "receive", *words))
            self.senders.append(self._start(dumbbell.on(source, sys.executable, __file__, "send", *words)))

    def end(self) -> float:
        """Ends them; the share of segments that were sent again."""
        said = [sender.communicate("", timeout=20)[0] for sender in self.senders]
        return statistics.mean(float(text) for text in said)

    def close(self) -> None:
        """Ends their processes."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait(10)

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.running.append(process)
        return process


@contextlib.contextmanager
def closing_all() -> Iterator[list]:
    """Things that are closed at the end, the last one first."""
    things: list = []
    try:
        yield things
    finally:
        for thing in reversed(things):
            thing.close()


def measure(options: argparse.Namespace, mix: Mix, algorithm: str, design: str, alone: float | None) -> Measured:
    """A row. `alone`: the milliseconds that a collective takes alone, if that is known."""
    contenders = mix.jobs + mix.pairs
    with closing_all() as things, tempfile.TemporaryDirectory(prefix="qxs-") as folder:
        dumbbell = Dumbbell(contenders, options.ranks if mix.jobs else 1, options.rate, options.queue, options.mtu)
        things.append(dumbbell)
        jobs = [Job(dumbbell, number, design, options, Path(folder)) for number in range(mix.jobs)]
        things.extend(jobs)
        pairs = [Streams(dumbbell, mix.jobs + number, algorithm) for number in range(mix.pairs)]
        things.extend(pairs)
        # So many that they last through the measurement where shares are fair.
        fair = (alone if alone and math.isfinite(alone) else options.first_guess) * contenders
        repetitions = max(4, round((options.seconds + WARM_UP + 2) * 1e3 / fair))
        for job in jobs:
            job.begin(repetitions)
        time.sleep(WARM_UP)
        began, before, queued = time.monotonic(), dumbbell.bytes(), dumbbell.queue()
        end = began + options.seconds
        while time.monotonic() < end and all(job.is_running() for job in jobs):
            time.sleep(0.02)
        taken, after, left = time.monotonic() - began, dumbbell.bytes(), dumbbell.queue()
        rows = [job.row() for job in jobs]
        again = [pair.end() for pair in pairs]
        shares = [
            [(then[way] - now[way]) * 8e-6 / taken for now, then in zip(before, after, strict=True)] for way in (0, 1)
        ]
        dropped = []
        for (passed, lost), (then_passed, then_lost) in zip(queued, left, strict=True):
            frames = then_passed - passed + then_lost - lost
            dropped.append((then_lost - lost) / max(1, frames))
        found = [row for row in rows if row is not None]
        return Measured(
            mix,
            algorithm,
            design,
            *shares,
            (dropped[0], dropped[1]),
            [row["median_us"] / 1e3 if row else float("nan") for row in rows],
            [row["netbw_GBps"] * row["time_us"] * 1e3 for row in found],
            again,
            sum(row["wrong"] for row in found),
        )


def printed(row: Measured, alone: Measured | None, least: float) -> str:
    """A line of the table."""

    def numbers(values: list[float], form: str) -> str:
        return " ".join(form.format(value) for value in values)

    more = [sent / alone.sent[0] - 1 for sent in row.sent] if alone and alone.sent else []
    words = [
        f"{row.mix!s:5} {row.algorithm:6} {row.design:8}",
        f"{numbers(row.up, '{:6.1f}'):28} {numbers(row.down, '{:6.1f}'):28}",
        f"{jain(row.up):5.3f} {jain(row.down):5.3f}",
        f"{row.dropped[0]:7.2%} {row.dropped[1]:7.2%}",
        f"{numbers(more, '{:.1%}'):12} {numbers(row.again, '{:.1%}'):12}",
        f"{alone.times[0] if alone and alone.times else float('nan'):8.1f} {numbers(row.times, '{:.1f}')}",
    ]
    return " ".join(words) + ("  <-- below the bound" if row.index < least else "")


def main() -> int:
    """Prints the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a release build of quincunx")
    parser.add_argument("--designs", default="epic-1,epic-2,epic-3", help="[default: %(default)s]")
    parser.add_argument("--mixes", type=lambda text: [Mix.parse(one) for one in text.split(",")], default="0+2,2+0,1+1,2+2")
    parser.add_argument("--algorithms", default="cubic,bbr", help="of TCP [default: %(default)s]")
    parser.add_argument("--rate", default="200mbit", help="of the bottleneck, each way [default: %(default)s]")
    parser.add_argument("--queue", default="250kb", help="before it, each way: 10 ms [default: %(default)s]")
    parser.add_argument("--mtu", type=int, default=4200, help="[default: %(default)s]")
    parser.add_argument("--payload", type=int, default=4096, help="bytes in a job's packet [default: %(default)s]")
    parser.add_argument("--ranks", type=int, default=4, help="of each job [default: %(default)s]")
    parser.add_argument("--size", default="1MiB", help="of a vector [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row [default: %(default)s]")
    parser.add_argument("--retry-timeout", default="40ms", help="of jobs: what the link takes for four windows [default: %(default)s]")
    parser.add_argument("--set", action="append", default=[], help="a parameter of jobs")
    parser.add_argument("--least", type=float, default=0.9, help="of the index [default: %(default)s]")
    parser.add_argument("--expect", type=expectation, action="append", default=[], metavar="MIX/ALGORITHM/DESIGN=INDEX")
    parser.add_argument("--json", type=Path, help="writes the rows to this file, too")
    options = parser.parse_args()
    options.program = str(Path(options.program).resolve())
    # Of a collective alone, in ms: nothing is known of it yet but that its vector takes some time.
    options.first_guess = 60.0
    if os.geteuid() != 0:
        sys.exit("expected root, for network namespaces, found another user; run as root")
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    print(f"{options.rate} each way, a queue of {options.queue}, MTU {options.mtu}; {options.ranks} ranks, {options.size}, {options.seconds:.0f} s")
    print(f"the kernel's own TCP is {default}; streams here have the algorithm that the row names")
    print(f"{'mix':5} {'TCP':6} {'design':8} {'up, Mbit/s each':28} {'down, Mbit/s each':28} {'Jain up,down':11} {'dropped up,down':15} "
          f"{'more sent':12} {'TCP again':12} {'alone':>8} beside, ms")
    rows: list[Measured] = []
    expected = dict(options.expect)
    low = 0
    algorithms = options.algorithms.split(",")
    for mix in [mix for mix in options.mixes if not mix.jobs]:
        for algorithm in algorithms:
            rows.append(measure(options, mix, algorithm, "-", options.first_guess))
            print(printed(rows[-1], None, 0.0), flush=True)
    for design in filter(None, options.designs.split(",")):
        alone: Measured | None = measure(options, Mix(1, 0), "-", design, None)
        rows.append(alone)
        print(printed(alone, alone, 0.0), flush=True)
        for mix in [mix for mix in options.mixes if mix.jobs]:
            for algorithm in algorithms if mix.pairs else ["-"]:
                row = measure(options, mix, algorithm, design, alone.times[0])
                rows.append(row)
                least = bound(expected, row, options.least)
                low += row.index < least
                print(printed(row, alone, least), flush=True)
    wrong = sum(row.wrong for row in rows)
    if options.json:
        told = [{**vars(row), "mix": str(row.mix), "jain": [jain(row.up), jain(row.down)]} for row in rows]
        options.json.write_text(json.dumps({"default_tcp": default, "rows": told}, indent=1) + "\n")
    if wrong:
        print(f"error: expected no wrong elements, found {wrong}", file=sys.stderr)
    return 1 if low or wrong else 0


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("send", "receive"):
        stream(sys.argv[1] == "send", sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main())
