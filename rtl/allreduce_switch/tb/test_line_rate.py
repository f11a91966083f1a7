"""Frames back to back on all ports: none is lost, and they leave as fast as they came."""

import needs
import rtl_tools
from bench import group
from case import Case
from frames import address, ethernet
from hosts import Floats, Host

WIRE_NS = 0.8
OVERHEAD = 24


@rtl_tools.programs("verilator", "g++", "make")
@needs.modules("numpy")
class LineRate(Case):
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
