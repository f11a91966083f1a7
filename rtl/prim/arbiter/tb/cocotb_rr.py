"""prim_arbiter_rr: who is granted, against a list of turns."""

import random

import cocotb
from cocotb.triggers import RisingEdge
from streams import settle, start


@cocotb.test()
async def each_in_turn(dut) -> None:
    rng, count = random.Random(1), len(dut.req_i)
    dut.req_i.value = dut.take_i.value = 0
    await start(dut)
    last = count - 1
    for _ in range(1000):
        asked = rng.getrandbits(count) & rng.getrandbits(count) if rng.random() < 0.5 else 2**count - 1
        dut.req_i.value = asked
        dut.take_i.value = taken = rng.random() < 0.7
        await settle()
        order = [(last + 1 + i) % count for i in range(count)]
        expected = next((i for i in order if asked >> i & 1), None)
        assert bool(dut.valid_o.value) == (expected is not None)
        assert int(dut.gnt_o.value) == (0 if expected is None else 1 << expected)
        if expected is not None:
            assert int(dut.idx_o.value) == expected
            if taken:
                last = expected
        await RisingEdge(dut.clk_i)
