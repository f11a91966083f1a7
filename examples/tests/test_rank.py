"""The rank in examples/rank reads docs/wire.md as the code does: its checksums and digests are those of the page. How it takes part in
collectives, `crates/processes/runtime/tests/suite/foreign_rank.rs` tests."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/rank"))
import rank

PAGE = (ROOT / "docs/wire.md").read_text(encoding="utf-8")
# Who speaks in the page's examples.
RANK, SWITCH = "10.0.0.1", "10.0.1.1"
# What the page shows, and from whom it is.
EXAMPLES = {"epic-control": RANK, "epic-first": RANK, "epic-last": RANK, "epic-broadcast": RANK, "question": RANK, "ack": SWITCH, "nak": SWITCH, "not-ready": SWITCH}


def part(name: str) -> str:
    """What the page has between two marks."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE, re.S)
    assert found, name
    return found[1]


def datagram(name: str) -> bytes:
    """An example that is shown whole."""
    return bytes.fromhex("".join(line[12:] for line in part(name).splitlines() if not line.startswith("```")))


class RankTest(unittest.TestCase):
    def test_its_invariant_crc_is_that_of_the_examples(self) -> None:
        for name, source in EXAMPLES.items():
            with self.subTest(example=name):
                example = datagram(name)
                destination = SWITCH if source == RANK else RANK
                self.assertEqual(rank.invariant_crc(source, destination, rank.PORT, example[:-4]), example[-4:])

    def test_its_digests_are_those_of_the_table(self) -> None:
        rows = [line.strip("| ").split(" | ") for line in part("digests").splitlines()[2:]]
        known = [row for row in rows if row[0] in rank.COLLECTIVES and row[2] in ("sum", "-") and row[3] in rank.TYPES]
        self.assertGreater(len(known), 3)
        for name, root, _, type_name, length, digest in known:
            with self.subTest(collective=name, root=root):
                found = rank.digest(rank.COLLECTIVES[name], int(root.replace("-", "0")), rank.TYPES[type_name][0], int(length))
                self.assertEqual(f"`{found:08x}`", digest)

    def test_a_number_is_the_one_nearest_to_what_is_known(self) -> None:
        for psn, known, number in ((5, (1 << 24) + 3, (1 << 24) + 5), (0xFFFFFF, 1 << 24, (1 << 24) - 1), (1, (1 << 25) - 1, (1 << 25) + 1)):
            with self.subTest(psn=psn):
                self.assertEqual(rank.near(psn, known), number)

    def test_integers_wrap_when_they_are_added_up(self) -> None:
        self.assertEqual(rank.add(b"\xff\xff\xff\x7f", b"\x01\0\0\0", "i"), b"\0\0\0\x80")


if __name__ == "__main__":
    unittest.main()
