"""What the documentation says of the tree is so: its links lead to something."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.M | re.S)


def pages() -> list[Path]:
    """The Markdown files of the tree."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub makes it of them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


class LinksTest(unittest.TestCase):
    def test_each_link_to_a_file_of_the_tree_leads_to_one(self) -> None:
        for page in pages():
            for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page if not path else page.parent / path
                with self.subTest(page=str(page.relative_to(ROOT)), link=target):
                    self.assertTrue(file.exists(), f"{file} is not there")
                    if anchor and file.suffix == ".md":
                        self.assertIn(anchor, anchors(file))


if __name__ == "__main__":
    unittest.main()
