"""Frames that are nearly for aggregation: forwarded as they are, or dropped without harm."""

import random

import needs
import rtl_tools
from case import Case
from frames import FIRST, IMMEDIATE, LAST, MIDDLE, address, roce, spoil
from hosts import Host


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Strange(Case):
    def test_what_is_not_quite_for_aggregation_is_forwarded_unchanged(self) -> None:
        self.learn()
        host = Host(0, self.ports)
        self.bench.send(0, host.frame(FIRST))
        self.bench.run()
        first, middle = Host(0, self.ports).frame(FIRST), host.frame(MIDDLE)
        immediate = host.frame(IMMEDIATE)
        strange = [spoil(frame, place, bits) for frame in (first, middle, immediate) for place, bits in ((12, 1), (13, 4), (14, 0x10), (20, 1), (54, 0x20), (54, 0x80), (54, 0x08))]
        strange += [spoil(first, place) for place in (82, 83, 84, 85)]
        strange += [spoil(middle, place) for place in (59, 60, 61)]
        for frame in strange:
            self.bench.send(0, frame)
        outs = self.bench.run()
        self.assertEqual({out.port for out in outs}, {1})
        self.assertEqual(len(outs), len(strange))

    def test_what_says_that_it_is_for_aggregation_and_is_of_no_known_connection_is_dropped(self) -> None:
        self.learn()
        host = Host(0, self.ports)
        self.bench.send(0, host.frame(FIRST))
        self.bench.run()

        def other(opcode: int, size: int, label: int) -> bytes:
            return roce(address(1), address(0), opcode, 0x777, 5, bytes(size), label=label)

        self.bench.send(0, other(MIDDLE, 1024, 0x4E521), other(LAST, 1024, 0x4E521), spoil(other(IMMEDIATE, 1024, 0x4E521), 500))
        self.assertEqual(self.bench.run(), [])
        self.assertEqual(self.bench.drops, {(0, "unknown"): 3})
        # One bit less of a label, a First without the field, another length: none of these.
        for bit in range(20):
            self.bench.send(0, other(MIDDLE, 1024, 0x4E521 ^ 1 << bit))
        self.bench.send(0, spoil(other(FIRST, 1004, 0x4E521), 82), other(MIDDLE, 1020, 0x4E521))
        self.assertEqual(len(self.bench.run()), 22)
        # And with the label, the port's own connection goes on.
        for each in self.hosts(ports=range(1, 8)):
            self.bench.send(each.port, each.frame(FIRST), each.frame(MIDDLE))
        self.bench.send(0, roce(address(1), address(0), MIDDLE, host.qp, host.psn, bytes(1024), label=0x4E521))
        self.assertEqual(len(self.bench.run()), 2 * self.ports)

    def test_frames_of_other_lengths_are_forwarded_unchanged(self) -> None:
        self.learn()
        host = Host(0, self.ports)
        first = host.frame(FIRST)
        self.bench.send(0, first)
        middle, immediate = host.frame(MIDDLE), host.frame(IMMEDIATE)
        for frame in (first, middle, immediate):
            for size in (20, 55, 62, 66, 80, 90, 600, len(frame) - 4, len(frame) - 1):
                self.bench.send(0, frame[:size])
            self.bench.send(0, frame + b"\0", frame + bytes(4), frame + bytes(8))
        self.bench.send(0, middle[:54] + b"\x06" + middle[55:], first[:54] + b"\x07" + first[55:])
        self.assertEqual(len(self.bench.run()), 3 * 12 + 2)

    def test_a_wrong_icrc_is_dropped_wherever_the_damage_is(self) -> None:
        self.learn()
        host = Host(0, self.ports)
        self.bench.send(0, host.frame(FIRST))
        self.bench.run()
        middle = host.frame(MIDDLE)
        places = [15 + 3, 19, 22, 37, 38, 53, 55, 56, 57, 62, 63, 64, 65, 66, 67, 71, 72, 500, 1088, 1089, 1090, 1091, 1092, 1093]
        for place in places:
            self.bench.send(0, spoil(middle, place, 0x80))
        self.assertEqual(self.bench.run(), [])
        self.assertEqual(self.bench.drops, {(0, "bad ICRC"): len(places)})
        for opcode in (FIRST, IMMEDIATE):
            frame = Host(0, self.ports).frame(opcode)
            self.bench.send(0, spoil(frame, len(frame) - 1), spoil(frame, 102), spoil(frame, len(frame) - 5))
        self.bench.run()
        self.assertEqual(self.bench.drops, {(0, "bad ICRC"): 6})
        # None of that has changed anything.
        for other in self.hosts(ports=range(1, 8)):
            self.bench.send(other.port, other.frame(FIRST), other.frame(MIDDLE))
        self.bench.send(0, middle)
        self.assertEqual(len(self.bench.run()), 2 * self.ports)

    def test_what_the_icrc_leaves_out_may_change(self) -> None:
        self.learn()
        for host in self.hosts():
            frame = host.frame(FIRST)
            # Traffic class, flow label, hop limit, byte 4 of the BTH.
            for place, bits in ((14, 0x0F), (15, 0xFF), (16, 0xFF), (17, 0xFF), (21, 0xFF), (58, 0xFF)):
                if host.random.getrandbits(1):
                    frame = spoil(frame, place, bits)
            self.bench.send(host.port, frame)
        self.assertEqual(len(self.bench.run()), self.ports)

    def test_an_aggregation_frame_is_never_flooded(self) -> None:
        self.bench.send(0, *Host(0, self.ports).whole(2))
        # The First is dropped and leaves no QP behind: the Last is as any other frame.
        self.assertEqual(len(self.bench.run()), self.ports - 1)
        self.assertEqual(self.bench.drops, {(0, "no destination"): 1})
