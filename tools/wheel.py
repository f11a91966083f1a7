#!/usr/bin/env python3
"""Builds the wheels of the package and of the command, installs them into an empty environment and runs them there: `python3 tools/wheel.py`,
or `make test-wheel`.

Needs Rust and a package registry for maturin (QUINCUNX_WHEELS names a folder with both wheels that are built already, as
target/release-VERSION) and for pyarrow. An AllReduce runs in an environment that has nothing but the wheels: no torch, no NumPy; the command is
that of the wheel. Then pyarrow comes to it, and the README's simulation from Python runs. Where torch can be imported by the Python that runs
this, the README's ten lines are run by it, too, from the installed wheel. Prints what the wheels take; the exit status is 1 if the package's
is 10 MB or more, or if something fails.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 10_000_000
RANKS = 4

WITHOUT_TORCH = """
import array, sys
import quincunx

group = quincunx.init()
values = array.array("f", [group.rank + 1.0] * 1000)
group.all_reduce(values)
assert set(values) == {10.0}, values[0]
assert not {"torch", "numpy", "pyarrow", "matplotlib"} & set(sys.modules)
quincunx.shutdown()
"""


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    ended = subprocess.run(command, cwd=folder, text=True, capture_output=True, env=dict(os.environ, **environment))
    if ended.returncode != 0:
        raise SystemExit(f"expected exit status 0, found {ended.returncode} of {' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def built(folder: Path) -> Path:
    """The folder with the wheels, built as the README says."""
    if given := os.environ.get("QUINCUNX_WHEELS"):
        return Path(given).resolve()
    venv.create(folder / "build", with_pip=True)
    run(folder / "build/bin/pip", "install", "-q", "maturin>=1.9,<2")
    for of in ("quincunx", "command"):
        run(folder / "build/bin/maturin", "build", "--profile", "dist", "--strip", "-o", str(folder / "wheels"), folder=ROOT / "python" / of)
    return folder / "wheels"


def readme(before: str) -> str:
    """The code in Python that the README shows after these words."""
    text = (ROOT / "README.md").read_text()
    return re.search(re.escape(before) + r"\n\n```python\n(.*?)```", text, re.DOTALL)[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = built(folder)
        [package] = wheels.glob(f"quincunx-*_{platform.machine()}.whl")
        [command] = wheels.glob(f"quincunx_command-*_{platform.machine()}.whl")
        for wheel in (package, command):
            print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
        if package.stat().st_size >= MOST_BYTES:
            raise SystemExit(f"expected a wheel of less than {MOST_BYTES:,} bytes, found {package.stat().st_size:,}")
        venv.create(folder / "empty", with_pip=True)
        pip, python, program = (folder / "empty/bin" / each for each in ("pip", "python", "quincunx"))
        run(pip, "install", "-q", "--no-index", "--find-links", wheels, "quincunx[command]")
        script = folder / "script.py"
        script.write_text(WITHOUT_TORCH)
        run(program, "run", "-n", str(RANKS), "--", python, script)
        print(f"an AllReduce of {RANKS} ranks in an environment with the wheels alone: right")
        run(pip, "install", "-q", "--find-links", wheels, "quincunx[tables]")
        script.write_text(readme("The same from Python, as a table:"))
        # Nothing but the environment's own command, which is not on the PATH.
        print(run(python, script, QUINCUNX_COMMAND="", PATH="/usr/bin:/bin").rstrip())
        print("the README's simulation from Python, by the wheel's command: done")
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
            print("the README's lines with torch were not run: no torch here")
            return
        run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", folder / "site", package)
        script.write_text(readme("as `first.py`:"))
        printed = run(program, "run", "-n", str(RANKS), "--", sys.executable, script, PYTHONPATH=str(folder / "site"))
        if printed.count("tensor(6.)") != RANKS:
            raise SystemExit(f"expected tensor(6.) of each rank, found {printed}")
        print("the README's lines: right")


if __name__ == "__main__":
    main()
