"""Frames for aggregation that arrive as they were sent: sums to the bit, for every form, order and set of ports."""

import random

import needs
import rtl_tools
from case import Case
from frames import IMMEDIATE, LAST, address, ethernet
from hosts import Floats, Host


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Aggregation(Case):
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

    def test_minus_zero_from_all_is_minus_zero_whoever_takes_part(self) -> None:
        class MinusZeros(Host):
            def payload(self, size: int) -> bytes:
                return bytes([0, 0, 0, 0x80]) * (size // 4)

        self.learn()
        for mask in (0xFF, 0x03, 0x90, 0x7E):
            self.bench.config(1, mask)
            part = [p for p in range(8) if mask >> p & 1]
            for place, port in enumerate(part):
                host = MinusZeros(port, self.ports, to=part[place - 1])
                self.bench.send(port, *host.whole(2))
            self.assertEqual({out.frame[-16:-8] for out in self.bench.run()}, {"00000080"})

    def test_sums_find_room_for_their_last_beat_wherever_a_receiver_stops(self) -> None:
        self.learn()
        hosts = self.hosts()
        for cycles in range(30, 90, 3):
            self.bench.sink(4, "stop")
            for host in hosts:
                self.bench.send(host.port, *host.whole(2), *host.whole(2), *host.whole(2))
            self.bench.run(7000)
            # As many beats leave as that another frame just finds room.
            self.bench.sink(4, "wire")
            self.bench.run(cycles)
            self.bench.sink(4, "stop")
            self.bench.run(1500)
            self.bench.sink(4, "wire")
            self.bench.run()
