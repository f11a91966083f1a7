"""The whole switch, with all its ports, against its reference: every frame that leaves is compared to the bit."""

import random
import struct
import tomllib
import unittest

import needs
import rtl_tools
from bench import Bench, group
from frames import FIRST, IMMEDIATE, LAST, MIDDLE, address, ethernet, roce, spoil

WIRE_NS = 0.8
OVERHEAD = 24


class Host:
    """What sends a port's part of messages: one connection, whose frames can be had again."""

    def __init__(self, port: int, ports: int, psn: int = 0, qp: int | None = None, to: int | None = None, seed: int = 0) -> None:
        self.port, self.psn, self.qp = port, psn, 0x100 + port if qp is None else qp
        self.src, self.dst = address(port), address((port + 1) % ports if to is None else to)
        self.random = random.Random(f"{seed} {port} {self.qp}")
        self.message, self.sent, self.label = 0, [], 0x12345

    def payload(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def frame(self, opcode: int) -> bytes:
        if opcode == FIRST:
            frame = roce(self.dst, self.src, opcode, self.qp, self.psn, self.payload(1004), message=self.message, label=self.label)
            self.message += 1
        else:
            frame = roce(self.dst, self.src, opcode, self.qp, self.psn, self.payload(1024), label=self.label)
        self.psn = (self.psn + 1) % 2**24
        self.sent.append(frame)
        return frame

    def whole(self, frames: int, last: int = LAST) -> list[bytes]:
        """A message of so many frames."""
        return [self.frame(FIRST), *(self.frame(MIDDLE) for _ in range(frames - 2)), self.frame(last)]


class Floats(Host):
    """Sends binary32 numbers: of all exponents, and those that are easily got wrong."""

    SPECIAL = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x33800000, 0x34000000)

    def payload(self, size: int) -> bytes:
        words = []
        for _ in range(size // 4):
            kind = self.random.randrange(4)
            if kind == 0:
                words.append(self.random.choice(self.SPECIAL))
            elif kind == 1:
                words.append(self.random.getrandbits(32))
            else:
                # Exponents that are near each other: the sums round.
                words.append(self.random.getrandbits(1) << 31 | self.random.randrange(120, 135) << 23 | self.random.getrandbits(23))
        return struct.pack(f"<{len(words)}I", *words)


class Tests(unittest.TestCase):
    ports = 8
    flows, frames = 4, 128

    def setUp(self) -> None:
        self.bench = Bench(rtl_tools.verilate(self.ports, self.flows, self.frames), self.ports, self.flows, self.frames)
        self.addCleanup(self.bench.close)

    def learn(self) -> None:
        """Every port's host is heard, one after the other."""
        for port in range(self.ports):
            self.bench.rest(port, 200 * port)
            self.bench.send(port, ethernet(b"\xff" * 6, address(port), 60))
        self.bench.run()

    def hosts(self, kind: type[Host] = Host, ports: range | None = None, **how: int) -> list[Host]:
        return [kind(port, self.ports, **how) for port in ports or range(self.ports)]

    def send_all(self, hosts: list[Host], opcode: int) -> list:
        for host in hosts:
            self.bench.send(host.port, host.frame(opcode))
        return self.bench.run()


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class Forwarding(Tests):
    def test_what_is_for_nobody_known_goes_everywhere_but_back(self) -> None:
        self.bench.send(3, ethernet(address(5), address(3), 100))
        self.assertEqual(sorted(out.port for out in self.bench.run()), [p for p in range(self.ports) if p != 3])

    def test_a_host_is_found_where_it_was_heard_last(self) -> None:
        self.learn()
        self.bench.send(0, ethernet(address(5), address(0), 100))
        self.assertEqual([out.port for out in self.bench.run()], [5])
        self.bench.send(2, ethernet(address(6), address(5), 100))
        self.bench.run()
        self.bench.send(0, ethernet(address(5), address(0), 100))
        self.assertEqual([out.port for out in self.bench.run()], [2])

    def test_what_is_for_the_port_it_came_from_is_dropped(self) -> None:
        self.learn()
        self.bench.send(4, ethernet(address(4, 1), address(4, 1), 100), ethernet(address(4), address(4, 1), 100))
        self.assertEqual(self.bench.run(), [])
        self.assertEqual(self.bench.drops, {(4, "filtered"): 2})

    def test_a_port_remembers_four_addresses_in_turn(self) -> None:
        self.learn()
        for host in range(1, 5):
            self.bench.send(1, ethernet(address(0), address(1, host), 100))
        self.bench.run()
        for host in range(5):
            self.bench.send(0, ethernet(address(1, host), address(0), 100))
        ports = [out.port for out in self.bench.run()]
        # The host that was heard first is forgotten: what is for it goes everywhere.
        self.assertEqual(len(ports), 4 + self.ports - 1)

    def test_group_addresses_are_not_learned(self) -> None:
        self.learn()
        self.bench.send(1, ethernet(address(0), b"\x03" + address(1)[1:], 100))
        self.bench.run()
        self.bench.send(0, ethernet(b"\x03" + address(1)[1:], address(0), 100))
        self.assertEqual(len(self.bench.run()), self.ports - 1)

    def test_a_frame_without_a_header_is_dropped_and_teaches_nothing(self) -> None:
        self.learn()
        for size in (1, 7, 8, 9, 12, 13):
            self.bench.send(2, ethernet(address(0), address(2, 9), size))
        self.assertEqual(self.bench.run(), [])
        self.assertEqual(self.bench.drops, {(2, "runt"): 6})
        self.bench.send(0, ethernet(address(2, 9), address(0), 14))
        self.assertEqual(len(self.bench.run()), self.ports - 1)

    def test_frames_of_every_size_pass_unchanged(self) -> None:
        self.learn()
        for size in [*range(14, 90), 1514, 1518, 2041, 2047, 2048]:
            self.bench.send(size % self.ports, ethernet(address((size + 3) % self.ports), address(size % self.ports), size, size))
        self.assertEqual(len(self.bench.run()), 81)

    def check_line_rate(self, size: int, count: int, shift: int) -> None:
        """Back-to-back frames from every port to another one: all arrive, as fast as they came."""
        for port in range(self.ports):
            to = address((port + shift) % self.ports)
            self.bench.send(port, *(ethernet(to, address(port), size, port + i) for i in range(count)))
        ports = group(self.bench.run())
        wanted = (count - 1) * (size + OVERHEAD) * WIRE_NS
        for port in range(self.ports):
            self.assertEqual(len(ports[port]), count)
            took = ports[port][-1].first - ports[port][0].first
            self.assertLess(took, wanted * 1.01 + 20, f"{size} B, port {port}: expected {count} frames in {wanted} ns")

    def test_line_rate_of_the_shortest_frames(self) -> None:
        self.learn()
        for shift in (1, self.ports - 1):
            self.check_line_rate(60, 300, shift)

    def test_line_rate_of_frames_that_fill_one_beat_more_or_less(self) -> None:
        self.learn()
        for size in (61, 64, 65, 72, 73):
            self.check_line_rate(size, 150, 3)

    def test_line_rate_of_the_longest_ethernet_frames(self) -> None:
        self.learn()
        self.check_line_rate(1514, 40, 5)

    def test_a_stopped_receiver_stops_nobody_else(self) -> None:
        self.learn()
        self.bench.sink(1, "stop")
        # Two for port 1 and many for port 2, from the same port.
        self.bench.send(0, *(ethernet(address(1), address(0), 1000, i) for i in range(2)))
        self.bench.send(0, *(ethernet(address(2), address(0), 1000, i) for i in range(20)))
        self.bench.send(3, *(ethernet(address(2), address(3), 100, i) for i in range(20)))
        self.assertEqual(len(self.bench.run(10000)), 40)
        self.bench.sink(1, "wire")
        self.assertEqual(len(self.bench.run()), 2)

    def test_receivers_that_are_ready_now_and_then_get_all(self) -> None:
        self.learn()
        rng = random.Random(7)
        for port in range(self.ports):
            self.bench.sink(port, f"random {port} {rng.choice((30, 50, 80))}")
            for i in range(12):
                self.bench.send(port, ethernet(address(rng.randrange(self.ports)), address(port), rng.randrange(60, 300), i))
        self.bench.run()

    def test_what_has_no_room_is_dropped_whole_and_counted(self) -> None:
        self.learn()
        self.bench.sink(1, "stop")
        # As many as both FIFOs on the way hold, and then some.
        self.bench.send(0, *(ethernet(address(1), address(0), 1500, i) for i in range(12)))
        self.bench.run(40000)
        self.bench.sink(1, "wire")
        dropped = self.bench.dropped[0, "overrun"]
        self.assertGreater(dropped, 0)
        outs = self.bench.run(lossy=True)
        self.assertEqual(len(outs) + dropped, 12)
        self.assertEqual(self.bench.read(0x10), dropped)
        self.assertEqual(self.bench.read(0x11), 0)
        # And goes on as if nothing had been.
        self.bench.send(0, *(ethernet(address(1), address(0), 1500, i) for i in range(12)))
        self.assertEqual(len(self.bench.run()), 12)

    def test_a_frame_that_is_too_long_is_dropped_and_teaches_nothing(self) -> None:
        self.learn()
        self.bench.send(2, ethernet(address(0), address(2, 9), 2049), ethernet(address(0), address(2, 9), 9000), ethernet(address(0), address(2), 100))
        # The reference knows it too; another one may know no limit.
        self.assertEqual(len(self.bench.run(20000)), 1)
        self.assertEqual(self.bench.dropped, {(2, "giant"): 2})
        self.bench.forget()


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class Aggregation(Tests):
    def test_messages_of_every_form_are_added_up(self) -> None:
        self.learn()
        hosts = self.hosts()
        for last in (LAST, IMMEDIATE):
            for host in hosts:
                self.bench.send(host.port, *host.whole(4, last))
            self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_one_port_may_end_with_immediate_and_another_without(self) -> None:
        self.learn()
        for host in self.hosts():
            self.bench.send(host.port, *host.whole(2, IMMEDIATE if host.port % 2 else LAST))
        self.assertEqual(len(self.bench.run()), 2 * self.ports)

    def test_floating_point_is_added_to_the_bit(self) -> None:
        self.learn()
        self.bench.config(1, 2**self.ports - 1)
        for seed in range(3):
            for host in self.hosts(Floats, seed=seed, qp=seed):
                self.bench.send(host.port, *host.whole(5))
            self.assertEqual(len(self.bench.run()), 5 * self.ports)

    def test_frames_arrive_in_any_order(self) -> None:
        self.learn()
        rng = random.Random(3)
        hosts = self.hosts()
        for _ in range(4):
            for host in hosts:
                for frame in host.whole(6, rng.choice((LAST, IMMEDIATE))):
                    self.bench.rest(host.port, rng.choice((0, 0, 500, 3000, 9000)))
                    self.bench.send(host.port, frame)
            self.assertEqual(len(self.bench.run()), 6 * self.ports)

    def check_rate(self, mode: int, kind: type[Host]) -> None:
        self.learn()
        self.bench.config(mode, 2**self.ports - 1)
        hosts = self.hosts(kind)
        for host in hosts:
            self.bench.send(host.port, *host.whole(40))
        ports = group(self.bench.run())
        # 38 times from the second frame to the last.
        wanted = 38 * (1094 + OVERHEAD) * WIRE_NS
        for port in range(self.ports):
            took = ports[port][-1].first - ports[port][1].first
            self.assertLess(took, wanted * 1.01, f"port {port}: expected 39 frames in {wanted} ns")

    def test_fixed_point_is_added_at_line_rate(self) -> None:
        self.check_rate(0, Host)

    def test_floating_point_is_added_at_line_rate(self) -> None:
        self.check_rate(1, Floats)

    def test_four_messages_are_under_way_at_once(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts[:-1]:
            for _ in range(4):
                self.bench.send(host.port, *host.whole(3))
        self.assertEqual(self.bench.run(), [])
        for _ in range(4):
            self.bench.send(hosts[-1].port, *hosts[-1].whole(3))
        self.assertEqual(len(self.bench.run()), 12 * self.ports)

    def test_a_message_of_128_frames_passes_and_the_129th_is_dropped(self) -> None:
        self.learn()
        for host in self.hosts():
            self.bench.send(host.port, *host.whole(129))
        self.assertEqual(len(self.bench.run()), 128 * self.ports)
        self.assertEqual(self.bench.drops, {(p, "too long"): 1 for p in range(self.ports)})

    def test_numbers_wrap(self) -> None:
        self.learn()
        hosts = [Host(port, self.ports, psn=2**24 - 3 + port % 3) for port in range(self.ports)]
        for _ in range(2):
            for host in hosts:
                self.bench.send(host.port, *host.whole(6))
            self.assertEqual(len(self.bench.run()), 6 * self.ports)
        for host in hosts:
            self.bench.send(host.port, *host.sent)
        self.assertEqual(len(self.bench.run()), 12 * self.ports)

    def test_results_leave_where_their_destination_lies(self) -> None:
        self.learn()
        # All for port 6; then each for the port across.
        for qp, across in ((1, False), (2, True)):
            hosts = [Host(p, self.ports, qp=qp, to=(p ^ 1) if across else 6 if p != 6 else 1) for p in range(self.ports)]
            for host in hosts:
                self.bench.send(host.port, *host.whole(3))
            self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_ports_that_take_no_part_are_left_out(self) -> None:
        self.learn()
        for mask in (0xF0, 0x03, 0x81, 0x5A, 0x7F, 0xFE):
            for mode, kind in ((0, Host), (1, Floats)):
                self.bench.config(mode, mask)
                part = [p for p in range(8) if mask >> p & 1]
                hosts = [kind(p, self.ports, to=part[(i + 1) % len(part)]) for i, p in enumerate(part)]
                for host in hosts:
                    self.bench.send(host.port, *host.whole(3))
                # The others' frames are forwarded as they are.
                out = next((p for p in range(8) if not mask >> p & 1), None)
                if out is not None:
                    self.bench.send(out, *Host(out, self.ports, to=part[0]).whole(2))
                self.assertEqual(len(self.bench.run()), 3 * len(part) + (2 if out is not None else 0))

    def test_forwarding_goes_on_beside_aggregation_under_load(self) -> None:
        self.learn()
        rng = random.Random(5)
        for host in self.hosts():
            for frame in host.whole(30, IMMEDIATE):
                self.bench.send(host.port, frame)
                # Half of each wire, for a port at which as much arrives.
                for _ in range(rng.choice((0, 1, 2))):
                    self.bench.rest(host.port, 1500)
                    self.bench.send(host.port, ethernet(address((host.port + 3) % 8), address(host.port), rng.randrange(60, 500), rng.randrange(256)))
        self.bench.run()

    def test_results_wait_for_a_receiver_that_is_not_ready(self) -> None:
        self.learn()
        for stopped in range(self.ports):
            self.bench.sink(stopped, "stop")
            for host in self.hosts(qp=0x50 + stopped):
                self.bench.send(host.port, *host.whole(5))
            self.bench.run(12000)
            self.bench.sink(stopped, "wire")
            self.bench.run()
        for port in range(self.ports):
            self.bench.sink(port, f"random {port} 70")
        for host in self.hosts(qp=0x90):
            self.bench.send(host.port, *host.whole(6))
        self.bench.run()


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class Loss(Tests):
    def test_frames_after_a_lost_one_are_dropped_until_it_comes(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            whole = host.whole(6)
            self.bench.send(host.port, *(whole if host.port else [*whole[:2], *whole[3:]]))
        self.assertEqual(len(self.bench.run()), 2 * self.ports)
        self.assertEqual(self.bench.drops, {(0, "gap"): 3})
        self.bench.send(0, *hosts[0].sent[2:])
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_a_lost_first_is_not_replaced_by_what_follows(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            whole = host.whole(3)
            self.bench.send(host.port, *(whole if host.port != 2 else whole[1:]))
        self.assertEqual(self.bench.run(), [])
        self.bench.send(2, *hosts[2].sent[3:])
        self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_a_connection_begins_with_its_first_message_alone(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *[host.whole(2), host.whole(2)][1 if host.port == 4 else 0])
        self.bench.run()
        # Its First is dropped; what follows is of no connection that the switch knows, and passes.
        self.assertEqual(self.bench.drops, {(4, "gap"): 1})
        self.bench.send(4, *hosts[4].sent)
        self.assertEqual(len(self.bench.run()), 2 * self.ports)

    def test_a_message_id_is_zero_in_all_of_its_bytes(self) -> None:
        self.learn()
        for bit in range(0, 32, 5):
            self.bench.send(1, roce(address(2), address(1), FIRST, 0x77, 9, bytes(1004), message=1 << bit))
        self.bench.run()
        self.assertEqual(self.bench.drops, {(1, "gap"): 7})

    def test_what_was_added_up_is_sent_again_to_who_asks(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(4, IMMEDIATE))
        self.bench.run()
        self.bench.send(5, hosts[5].sent[1], hosts[5].sent[3], hosts[5].sent[0])
        self.assertEqual([out.port for out in self.bench.run()], [6, 6, 6])
        for host in hosts:
            self.bench.send(host.port, *host.sent)
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_what_waits_for_others_is_not_sent_again(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts[1:]:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        self.bench.send(3, *hosts[3].sent)
        self.bench.run()
        self.assertEqual(self.bench.drops, {(3, "pending"): 3})
        self.bench.send(0, *hosts[0].whole(3))
        self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_the_fifth_message_takes_the_place_of_the_first(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            for _ in range(4):
                self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            self.bench.send(host.port, *host.sent[:3])
        self.assertEqual(len(self.bench.run()), 3 * self.ports)
        for host in hosts:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            self.bench.send(host.port, *host.sent)
        self.assertEqual(len(self.bench.run()), 12 * self.ports)
        self.assertEqual(self.bench.drops, {(p, "forgotten"): 3 for p in range(self.ports)})

    def test_a_column_that_is_opened_again_has_nothing_left_of_before(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            for _ in range(4):
                self.bench.send(host.port, *host.whole(4))
        self.bench.run()
        # The fifth message comes from all ports but one: nothing of the first message is an answer to it.
        for host in hosts[:-1]:
            self.bench.send(host.port, *host.whole(4))
        self.bench.run()
        for host in hosts[:-1]:
            self.bench.send(host.port, *host.sent[-4:])
        self.assertEqual(self.bench.run(), [])
        self.bench.send(hosts[-1].port, *hosts[-1].whole(4))
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_a_new_connection_forgets_the_one_before(self) -> None:
        self.learn()
        old = self.hosts(psn=100)
        for host in old:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        new = self.hosts(psn=90, qp=0x999)
        for host in new:
            self.bench.send(host.port, *host.whole(3))
        self.assertEqual(len(self.bench.run()), 3 * self.ports)
        # Numbers of the old one in the new one's name: a gap from 93, and before 90 nothing is known.
        for psn in (100, 89, 92):
            self.bench.send(1, roce(address(2), address(1), MIDDLE, 0x999, psn, bytes(1024)))
            self.bench.run()

    def test_sums_and_retransmissions_share_the_way_out(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(10))
        self.bench.run()
        # Half of the ports ask for all once more; from their second frame on the others are late.
        again = [host for host in hosts if host.port % 2]
        for host in again:
            self.bench.send(host.port, *host.sent[:10])
        self.assertEqual(len(self.bench.run()), 10 * len(again))


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class Strange(Tests):
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

    def test_registers_refuse_what_makes_no_sense(self) -> None:
        for number, mask in ((7, 0xFF), (9, 0xFF), (1, 0x01), (0, 0x00), (9, 0x1FF), (2, 0x2000001), (8, 0x40000FF)):
            self.bench.config(0, mask, number)
            self.assertTrue(self.bench.refused, f"{number} of {mask:#x}")
        self.bench.config(1, 0xF0, 4)
        self.assertFalse(self.bench.refused)
        self.assertEqual(self.bench.read(1), 0x200000F0)

    def test_registers_are_after_reset_as_the_paper_has_them(self) -> None:
        self.assertEqual((self.bench.read(0), self.bench.read(1)), (0, 0x400000FF))

    def test_a_group_leaves_nothing_to_the_next(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts[:5]:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for mode, kind in ((1, Floats), (0, Host), (0, Host)):
            self.bench.config(mode, 0xFF)
            # Of the connection before, nothing is known: its frames pass as any others.
            self.bench.send(0, hosts[0].sent[2])
            self.bench.run()
            for host in self.hosts(kind):
                self.bench.send(host.port, *host.whole(3))
            self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_registers_may_be_written_while_frames_pass(self) -> None:
        self.learn()
        for round in range(6):
            for host in self.hosts(qp=round):
                self.bench.send(host.port, *host.whole(6))
            self.bench.run(300 + 411 * round)
            self.bench.write(1, 0x400000FF)
            self.bench.run(12000)
            # Whatever was under way is over; no frame is half, and no sum is wrong.
            self.bench.forget()
            self.bench.config(0, 0xFF)
            for host in self.hosts(qp=0x40 + round):
                self.bench.send(host.port, *host.whole(3))
            self.assertEqual(len(self.bench.run()), 3 * self.ports)


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class Latency(Tests):
    """Idle, all ports at once, from the last beat in to the first beat out; latency.toml says how long, and the paper (figure 17) how long at most."""

    def measure(self, frames: list[bytes]) -> float:
        for port, frame in enumerate(frames):
            self.bench.send(port, frame)
        outs = self.bench.run()
        self.assertEqual(len(outs), self.ports)
        ends = {sent.bytes[6:12].hex(): sent.last for sent in self.bench.sent}
        return max(out.first - ends[out.frame[12:24]] for out in outs)

    def test_latencies_are_those_of_the_table(self) -> None:
        said = tomllib.loads((rtl_tools.RTL / "allreduce_switch/latency.toml").read_text())
        self.learn()
        found = {}
        for size in (60, 1094, 1514):
            # One frame later than another by part of a cycle: the worst of some.
            found[f"forwarded_{size + 4}_ns"] = max(self.measure([ethernet(address((p + s) % 8), address(p), size) for p in range(8)]) for s in range(1, 8))
        for mode, kind, name in ((0, Host, "fixed"), (1, Floats, "floating")):
            self.bench.config(mode, 0xFF)
            hosts = self.hosts(kind)
            firsts = [self.measure([host.frame(FIRST) for host in hosts]) for _ in range(2)]
            found[f"aggregated_{name}_first_ns"] = max(firsts)
            found[f"aggregated_{name}_ns"] = max(self.measure([host.frame(MIDDLE) for host in hosts]) for _ in range(6))
        again = []
        for host in hosts:
            self.bench.send(host.port, host.sent[-1])
            again += [out.first - self.bench.sent[0].last for out in self.bench.run()]
        found["retransmitted_ns"] = max(again)
        found = {name: round(ns, 1) for name, ns in found.items()}
        self.assertEqual(said["latency"], found)
        for name, ns in found.items():
            limit = 250 if name.startswith("forwarded") else 2400 if "floating" in name else 2200
            self.assertLess(ns, limit, f"{name}: the paper's figure 17")
