#!/usr/bin/env python3
"""Every error that the sources have, by its words: `python3 tools/errors.py` prints them by room; `make book` has them as a page.

An error says what was expected, what was found and what to do, so its words are found by "expected". What a message leaves open stands as
`...`. Of one that is composed of parts, those parts are taken that stand where it is made.
"""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LITERAL = r'"(?:[^"\\]|\\.)*"'
RUST = re.compile(LITERAL, re.S)
# How the parts of a message are handed over, "expected" not among them.
COMPOSED = re.compile(r"\b(?:Refusal::new|misuse|wrong|refuse|at)\((?=\s*&?(?:format!\()?\s*\")")
FIELD = re.compile(r"\bexpected: (?:format!\(\s*)?(" + LITERAL + ")", re.S)
REMEDY = re.compile(r"\bremedy: (?:format!\(\s*)?(" + LITERAL + ")", re.S)
# How far behind the one the other may be.
NEAR = 400
COMMENT = re.compile(r"^\s*//.*$", re.M)
# What a person never reads: assertions, and tests inside a room.
BUGS = re.compile(r"(?:\b(?:debug_)?assert\w*!|\bpanic!|\bunreachable!|\.expect(?:_err)?)\([^;]*?" + LITERAL, re.S)
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*\Z", re.M | re.S)
CONSTANT = re.compile(r"^(?:pub(?:\(\w+\))? )?const ([A-Z_]+): &str =\s*(" + LITERAL + ");", re.M | re.S)
OPEN = re.compile(r"\{[^{}]*\}")
# Rooms that users do not run.
NOT_RUN = {"base/needs", "studies/conformance"}


@dataclass(frozen=True, order=True)
class Message:
    """An error's words, and whose they are."""

    room: str
    file: str
    words: str


@functools.cache
def constants() -> dict[str, str]:
    """Texts that messages name; a version is none."""
    rust = (path.read_text(encoding="utf-8") for _, path in sources() if path.suffix == ".rs")
    return {name: text[1:-1] for source in rust for name, text in CONSTANT.findall(source) if re.search("[a-z]", text)}


def plain(text: str) -> str:
    """A literal's inside as it is printed, with `...` for what it leaves open."""
    text = re.sub(r"\{([A-Z_]+)\}", lambda name: constants().get(name[1], name[0]), text)
    text = re.sub(r"\\\n\s*", "", text).replace('\\"', '"').replace("\\n", " ")
    text = text.replace("{{", "\0").replace("}}", "\1")
    text = OPEN.sub("...", text).replace("\0", "{").replace("\1", "}")
    return re.sub(r"\.{3}(?: ?\.{3})+", "...", text).strip()


def arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call whose bracket opens right before `begin`, as they are written."""
    depth, found, last = 0, [], begin
    pieces = re.compile(LITERAL + r"|[(\[{]|[)\]}]|,", re.S)
    for piece in pieces.finditer(text, begin):
        if piece[0] in "([{":
            depth += 1
        elif piece[0] in ")]}":
            depth -= 1
        if depth < 0 or piece[0] == "," and depth == 0:
            found.append(text[last : piece.start()].strip())
            last = piece.end()
        if depth < 0:
            break
    return [argument for argument in found if argument]


def stated(argument: str) -> str:
    """What an argument says, if it says it there."""
    literal = RUST.search(argument)
    return plain(literal[0][1:-1]) if literal else "..."


def of_rust(text: str) -> Iterator[str]:
    """The messages of a Rust or C source."""
    text = BUGS.sub("", COMMENT.sub("", TESTS.sub("", text)))
    for literal in RUST.finditer(text):
        if re.search(r"(?:^|: |, )expected (?!to be)", words := plain(literal[0][1:-1])):
            yield words
    for call in COMPOSED.finditer(text):
        expected, found, remedy = (*map(stated, arguments(text, call.end())), "...", "...")[:3]
        # Others than errors are called so, too; these have no sentence.
        if " " in expected and not expected.startswith("expected"):
            yield f"expected {expected}, found {found}; {remedy}"
    for field in FIELD.finditer(text):
        remedy = REMEDY.search(text, field.end(), field.end() + NEAR)
        yield f"expected {plain(field[1][1:-1])}, found ...; {plain(remedy[1][1:-1]) if remedy else '...'}"


def of_python(text: str) -> Iterator[str]:
    """The messages of a Python source."""
    nodes = list(ast.walk(ast.parse(text)))
    pieces = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in pieces:
            continue
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value
        else:
            continue
        if words.startswith("expected ") and "found" in words:
            yield re.sub(r"\s+", " ", words)


def sources() -> Iterator[tuple[str, Path]]:
    """The files that users run, each with its room."""
    for base, depth in (("crates", 2), ("python", 1), ("openmpi", 0), ("nccl", 0)):
        for path in sorted((ROOT / base).rglob("*")):
            below = path.relative_to(ROOT / base).parts
            room = "/".join(below[:depth]) if base == "crates" else "/".join((base, *below[:depth]))
            if path.suffix in (".rs", ".py", ".c") and not {"tests", "examples", "benches", "generated"} & set(below) and room not in NOT_RUN:
                yield room, path


def messages() -> list[Message]:
    """All of them, each once for a file."""
    found = set()
    for room, path in sources():
        text = path.read_text(encoding="utf-8")
        for words in of_python(text) if path.suffix == ".py" else of_rust(text):
            # Nothing but what is open would be found by no words.
            if re.search(r"\w{3}", words.replace("expected", "").replace("found", "")):
                found.add(Message(room, str(path.relative_to(ROOT)), words))
    return sorted(found)


def about(room: str) -> str:
    """What a room is for, by its manifest."""
    for manifest in (ROOT / "crates" / room / "Cargo.toml", ROOT / room / "Cargo.toml"):
        if manifest.is_file():
            return tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["description"]
    return room


def page() -> str:
    """All errors as a page of the book."""
    text = [
        "# Every error, by its words",
        "Made from the sources. `...` stands for what differs from one time to the next. [Errors that people meet](errors.md) says more of some.",
    ]
    rooms: dict[str, list[str]] = {}
    for message in messages():
        words = rooms.setdefault(about(message.room), [])
        if message.words not in words:
            words.append(message.words)
    for room, words in rooms.items():
        text += ["", f"## {room}", *(f"- ``{line}``" for line in sorted(words))]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
