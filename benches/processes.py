"""What benches that kill processes share: a free port, processes in sessions of their own that all end with their owner, and what the command
says as JSON. Needs Python 3.11, nothing else; Linux."""

import ctypes
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import IO

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def held(process: int) -> tuple[int, int]:
    """Bytes of memory and open files."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{process}/fd").iterdir()))


def groups_in_file(store: Path) -> list[int]:
    """Numbers of the groups that a manager's file has. The manager has it locked as long as it lives: a copy is read."""
    with tempfile.TemporaryDirectory() as folder:
        for part in store.parent.glob(f"{store.name}*"):
            shutil.copy(part, folder)
        with sqlite3.connect(Path(folder) / store.name) as database:
            return [number for (number,) in database.execute("select number from groups")]


def asked(command: list[str], timeout: float = 10) -> dict | None:
    """What a command prints as JSON; none if it fails or does not end."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(found.stdout) if found.returncode == 0 else None


def ends_with_its_parent() -> None:
    """To be called between fork and exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Processes:
    """Processes by name, each in a session of its own with all that it starts. Nobody reads what one says that was asked for no pipe."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(
        self, name: str, command: list[str], environment: dict[str, str] | None = None,
        stdout: int | IO = subprocess.PIPE, stderr: int | IO = subprocess.DEVNULL, stdin: int | None = None,
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, text=True, env=environment, start_new_session=True, preexec_fn=ends_with_its_parent
        )
        self.processes[name] = process
        return process

    def kill(self, name: str) -> None:
        """One, and what it has opened here."""
        process = self.processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def close(self) -> None:
        """All of them, with all that they have started."""
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass
