"""prim_ram_1r1w: a word comes two cycles after its address, as it was before what is written in the same cycle."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


@cocotb.test()
async def words_come_two_cycles_after_their_address_and_stay_while_nothing_is_read(dut) -> None:
    rng = random.Random(1)
    width, depth = int(dut.WIDTH.value), int(dut.DEPTH.value)
    words = [rng.getrandbits(width) for _ in range(depth)]
    dut.re_i.value = 0
    Clock(dut.clk_i, 4, unit="ns").start()
    for address, word in enumerate(words):
        await FallingEdge(dut.clk_i)
        dut.we_i.value, dut.waddr_i.value, dut.wdata_i.value = 1, address, word
    # What was read in the last cycle, and what is shown.
    read = shown = None
    for _ in range(600):
        await FallingEdge(dut.clk_i)
        # The edge that was in between took what stood at the inputs.
        if shown is not None:
            assert int(dut.rdata_o.value) == shown, f"expected {shown:#x}, found {int(dut.rdata_o.value):#x}"
        write, fetch = rng.random() < 0.5, rng.random() < 0.7
        target, source, word = rng.randrange(depth), rng.randrange(depth), rng.getrandbits(width)
        if rng.random() < 0.3:
            source = target
        dut.we_i.value, dut.waddr_i.value, dut.wdata_i.value = write, target, word
        dut.re_i.value, dut.raddr_i.value = fetch, source
        shown = read
        if fetch:
            read = words[source]
        if write:
            words[target] = word
