#!/usr/bin/env python3
"""Runs Python with the packages of a requirements file: `python_environment.py REQUIREMENTS ARGUMENT...`.

The environment lies in `.venv/`, one for each content of the file, and is made at first use. Where that cannot be done,
say without a package registry, it says why and runs the Python that there is: tests that need the packages skip.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def python_with(requirements: Path) -> Path:
    """The interpreter of the environment, which is made if it is not there.

    Raises OSError or CalledProcessError if it cannot be.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(version.encode() + requirements.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".venv" / f"{requirements.parent.name}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", requirements], check=True)
        (folder / "complete").touch()
    return python


def main() -> None:
    requirements, arguments = Path(sys.argv[1]), sys.argv[2:]
    try:
        python = str(python_with(requirements))
    except (OSError, subprocess.CalledProcessError) as error:
        found = f"pip's status {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else error
        print(f"expected to install {requirements}, found {found}; going on with {sys.executable}", flush=True)
        python = sys.executable
    # Experiments run as many processes as there are cores; threads of numpy would only get in their way.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.execv(python, [python, *arguments])


if __name__ == "__main__":
    main()
