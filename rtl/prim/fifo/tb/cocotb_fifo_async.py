"""prim_fifo_async: order and room between clocks of several ratios."""

import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from streams import pull, push, start


@cocotb.test()
@cocotb.parametrize(clocks=[(6.4, 5), (5, 6.4), (5, 5.02), (3, 20), (20, 3)], pace=[(1, 1), (0.5, 0.9), (0.9, 0.4)])
async def words_come_out_in_order(dut, clocks: tuple[float, float], pace: tuple[float, float]) -> None:
    rng = random.Random(f"{clocks} {pace}")
    sent = [rng.getrandbits(len(dut.wdata_i)) for _ in range(200)]
    dut.wvalid_i.value = dut.rready_i.value = 0
    reader = cocotb.start_soon(start(dut, "rclk_i", "rrst_ni", clocks[1]))
    await start(dut, "wclk_i", "wrst_ni", clocks[0])
    await reader
    await RisingEdge(dut.wclk_i)

    def put(word: int) -> None:
        dut.wdata_i.value = word

    writer = cocotb.start_soon(push(dut.wclk_i, dut.wvalid_i, dut.wready_o, put, sent, pace[0], rng))
    await RisingEdge(dut.rclk_i)
    found = await pull(dut.rclk_i, dut.rvalid_o, dut.rready_i, lambda: int(dut.rdata_o.value), len(sent), pace[1], rng)
    await writer
    assert found == sent


@cocotb.test()
async def it_takes_as_many_words_as_it_has_places(dut) -> None:
    dut.wvalid_i.value = dut.rready_i.value = 0
    reader = cocotb.start_soon(start(dut, "rclk_i", "rrst_ni", 5))
    await start(dut, "wclk_i", "wrst_ni", 6.4)
    await reader
    depth, taken = 1 << (len(dut.wfree_o) - 1), 0
    dut.wdata_i.value = 0
    dut.wvalid_i.value = 1
    for _ in range(3 * depth + 20):
        await ReadOnly()
        assert bool(dut.wready_o.value) == (int(dut.wfree_o.value) > 0)
        taken += bool(dut.wready_o.value)
        await RisingEdge(dut.wclk_i)
    # One more is in the register that the reader sees.
    assert taken == depth + 1, f"expected {depth + 1} words, found {taken}"
