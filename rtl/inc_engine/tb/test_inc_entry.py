"""The entry: a frame that is damaged anywhere, cut, or not for this end of the edge is refused, and the sum is as if it had never come."""

import struct
import unittest

import inc_build
import rtl_tools
from inc_bench import simulate
from inc_frames import ALL_REDUCE, SEND_MIDDLE, SEND_ONLY_IMMEDIATE, frame

GROUP = "group 2 2 - 4 1024 0 0 3 0,1"
# Bytes that switches may change on the way, which the invariant CRC does not see, and those of Ethernet.
MUTABLE = {*range(14), 15, 22, 24, 25, 40, 41, 46}


@rtl_tools.programs("verilator", "g++")
class Entry(unittest.TestCase):
    turn = 3

    def test_a_damaged_frame_is_refused_and_never_added(self) -> None:
        payloads = [struct.pack("<20f", *(range(20) if edge else [0.5] * 20)) for edge in (0, 1)]
        good = [frame(edge, 1, SEND_MIDDLE, payloads[edge]) for edge in (0, 1)]
        damaged = []
        for at in sorted(set(range(len(good[0]) // 2)) - MUTABLE):
            whole = bytearray.fromhex(good[0])
            whole[at] ^= 1 << at % 8
            damaged.append(bytes(whole).hex())
        damaged += [good[0][: 2 * count] for count in (60, 64, 100, len(good[0]) // 2 - 1)]
        # Right in itself, but for the other edge's end, and from there.
        damaged.append(good[1])
        begin = [frame(edge, 0, SEND_ONLY_IMMEDIATE, word=ALL_REDUCE | 1) for edge in (0, 1)]
        told = [(0, begin[0]), (1, begin[1]), *((0, each) for each in damaged), (1, good[1]), *((0, each) for each in damaged), (0, good[0])]
        (run,) = simulate(inc_build.EIGHT.simulator(), ["pace 8 12", GROUP, *(f"frame {edge} {each}" for edge, each in told), "run"])
        wrong = [number for number, (_, each) in enumerate(told) if each in damaged and told[number] != (1, good[1])]
        self.assertEqual(run.refused, wrong)
        results = [bytes.fromhex(hexadecimal)[54:-4] for _, _, _, hexadecimal in run.left if len(hexadecimal) > 150]
        self.assertEqual(results, [struct.pack("<20f", *(value + 0.5 for value in range(20)))] * 2)


if __name__ == "__main__":
    unittest.main()
