"""Cycles at 250 MHz, beside the paper's (M.1, M.2): 24 for 1 KB that is forwarded, and 61 for 1 KB of binary32 that is added up for eight ranks,
from the first beat of the (last) frame in to the first beat out; and the rate of a port. INC_ENGINE_MEASURE=write writes `latency.toml`."""

import os
import struct
import tomllib
import unittest
from pathlib import Path

import inc_build
import rtl_tools
from inc_bench import Run, simulate
from inc_frames import ALL_REDUCE, BROADCAST, SEND_MIDDLE, SEND_ONLY_IMMEDIATE, frame

LATENCY = Path(__file__).resolve().parents[1] / "latency.toml"
PORTS = 8
GROUP = f"group {PORTS} {PORTS} - 4 1024 0 0 255 {','.join(map(str, range(PORTS)))}"
# A frame takes so many bytes of the link beside its payload: headers, CRC, frame check sequence, preamble and gap.
OVERHEAD = 54 + 4 + 4 + 8 + 12


@rtl_tools.programs("verilator", "g++")
class Cycles(unittest.TestCase):
    turn = 3

    def run_frames(self, pace: str, frames: list[tuple[int, str]]) -> Run:
        lines = [pace, GROUP, *(f"frame {edge} {hexadecimal}" for edge, hexadecimal in frames), "run"]
        (run,) = simulate(inc_build.EIGHT.simulator(), lines)
        self.assertEqual((len(run.decided), run.lost, run.refused), (len(frames), [], []))
        self.assertEqual({reason for _, reason in run.decided}, {"accepted"})
        return run

    def latency(self, pattern: int, senders: int, length: int) -> int:
        payload = struct.pack(f"<{length // 4}f", *range(length // 4))
        begin = [(edge, frame(edge, 0, SEND_ONLY_IMMEDIATE, word=pattern | 1)) for edge in range(senders)]
        data = [(edge, frame(edge, 1, SEND_MIDDLE, payload)) for edge in range(senders)]
        run = self.run_frames("serial", [*begin, *data])
        came = run.came[len(begin) + len(data) - 1][0]
        (left,) = {first for _, first, _, _ in run.left if first > came}
        return left - came

    def test_latency_and_rate(self) -> None:
        found = {}
        for length in (256, 1024):
            found[f"forwarded_{length}"] = self.latency(BROADCAST, 1, length)
            found[f"added_{length}"] = self.latency(ALL_REDUCE, PORTS, length)
            found[f"rate_gbit_{length}"] = self.rate(length)
        if os.environ.get("INC_ENGINE_MEASURE") == "write":
            LATENCY.write_text("# Cycles of 4 ns, and Gbit/s of each port on the link; tb/test_inc_cycles.py writes and holds them.\n" + "".join(f"{key} = {value}\n" for key, value in found.items()))
        self.assertEqual(tomllib.loads(LATENCY.read_text()), found)
        self.assertLessEqual(found["forwarded_1024"], 24)
        self.assertLessEqual(found["added_1024"], 61)
        self.assertGreaterEqual(min(found["rate_gbit_256"], found["rate_gbit_1024"]), 100)

    def rate(self, length: int) -> float:
        """What all ports have sent and got at once, without a loss, at least at the link's rate."""
        count, payload = 64, bytes(length)
        frames = [(edge, frame(edge, 0, SEND_ONLY_IMMEDIATE, word=ALL_REDUCE | count)) for edge in range(PORTS)]
        # What follows waits until the collective is known.
        interval = (length + OVERHEAD) * 8 // 400
        for psn in range(1, count + 1):
            gap = 100 if psn == 1 else interval
            frames += [(edge, f"{frame(edge, psn, SEND_MIDDLE, payload)} {0 if edge else gap}") for edge in range(PORTS)]
        run = self.run_frames("pace 8 8", frames)
        results = sorted(last for edge, _, last, hexadecimal in run.left if edge == 0 and len(hexadecimal) > 2 * length)
        self.assertEqual(len(results), count)
        cycles = (results[-1] - results[0]) / (count - 1)
        return round((length + OVERHEAD) * 8 / (cycles * 4), 1)


if __name__ == "__main__":
    unittest.main()
