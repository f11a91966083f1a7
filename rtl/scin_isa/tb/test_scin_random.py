"""Random instructions and memories, at random times, beside traffic of the switch core: memories and flags to the bit.

SCIN_ISA_SEED is another beginning, SCIN_ISA_CASES another number of cases; SCIN_ISA_LONG=1 adds a third shape, and more of all.
"""

import os
import random
import unittest

import rtl_tools
import scin_build
from scin_bench import NOTIFY, QUANT, REGION, WAIT, Simulator, instruction
from scin_reference import Reference

SEED = int(os.environ.get("SCIN_ISA_SEED", "1"))
LONG = os.environ.get("SCIN_ISA_LONG") == "1"
CASES = int(os.environ.get("SCIN_ISA_CASES", "200" if LONG else "14"))
SCALES = 1 << 40


def element(rng: random.Random, data_type: int) -> bytes:
    """Of any kind, or of a few exponents, so that sums round and cancel."""
    size = 4 if data_type == 0 else 2
    if rng.random() < 0.05:
        return rng.randbytes(size)
    sign = rng.getrandbits(1)
    if data_type == 0:
        return (sign << 31 | rng.choice((0x3F800000, 0x3F000000, 0x34000000)) + rng.getrandbits(24)).to_bytes(4, "little")
    if data_type == 1:
        return (sign << 15 | rng.choice((0x0000, 0x3C00, 0x3800, 0x7400)) + rng.getrandbits(11)).to_bytes(2, "little")
    return (sign << 15 | rng.choice((0x3F80, 0x3F00, 0x3C00)) + rng.getrandbits(8)).to_bytes(2, "little")


def scale(rng: random.Random) -> bytes:
    bits = rng.choice((rng.getrandbits(11), 0x2000 + rng.getrandbits(13), 0x7000 + rng.getrandbits(11)))
    return (bits | rng.getrandbits(1) << 15 if rng.random() < 0.9 else rng.getrandbits(16)).to_bytes(2, "little")


class Case:
    """What is told to hardware and reference alike."""

    def __init__(self, seed: int, shape: scin_build.Shape) -> None:
        self.rng, self.shape = random.Random(seed), shape
        self.data_type = self.rng.randrange(3)
        self.lines = [self.collective() for _ in range(2)]

    def mask(self) -> int:
        full = (1 << self.shape.ports) - 1
        return full if self.rng.random() < 0.5 else self.rng.randint(1, full)

    def collective(self) -> list[str]:
        rng, ports, told, dumps = self.rng, self.shape.ports, [], []
        participants, count = 0, rng.randint(1, 4)
        kinds = [rng.random() < 0.4 and self.shape.quant for _ in range(count)]
        for number, is_quantised in enumerate(kinds):
            most = 3 * self.shape.wave_bytes if is_quantised or not self.shape.quant else self.shape.wave_bytes + 600
            length = rng.choice((0, 64, rng.randrange(most), rng.randrange(most))) // (1 if is_quantised else 4) * (1 if is_quantised else 4)
            sources, destinations = self.mask(), self.mask()
            flags = (WAIT if number == 0 else 0) | (NOTIFY if number == count - 1 else 0) | (QUANT if is_quantised else 0)
            if number == 0:
                participants = sources | destinations
            base = 0x10000 * (number + 1)
            region = rng.random() < 0.3
            addresses = [base + (0 if region else 0x100000 * port + rng.randrange(64)) for port in range(ports)]
            # Of a region the first address counts alone.
            fields = [addresses[0], *(rng.getrandbits(40) for _ in addresses[1:])] if region else addresses
            told.append(instruction(number, length, flags | (REGION if region else 0), sources, destinations, fields))
            if is_quantised:
                told.append(instruction(100 + number, 2 * -(-length // 64), REGION, sources, destinations, [SCALES + base] * ports))
            for port in range(ports):
                size = 1 if is_quantised else 4 if self.data_type == 0 else 2
                content = b"".join(rng.randbytes(1) if is_quantised else element(rng, self.data_type) for _ in range(length // size))
                # What is right beside the vector stays.
                told.insert(0, f"memory {port} {addresses[port] - 8} {(rng.randbytes(8) + content + rng.randbytes(8)).hex()}")
                dumps.append(f"dump {port} {addresses[port] - 8} {length + 16}")
                if is_quantised:
                    factors = b"".join(scale(rng) for _ in range(-(-length // 64)))
                    told.insert(0, f"memory {port} {SCALES + base} {(factors + rng.randbytes(8)).hex()}")
                    dumps.append(f"dump {port} {SCALES + base} {len(factors) + 8}")
        told += [f"add {port} 1" for port in range(ports) if participants >> port & 1]
        return [*told, "run", *dumps]

    def settings(self) -> list[str]:
        rng = self.rng
        low, high = sorted((rng.randrange(300), rng.randrange(300)))
        traffic = []
        for _ in range(rng.randrange(12)):
            source, target = rng.randrange(self.shape.ports), rng.randrange(self.shape.ports)
            traffic.append(f"send {source} {target} {rng.randint(1, 4)} {rng.randint(1, self.shape.payload_bytes)} {rng.randint(1, 6)}")
        return [
            f"seed {rng.getrandbits(30)}",
            f"type {self.data_type}",
            f"link {rng.choice((1, 10, 70))}",
            f"read {low} {high}",
            f"write {low} {rng.choice((low, high))}",
            f"hold {rng.choice((0, 30, 90))}",
            f"bubble {rng.choice((0, 10, 50))}",
            f"core {rng.choice((100, 100, 30))}",
            *traffic,
        ]


@rtl_tools.programs("verilator", "g++")
class Random(unittest.TestCase):
    turn = 2

    def hold(self, shape: scin_build.Shape) -> None:
        program = shape.simulator()
        for seed in range(SEED, SEED + CASES):
            case = Case(seed, shape)
            simulator, reference = Simulator(program), Reference(shape.ports, case.data_type)
            self.addCleanup(reference.close)
            settings = case.settings()
            simulator.tell(*settings)
            packets = sum(int(line.split()[-1]) for line in settings if line.startswith("send"))
            expected = []
            for line in (line for lines in case.lines for line in lines):
                simulator.tell(line)
                answers = reference.answer(line)
                expected += sorted(answers)
            # Of each run the flags as they come, by port.
            found, flags, crossed = [], [], 0
            for what, *rest in simulator.run():
                if what == "flag":
                    flags.append([what, rest[0], rest[2]])
                elif what == "memory":
                    found.append([what, *rest])
                elif what == "end":
                    found += sorted(flags)
                    flags = []
                elif what == "core":
                    crossed += int(rest[3])
                self.assertNotIn(what, ("drop", "refused"), f"SCIN_ISA_SEED={seed}: {rest}")
            self.assertEqual(crossed, packets, f"SCIN_ISA_SEED={seed}: packets of the switch core")
            for have, want in zip(found, expected, strict=True):
                self.assertEqual(have, want, f"SCIN_ISA_SEED={seed} SCIN_ISA_CASES=1")

    def test_four_ports_with_a_quantizer(self) -> None:
        self.hold(scin_build.PROTOTYPE)

    def test_eight_ports(self) -> None:
        self.hold(scin_build.EIGHT)

    if LONG:

        def test_three_ports_with_one_wave_and_small_packets(self) -> None:
            self.hold(scin_build.SMALL)


if __name__ == "__main__":
    unittest.main()
