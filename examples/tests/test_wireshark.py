"""The dissector in examples/wireshark: tshark shows with it what each design's frames are, and what is wrong with those that are."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import needs
import program

SCRIPT = program.EXAMPLES / "wireshark/quincunx.lua"
VECTORS = program.ROOT / "vectors"
FIELDS = ("group", "collective", "primitive", "part", "wrong", "info")
SIMULATION_SECONDS = 120

# What is simulated of each design: a collective, a fabric, and what is shown of its frames at least once.
DESIGNS = {
    "epic-1": ("all_reduce", "star-3", "AllReduce sum f32"),
    "epic-2": ("reduce", "star-3", "Reduce to rank 0 sum f32"),
    "epic-3": ("broadcast", "star-3", "Broadcast of rank 0 f32"),
    "epic-mixed": ("all_reduce", "tree-3-2", "AllReduce sum f32"),
    "netreduce": ("all_reduce", "star-3", "AllReduce 0"),
    "multiwrite": ("all_gather", "mesh-2x2", "MultiWrite"),
    "ring": ("all_reduce", "star-3", "among hosts"),
    "tree": ("all_reduce", "star-3", "among hosts"),
    "scin": ("all_reduce", "scin-dgx8", "memory fabric"),
    "nvls": ("all_reduce", "scin-dgx8", "memory fabric"),
    "cais": ("all_gather", "cais-dgx8", "memory fabric"),
}


def simulate(folder: str, design: str, collective: str, fabric: str, *more: str) -> Path:
    """The capture of a simulation whose results are right."""
    capture = Path(folder, "run.pcapng")
    arguments = ["sim", collective, "--fabric", fabric, "--design", design, "--size", "20KiB", "--pcap", str(capture), *more]
    ended = subprocess.run([program.program(), *arguments], text=True, capture_output=True, timeout=SIMULATION_SECONDS)
    if ended.returncode != 0:
        raise AssertionError(f"{arguments}: {ended.stderr}")
    return capture


def dissect(capture: Path) -> list[dict[str, list[str]]]:
    """What the dissector says of each frame, by field."""
    arguments = [word for name in FIELDS for word in ("-e", f"quincunx.{name}")]
    ended = subprocess.run(
        ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(capture), "-T", "json", *arguments],
        text=True,
        capture_output=True,
        timeout=SIMULATION_SECONDS,
    )
    if ended.returncode != 0 or "Lua" in ended.stderr:
        raise AssertionError(ended.stderr)
    layers = [packet["_source"]["layers"] for packet in json.loads(ended.stdout)]
    return [{name: layer.get(f"quincunx.{name}", []) for name in FIELDS} for layer in layers]


def said(frames: list[dict[str, list[str]]], name: str) -> set[str]:
    return {value for frame in frames for value in frame[name]}


@needs.programs("tshark", "tshark")
class DissectorTest(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def test_it_knows_each_frame_of_each_design_and_finds_nothing_wrong_with_it(self) -> None:
        for design, (collective, fabric, shown) in DESIGNS.items():
            with self.subTest(design=design):
                frames = dissect(simulate(self.folder, design, collective, fabric))
                self.assertTrue(frames)
                self.assertTrue(all(frame["info"] and frame["primitive"] for frame in frames))
                self.assertEqual(said(frames, "wrong"), set())
                self.assertIn(shown, said(frames, "collective"))

    def test_frames_of_one_group_have_one_number(self) -> None:
        for design in ("epic-2", "epic-3"):
            with self.subTest(design=design):
                frames = dissect(simulate(self.folder, design, "all_reduce", "tree-3-2"))
                self.assertEqual(said(frames, "group"), {"1"})

    def test_packets_are_parts_of_what_their_control_message_has_announced(self) -> None:
        frames = dissect(simulate(self.folder, "epic-3", "all_reduce", "star-3"))
        parts = said(frames, "part")
        packets = max(int(part.split()[3]) for part in parts if part.startswith("packet "))
        self.assertIn(f"control, {packets} packets follow", parts)
        for number in range(1, packets + 1):
            self.assertIn(f"packet {number} of {packets}", parts)

    def test_what_is_lost_is_seen_by_requests_and_by_packets_that_come_again(self) -> None:
        for design in ("epic-2", "epic-3"):
            with self.subTest(design=design):
                frames = dissect(simulate(self.folder, design, "all_reduce", "star-3", "--loss", "5%", "--seed", "3"))
                self.assertIn("sent again", said(frames, "wrong"))
                self.assertIn("NAK: a packet is missing", said(frames, "wrong"))

    def test_a_byte_that_was_changed_on_the_way_is_seen(self) -> None:
        for name, at in (("rxe.pcap", 100), ("rxe-ipv6.pcap", 120)):
            with self.subTest(capture=name):
                changed = bytearray((VECTORS / name).read_bytes())
                changed[24 + 16 + at] ^= 1
                capture = Path(self.folder, name)
                capture.write_bytes(changed)
                frames = dissect(capture)
                self.assertEqual(frames[0]["wrong"], ["the invariant CRC is wrong"])
                self.assertEqual(said(frames[1:], "wrong"), set())


if __name__ == "__main__":
    unittest.main()
