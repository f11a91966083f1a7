"""Reads `vectors/allreduce-switch.txt`: frames that `wire` made, and what the engine answers to each."""

from pathlib import Path

VECTORS = Path(__file__).resolve().parents[3] / "vectors/allreduce-switch.txt"


def steps() -> list[tuple[list[str], list[list[str]]]]:
    """What the switch is told, each with what it answers."""
    found: list[tuple[list[str], list[list[str]]]] = []
    for line in VECTORS.read_text().splitlines():
        words = line.split()
        if words[0] == ">":
            found.append((words[1:], []))
        else:
            found[-1][1].append(words)
    return found
