"""Random traffic through the switch and its reference: whatever a seed makes, both must do the same.

ALLREDUCE_SWITCH_SEED is the first seed, ALLREDUCE_SWITCH_STEPS how many steps each one has: for as long as one likes. A failure names its seed.
"""

import os
import random
import unittest

import needs
import rtl_tools
from bench import Bench
from frames import FIRST, IMMEDIATE, LAST, MIDDLE, address, ethernet, spoil
from hosts import Floats, Host
from switch_build import EIGHT, THREE, TWO, Shape

SEED = int(os.environ.get("ALLREDUCE_SWITCH_SEED", "1"))
STEPS = int(os.environ.get("ALLREDUCE_SWITCH_STEPS", "60"))


class Traffic:
    """Steps of frames that all ports send at once. What a step does is the same whichever of them comes first."""

    def __init__(self, bench: Bench, flows: int, seed: int) -> None:
        self.bench, self.flows, self.random, self.qp = bench, flows, random.Random(seed), 0
        self.announce()
        self.group()

    def announce(self) -> None:
        """Every host is heard, one after the other: where they are is known again."""
        for port in range(self.bench.ports):
            self.bench.send(port, ethernet(b"\xff" * 6, address(port), 60))
            self.bench.run()

    def group(self) -> None:
        """A new group on some of the ports, with registers to match."""
        rng, ports = self.random, self.bench.ports
        self.floating = rng.getrandbits(1)
        part = sorted(rng.sample(range(ports), rng.randrange(2, ports + 1)))
        self.bench.config(self.floating, sum(1 << p for p in part))
        if self.bench.ports > 2 and rng.random() < 0.3:
            self.bench.config(1 - self.floating, 1 << ports | 1)
        self.qp += 1
        kind = Floats if self.floating else Host
        to = part[1:] + part[:1] if rng.getrandbits(1) else part[-1:] + part[:-1]
        self.hosts = [kind(p, ports, psn=rng.choice((0, 2**24 - 5, rng.getrandbits(24))), qp=self.qp * 100 + p, to=t, seed=rng.getrandbits(32)) for p, t in zip(part, to)]
        for host in self.hosts:
            host.label = rng.choice((0x12345, 0x4E521))
        # Of each message, how many frames; how far each host is in sending; whether it must go back, as it lost something.
        self.lengths: list[int] = []
        self.last = [rng.choice((LAST, IMMEDIATE)) for _ in self.hosts]
        self.lost = {host.port: 0 for host in self.hosts}

    def length(self, message: int) -> int:
        while len(self.lengths) <= message:
            self.lengths.append(self.random.choice((2, 3, 5)))
        return self.lengths[message]

    def next_frames(self, host: Host, number: int) -> list[bytes]:
        """A message's frames, if the host may send one: the one that had its column before is over."""
        if host.message - self.over >= self.flows:
            return []
        count = self.length(host.message)
        return host.whole(count, self.last[number])

    def strange(self, port: int) -> bytes:
        """Something that is not to change anything but what is known of its source, which is no news."""
        rng = self.random
        host = next((host for host in self.hosts if host.port == port and host.sent), None)
        kind = rng.randrange(4)
        to = address(rng.randrange(self.bench.ports))
        if kind == 0 or host is None:
            return ethernet(to, address(port), rng.choice((14, 60, 61, 67, 100, 1094, 1110, 1514, rng.randrange(14, 1515))), rng.randrange(256))
        frame = host.sent[-1]
        if kind == 1:
            # Wrong in a header byte: dropped or forwarded, whichever it is. Not its addresses, opcode or length, that would make it another good one.
            return spoil(frame, rng.choice((12, 13, 20, 55, 56, 64, 65, 66, 90, len(frame) - 1, len(frame) - 4)), 1 << rng.randrange(8))
        if kind == 2:
            return frame[: rng.randrange(14, len(frame))]
        return frame[:6] + address(port) + frame[12:70]

    def step(self) -> None:
        rng, bench = self.random, self.bench
        for port in range(bench.ports):
            bench.sink(port, rng.choice(("wire", "wire", f"random {rng.getrandbits(16)} {rng.choice((40, 70, 90))}")))
        choice = rng.random()
        if choice < 0.04:
            self.group()
        elif choice < 0.1:
            # A host of many names, or one that has moved; by itself, for where it is found decides where frames go.
            port = rng.randrange(bench.ports)
            for _ in range(rng.randrange(1, 4)):
                bench.send(port, ethernet(address(rng.randrange(bench.ports)), address(rng.randrange(bench.ports), rng.randrange(3)), 100))
                bench.run()
            self.announce()
        elif choice < 0.3:
            # Some ask once more for what they have sent before.
            for host in self.hosts:
                arrived = host.sent[: len(host.sent) - self.lost[host.port]][-25:]
                if arrived and rng.getrandbits(1):
                    bench.send(host.port, *rng.choices(arrived, k=rng.randrange(1, 4)))
        else:
            self.over = min(host.message - (self.lost[host.port] > 0) for host in self.hosts)
            for number, host in enumerate(self.hosts):
                self.go_on(number, host)
        bench.run()

    def go_on(self, number: int, host: Host) -> None:
        rng, bench = self.random, self.bench
        if self.lost[host.port]:
            frames = host.sent[-self.lost[host.port] :]
            self.lost[host.port] = 0
        elif rng.random() < 0.8:
            frames = self.next_frames(host, number)
        else:
            frames = []
        if frames and rng.random() < 0.15:
            # One is lost, and the sender will go back to it; or comes with a wrong ICRC, which is the same.
            place = rng.randrange(len(frames))
            self.lost[host.port] = len(frames) - place
            frames = [*frames[:place], *([spoil(frames[place], 200)] if rng.getrandbits(1) else []), *frames[place + 1 :]]
        for frame in frames:
            if rng.random() < 0.3:
                bench.rest(host.port, rng.choice((100, 700, 2000)))
            if rng.random() < 0.2:
                bench.send(host.port, self.strange(host.port))
            bench.send(host.port, frame)
        if rng.random() < 0.3:
            port = rng.randrange(bench.ports)
            bench.send(port, self.strange(port))


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Random(unittest.TestCase):
    # After what needs no simulator.
    turn = 2

    def check(self, shape: Shape, seeds: int) -> None:
        for seed in range(SEED, SEED + seeds):
            bench = Bench(shape)
            self.addCleanup(bench.close)
            traffic = Traffic(bench, shape.flows, seed)
            for step in range(STEPS):
                try:
                    traffic.step()
                except AssertionError as difference:
                    raise AssertionError(f"ALLREDUCE_SWITCH_SEED={seed}, {shape.ports} ports, step {step}: {difference}") from difference

    def test_eight_ports(self) -> None:
        self.check(EIGHT, 3)

    def test_three_ports(self) -> None:
        self.check(THREE, 3)

    def test_two_ports_with_two_flows_of_eight_frames(self) -> None:
        self.check(TWO, 6)
