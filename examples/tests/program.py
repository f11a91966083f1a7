"""The program that the examples start, and whether it takes what they start it with."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

# More than a question to the program takes on a machine that is busy.
ANSWER_SECONDS = 60


@functools.cache
def program() -> Path:
    """Where the program is: what QUINCUNX_COMMAND names, or what is built here. Raises CalledProcessError if the build fails."""
    if named := os.environ.get("QUINCUNX_COMMAND"):
        return Path(named)
    # The packages that tests of the Python package build, too, with what else was built before: nothing is compiled anew.
    command = ["cargo", "build", "-q", "-p", "quincunx-python", "-p", "quincunx-cli", "-p", "quincunx-capi"]
    subprocess.run([*command, *os.environ.get("QUINCUNX_BUILD", "").split()], cwd=ROOT, check=True)
    found = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, check=True, capture_output=True)
    return Path(json.loads(found.stdout)["target_directory"]) / "debug/quincunx"


def ask(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([program(), *arguments], text=True, capture_output=True, timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL)


@functools.cache
def options(command: str) -> frozenset[str]:
    """The options of a command, as its help has them at the beginning of lines."""
    return frozenset(re.findall(r"^ {2,8}(?:-\w, )?(--[\w-]+)", ask(command, "--help").stdout, re.M))


@functools.cache
def refusal(*arguments: str) -> str | None:
    """Why the program does not take arguments, commands, options and values; None if it does. It does nothing else with them.

    With --help behind them the program reads all before, prints its help and ends.
    """
    command, *others = arguments
    named = {argument.partition("=")[0] for argument in others if argument.startswith("--")}
    if unknown := sorted(named - options(command)):
        return f"`quincunx {command}` has no {' and no '.join(unknown)}"
    ended = ask(*arguments, "--help")
    # Something that looks like an option may be taken for the value of the one before it, and --help itself, too.
    if ended.returncode != 0 or "Usage:" not in ended.stdout:
        return ended.stderr.strip() or f"`quincunx {' '.join(arguments)} --help` prints no help"
    return None
