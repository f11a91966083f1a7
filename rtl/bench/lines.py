"""Programs that answer lines: the simulators of the blocks (sim.h), and the engines' examples and references that stand beside them.

A line is a command and its words; any number of lines answer it, and one that begins with `end`. `error WHY` answers a line that makes no sense, and `fault WHAT` says
what must never be: both raise AssertionError here.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

# Characters that a pipe has room for: whoever tells no more than that at once never waits for one who waits for him.
ROOM = 32768


class Program:
    """A program that runs until it is closed. It hears what it is told when its answers are asked for."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.told: list[str] = []

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, *lines: str) -> None:
        self.told += lines

    def answers(self) -> list[list[list[str]]]:
        """Of each line that was told since: the lines that answer it, as words, the `end` among them."""
        told, self.told = self.told, []
        found: list[list[list[str]]] = []
        at = 0
        while at < len(told):
            first, room = at, ROOM
            # One line in any case: nothing is left to be said before it is heard whole.
            while at == first or (at < len(told) and len(told[at]) < room):
                self.process.stdin.write(told[at] + "\n")
                room -= len(told[at]) + 1
                at += 1
            self.process.stdin.flush()
            found += [self.answer(line) for line in told[first:at]]
        return found

    def answer(self, line: str) -> list[list[str]]:
        said: list[list[str]] = []
        while not said or said[-1][0] != "end":
            words = self.process.stdout.readline().split()
            assert words, f"{self.process.args} ended with {self.process.wait()} at {line[:200]}"
            said.append(words)
        wrong = [" ".join(words) for words in said if words[0] in ("error", "fault")]
        assert not wrong, f"{'; '.join(wrong[:5])}; at {line[:200]}"
        return said

    def ask(self, line: str) -> list[list[str]]:
        self.tell(line)
        return self.answers()[-1]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def vectors(path: Path) -> list[tuple[list[str], list[list[str]]]]:
    """Lines of a file of `vectors/`, told behind `> `, each with what answers it, all as words."""
    found: list[tuple[list[str], list[list[str]]]] = []
    for line in path.read_text().splitlines():
        words = line.split()
        if words[0] == ">":
            found.append((words[1:], []))
        else:
            found[-1][1].append(words)
    return found


def converse(command: Iterable[str | Path], lines: Iterable[str]) -> list[list[list[str]]]:
    """What a program answers to each line."""
    with Program(*command) as program:
        program.tell(*lines)
        return program.answers()
