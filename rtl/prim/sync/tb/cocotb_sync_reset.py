"""prim_sync_reset: it begins without an edge, and ends two edges after its cause."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer


@cocotb.test()
async def reset_begins_at_once_and_ends_with_the_second_edge(dut) -> None:
    dut.rst_ni.value = 0
    Clock(dut.clk_i, 4, unit="ns").start()
    await FallingEdge(dut.clk_i)
    for _ in range(3):
        assert int(dut.rst_no.value) == 0
        # At some time between two edges.
        await RisingEdge(dut.clk_i)
        await Timer(1, unit="ns")
        dut.rst_ni.value = 1
        for expected in (0, 0, 1, 1):
            await Timer(100, unit="ps")
            assert int(dut.rst_no.value) == expected
            await FallingEdge(dut.clk_i)
            await RisingEdge(dut.clk_i)
            await Timer(100, unit="ps")
        dut.rst_ni.value = 0
        await Timer(100, unit="ps")
        assert int(dut.rst_no.value) == 0
