#!/usr/bin/env python3
"""Finds the lines of data/papers in the papers' texts, which are no part of the tree.

`python3 tools/papers.py FOLDER` reads FOLDER/TEXT.txt for each data/papers/PAPER.tsv, whose first line names the text. Spaces, tabs and
line ends count as one space. Prints one line for each quote that is not there and exits with status 1 if there is one, and with 2 if a
text is missing. That the quotes have the figures of experiments/ is a test of crates/studies/sim.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = re.compile(r"# Lines of (\S+\.txt)\b")


def plain(text: str) -> str:
    """The text with one space for all that is white."""
    return " ".join(text.split())


def quotes(file: Path) -> tuple[str, list[tuple[int, str, str]]]:
    """The name of a paper's text, and each quote of it with its line's number and the experiment that it is for."""
    lines = file.read_text(encoding="utf-8").splitlines()
    head = HEAD.match(lines[0]) if lines else None
    if head is None:
        raise ValueError(f"{file}: expected a first line '# Lines of TEXT.txt ...'; write it")
    found = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 3 or not columns[0] or not columns[2]:
            raise ValueError(f"{file}:{number}: expected ID, FIGURES and QUOTE between tabs, found {len(columns)} columns; see README.md")
        found.append((number, columns[0], columns[2]))
    return head[1], found


def faults(folder: Path, data: Path) -> Iterator[str]:
    """One line for each quote that its text does not have."""
    for file in sorted(data.glob("*.tsv")):
        name, found = quotes(file)
        text = plain((folder / name).read_text(encoding="utf-8"))
        for number, experiment, quote in found:
            if plain(quote) not in text:
                yield f"{file.name}:{number}: expected a quote of {name} for {experiment}, found nothing like it there: {quote}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = list(faults(Path(arguments[0]), ROOT / "data/papers"))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(found) if found else "every quote is in its paper's text")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
