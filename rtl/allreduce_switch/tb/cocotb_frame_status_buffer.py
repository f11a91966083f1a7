"""frame_status_buffer: the paper's worked example, and random frames against the rules of the switch's page."""

import random

import cocotb
from cocotb.triggers import RisingEdge
from streams import start

ANSWERS = ("store", "again", "gap", "too_long", "forgotten", "pending")


class Model:
    """The rules of the Aggregation Frame Handler."""

    def __init__(self, flows: int, frames: int) -> None:
        self.flows, self.frames = flows, frames
        self.clear()
        self.expected = 0

    def clear(self) -> None:
        self.bases: list[int | None] = [None] * self.flows
        self.next, self.done, self.stored = 0, set(), set()

    def judge(self, first: bool, fresh: bool, psn: int) -> tuple[str, int | None]:
        if first and fresh:
            self.bases = [None] * self.flows
        ahead = (psn - self.expected) % 2**24
        if first and (fresh or ahead == 0):
            column, offset = self.next, 0
            self.bases[column], self.next = psn, (column + 1) % self.flows
            column_places = set(range(column * self.frames, (column + 1) * self.frames))
            self.done -= column_places
            self.stored -= column_places
        else:
            if 0 < ahead < 2**23:
                return "gap", None
            newest = [(self.next - 1 - back) % self.flows for back in range(self.flows if ahead else 1)]
            near = ((c, (psn - self.bases[c]) % 2**24) for c in newest if self.bases[c] is not None)
            column, offset = next(((c, d) for c, d in near if d < self.frames), (None, None))
            if column is None:
                return "forgotten" if ahead else "too_long", None
            if ahead:
                index = column * self.frames + offset
                return "again" if index in self.done else "pending", index
        self.expected = (psn + 1) % 2**24
        self.stored.add(column * self.frames + offset)
        return "store", column * self.frames + offset


async def judge(dut, first: bool, fresh: bool, psn: int) -> tuple[str, int]:
    dut.judge_i.value, dut.first_i.value, dut.fresh_i.value, dut.psn_i.value = 1, first, fresh, psn
    await RisingEdge(dut.clk_i)
    dut.judge_i.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk_i)
        if dut.done_o.value:
            said = [name for name in ANSWERS if getattr(dut, f"{name}_o").value]
            assert len(said) == 1, f"expected one answer, found {said}"
            return said[0], int(dut.index_o.value)
    raise AssertionError("expected an answer in time, found none")


async def pulse(dut, signal) -> None:
    signal.value = 1
    await RisingEdge(dut.clk_i)
    signal.value = 0
    await RisingEdge(dut.clk_i)


async def begin(dut) -> None:
    dut.judge_i.value = dut.clear_i.value = dut.sum_i.value = 0
    await start(dut)


@cocotb.test()
async def the_worked_example_has_index_257(dut) -> None:
    if int(dut.FLOWS.value) * int(dut.FRAMES.value) != 512:
        return
    await begin(dut)
    psn, bases = 0x0FFFFE0, (0x0FFFFF0, 0x0FFFFFF)
    assert await judge(dut, True, True, psn & 0xFFFFFF) == ("store", 0)
    while psn != bases[-1]:
        psn += 1
        answer, _ = await judge(dut, psn in bases, False, psn & 0xFFFFFF)
        assert answer == "store"
    assert await judge(dut, False, False, 0) == ("store", 257)


@cocotb.test()
async def random_frames_are_judged_by_the_rules(dut) -> None:
    rng = random.Random(1)
    flows, frames = int(dut.FLOWS.value), int(dut.FRAMES.value)
    await begin(dut)
    model, psn = Model(flows, frames), rng.getrandbits(24)
    for number in range(3000):
        action = rng.random()
        if action < 0.01:
            await pulse(dut, dut.clear_i)
            model.clear()
            fresh = True
        elif action < 0.25 and model.stored:
            dut.sum_index_i.value = index = rng.choice(sorted(model.stored))
            await pulse(dut, dut.sum_i)
            model.done.add(index)
            continue
        else:
            fresh = number == 0 or rng.random() < 0.01
        if fresh:
            psn = rng.choice((rng.getrandbits(24), 2**24 - 3, 0, model.expected))
            first = True
        elif rng.random() < 0.6:
            psn, first = model.expected, rng.random() < 0.25
        else:
            far = rng.choice((1, 2, frames, flows * frames, 2**23 - 1, 2**23))
            psn, first = (model.expected + rng.randrange(-far, min(far, 6))) % 2**24, rng.random() < 0.2
        expected = model.judge(first, fresh, psn)
        found = await judge(dut, first, fresh, psn)
        wanted = (expected[0], found[1] if expected[1] is None else expected[1])
        assert found == wanted, f"PSN {psn:#x}: expected {wanted}, found {found}"
