"""The pages' pictures are what today's engines do: made again, they are the same."""

import struct
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools")]

import ladders  # noqa: E402
import pictures  # noqa: E402
import program  # noqa: E402


def block(kind: int, body: bytes) -> bytes:
    """A block of pcapng."""
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


class FramesTest(unittest.TestCase):
    def test_a_frame_is_on_the_link_that_its_interface_names_from_when_it_leaves(self) -> None:
        name = b"host-0 > switch-0"
        link = struct.pack("<HHIHH", 1, 0, 0, pictures.NAME, len(name)) + name.ljust(20, b"\0")
        data, acknowledge = (struct.pack("<5I", 0, 0, 334, size, size) + bytes(size) for size in (400, 60))
        capture = block(pictures.INTERFACE, link) + block(pictures.PACKET, acknowledge) + block(pictures.PACKET, data)
        _, frame = pictures.frames(capture)
        self.assertEqual((frame.source, frame.target, frame.leaves, frame.arrives), ("host-0", "switch-0", 334, 334 + 32 + 1000))


class PictureTest(unittest.TestCase):
    def test_that_of_the_modes_is_todays_runs(self) -> None:
        self.assertIn(ladders.PICTURE.name, (pictures.ROOT / "docs/designers.md").read_text(encoding="utf-8"))
        made = ladders.picture(program.program())
        self.assertTrue(made == ladders.PICTURE.read_text(encoding="utf-8"), f"run `python3 tools/pictures.py {program.program()}`")

    def test_each_mode_loses_the_one_packet_that_the_picture_speaks_of(self) -> None:
        for design, seed in ladders.LOSSES.items():
            with self.subTest(design=design):
                lost = [step for step in ladders.run(program.program(), design, seed) if step.is_lost]
                self.assertEqual([(step.frame.target, step.name.split()[0]) for step in lost], [("switch-0", "SEND")])

    def test_the_readmes_picture_is_that_of_todays_run(self) -> None:
        self.assertIn(str(pictures.PICTURE.relative_to(pictures.ROOT)), (pictures.ROOT / "README.md").read_text(encoding="utf-8"))
        made = pictures.picture(program.program())
        self.assertTrue(made == pictures.PICTURE.read_text(encoding="utf-8"), f"run `python3 tools/pictures.py {program.program()}`")


if __name__ == "__main__":
    unittest.main()
