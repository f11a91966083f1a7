#!/usr/bin/env python3
"""Builds the component for the Open MPI that `mpicc` is of: `python3 openmpi/build.py [FOLDER]`, of a folder with libquincunx.so.

The folder is target/release without an argument. The component is put into `openmpi` there, and finds the library in the folder above, or beside
itself. Needs a compiler and the headers of Open MPI's components (Debian: libopenmpi-dev). Ends with 1 if there are none, or if they do not fit.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent / "crates/apps/capi/include"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", "-shared"]


class Unbuilt(Exception):
    """Why there is no component, in a line."""


def build(folder: Path) -> Path:
    """Builds the component for a folder with the library; the folder that Open MPI finds it in."""
    if not (folder / "libquincunx.so").exists():
        raise Unbuilt(f"expected libquincunx.so in {folder}, found none; run `cargo build --release -p quincunx-capi`")
    if shutil.which("mpicc") is None:
        raise Unbuilt("expected mpicc, found none; install Open MPI with its headers (apt-get install libopenmpi-dev)")
    into = folder / "openmpi"
    into.mkdir(exist_ok=True)
    rpath = ["-Wl,-rpath,$ORIGIN", "-Wl,-rpath,$ORIGIN/.."]
    command = ["mpicc", *FLAGS, f"-I{INCLUDE}", HERE / "coll_quincunx.c", "-o", into / "mca_coll_quincunx.so", f"-L{folder}", "-lquincunx", *rpath]
    built = subprocess.run(command, text=True, stderr=subprocess.PIPE)
    if built.returncode != 0 or built.stderr:
        raise Unbuilt(f"expected the headers of Open MPI 4.1's components, found {built.stderr.strip()}; install libopenmpi-dev of 4.1")
    return into


if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "target/release"))
    except Unbuilt as why:
        sys.exit(f"error: {why}")
