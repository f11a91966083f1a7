"""A bench for IncEngine: what it is told, what it answers, and what the engine in `crates/engines/epic` answers to the same in the same order."""

import subprocess
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

import inc_build
import lines

VECTORS = Path(__file__).resolve().parents[3] / "vectors/inc-engine.txt"
# Ethernet, IPv4 and UDP lie before the BTH.
BTH = 14 + 20 + 8
ACKNOWLEDGE = 0x11


@dataclass
class Step:
    """A line that a switch is told, and what it answers."""

    told: str
    answers: list[str] = field(default_factory=list)


def cases(file: Path) -> list[list[Step]]:
    """Vectors by case: each begins with its group."""
    found: list[list[Step]] = []
    for words, answers in lines.vectors(file):
        if words[0] == "group":
            found.append([])
        found[-1].append(Step(" ".join(words), [" ".join(answer) for answer in answers]))
    return found


@dataclass
class Run:
    """What the hardware did."""

    # Frames by number, in the order of decisions, each with why it was dropped; those that the entry refused or lost.
    decided: list[tuple[int, str]]
    refused: list[int]
    lost: list[int]
    # First and last cycle, by number; of what left with the edge and the frame.
    came: dict[int, tuple[int, int]]
    left: list[tuple[int, int, int, str]]


def simulate(program: Path, told: list[str]) -> list[Run]:
    """The runs that are among the lines. Raises AssertionError at what must never be."""
    runs = []
    for line, said in zip(told, lines.converse([program], told), strict=True):
        if line != "run":
            continue
        run = Run([], [], [], {}, [])
        for what, *words in said:
            match what:
                case "done":
                    run.decided.append((int(words[0]), words[1]))
                case "refused":
                    run.refused.append(int(words[0]))
                case "lost":
                    run.lost.append(int(words[0]))
                case "in":
                    run.came[int(words[0])] = int(words[1]), int(words[2])
                case "out":
                    run.left.append((int(words[0]), int(words[1]), int(words[2]), words[3]))
        runs.append(run)
    return runs


def answers(told: list[str]) -> list[list[str]]:
    """What the engine answers, line by line."""
    said = lines.converse([inc_build.engine("answers")], told)
    return [[" ".join(words) for words in answer[:-1]] for answer in said]


def random_cases(seed: int, count: int, shape: inc_build.Shape, mtu: int = 64) -> list[list[Step]]:
    """Random groups of neighbours, which the engine has answered."""
    command = [str(inc_build.engine("vectors")), *map(str, (seed, count, shape.ports, shape.slots // 2, mtu))]
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(command, stdout=file, check=True)
        return cases(Path(file.name))


def by_edge(frames: list[tuple[int, str]]) -> dict[tuple[int, bool], list[str]]:
    """Frames of each edge in order, acknowledges apart: those go before others, as no neighbour minds."""
    found: dict[tuple[int, bool], list[str]] = {}
    for edge, hexadecimal in frames:
        is_ack = int(hexadecimal[2 * BTH : 2 * BTH + 2], 16) == ACKNOWLEDGE
        found.setdefault((edge, is_ack), []).append(hexadecimal)
    return found


def difference(run: Run, steps: list[Step]) -> str:
    """How the hardware's answers differ from those of the engine, whose steps are the hardware's decisions in their order; nothing if they do not."""
    reasons = [reason for _, reason in run.decided]
    for number, (reason, step) in enumerate(zip(reasons, steps, strict=True)):
        drops = [line.split()[2] for line in step.answers if line.startswith("drop")]
        if reason != (drops[0] if drops else "accepted"):
            return f"decision {number}: expected {drops}, found {reason}; {step.told[:150]}"
    expected = by_edge([(int(line.split()[1]), line.split()[2]) for step in steps for line in step.answers if line.startswith("out")])
    found = by_edge([(edge, frame) for edge, _, _, frame in run.left])
    for key in sorted(expected.keys() | found.keys()):
        want, have = expected.get(key, []), found.get(key, [])
        if want != have:
            at = next((i for i, (a, b) in enumerate(zip(want, have)) if a != b), min(len(want), len(have)))
            return f"edge {key[0]}, {'acknowledge' if key[1] else 'packet'} {at} of {len(want)} (found {len(have)}):\nexpected {want[at : at + 1]}\nfound    {have[at : at + 1]}"
    return ""


def in_order(case: list[Step], run: Run) -> list[Step]:
    """A case as the hardware decided it, with the engine's answers to that order."""
    frames = [step.told for step in case[1:]]
    told = [case[0].told, *(frames[number] for number, _ in run.decided)]
    return [Step(line, said) for line, said in zip(told[1:], answers(told)[1:], strict=True)]


def hold(test: unittest.TestCase, case: list[Step], run: Run) -> None:
    """Holds a run to the engine."""
    told = {number: case[1 + number] for number in run.refused}
    test.assertFalse([step.told[:200] for step in told.values() if not any(line.endswith("entry") for line in step.answers)])
    test.assertEqual(len(run.decided) + len(run.refused) + len(run.lost), len(case) - 1)
    test.assertEqual(difference(run, in_order(case, run)), "", case[0].told)
