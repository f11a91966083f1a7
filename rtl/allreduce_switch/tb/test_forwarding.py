"""Frames that are not for aggregation: where they go, what is learned from them, and what is dropped."""

import random

import needs
import rtl_tools
from case import Case
from frames import address, ethernet


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Forwarding(Case):
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

    def test_frames_find_room_for_their_last_beat_wherever_a_receiver_stops(self) -> None:
        self.learn()
        for cycles in range(20, 100):
            self.bench.sink(1, "stop")
            # Four fit into the way from port 0 to 1, and the fifth nearly.
            self.bench.send(0, *(ethernet(address(1), address(0), 800, cycles + i) for i in range(6)))
            self.bench.run(1500)
            self.bench.sink(1, "wire")
            self.bench.run(cycles)
            self.bench.sink(1, "stop")
            self.bench.run(500)
            self.bench.sink(1, "wire")
            self.assertEqual(len(self.bench.run()), 6)

    def hear_twice(self, name: bytes, later: int) -> int:
        """Where an address is found that ports 2 and 5 have heard at the same time, or port 5 so many ns later."""
        self.bench.rest(2, 1000)
        self.bench.rest(5, 1000 + later)
        for port in (2, 5):
            self.bench.send(port, ethernet(address(0), name, 60))
        self.bench.run(800)
        self.bench.send(1, ethernet(name, address(1), 60))
        (found,) = (out.port for out in self.bench.run(800) if out.frame[12:24] == address(1).hex())
        # The reference knows no time.
        self.bench.forget()
        return found

    def test_of_two_ports_that_hear_an_address_in_one_cycle_the_lower_keeps_it(self) -> None:
        self.learn()
        self.assertEqual(self.hear_twice(address(7, 1), 0), 2)
        self.assertEqual(self.hear_twice(address(7, 2), 20), 5)
