"""The whole switch by its AXI streams, at any number of ports: every frame that leaves is compared to the bit."""

import random

import cocotb
from cocotb.triggers import Timer
from frames import FIRST, IMMEDIATE, LAST, MIDDLE, address, ethernet, spoil
from hosts import Floats, Host
from mac import Switch


async def learned(dut) -> Switch:
    """A switch that has heard every port's host."""
    switch = await Switch.after_reset(dut)
    for port in range(switch.ports):
        # One after the other.
        switch.rest(port, 40 * port)
        switch.send(port, ethernet(b"\xff" * 6, address(port), 60))
    await switch.run()
    return switch


def hosts(switch: Switch, kind: type[Host] = Host, **how: int) -> list[Host]:
    return [kind(port, switch.ports, **how) for port in range(switch.ports)]


async def send_messages(switch: Switch, part: list[Host], frames: int, last: int = LAST) -> None:
    """A message from each host; all of their sums leave."""
    for host in part:
        switch.send(host.port, *host.whole(frames, last))
    assert len(await switch.run()) == frames * len(part)


@cocotb.test()
async def a_host_is_found_where_it_was_heard_last_and_the_fifth_of_a_port_takes_the_place_of_the_first(dut) -> None:
    switch = await Switch.after_reset(dut)
    last = switch.ports - 1
    switch.send(0, ethernet(address(last), address(0), 100))
    assert sorted(port for port, _ in await switch.run()) == list(range(1, switch.ports))
    for host in range(5):
        switch.send(last, ethernet(address(0), address(last, host), 60 + host))
        assert [port for port, _ in await switch.run()] == [0]
    for host in range(5):
        switch.send(0, ethernet(address(last, host), address(0), 64))
        assert len(await switch.run()) == (1 if host else switch.ports - 1)
    # It moves to where what is for it comes from.
    switch.send(0, ethernet(b"\xff" * 6, address(last, 3), 61))
    await switch.run()
    switch.send(0, ethernet(address(last, 3), address(0), 62))
    assert not await switch.run()
    assert switch.drops == {(0, "filtered"): 1}


@cocotb.test()
async def fixed_point_is_added_up_over_a_wrap_of_numbers_in_any_order_of_arrival(dut) -> None:
    switch = await learned(dut)
    rng, frames = random.Random(1), min(5, switch.frames)
    part = [Host(port, switch.ports, psn=2**24 - 2 + port % 2) for port in range(switch.ports)]
    for last in (LAST, IMMEDIATE):
        for host in part:
            for frame in host.whole(frames, last):
                switch.rest(host.port, rng.choice((0, 0, 100, 400)))
                switch.send(host.port, frame)
        assert len(await switch.run()) == frames * switch.ports


@cocotb.test()
async def floating_point_is_added_up_to_the_bit(dut) -> None:
    switch = await learned(dut)
    assert not await switch.config(1, switch.ports << 27 | 2**switch.ports - 1)
    await send_messages(switch, hosts(switch, Floats), min(4, switch.frames))


@cocotb.test()
async def forwarding_goes_on_beside_aggregation(dut) -> None:
    switch = await learned(dut)
    rng = random.Random(2)
    for host in hosts(switch):
        for frame in host.whole(min(6, switch.frames), IMMEDIATE):
            switch.send(host.port, frame)
            for _ in range(rng.randrange(3)):
                switch.send(host.port, ethernet(address(rng.randrange(switch.ports)), address(host.port), rng.randrange(60, 400), rng.randrange(256)))
    await switch.run()


@cocotb.test()
async def a_message_more_than_there_are_columns_takes_the_place_of_the_first(dut) -> None:
    switch = await learned(dut)
    part = hosts(switch)
    for _ in range(switch.flows):
        for host in part:
            switch.send(host.port, *host.whole(2))
    assert len(await switch.run()) == 2 * switch.flows * switch.ports
    # The first is still there, until the next one comes.
    for host in part:
        switch.send(host.port, *host.sent[:2])
    assert len(await switch.run()) == 2 * switch.ports
    await send_messages(switch, part, 2)
    for host in part:
        switch.send(host.port, *host.sent[:3])
    assert len(await switch.run()) == switch.ports
    assert switch.drops == {(host.port, "forgotten"): 2 for host in part}


