"""prim_sync_pulse: each pulse arrives once, for one cycle, whichever clock is the faster one."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


async def count(dut, seen: list[int]) -> None:
    while True:
        await FallingEdge(dut.dst_clk_i)
        pulses = int(dut.pulse_o.value)
        for bit in range(len(seen)):
            seen[bit] += pulses >> bit & 1


async def check(dut, source_ps: int, destination_ps: int) -> None:
    rng, width = random.Random(source_ps), int(dut.WIDTH.value)
    dut.src_rst_ni.value = dut.dst_rst_ni.value = dut.pulse_i.value = 0
    Clock(dut.src_clk_i, source_ps, unit="ps").start()
    Clock(dut.dst_clk_i, destination_ps, unit="ps").start()
    for _ in range(4):
        await FallingEdge(dut.src_clk_i)
        await FallingEdge(dut.dst_clk_i)
    dut.src_rst_ni.value = dut.dst_rst_ni.value = 1
    sent, seen = [0] * width, [0] * width
    cocotb.start_soon(count(dut, seen))
    for number in range(100):
        pulses = rng.getrandbits(width)
        await FallingEdge(dut.src_clk_i)
        dut.pulse_i.value = pulses
        await FallingEdge(dut.src_clk_i)
        dut.pulse_i.value = 0
        sent = [total + (pulses >> bit & 1) for bit, total in enumerate(sent)]
        # Three cycles of the slower clock between them, and no more.
        for _ in range(-(-3 * max(source_ps, destination_ps) // source_ps)):
            await FallingEdge(dut.src_clk_i)
    for _ in range(8):
        await FallingEdge(dut.dst_clk_i)
    assert seen == sent, f"expected {sent} pulses, found {seen}"


@cocotb.test()
async def pulses_arrive_once_in_a_faster_clock(dut) -> None:
    await check(dut, 6400, 5000)


@cocotb.test()
async def pulses_arrive_once_in_a_slower_clock(dut) -> None:
    await check(dut, 2000, 7002)
