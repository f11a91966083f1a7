#!/usr/bin/env python3
"""Checks that tests have one way to be skipped, the one that the runner hears of: `need!` of crates/base/needs, and tools/needs.py.

Reads the tests' sources: `python3 tools/skips.py [ROOT]`. Prints one line for each fault and exits with status 1 if there is
one. It sees ways out, not intentions: a test whose body is all in one `if` gets past it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HELPERS = ("crates/base/needs/", "tools/needs.py", "tools/skips.py", "tools/test_skips.py", "tools/run_tests.py", "tools/test_run_tests.py")

RUST_REMEDY = "ask for what the test needs with quincunx_needs::need!"
PYTHON_REMEDY = "ask for what the test needs with tools/needs.py"

COMMENT = re.compile(r"(?<!:)//(?![/!]).*$", re.MULTILINE)
TEST = re.compile(r"#\[(?:\w+::)?test\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?(?:async )?fn (\w+)\s*")
# Ends a test early and says nothing; a value that is returned belongs to a closure in it.
SILENT_END = re.compile(r"\breturn\s*(?:;|,|\}|\(\)|\w*print\w*!|drop\b)")
RUST_WAYS = [
    (re.compile(r"#\[ignore\b|#\[cfg_attr\([^\]]*\bignore\b"), "an ignored test"),
    (re.compile(r"^\s*//[/!]\s*```[\w,]*\bignore\b", re.MULTILINE), "an ignored example"),
    (re.compile(r"\bquincunx_needs::tell\b|\bneeds::tell\b"), "a skip outside of `need!`"),
]
# What no test says, does or asks by itself. Not for programs, which may.
RUST_TEST_WAYS = [
    (re.compile(r"\"\s*skip", re.IGNORECASE), "a text that speaks of a skip"),
    (re.compile(r"\bprocess::(?:exit|abort)\b"), "an end of the whole test program"),
    (re.compile(r"\bnetns::available\b|\bgeteuid\b|\bis_root\b"), "a question of its own for root"),
]
PYTHON_WAYS = re.compile(r"\bskipTest\b|\bSkipTest\b|\bskip(?:If|Unless)?\s*\(|\bexpectedFailure\b|\bimportorskip\b|\bload_tests\b")


def fault(expected: str, found: str, where: object, remedy: str) -> str:
    """One line: what was expected, what was found, where, and what to do."""
    return f"{where}: expected {expected}, found {found}; {remedy}"


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def bodies(text: str) -> Iterator[tuple[str, int, str, str]]:
    """Of each test: its name, where its body begins, what stands between the arguments and the body, and the body."""
    for test in TEST.finditer(text):
        start = text.find("{", test.end())
        depth = 0
        for end in range(start, len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if depth == 0:
                break
        yield test[1], start, text[test.end() : start], text[start:end]


def rust_faults(place: str, source: str) -> list[str]:
    text = COMMENT.sub("", source)
    faults = [
        fault("tests that run or tell why not", what, f"{place}:{line_of(text, found.start())}", RUST_REMEDY)
        for way, what in RUST_WAYS
        for found in way.finditer(text)
    ]
    # The tests of a source are at its end.
    begin = 0 if "/tests/" in place else text.find("#[cfg(test)]")
    if begin >= 0:
        faults += [
            fault("tests that run or tell why not", what, f"{place}:{line_of(text, found.start(0))}", RUST_REMEDY)
            for way, what in RUST_TEST_WAYS
            for found in way.finditer(text, begin)
        ]
    for name, start, signature, body in bodies(text):
        where = f"{place}:{line_of(text, start)}"
        if "->" in signature:
            faults.append(fault("a test that returns nothing", f"{name} with a result", where, "unwrap what may fail"))
        for found in SILENT_END.finditer(body):
            what = f"`{found[0].strip()}` in {name}"
            faults.append(fault("no early end of a test", what, f"{place}:{line_of(text, start + found.start())}", RUST_REMEDY))
    return faults


def python_faults(place: str, text: str) -> list[str]:
    found = PYTHON_WAYS.finditer(text)
    expected = "tests that run or tell why not"
    return [fault(expected, f"`{way[0]}`", f"{place}:{line_of(text, way.start())}", PYTHON_REMEDY) for way in found]


def check(root: Path) -> tuple[int, list[str]]:
    """How many files were read, and the faults in a line each."""
    count, faults = 0, []
    for folder in ("crates", "examples", "fuzz", "python", "tools", "spec", "benches"):
        for source in sorted((root / folder).rglob("*.*")):
            place = source.relative_to(root).as_posix()
            if place.startswith(HELPERS) or "/target/" in place or source.suffix not in (".rs", ".py"):
                continue
            count += 1
            text = source.read_text(encoding="utf-8")
            if source.suffix == ".rs":
                faults += rust_faults(place, text)
            elif source.name.startswith("test_"):
                faults += python_faults(place, text)
    return count, faults


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    count, faults = check(root)
    for line in faults:
        print(line)
    print(f"skips: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
