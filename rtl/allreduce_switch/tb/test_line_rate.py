"""Frames back to back on all ports: none is lost, and they leave as fast as they came; line_rate.toml says how fast."""

import needs
import rtl_tools
from bench import Out, group
from case import Case, held
from frames import address, ethernet
from hosts import Floats, Host

WIRE_NS = 0.8
OVERHEAD = 24
# Of the pace at which frames came, in per cent.
LEAST = 99


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class LineRate(Case):
    def measure(self, outs: list[Out], count: int, size: int, begin: int = 0) -> tuple[float, int]:
        """The pace of the slowest port from frame number `begin` on, in per cent of what is wanted, and how many frames were lost of `count` at each."""
        ports = group(outs)
        wanted = (count - 1 - begin) * (size + OVERHEAD) * WIRE_NS
        lost = sum(count - len(ports[port]) for port in range(self.ports))
        paces = [100 * wanted / (ports[port][-1].first - ports[port][begin].first) for port in range(self.ports)]
        return round(min(paces), 1), lost

    def forwarded(self, size: int, count: int, shift: int) -> tuple[float, int]:
        """From every port to another one."""
        for port in range(self.ports):
            to = address((port + shift) % self.ports)
            self.bench.send(port, *(ethernet(to, address(port), size, port + i) for i in range(count)))
        return self.measure(self.bench.run(), count, size)

    def aggregated(self, mode: int, kind: type[Host]) -> tuple[float, int]:
        self.bench.config(mode, 2**self.ports - 1)
        for host in self.hosts(kind):
            self.bench.send(host.port, *host.whole(40))
        # The first one is longer.
        return self.measure(self.bench.run(), 40, 1094, 1)

    def test_paces_are_those_of_the_table_and_nothing_is_lost(self) -> None:
        self.learn()
        measured = {}
        # The shortest and the longest frames of Ethernet, and some that fill a beat more or less.
        for size, count, shifts in ((60, 300, (1, 7)), (61, 150, (3,)), (64, 150, (3,)), (65, 150, (3,)), (72, 150, (3,)), (73, 150, (3,)), (1514, 40, (5,))):
            paces, lost = zip(*(self.forwarded(size, count, shift) for shift in shifts))
            measured[f"forwarded_{size + 4}"] = min(paces), sum(lost)
        measured["aggregated_fixed"] = self.aggregated(0, Host)
        measured["aggregated_floating"] = self.aggregated(1, Floats)
        found = {name: pace for name, (pace, _) in measured.items()} | {"lost": sum(lost for _, lost in measured.values())}
        held(self, "line_rate", "line_rate", found)
        self.assertEqual(found.pop("lost"), 0)
        for name, pace in found.items():
            self.assertGreaterEqual(pace, LEAST, name)
