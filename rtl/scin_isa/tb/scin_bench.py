"""A bench for SCIN's switch: accelerators with memories, and what the in-switch accelerator makes of them."""

import os
import tomllib
import unittest
from collections.abc import Iterable
from pathlib import Path

from lines import converse, vectors

VECTORS = Path(__file__).resolve().parents[3] / "vectors/scin-isa.txt"
WAIT, NOTIFY, REGION, QUANT = 4, 8, 2, 1


class Simulator:
    """A run of sim.cpp: what it is told, all at once, and what it answers."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.lines: list[str] = []

    def tell(self, *lines: str) -> None:
        self.lines += lines

    def run(self) -> list[list[str]]:
        """All that it answers, with the `end` of each `run`. Raises AssertionError at what must never be."""
        told = zip(self.lines, converse([self.program], self.lines), strict=True)
        return [words for line, answers in told for words in answers if words[0] != "end" or line == "run"]


def cases() -> list[list[tuple[list[str], list[list[str]]]]]:
    """The vectors by case: each begins with its number of ports and its type."""
    found: list[list] = []
    for step in vectors(VECTORS):
        if step[0][0] == "ports":
            found.append([])
        found[-1].append(step)
    return found


def held(test: unittest.TestCase, table: str, found: dict[str, float]) -> None:
    """Holds what was measured to a table of latency.toml; with SCIN_ISA_MEASURE=write it is written there."""
    path = Path(__file__).resolve().parents[1] / "latency.toml"
    tables = tomllib.loads(path.read_text())
    if os.environ.get("SCIN_ISA_MEASURE") == "write":
        tables[table] = found
        head = [line for line in path.read_text().splitlines() if line.startswith("#")]
        body = [line for name in sorted(tables) for line in (f"[{name}]", *(f"{key} = {value}" for key, value in tables[name].items()))]
        path.write_text("\n".join([*head, *body]) + "\n")
    test.assertEqual(tables.get(table), found)


def instruction(number: int, length: int, flags: int, sources: int, destinations: int, addresses: Iterable[int]) -> str:
    return " ".join(map(str, ["instruction", number, length, flags, sources, destinations, *addresses]))


def replay(test: unittest.TestCase, program: Path, case: list, *setting: str) -> list[list[str]]:
    """Tells a case of the vectors, and holds flags, memories and refusals to what the engine answers. Returns all answers."""
    simulator = Simulator(program)
    simulator.tell(*setting)
    _, ports, data_type = case[0][0]
    simulator.tell(f"type {data_type}")
    expected: list[tuple[str, ...]] = []
    for words, answers in case[1:]:
        simulator.tell(" ".join(words))
        expected += sorted(("refused",) if what == "refused" else (what, *rest) for what, *rest in answers)
    answers = simulator.run()
    found, flags = [], []
    for what, *rest in answers:
        if what == "flag":
            flags.append((what, rest[0], rest[2]))
        elif what == "refused":
            found.append((what,))
        elif what == "memory":
            found.append((what, *rest))
        test.assertNotEqual(what, "drop", rest)
    test.assertEqual(sorted(flags), sorted(each for each in expected if each[0] == "flag"), case[0])
    for have, want in zip(found, (each for each in expected if each[0] != "flag"), strict=True):
        test.assertEqual(have, want, case[0])
    return answers
