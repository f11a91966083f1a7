"""The adders against numpy, one sum a cycle."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

SPECIAL = [0x00000000, 0x7F800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x00000001, 0x00000002, 0x007FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF, 0x3F800000, 0x33800000, 0x33800001, 0x34000000, 0x4B800000, 0x4B7FFFFF]
SPECIAL += [word | 0x80000000 for word in SPECIAL]


def pairs(floating: bool) -> list[tuple[int, int]]:
    """All pairs of what is easily got wrong, and random ones whose exponents lie near each other or far apart."""
    rng = random.Random(4)
    found = [(a, b) for a in SPECIAL for b in SPECIAL]
    for _ in range(6000):
        exponent = rng.randrange(256)
        a = rng.getrandbits(1) << 31 | exponent << 23 | rng.getrandbits(23)
        b = rng.getrandbits(1) << 31 | min(max(exponent + rng.randrange(-30, 31), 0), 255) << 23 | rng.getrandbits(23)
        # Nearly the same: what is left is small.
        if rng.random() < 0.2:
            b = (a ^ 0x80000000) + rng.randrange(-3, 4) & 0xFFFFFFFF
        # Few bits: sums that lie half between two numbers.
        if rng.random() < 0.3:
            a, b = a & 0xFFFFF000, b & 0xFFFFF000
        found.append((a, b))
    if not floating:
        found += [(rng.getrandbits(32), rng.getrandbits(32)) for _ in range(500)]
    return found


def sums(given: list[tuple[int, int]], floating: bool) -> list[int]:
    a, b = (np.array(column, dtype=np.uint32) for column in zip(*given))
    if not floating:
        return [int(word) for word in a + b]
    with np.errstate(all="ignore"):
        result = a.view(np.float32) + b.view(np.float32)
    return [0x7FC00000 if nan else int(word) for word, nan in zip(result.view(np.uint32), np.isnan(result))]


@cocotb.test()
async def sums_are_right_to_the_bit(dut) -> None:
    floating = dut._name == "prim_add_fp32"
    latency = 5 if floating else 1
    given = pairs(floating)
    expected = sums(given, floating)
    Clock(dut.clk_i, 4, unit="ns").start()
    await FallingEdge(dut.clk_i)
    for number in range(len(given) + latency):
        if number >= latency:
            a, b = given[number - latency]
            found, wanted = int(dut.sum_o.value), expected[number - latency]
            assert found == wanted, f"{a:08x} + {b:08x}: expected {wanted:08x}, found {found:08x}"
        if number < len(given):
            dut.a_i.value, dut.b_i.value = given[number]
        await FallingEdge(dut.clk_i)
