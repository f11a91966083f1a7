#!/usr/bin/env python3
"""Runs Python with the packages of a requirements file: `python_environment.py REQUIREMENTS ARGUMENT...`.

The environment lies in `.venv/`, one for each content of the file, and is made at first use. Where that cannot be done,
say without a package registry, it says why and runs the Python that there is: tests that need the packages skip. No wait for the network is
without end.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from needs import NO_ENVIRONMENT

ROOT = Path(__file__).resolve().parent.parent

INSTALL_SECONDS = 600
# How a file says what it takes, if that is much.
GIBIBYTES = re.compile(r"^# Takes (\d+) GiB", re.M)
# What pip says of a registry that it cannot reach, beside what else went wrong.
OUT_OF_REACH = re.compile(r"Connection|Retrying|timed out|Temporary failure|Name or service not known", re.I)


class Lacking(Exception):
    """There is no such environment here, for want of `remedy`; the message says what was found."""

    def __init__(self, remedy: str, found: str) -> None:
        super().__init__(found)
        self.remedy = remedy


def python_with(requirements: Path) -> Path:
    """The interpreter of the environment, which is made if it is not there.

    Raises Lacking if Python has no environments, the packages cannot be fetched, or there is no room for twice what they take. Whatever else goes wrong is a fault of the requirements, and ends the program.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(version.encode() + requirements.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".venv" / f"{requirements.parent.name}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        taken = GIBIBYTES.search(requirements.read_text(encoding="utf-8"))
        free = shutil.disk_usage(ROOT).free >> 30
        # pip unpacks what it has fetched beside it.
        if taken and free < 2 * int(taken[1]):
            raise Lacking("nothing", f"{free} GiB of disk, and they take {taken[1]} and as much to unpack")
        try:
            venv.create(folder, with_pip=True)
        except subprocess.CalledProcessError as error:
            raise Lacking("packages python3-venv", "a Python that makes no environments") from error
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command = [*install, "--timeout", "10", "--retries", "2", "-r", requirements]
        try:
            ended = subprocess.run(command, text=True, capture_output=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired as slow:
            raise Lacking("nothing", f"no end of pip after {INSTALL_SECONDS} s") from slow
        if ended.returncode != 0:
            said = ended.stderr.strip().splitlines() or [f"pip's status {ended.returncode}"]
            if unreachable := next((line for line in said if OUT_OF_REACH.search(line)), None):
                raise Lacking("nothing", unreachable.strip())
            sys.exit(f"expected to install {requirements}, found {said[-1]}; correct the requirements")
        (folder / "complete").touch()
    return python


def main() -> None:
    requirements, arguments = Path(sys.argv[1]), sys.argv[2:]
    try:
        python = str(python_with(requirements))
    except Lacking as why:
        print(f"expected to install {requirements}, found {why}; going on with {sys.executable}", flush=True)
        python = sys.executable
        os.environ[NO_ENVIRONMENT] = f"{why.remedy}: {why}"
    path = [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    # Experiments run as many processes as there are cores; threads of numpy would only get in their way.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.execv(python, [python, *arguments])


if __name__ == "__main__":
    main()
