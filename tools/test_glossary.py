"""The glossary has each word once, in its place; each is one that pages or output use; and it has those that output and pages cannot do without."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs/glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.M)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.M | re.S)
# An abbreviation on so many pages wants a line; those that everybody brings along do not.
MANY = 3
KNOWN = {"JSON", "NCCL", "README", "TCP", "TLS", "UDP"}


def rows() -> list[tuple[str, str]]:
    """Words and meanings, without the head."""
    return ROW.findall(GLOSSARY.read_text(encoding="utf-8"))[1:]


def terms() -> list[str]:
    return [term for words, _ in rows() for term in words.split(", ")]


def pages() -> dict[Path, str]:
    """What people read beside the glossary."""
    readmes = [ROOT / "README.md", *(path for base in ("benches", "examples", "python", "rtl") for path in (ROOT / base).rglob("README.md"))]
    return {path: path.read_text(encoding="utf-8") for path in [*readmes, *(ROOT / "docs").rglob("*.md")] if path != GLOSSARY}


def names(file: str, pattern: str) -> set[str]:
    """What a source calls something in output."""
    found = set(re.findall(pattern, (ROOT / file).read_text(encoding="utf-8")))
    assert found, f"{file} has nothing of {pattern!r} any more"
    return found


class GlossaryTest(unittest.TestCase):
    def test_each_word_is_there_once_in_alphabetical_order(self) -> None:
        folded = [words.casefold() for words, _ in rows()]
        self.assertEqual(folded, sorted(folded))
        self.assertEqual(len({term.casefold() for term in terms()}), len(terms()))

    def test_each_word_is_used_by_a_page_or_by_the_commands(self) -> None:
        commands = (path.read_text(encoding="utf-8") for path in (ROOT / "crates/apps/cli/src").rglob("*.rs"))
        text = "\n".join([*pages().values(), *commands])
        for words, _ in rows():
            with self.subTest(word=words):
                used = any(re.search(rf"(?<![\w-]){re.escape(term)}(?:s|es)?(?!\w)", text, re.I) for term in words.split(", "))
                self.assertTrue(used, "no page has it: take it out")

    def test_abbreviations_of_many_pages_are_explained(self) -> None:
        on: dict[str, set[Path]] = {}
        for path, text in pages().items():
            if path.is_relative_to(ROOT / "docs") or path.parent == ROOT:
                for word in re.findall(r"(?<![\w.-])([A-Z]{2,6})s?(?![\w-])", CODE.sub("", text)):
                    on.setdefault(word, set()).add(path)
        text = GLOSSARY.read_text(encoding="utf-8")
        for word, where in sorted(on.items()):
            with self.subTest(word=word):
                self.assertTrue(len(where) < MANY or word in KNOWN or re.search(rf"\b{word}s?\b", text), f"{len(where)} pages have it, and the glossary not")

    def test_kinds_of_figures_are_explained(self) -> None:
        kinds = names("crates/scenario/scenario/src/experiment.rs", r'Self::(?:Predicted|Formula|Calibrated|Derived|Identity) => "([a-z]+)"')
        self.assertEqual({words for words, meaning in rows() if meaning.startswith("of a figure: ")}, kinds)

    def test_policies_are_all_named(self) -> None:
        [policy] = [meaning for words, meaning in rows() if words == "policy"]
        policies = names("crates/control/manager/src/policy.rs", r'\n +(?:Prefer::\w+ => )?"([a-z-]+)",?(?=\n)')
        self.assertEqual(set(re.findall("`([^`]+)`", policy)), policies)


if __name__ == "__main__":
    unittest.main()
