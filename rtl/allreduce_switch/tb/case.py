"""What tests of the whole switch begin with: its simulator beside its reference, and hosts at its ports."""

import unittest

import rtl_tools
from bench import Bench
from frames import address, ethernet
from hosts import Host


class Case(unittest.TestCase):
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
