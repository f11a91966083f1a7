"""prim_axis_width: frames of all sizes in words of another width."""

import random

import cocotb
from streams import pull, push, start


def beats(frame: bytes, size: int) -> list[tuple[int, int, int]]:
    """A frame as data, keep and last of each beat."""
    parts = [frame[i : i + size] for i in range(0, len(frame), size)]
    return [(int.from_bytes(part, "little"), 2 ** len(part) - 1, number == len(parts)) for number, part in enumerate(parts, 1)]


@cocotb.test()
@cocotb.parametrize(pace=[(1, 1), (0.5, 0.7), (1, 0.5)])
async def frames_keep_their_bytes(dut, pace: tuple[float, float]) -> None:
    rng = random.Random(f"{pace}")
    narrow, wide = len(dut.s_tkeep_i), len(dut.m_tkeep_o)
    frames = [rng.randbytes(size) for size in [*range(1, 36), 64, 65]]
    sent = [beat for frame in frames for beat in beats(frame, narrow)]
    expected = [beat for frame in frames for beat in beats(frame, wide)]
    dut.s_tvalid_i.value = dut.m_tready_i.value = 0
    await start(dut)

    def put(beat: tuple[int, int, int]) -> None:
        dut.s_tdata_i.value, dut.s_tkeep_i.value, dut.s_tlast_i.value = beat

    def get() -> tuple[int, int, int]:
        keep = int(dut.m_tkeep_o.value)
        # What is not kept is anything.
        data = "".join(bit if bit in "01" else "0" for bit in str(dut.m_tdata_o.value))
        mask = sum(255 << 8 * i for i in range(wide) if keep >> i & 1)
        return int(data, 2) & mask, keep, bool(dut.m_tlast_o.value)

    writer = cocotb.start_soon(push(dut.clk_i, dut.s_tvalid_i, dut.s_tready_o, put, sent, pace[0], rng))
    found = await pull(dut.clk_i, dut.m_tvalid_o, dut.m_tready_i, get, len(expected), pace[1], rng)
    await writer
    assert found == expected
