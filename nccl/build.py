#!/usr/bin/env python3
"""Builds NCCL's plugin: `python3 nccl/build.py [FOLDER]`, of a folder with libquincunx.so.

The folder is target/release without an argument. The plugin is put into `nccl` there, and finds the library in the folder above, or beside
itself. Needs a compiler of C, and nothing of NCCL. Ends with 1 if it is not built.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent / "crates/apps/capi/include"
SOURCES = ["plugin.c", "messages.c", "collectives.c"]
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread", f"-ffile-prefix-map={HERE}/=", "-fvisibility=hidden"]
# NCCL unloads the plugin, but not the threads of the library.
LINK = ["-lquincunx", "-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,-rpath,$ORIGIN", "-Wl,-rpath,$ORIGIN/.."]


class Unbuilt(Exception):
    """Why there is no plugin, in a line."""


def build(folder: Path) -> Path:
    """Builds the plugin for a folder with the library; the folder that NCCL finds it in."""
    if not (folder / "libquincunx.so").exists():
        raise Unbuilt(f"expected libquincunx.so in {folder}, found none; run `cargo build --release -p quincunx-capi`")
    into = folder / "nccl"
    into.mkdir(exist_ok=True)
    sources = [HERE / source for source in SOURCES]
    command = ["cc", *FLAGS, f"-I{INCLUDE}", *sources, "-o", into / "libnccl-net-quincunx.so", f"-L{folder}", *LINK]
    built = subprocess.run(command, text=True, stderr=subprocess.PIPE)
    if built.returncode != 0 or built.stderr:
        raise Unbuilt(f"expected the plugin to compile, found {built.stderr.strip()}; see the compiler (apt-get install gcc)")
    return into


if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "target/release"))
    except Unbuilt as why:
        sys.exit(f"error: {why}")
