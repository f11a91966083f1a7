"""prim_crc32: against zlib."""

import random
import zlib

import cocotb
from streams import settle


@cocotb.test()
async def steps_are_those_of_ethernet(dut) -> None:
    rng, size = random.Random(1), len(dut.data_i) // 8
    state, whole = 0xFFFFFFFF, b""
    for _ in range(200):
        part = rng.randbytes(size)
        dut.crc_i.value = state
        dut.data_i.value = int.from_bytes(part, "little")
        await settle()
        state, whole = int(dut.crc_o.value), whole + part
        assert state ^ 0xFFFFFFFF == zlib.crc32(whole)


@cocotb.test()
async def the_check_value_is_the_one_of_the_catalogue(dut) -> None:
    # Of "123456789", whose CRC is 0xCBF43926: its end, from the state before.
    size = len(dut.data_i) // 8
    before = zlib.crc32(b"123456789"[: 9 - size]) ^ 0xFFFFFFFF
    dut.crc_i.value = before
    dut.data_i.value = int.from_bytes(b"123456789"[9 - size :], "little")
    await settle()
    assert int(dut.crc_o.value) ^ 0xFFFFFFFF == 0xCBF43926
