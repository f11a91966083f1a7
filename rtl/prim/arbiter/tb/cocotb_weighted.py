"""prim_arbiter_weighted: shares while all ask, and nothing idle while one asks."""

import random

import cocotb
from cocotb.triggers import RisingEdge
from streams import settle, start


def weights(dut) -> list[int]:
    value, bits = int(dut.WEIGHTS.value), int(dut.WEIGHT_W.value)
    return [value >> (i * bits) & (2**bits - 1) for i in range(len(dut.req_i))]


@cocotb.test()
async def a_round_has_each_as_often_as_its_weight(dut) -> None:
    share, count = weights(dut), len(dut.req_i)
    dut.take_i.value = 1
    dut.req_i.value = 0
    await start(dut)
    dut.req_i.value = 2**count - 1
    for _ in range(20):
        granted = [0] * count
        for _ in range(sum(share)):
            await settle()
            granted[int(dut.idx_o.value)] += 1
            await RisingEdge(dut.clk_i)
        assert granted == share, f"expected {share} grants in a round, found {granted}"


@cocotb.test()
async def who_asks_alone_is_granted_at_once(dut) -> None:
    rng, count = random.Random(2), len(dut.req_i)
    dut.take_i.value = 1
    dut.req_i.value = 0
    await start(dut)
    for _ in range(300):
        asked = rng.getrandbits(count)
        dut.req_i.value = asked
        await settle()
        granted = int(dut.gnt_o.value)
        assert bool(dut.valid_o.value) == (asked != 0)
        assert granted & ~asked == 0 and granted.bit_count() == (asked != 0)
        await RisingEdge(dut.clk_i)
