"""prim_fifo_sync: order, room, clearing and pace."""

import random
from collections import deque

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from streams import start


async def run(dut, cycles: int, put: float, take: float, seed: int, clear: float = 0) -> int:
    """Writes and reads at random beside a queue: how many words came out."""
    rng, queue, out = random.Random(seed), deque(), 0
    depth, bits = 1 << (len(dut.free_o) - 1), len(dut.data_i)
    dut.valid_i.value = dut.ready_i.value = dut.clear_i.value = 0
    await start(dut)
    for _ in range(cycles):
        dut.valid_i.value = offered = rng.random() < put
        dut.data_i.value = word = rng.getrandbits(bits)
        dut.ready_i.value = wanted = rng.random() < take
        dut.clear_i.value = cleared = rng.random() < clear
        await ReadOnly()
        held = len(queue) - bool(dut.valid_o.value)
        assert int(dut.free_o.value) == depth - held, f"expected {depth - held} free places, found {dut.free_o.value}"
        assert bool(dut.ready_o.value) == (held < depth)
        if wanted and dut.valid_o.value:
            assert int(dut.data_o.value) == queue.popleft()
            out += 1
        if offered and dut.ready_o.value:
            queue.append(word)
        if cleared:
            queue.clear()
        await RisingEdge(dut.clk_i)
    return out


@cocotb.test()
async def words_come_out_in_order_whatever_the_pace(dut) -> None:
    for seed, (put, take) in enumerate(((0.5, 0.5), (0.9, 0.3), (0.3, 0.9), (1, 0.6), (0.6, 1))):
        assert await run(dut, 400, put, take, seed) > 80


@cocotb.test()
async def a_word_passes_in_every_cycle(dut) -> None:
    # Two places are less than the way through, of three cycles.
    expected = 300 - 3 if len(dut.free_o) > 2 else 190
    assert await run(dut, 300, 1, 1, 9) >= expected


@cocotb.test()
async def clearing_leaves_nothing(dut) -> None:
    assert await run(dut, 1500, 0.7, 0.5, 5, clear=0.05) > 100
