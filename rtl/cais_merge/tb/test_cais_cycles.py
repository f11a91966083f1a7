"""Cycles of CAIS's merge unit with the paper's table (V-A2: 320 entries of 128 bytes a port), eight accelerators; and whether it keeps pace with a link of a flit a
cycle. CAIS_MERGE_MEASURE=write writes `latency.toml`."""

import os
import struct
import tomllib
import unittest
from pathlib import Path

import cais_build
import rtl_tools
from cais_bench import BOUNDARY, NODE, READ, REDUCE, Run, SYNC, packet, simulate

LATENCY = Path(__file__).resolve().parents[1] / "latency.toml"
HOME, OTHERS = 7, range(7)
DATA = struct.pack("<32f", *range(32))


def load(port: int, line: int) -> str:
    return f"packet {port} {packet(READ, port, HOME, 128 * line, length=128, tag=line)}"


def reduction(port: int, line: int) -> str:
    return f"packet {port} {packet(REDUCE, port, HOME, 128 * line, tag=1, data=DATA)}"


@rtl_tools.programs("verilator", "g++")
class Cycles(unittest.TestCase):
    turn = 3

    def run_packets(self, pace: str, packets: list[str]) -> Run:
        (run,) = simulate(cais_build.PAPER.simulator(), ["seed 1", "stall 0", pace, "home 100 100", f"unit {HOME} 7 0", *packets, "run"])
        self.assertEqual({step[3] for step in run.steps}, {""})
        return run

    def first_out(self, packets: list[str], number: int, pace: int = 400) -> int:
        """From the first flit of a packet in to the first flit of what leaves next."""
        run = self.run_packets(f"pace {pace} {pace}", packets)
        came = run.came[number][0]
        return min(first for _, first, _, _ in run.left if first > came) - came

    def test_latency_and_pace(self) -> None:
        found = {
            # The home is asked; it answers, and so do we; what is cached is given again; the last contribution completes a sum.
            "load_asks_home": self.first_out([load(0, 1)], 0),
            "data_to_answer": self.first_out([load(0, 1)], 1),
            "cached_answer": self.first_out([load(0, 1), load(1, 1)], 2),
            "sum_leaves": self.first_out([reduction(port, 1) for port in OTHERS], 6),
            "group_released": self.first_out([f"packet {port} {packet(SYNC, port, NODE, 5)}" for port in range(8)], 7),
            # Four lines are cached and are forgotten.
            "boundary_of_four_lines": self.first_out(
                [*(load(0, line) for line in range(1, 5)), *(f"packet {port} {packet(SYNC, port, NODE, 0, tag=BOUNDARY)}" for port in range(8))], 15, 150
            ),
        }
        sums = self.run_packets("pace 0 0", [reduction(port, line) for line in range(1, 101) for port in OTHERS])
        # 700 contributions of nine flits.
        found["flits_a_cycle_reductions"] = round(6300 / (sums.came[-1][1] + 1 - sums.came[0][0]), 3)
        # What does not fit: with each one another partial sum leaves.
        full = self.run_packets("pace 0 0", [reduction(0, line) for line in range(1, 1001)])
        found["flits_a_cycle_evictions"] = round(9 * 600 / (full.came[-1][1] - full.came[399][1]), 3)
        # Data come once, and answers leave to seven.
        loads = self.run_packets("pace 0 0", [load(port, line) for line in range(1, 101) for port in OTHERS])
        answers = sorted((first, last) for port, first, last, _ in loads.left if port != HOME)
        found["cycles_a_line_of_answers"] = round((answers[-1][1] - answers[0][1]) / (len(answers) / 7 - 1), 1)
        if os.environ.get("CAIS_MERGE_MEASURE") == "write":
            LATENCY.write_text("# Cycles of the merge unit, and flits that it takes or gives in a cycle; tb/test_cais_cycles.py writes and holds them.\n" + "".join(f"{key} = {value}\n" for key, value in found.items()))
        self.assertEqual(tomllib.loads(LATENCY.read_text()), found)
        self.assertGreaterEqual(found["flits_a_cycle_reductions"], 0.99)


if __name__ == "__main__":
    unittest.main()
