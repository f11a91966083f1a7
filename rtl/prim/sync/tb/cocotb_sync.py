"""prim_sync: a level is there after two edges of this clock, not one, and low during reset."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer


@cocotb.test()
async def levels_come_after_two_edges_and_are_low_in_reset(dut) -> None:
    rng, width = random.Random(1), int(dut.WIDTH.value)
    high = (1 << width) - 1
    dut.rst_ni.value, dut.d_i.value = 0, high
    Clock(dut.clk_i, 4, unit="ns").start()
    for _ in range(4):
        await FallingEdge(dut.clk_i)
        assert int(dut.q_o.value) == 0
    dut.rst_ni.value, dut.d_i.value = 1, 0
    before = [0, 0]
    for _ in range(200):
        await FallingEdge(dut.clk_i)
        before.append(int(dut.d_i.value))
        assert int(dut.q_o.value) == before[-2]
        dut.d_i.value = rng.getrandbits(width)
    # Reset needs no edge.
    dut.rst_ni.value = 0
    await Timer(1, unit="ns")
    assert int(dut.q_o.value) == 0
