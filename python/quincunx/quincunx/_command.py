"""Runs the `quincunx` command as a process: finds it, makes its arguments, reads what it prints, and turns its exit status into exceptions."""

from __future__ import annotations

import contextvars
import json
import numbers
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Names the command; else the one beside the interpreter runs, else the first on the PATH.
COMMAND = "QUINCUNX_COMMAND"
# Asks the command for lines that say how far it is.
LINES = "QUINCUNX_PROGRESS"

PROGRESS = "progress: "
ERROR = "error: "

# What one that is interrupted gets to end by itself.
END_SECONDS = 5
# A line of progress that is longer is cut: one that wraps cannot be written over.
MOST_COLUMNS = 120

# Set where somebody else says how far things are.
quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("quiet", default=False)


class InputError(ValueError):
    """The command refused its arguments or input; the message is its one line."""


class Line:
    """A line on standard error, in a terminal or a notebook, that is written over again and again, and leaves nothing."""

    def __init__(self) -> None:
        self._columns = 0

    def show(self, text: str) -> None:
        columns, _ = shutil.get_terminal_size((MOST_COLUMNS + 1, 24))
        text = text[: min(columns - 1, MOST_COLUMNS)]
        self._write("\r" + text.ljust(self._columns))
        self._columns = len(text)

    def clear(self) -> None:
        if self._columns:
            self._write("\r" + " " * self._columns + "\r")
            self._columns = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def command() -> Path:
    """The program. Raises FileNotFoundError if there is none."""
    if named := os.environ.get(COMMAND):
        if found := shutil.which(named):
            return Path(found)
        raise FileNotFoundError(f'expected a program, found none at "{named}" in {COMMAND}; correct it, or unset it')
    scripts = sysconfig.get_path("scripts")
    if found := shutil.which("quincunx", path=scripts) or shutil.which("quincunx"):
        return Path(found)
    raise FileNotFoundError(
        f"expected the quincunx command, found none in {scripts} or on the PATH; pip install quincunx[command], or name it in {COMMAND}"
    )


def text(value: Any) -> str:
    """A value as the command reads it: a list with commas, what can be true in small letters."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(text, value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (str, numbers.Number)):
        return str(value)
    raise TypeError(f"expected a text, a number, a path, or a list of them, found {type(value).__name__}; convert it")


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Keywords as the command's options: `early_timeouts=1` is `--early-timeouts=1`, True a flag, a dict the option again for each pair."""
    found = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(option)
        elif isinstance(value, Mapping):
            found += [f"{option}={key}={text(each)}" for key, each in value.items() if each is not None]
        else:
            found.append(f"{option}={text(value)}")
    return found


def run(*words: str, wrong_is_error: bool, **options: Any) -> dict[str, Any]:
    """What the command prints with `--json`. In a run of more than two seconds a line on standard error says how far it is.

    A wrong result is an object like any other, or with `wrong_is_error` a RuntimeError. Raises InputError for what the command refuses,
    KeyboardInterrupt if somebody interrupted it, RuntimeError if it breaks down, and FileNotFoundError if there is no command.
    """
    asked = [*map(text, words), *arguments(options), "--json"]
    status, printed, said = _run(asked)
    line = " ".join(said).removeprefix(ERROR)
    if status == 2:
        raise InputError(line)
    if status == 128 + signal.SIGINT:
        raise KeyboardInterrupt(line)
    if status not in (0, 1) or (status == 1 and (wrong_is_error or not printed)):
        raise RuntimeError(line if status == 1 else f"expected an end of quincunx {' '.join(asked)}, found status {status}: {line}")
    if status == 0 and line:
        warnings.warn(line, stacklevel=3)
    try:
        return json.loads(printed)
    except ValueError:
        raise InputError(f"expected options with which the command prints rows, found that it prints other text with {asked}") from None


def _run(asked: list[str]) -> tuple[int, str, list[str]]:
    """Exit status, standard output, and lines of standard error that are not about progress."""
    line, said = Line(), []
    with tempfile.TemporaryFile() as printed:
        # A file, for a pipe would fill up while nobody reads it.
        with subprocess.Popen(
            [command(), *asked],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, LINES: "1"},
        ) as process:
            try:
                assert process.stderr is not None
                for told in process.stderr:
                    if not told.startswith(PROGRESS):
                        said.append(told.strip())
                    elif not quiet.get():
                        line.show(told.removeprefix(PROGRESS).strip())
                status = process.wait()
            except BaseException:
                _end(process)
                raise
            finally:
                line.clear()
        printed.seek(0)
        return status, printed.read().decode(), said


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupts a process, as a terminal has perhaps done already, and kills it if it goes on."""
    process.send_signal(signal.SIGINT)
    limit = time.monotonic() + END_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    process.kill()
