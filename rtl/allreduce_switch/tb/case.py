"""What tests of the whole switch begin with: its simulator beside its reference, hosts at its ports, and files that hold what is measured.

With ALLREDUCE_SWITCH_MEASURE=write a test writes what it has measured, where it otherwise compares.
"""

import os
import tomllib
import unittest

import rtl_tools
from bench import Bench
from frames import address, ethernet
from hosts import Host
from switch_build import EIGHT


def held(case: unittest.TestCase, name: str, table: str, found: dict[str, float]) -> None:
    """Holds what was measured to a table of `rtl/allreduce_switch/NAME.toml`, which has these keys and no others."""
    path = rtl_tools.RTL / f"allreduce_switch/{name}.toml"
    if os.environ.get("ALLREDUCE_SWITCH_MEASURE") == "write":
        head = [line for line in path.read_text().splitlines() if line.startswith("#")]
        path.write_text("\n".join([*head, f"[{table}]", *(f"{key} = {value}" for key, value in found.items())]) + "\n")
    case.assertEqual(tomllib.loads(path.read_text())[table], found)


class Case(unittest.TestCase):
    # After what needs no simulator.
    turn = 2
    ports = EIGHT.ports

    def setUp(self) -> None:
        self.bench = Bench(EIGHT)
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
