"""What cocotb benches share: a clock with a reset, and the two ends of a valid-ready stream."""

import random
from collections.abc import Iterator

from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer


async def start(dut, clock: str = "clk_i", reset: str = "rst_ni", ns: float = 5) -> None:
    """Starts a clock, and leaves reset."""
    signal = getattr(dut, clock)
    getattr(dut, reset).value = 0
    Clock(signal, int(ns * 1000) // 2 * 2, unit="ps").start()
    for _ in range(4):
        await RisingEdge(signal)
    getattr(dut, reset).value = 1
    await RisingEdge(signal)


async def push(clock, valid, ready, put, words: list, chance: float, rng: random.Random) -> None:
    """Offers words, each in some cycle; one that is offered stays until it is taken."""
    for word in words:
        while rng.random() >= chance:
            valid.value = 0
            await RisingEdge(clock)
        valid.value = 1
        put(word)
        while True:
            await ReadOnly()
            taken = bool(ready.value)
            await RisingEdge(clock)
            if taken:
                break
    valid.value = 0


async def pull(clock, valid, ready, get, count: int, chance: float, rng: random.Random) -> list:
    """Takes so many words, in some of the cycles."""
    words = []
    while len(words) < count:
        ready.value = rng.random() < chance
        await ReadOnly()
        if valid.value and ready.value:
            words.append(get())
        await RisingEdge(clock)
    ready.value = 0
    return words


async def settle() -> None:
    """Lets what depends on new inputs alone take its value."""
    await Timer(1, unit="ns")


def words(rng: random.Random, bits: int, count: int) -> Iterator[int]:
    return (rng.getrandbits(bits) for _ in range(count))
