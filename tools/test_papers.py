"""What tools/papers.py finds in a paper's text, and what it misses there."""

import tempfile
import unittest
from pathlib import Path

import papers


class PapersTest(unittest.TestCase):
    def faults(self, lines: str, text: str) -> list[str]:
        """What it says of a paper with this text."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "p.tsv").write_text(lines, encoding="utf-8")
            (folder / "paper.txt").write_text(text, encoding="utf-8")
            return list(papers.faults(folder, folder))

    def test_a_quote_is_found_whatever_is_between_its_words(self) -> None:
        lines = "# Lines of paper.txt\ntable1\t\tRing 1.02 3.81\n"
        self.assertEqual(self.faults(lines, "Table 1\n\nRing\t1.02\t3.81\n"), [])
        self.assertEqual(self.faults(lines, "Ring\n1.02 3.81"), [])

    def test_a_figure_that_the_text_does_not_have_is_a_fault(self) -> None:
        (fault,) = self.faults("# Lines of paper.txt\ntable1\t\tRing 1.02 3.82\n", "Ring\t1.02\t3.81")
        self.assertIn("p.tsv:2", fault)
        self.assertIn("table1", fault)

    def test_lines_without_three_columns_and_files_without_a_text_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "3|columns"):
            self.faults("# Lines of paper.txt\ntable1\tRing\n", "Ring")
        with self.assertRaisesRegex(ValueError, "first line"):
            self.faults("table1\t\tRing\n", "Ring")

    def test_every_file_of_the_tree_can_be_read(self) -> None:
        files = sorted((papers.ROOT / "data/papers").glob("*.tsv"))
        self.assertEqual(sorted(file.stem for file in files), ["ars", "cais", "epic", "multiwrite", "scin"])
        for file in files:
            with self.subTest(file=file.name):
                self.assertTrue(papers.quotes(file)[1])


if __name__ == "__main__":
    unittest.main()
