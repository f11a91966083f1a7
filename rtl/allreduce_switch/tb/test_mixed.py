"""Everything at the same time, at random instants: `mixed.py` makes it, `ledger.py` allows what truly may differ and nothing else.

ALLREDUCE_SWITCH_SEED is the first seed, ALLREDUCE_SWITCH_STEPS how many steps each one has: for as long as one likes. A failure names its seed and step,
and the file with what the simulator was told, as short as it was found to be.
"""

import os
import unittest

import needs
import rtl_tools
from ledger import Ledger
from mixed import Mixed, shorten
from switch_build import EIGHT, THREE, TWO, Shape

SEED = int(os.environ.get("ALLREDUCE_SWITCH_SEED", "1"))
STEPS = int(os.environ.get("ALLREDUCE_SWITCH_STEPS", "150"))
# Steps after which all receivers take frames until nothing is left.
REST = 50


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Everything(unittest.TestCase):
    # After what needs no simulator.
    turn = 2

    def check(self, shape: Shape, seeds: int) -> None:
        for seed in range(SEED, SEED + seeds):
            ledger, step = Ledger(shape), -1
            self.addCleanup(ledger.close)
            try:
                traffic = Mixed(ledger, seed)
                for step in range(STEPS):
                    traffic.step()
                    if step % REST == REST - 1:
                        traffic.settle()
                traffic.finish()
            except AssertionError as difference:
                told = shorten(ledger, lambda: Ledger(shape))
                path = rtl_tools.BUILD / f"mixed-{shape.ports}-{shape.flows}-{shape.frames}-{seed}.lines"
                path.write_text("".join(f"{line}\n" for line in told))
                raise AssertionError(f"ALLREDUCE_SWITCH_SEED={seed}, {shape.ports} ports, step {step}: {difference}; {path} has {len(told)} of {len(ledger.told)} lines that still fail") from difference

    def test_eight_ports(self) -> None:
        self.check(EIGHT, 1)

    def test_three_ports(self) -> None:
        self.check(THREE, 3)

    def test_two_ports_with_two_flows_of_eight_frames(self) -> None:
        self.check(TWO, 6)
