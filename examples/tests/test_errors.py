"""Errors of docs/errors.md, provoked: each command below fails, and the line that it ends with is one of the page's rows.

In a network of its own. `tools/test_errors.py` holds the other rows to the sources.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools")]

import needs  # noqa: E402
import pages  # noqa: E402
from pages import Command  # noqa: E402
from test_pages import LIMIT_SECONDS, Session  # noqa: E402

PAGE = pages.ROOT / "docs/errors.md"
WORDS = re.compile(r"^\| `(expected [^|]*?)` \|", re.M)

ALONE = """
quincunx nodes
quincunx manager --listen 0.0.0.0:4790
quincunx manager --listen 10.9.9.9:4790
quincunx manager --store /nowhere/store
quincunx agent --listen 0.0.0.0:4792 --manager 10.0.0.1:4790
quincunx switch --name a --address 10.0.0.9 --port eth9
quincunx switch --name a --address 10.0.0.9/24 --port eth9
RANK=1 quincunx doctor
QUINCUNX_SET=banana quincunx perf all_reduce
quincunx perf all_reduce --rate 500Mbit/s
quincunx perf all_reduce --ranks 3 --tree star-8
quincunx perf all_reduce --ranks 0
quincunx perf all_reduce --sizes 1TiB
quincunx perf all_gather --design netreduce
quincunx run -n 2 -- false
quincunx sim all_reduce --fabric nothing
quincunx sim all_reduce --fabric star-8 --set group.slot=4
quincunx check epic-3 all_reduce --memory 1MiB
quincunx check switchml-rules all_reduce --window 1 --reorder
quincunx plan
quincunx report nowhere
"""
WITH_A_SWITCH = """
quincunx switch --name leaf1 --address 127.0.0.3
quincunx switch --name leaf2 --address 127.0.0.2
quincunx group create train --design epic-3 --members a,b
quincunx group show train
"""
WITH_CERTIFICATES = """
quincunx nodes
quincunx nodes --identity cut.pem
quincunx switch --name leaf2 --address 127.0.0.2 --identity certs/node-leaf1.pem
quincunx manager revoke --identity certs/tenant-blue.pem
quincunx manager --listen 127.0.0.1:4799 --identity certs/manager.pem --store store
quincunx manager init certs --node leaf1
rm certs/authority-key.pem; quincunx manager init certs --node leaf3
quincunx manager revoke node/leaf1 --identity certs/operator-admin.pem; quincunx switch --name leaf1 --address 127.0.0.2 --identity certs/node-leaf1.pem
"""


def rows() -> list[str]:
    """The words of the page's rows."""
    return WORDS.findall(PAGE.read_text(encoding="utf-8"))


def of_page(line: str) -> list[str]:
    """The rows that an error's line begins with, behind who says it."""

    def pattern(row: str) -> str:
        return r"error: (?:[\w-]+: )?" + ".*".join(map(re.escape, row.split("...")))

    return [row for row in rows() if re.match(pattern(row), line)]


class RowTest(unittest.TestCase):
    def test_a_row_is_found_by_an_errors_words_and_by_no_other_ones(self) -> None:
        [row] = of_page('error: expected a new node name, found "leaf1", which is attached; stop that node or rename this one')
        self.assertTrue(row.startswith("expected a new node name"))
        self.assertEqual(of_page('error: expected a new name of a node, found "leaf1", which is attached'), [])


@needs.root()
class ProvokedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.session = Session()
        self.addCleanup(self.session.close)

    def serve(self, text: str) -> None:
        self.assertIsNone(self.session.serve(Command("docs/errors.md", 0, text)))

    def run_text(self, text: str) -> tuple[int, str]:
        process = self.session.begin(text, subprocess.PIPE)
        try:
            printed, _ = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            self.session.kill(process)
        return process.returncode, printed

    def provoke(self, commands: str) -> None:
        for text in commands.strip().splitlines():
            with self.subTest(command=text):
                status, printed = self.run_text(text)
                self.assertIn(status, (1, 2), printed)
                line = printed.strip().splitlines()[-1]
                self.assertEqual(len(of_page(line)), 1, f"{line}\nis to be a row of docs/errors.md, and is {of_page(line)}")

    def test_what_needs_nobody_else(self) -> None:
        self.provoke(ALONE)

    def test_beside_a_manager_and_a_switch(self) -> None:
        self.serve("quincunx manager")
        self.serve("quincunx switch --name leaf1 --address 127.0.0.2 --memory 16MiB")
        self.provoke(WITH_A_SWITCH)

    def test_beside_a_manager_with_certificates(self) -> None:
        self.assertEqual(self.run_text("quincunx manager init certs --node leaf1 --tenant blue && head -5 certs/manager.pem > cut.pem")[0], 0)
        self.serve("quincunx manager --identity certs/manager.pem --store store")
        self.provoke(WITH_CERTIFICATES)


if __name__ == "__main__":
    unittest.main()