@cocotb.test()
async def what_follows_a_lost_frame_is_dropped_until_it_comes_and_is_sent_again_when_asked_for(dut) -> None:
    switch = await learned(dut)
    part, frames = hosts(switch), min(5, switch.frames)
    for host in part:
        whole = host.whole(frames)
        switch.send(host.port, *(whole if host.port else [*whole[:1], *whole[2:]]))
    assert len(await switch.run()) == switch.ports
    assert switch.drops == {(0, "gap"): frames - 2}
    switch.send(1, part[1].sent[1])
    assert not await switch.run()
    assert switch.drops == {(1, "pending"): 1}
    switch.send(0, *part[0].sent[1:])
    assert len(await switch.run()) == (frames - 1) * switch.ports
    # All of them at once, and one twice.
    for host in part:
        switch.send(host.port, *host.sent)
    switch.send(1, part[1].sent[-1])
    assert len(await switch.run()) == frames * switch.ports + 1


@cocotb.test()
async def what_is_cut_short_damaged_or_of_another_form_does_no_harm(dut) -> None:
    switch = await learned(dut)
    host, *others = hosts(switch)
    first, middle = host.frame(FIRST), host.frame(MIDDLE)
    switch.send(0, first)
    await switch.run()
    for size in (1, 13, 14, 55, 66, 600, 1089, 1090, len(middle) - 1):
        switch.send(0, middle[:size])
    # Longer than its opcode says; wrong in a byte; of no known connection.
    switch.send(0, middle + b"\0", spoil(middle, 500), spoil(middle, len(middle) - 1), spoil(middle, 61), ethernet(address(1), address(0), 2048))
    await switch.run()
    for other in others:
        switch.send(other.port, other.frame(FIRST), other.frame(MIDDLE))
    switch.send(0, middle)
    assert len(await switch.run()) == 2 * switch.ports


@cocotb.test()
async def receivers_that_are_ready_now_and_then_get_all(dut) -> None:
    switch = await learned(dut)
    rng = random.Random(3)
    for port in range(switch.ports):
        switch.sink(port, lambda share=rng.choice((0.3, 0.6, 0.9)): rng.random() < share)
    for host in hosts(switch):
        for frame in host.whole(min(4, switch.frames)):
            switch.send(host.port, frame, ethernet(address(host.port + 1 - 2 * (host.port % 2)), address(host.port), rng.randrange(60, 200)))
            # What is for a slow one must not overrun the entry.
            switch.rest(host.port, 400)
    await switch.run()


@cocotb.test()
async def a_stopped_receiver_stops_only_what_is_for_it_and_overruns_are_whole_frames(dut) -> None:
    switch = await learned(dut)
    stopped = switch.ports - 1
    switch.sink(stopped, lambda: False)
    for i in range(2):
        switch.send(0, ethernet(address(stopped), address(0), 1000, i))
    switch.send(1, *(ethernet(address(0), address(1), 300, i) for i in range(4)))
    await switch.settle()
    assert [len(mac.received) for mac in switch.macs] == [4] + [0] * (switch.ports - 1)
    switch.send(0, *(ethernet(address(stopped), address(0), 1500, i) for i in range(7)))
    await switch.settle()
    overruns = switch.dropped[0, "overrun"]
    assert overruns > 0
    switch.sink(stopped, lambda: True)
    assert len(await switch.run(lossy=True)) == 2 + 4 + 7 - overruns
    assert await switch.spi(False, 0x10) == overruns


@cocotb.test()
async def a_write_to_the_registers_in_the_middle_of_a_message_leaves_nothing_of_it(dut) -> None:
    switch = await learned(dut)
    for host in hosts(switch):
        switch.send(host.port, *host.whole(min(4, switch.frames)))
    await Timer(1500, "ns")
    await switch.spi(True, 1, switch.ports << 27 | 2**switch.ports - 1)
    await switch.settle()
    for mac in switch.macs:
        mac.sent, mac.received = [], []
    switch.dropped.clear()
    # Refused: a port that is not there, or another number of ports.
    assert await switch.config(0, switch.ports << 27 | 2**switch.ports - 2 | 1 << switch.ports)
    assert await switch.config(0, (switch.ports - 1) << 27 | 2**switch.ports - 1)
    assert not await switch.config(0, 2 << 27 | 0b11)
    pair = [Host(port, 2, qp=7) for port in range(2)]
    await send_messages(switch, pair, 2)
