#!/usr/bin/env python3
"""Builds the wheel, installs it into an empty environment and runs an AllReduce there: `python3 tools/wheel.py [QUINCUNX]`, or `make test-wheel`.

Needs Rust and a package registry for maturin (QUINCUNX_WHEEL names a wheel that is built already). The environment has nothing but the wheel:
no torch, no NumPy. Where torch can be imported by the Python that runs this, the README's ten lines are run by it, too, from the installed
wheel. Prints what the wheel takes; the exit status is 1 if that is 10 MB or more, or if something fails.
"""

import os
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
assert "torch" not in sys.modules and "numpy" not in sys.modules
quincunx.shutdown()
"""


def run(*command: str | Path, **environment: str) -> str:
    ended = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, env=dict(os.environ, **environment))
    if ended.returncode != 0:
        raise SystemExit(f"expected exit status 0, found {ended.returncode} of {' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def built(folder: Path) -> Path:
    """The wheel, built as the README says."""
    given = os.environ.get("QUINCUNX_WHEEL")
    if given:
        return Path(given)
    venv.create(folder / "build", with_pip=True)
    run(folder / "build/bin/pip", "install", "-q", "maturin>=1.9,<2")
    maturin = folder / "build/bin/maturin"
    run(maturin, "build", "--release", "--strip", "-m", "python/quincunx/Cargo.toml", "-o", str(folder / "wheels"))
    [wheel] = (folder / "wheels").glob("*.whl")
    return wheel


def first_lines() -> str:
    """The code that the README shows as first.py."""
    text = (ROOT / "README.md").read_text()
    return re.search(r"as `first.py`:\n\n```python\n(.*?)```", text, re.DOTALL)[1]


def main() -> None:
    program = sys.argv[1] if len(sys.argv) > 1 else "target/release/quincunx"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built(folder)
        size = wheel.stat().st_size
        print(f"{wheel.name}: {size:,} bytes")
        if size >= MOST_BYTES:
            raise SystemExit(f"expected a wheel of less than {MOST_BYTES:,} bytes, found {size:,}")
        venv.create(folder / "empty", with_pip=True)
        run(folder / "empty/bin/pip", "install", "-q", "--no-index", wheel)
        script = folder / "without_torch.py"
        script.write_text(WITHOUT_TORCH)
        run(program, "run", "-n", str(RANKS), "--", folder / "empty/bin/python", script)
        print(f"an AllReduce of {RANKS} ranks in an environment with the wheel alone: right")
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
            print("the README's lines were not run: no torch here")
            return
        run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", folder / "site", wheel)
        (folder / "first.py").write_text(first_lines())
        printed = run(program, "run", "-n", str(RANKS), "--", sys.executable, folder / "first.py", PYTHONPATH=str(folder / "site"))
        if printed.count("tensor(6.)") != RANKS:
            raise SystemExit(f"expected tensor(6.) of each rank, found {printed}")
        print("the README's lines: right")


if __name__ == "__main__":
    main()
