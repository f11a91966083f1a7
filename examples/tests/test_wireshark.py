"""The dissector in examples/wireshark: tshark shows with it what each design's frames are, and what is wrong with those that are."""

import json
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rank"))
import needs
import program
import rank

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
    "double-tree": ("all_reduce", "star-3", "among hosts"),
    "halving-doubling": ("all_reduce", "star-4", "among hosts"),
    "direct": ("all_reduce", "star-3", "among hosts"),
    "unicast-multipath": ("all_gather", "mesh8", "writes"),
    "ring-rq": ("all_reduce", "scin-dgx8", "memory fabric"),
    "scin": ("all_reduce", "scin-dgx8", "memory fabric"),
    "scin-inq": ("all_reduce", "scin-dgx8", "memory fabric"),
    "nvls": ("all_reduce", "scin-dgx8", "memory fabric"),
    "cais": ("all_gather", "cais-dgx8", "memory fabric"),
}


# Link types of captures.
ETHERNET, USER0 = 1, 147
# Two ranks and their switch.
RANKS, SWITCH = ("10.0.0.1", "10.0.0.2"), "10.0.1.1"


def frame(source: str, opcode: int, psn: int, extension: str = "", payload: bytes = b"") -> bytes:
    """A frame of a rank's to its switch."""
    body = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, 0x100, psn) + bytes.fromhex(extension) + payload
    datagram = body + rank.invariant_crc(source, SWITCH, rank.PORT, body)
    ends = socket.inet_aton(source) + socket.inet_aton(SWITCH)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(datagram), 0, 0x4000, 64, 17, 0) + ends
    return bytes(12) + b"\x08\0" + ip + struct.pack(">HHHH", rank.PORT, rank.PORT, 8 + len(datagram), 0) + datagram


def write(folder: str, frames: list[bytes], link: int = ETHERNET) -> Path:
    """A capture of the classic format."""
    capture = Path(folder, "made.pcap")
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, link)
    capture.write_bytes(head + b"".join(struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in frames))
    return capture


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
        ["tshark", "-2", "-X", f"lua_script:{SCRIPT}", "-r", str(capture), "-T", "json", *arguments],
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

    def test_a_byte_that_was_changed_on_the_way_is_seen_and_no_other_frame_is_wrong(self) -> None:
        for name in ("rxe.pcap", "rxe-rc-send.pcap", "rxe-ipv6.pcap"):
            with self.subTest(capture=name):
                changed = bytearray((VECTORS / name).read_bytes())
                # The first frame's 200th byte, behind the headers of file and frame.
                changed[24 + 16 + 200] ^= 1
                capture = Path(self.folder, name)
                capture.write_bytes(changed)
                crc = "the invariant CRC is wrong"
                self.assertEqual([frame["wrong"] == [crc] for frame in dissect(capture)].index(True), 0)
                self.assertNotIn(crc, said(dissect(capture)[1:], "wrong"))
                self.assertNotIn(crc, said(dissect(VECTORS / name), "wrong"))


    def test_ranks_that_call_different_collectives_are_seen(self) -> None:
        frames = [frame(RANKS[0], 5, 7, "00000001"), frame(RANKS[1], 5, 7, "00000001")]
        frames += [frame(RANKS[0], 4, 8, "", bytes(4)), frame(RANKS[1], 4, 8, "", bytes(4))]
        # The one calls an AllReduce of f32, the other of i32.
        frames += [frame(RANKS[0], 5, 9, "00000001"), frame(RANKS[1], 5, 9, "01800001")]
        wrong = [one["wrong"] for one in dissect(write(self.folder, frames))]
        self.assertEqual(wrong, [[], [], [], [], [], ["disagreement: others have sent control message 00000001"]])

    def test_a_control_message_that_makes_no_sense_is_seen(self) -> None:
        # The first frame shows that EPIC is spoken there; no type has number 15.
        frames = [frame(RANKS[0], 5, 7, "00000000"), frame(RANKS[0], 5, 8, "07800001")]
        self.assertEqual(dissect(write(self.folder, frames))[1]["wrong"], ["control message 07800001 makes no sense"])

    def test_data_that_no_control_message_announces_is_seen(self) -> None:
        frames = [frame(RANKS[0], 5, 7, "00000001"), frame(RANKS[0], 4, 9, "", bytes(4))]
        self.assertEqual(dissect(write(self.folder, frames))[1]["wrong"], ["no control message announces it"])

    def test_words_about_locks_are_shown_with_the_number_of_the_group(self) -> None:
        shown = dissect(write(self.folder, [frame(RANKS[0], 0x65, 0, "00000007 00000011 60000003")]))[0]
        self.assertEqual((shown["group"], shown["part"]), (["7"], ["granted, invocation 3"]))

    def test_a_packet_of_the_memory_fabric_that_is_cut_off_is_seen(self) -> None:
        header = bytes.fromhex("380000080000000010000008 00002a62")
        frames = [header + b"eight by", header + b"seven b"]
        wrong = [one["wrong"] for one in dissect(write(self.folder, frames, USER0))]
        self.assertEqual(wrong, [[], ["7 bytes behind the header where it announces 8"]])


if __name__ == "__main__":
    unittest.main()
