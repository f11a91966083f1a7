#!/usr/bin/env python3
"""Runs `quincunx demo` and writes what it prints into docs/demo.md, and the lines of it that the README shows there: `make demo-docs`."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHOLE, PART = ROOT / "docs/demo.md", ROOT / "README.md"
LIMIT_SECONDS = 600

# A row of a table up to its size, which says which row it is.
ROW = re.compile(r"^((?:\S+ +)?\S+ +[a-z_]{4,} +\d+) ")
BLOCK = re.compile(r"(?:(?<=```\n)|(?<=```text\n))(A manager, .*?)(?=```)", re.DOTALL)


def key(line: str) -> str | None:
    """Which row of the demo's a line is; of other lines their first words, none of lines that stand for those left out."""
    if row := ROW.match(line):
        return " ".join(row[1].split())
    words = line.split()
    return re.sub(r"[\d.]+", "#", " ".join(words[:4])) if words and words != ["..."] else None


def block(text: str) -> str:
    """The demo's output in a page."""
    found = BLOCK.search(text)
    if found is None:
        raise SystemExit('expected a block that begins with "A manager, ", found none; write one first')
    return found[1]


def shown(part: str, whole: str) -> str:
    """The lines of `part` as they are in `whole`, in their order; one that is there no more is an error."""
    left = iter(whole.splitlines())
    lines = []
    for line in part.splitlines():
        if key(line) is None:
            lines.append(line)
            continue
        renewed = next((one for one in left if key(one) == key(line)), None)
        if renewed is None:
            raise SystemExit(f'expected a line of the demo, found "{line}"; take it out of the README')
        lines.append(renewed)
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("expected the program, found none; python3 tools/demo.py target/release/quincunx")
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run([program, "demo"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS).stdout
    part = shown(block(PART.read_text()), printed)
    for page, output in ((WHOLE, printed), (PART, part)):
        page.write_text(BLOCK.sub(lambda _: output, page.read_text(), count=1))


if __name__ == "__main__":
    main()
