"""Points of sweeps in a folder: each one's table is written when it is done, and found again by all that decides it.

A file is `POINT-CONTENT.arrow`: a hash of the function, its options and the program's build, then a hash of the file's bytes, so that what is
damaged, or another's, is known by its name. It is written beside and renamed, never half there. Its schema says which point it is; so does
`manifest.jsonl`, for people, with a line for each that was kept and for each that failed. Nothing here runs a point.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import inspect
import json
import numbers
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quincunx import _command

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "manifest.jsonl"
POINT = b"quincunx.point"

_NAME = re.compile(r"([0-9a-f]{24})-([0-9a-f]{24})\.arrow")


class Folder:
    """What is there of one function's points, and what comes to it."""

    def __init__(self, path: str | PathLike[str], function: Callable[..., Any]) -> None:
        """Makes the folder if there is none. Raises ValueError for a file in its place, and for a function without a source."""
        self._path = Path(path)
        try:
            self._source = inspect.getsource(function)
        except (OSError, TypeError):
            raise ValueError(f"expected a function whose source can be read, to keep its points, found {function!r}; define it in a file") from None
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f'expected a folder to keep points in, found a file at "{self._path}"; name another one') from None
        self._said = {"function": f"{function.__module__}.{function.__qualname__}", "build": _build()}
        self._files: dict[str, list[Path]] = {}
        for file in _files(self._path):
            self._files.setdefault(file.name[:24], []).append(file)
        self._listed = set(_listed(self._path / MANIFEST))
        # After an interrupt calls that are under way keep what they came to each in its own thread.
        self._telling = threading.Lock()

    def key(self, options: Mapping[str, Any]) -> str:
        """What decides a point, as a hash. Raises TypeError for an option that has no text."""
        plain = _plain("options", options)
        whole = {**self._said, "source": self._source, "options": plain, "files": dict(_contents(plain))}
        return _hash(json.dumps(whole, sort_keys=True).encode())

    def read(self, key: str, options: Mapping[str, Any]) -> pyarrow.Table | None:
        """The table that is kept of a point; None if there is none that is whole."""
        for file in self._files.get(key, []):
            if (table := _read(file)) is not None:
                # Whoever wrote it may have been killed before it said so.
                if file.name not in self._listed:
                    self._tell(file.name, options, rows=table.num_rows)
                return table
        return None

    def write(self, key: str, options: Mapping[str, Any], table: pyarrow.Table) -> None:
        """Keeps the table of a point."""
        import pyarrow

        said = json.dumps({**self._said, "options": _plain("options", options)})
        sink = pyarrow.BufferOutputStream()
        marked = table.replace_schema_metadata({**(table.schema.metadata or {}), POINT: said})
        with pyarrow.ipc.new_file(sink, marked.schema) as writer:
            writer.write_table(marked)
        content = sink.getvalue().to_pybytes()
        file = self._path / f"{key}-{_hash(content)}.arrow"
        handle, beside = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._path)
        try:
            with open(handle, "wb") as written:
                written.write(content)
            # A file system's own stamp is of a tick, in which several points may end, and it is by the stamp that they are in order.
            os.utime(beside, ns=(time.time_ns(), time.time_ns()))
            os.replace(beside, file)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        self._tell(file.name, options, rows=table.num_rows)
        # What was there of it could not be read.
        for damaged in self._files.pop(key, []):
            with contextlib.suppress(OSError):
                damaged.unlink()

    def fail(self, options: Mapping[str, Any], error: Exception) -> None:
        """Says in the manifest that a point has failed."""
        self._tell(None, options, error=f"{type(error).__name__}: {error}")

    def _tell(self, file: str | None, options: Mapping[str, Any], **more: Any) -> None:
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = json.dumps({"file": file, **more, "options": _plain("options", options), **self._said, "ended": ended}) + "\n"
        with self._telling, open(self._path / MANIFEST, "ab+") as manifest:
            # A line that was broken off stays alone.
            if manifest.tell():
                manifest.seek(-1, os.SEEK_END)
                line = line if manifest.read(1) == b"\n" else "\n" + line
            manifest.write(line.encode())


def points(path: str | PathLike[str]) -> list[tuple[dict[str, Any], pyarrow.Table]]:
    """All points in a folder that are whole, in the order in which they were kept: function, build and options of each, and its table.

    Raises FileNotFoundError if there are none.
    """
    whole: dict[str, pyarrow.Table] = {}
    for file in _files(Path(path)):
        if (table := _read(file)) is not None:
            # Of two of one point the later one.
            whole.pop(file.name[:24], None)
            whole[file.name[:24]] = table
    if not whole:
        raise FileNotFoundError(f'expected points that a sweep has kept, found none in "{path}"; name the folder that `keep` named')
    return [(json.loads(table.schema.metadata[POINT]), table) for table in whole.values()]


def _files(path: Path) -> list[Path]:
    """Files with names of points, in the order in which they were kept."""
    named = [file for file in path.iterdir() if _NAME.fullmatch(file.name)] if path.is_dir() else []
    return sorted(named, key=lambda file: (file.lstat().st_mtime_ns, file.name))


def _read(file: Path) -> pyarrow.Table | None:
    """The table in a file whose bytes are those that its name says."""
    import pyarrow

    try:
        content = file.read_bytes()
        named = _NAME.fullmatch(file.name)
        if named is None or named[2] != _hash(content):
            return None
        table = pyarrow.ipc.open_file(content).read_all()
    except (OSError, pyarrow.ArrowException):
        return None
    return table if POINT in (table.schema.metadata or {}) else None


def _listed(manifest: Path) -> Iterator[str]:
    """The files that a manifest names."""
    with contextlib.suppress(FileNotFoundError):
        for line in manifest.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, AttributeError):
                yield str(json.loads(line).get("file"))


def _build() -> str | None:
    """The command's bytes as a hash; None without one."""
    try:
        return _hash(_command.command().read_bytes())
    except FileNotFoundError:
        return None


def _contents(plain: Any) -> Iterator[tuple[str, str]]:
    """The files that texts name, with a hash of what is in them."""
    if isinstance(plain, str):
        # A text need not be a path at all: it may be too long, say.
        with contextlib.suppress(OSError, ValueError):
            if os.path.isfile(plain):
                yield plain, _hash(Path(plain).read_bytes())
    elif isinstance(plain, (list, dict)):
        for each in plain.values() if isinstance(plain, dict) else plain:
            yield from _contents(each)


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, PathLike):
        return os.fspath(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(name, each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(str(key), each) for key, each in value.items()}
    raise TypeError(f"expected a text, a number, a path, or a list or a dict of them for {name}, found {type(value).__name__}; convert it, or leave out keep")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
