"""prim_axis_register: order, pace, and nothing lost at a stop."""

import random

import cocotb
from cocotb.utils import get_sim_time
from streams import pull, push, start


@cocotb.test()
@cocotb.parametrize(pace=[(1, 1), (0.5, 0.5), (1, 0.4), (0.4, 1)])
async def words_come_out_in_order(dut, pace: tuple[float, float]) -> None:
    rng = random.Random(f"{pace}")
    sent = [rng.getrandbits(len(dut.s_tdata_i)) for _ in range(300)]
    dut.s_tvalid_i.value = dut.m_tready_i.value = 0
    await start(dut)

    def put(word: int) -> None:
        dut.s_tdata_i.value = word

    begin = get_sim_time("ns")
    writer = cocotb.start_soon(push(dut.clk_i, dut.s_tvalid_i, dut.s_tready_o, put, sent, pace[0], rng))
    found = await pull(dut.clk_i, dut.m_tvalid_o, dut.m_tready_i, lambda: int(dut.m_tdata_o.value), len(sent), pace[1], rng)
    await writer
    assert found == sent
    if pace == (1, 1):
        cycles = (get_sim_time("ns") - begin) / 5
        assert cycles <= len(sent) + 2, f"expected {len(sent)} words in as many cycles, found {cycles}"
