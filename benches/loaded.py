#!/usr/bin/env python3
"""Runs the tests beside busy loops, again and again, and prints how often each program of tests ended as it should.

    python3 benches/loaded.py [--rounds N] [--load N] [--only TEXT] [--all] [--log FILE]

Tests that wait for a socket, a process or a thread are those that a busy machine can make fail, so those run: the rooms of machine,
drivers, processes, applications and the manager's protocol, the conformance of designs, and the Python package with its examples. --all
adds the rooms that only compute, and the command's simulations: they know no clock, and take a round from half an hour to several.

Everything is compiled first, without the load, as `cargo test --workspace` does it. A program that has not ended within an hour has failed,
and its processes are ended. A line for each program goes to standard output as it ends, and to --log; what a program that failed
has printed lies beside the log, in FILE.ROUND.PROGRAM. Exit status 1 if one failed.

Needs Python 3.11, cargo, and root for what needs namespaces; Linux.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ["--features", "quincunx-cli/etcd"]
LONGEST = 3600

# What waits for something: folders below crates/.
WITH_CLOCKS = ("machine/", "drivers/net", "drivers/verbs", "drivers/hardware", "processes/", "apps/", "control/grpc", "studies/conformance")
# Tests of programs with clocks that have none themselves.
ONLY_COMPUTE = {"apps/cli": ["--skip", "simulations::"]}
IN_PYTHON = {
    "python/quincunx/tests": "python/quincunx/tests/requirements.txt",
    "nccl/tests": "python/quincunx/tests/requirements.txt",
    "openmpi/tests": "python/quincunx/tests/requirements.txt",
    "examples/tests": "examples/tests/requirements.txt",
}


class Program:
    """A program of tests: what it is called, how it is started and where."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name, self.command, self.folder = name, command, folder


def compiled(everything: bool) -> list[Program]:
    """The tests in Rust, which are compiled if they are not yet."""
    build = subprocess.run(
        ["cargo", "test", "--workspace", *FEATURES, "--no-run", "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    programs = []
    for line in build.stdout.splitlines():
        made = json.loads(line)
        if made.get("reason") != "compiler-artifact" or not made.get("executable") or not made["profile"]["test"]:
            continue
        folder = Path(made["manifest_path"]).parent
        room = str(folder.relative_to(ROOT)).removeprefix("crates/")
        if everything or f"{room}/".startswith(WITH_CLOCKS):
            skip = [] if everything else ONLY_COMPUTE.get(room, [])
            programs.append(Program(f"{room} {made['target']['name']}", [made["executable"], *skip], folder))
    return programs


def in_python() -> list[Program]:
    """The tests in Python, each in the environment that `make test` gives it."""
    environment = [sys.executable, "tools/python_environment.py"]
    return [Program(tests, [*environment, needs, "-m", "unittest", "discover", "-v", "-s", tests], ROOT) for tests, needs in IN_PYTHON.items()]


def ended_well(program: Program, log: Path) -> bool:
    """Runs a program, what it prints into `log`."""
    with log.open("w") as out, subprocess.Popen(
        program.command, cwd=program.folder, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            return process.wait(LONGEST) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out.write(f"ended after {LONGEST} s\n")
            return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="how often everything runs (default: %(default)s)")
    parser.add_argument("--load", type=int, default=8, metavar="N", help="busy loops beside it (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name has this text")
    parser.add_argument("--all", action="store_true", help="those that only compute, too")
    parser.add_argument("--log", type=Path, metavar="FILE", help="adds the lines to a file")
    asked = parser.parse_args()

    programs = [program for program in compiled(asked.all) + in_python() if asked.only in program.name]
    if not programs:
        print(f"expected programs of tests whose name has {asked.only!r}, found none; without --only all run", file=sys.stderr)
        return 2
    log = asked.log or Path(tempfile.mkdtemp(prefix="quincunx-loaded-")) / "log"
    well, failed = Counter(), Counter()

    def say(line: str) -> None:
        print(line, flush=True)
        with log.open("a") as file:
            file.write(line + "\n")

    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(asked.load)]
    try:
        for turn in range(asked.rounds):
            for program in programs:
                start = time.monotonic()
                out = log.with_name(f"{log.name}.{turn}.{program.name.replace('/', '_').replace(' ', '_')}")
                is_well = ended_well(program, out)
                (well if is_well else failed)[program.name] += 1
                took, load = time.monotonic() - start, os.getloadavg()[0]
                say(f"{turn:>3}  {program.name:<44} {'well' if is_well else 'FAILED':<6} {took:>6.0f} s  load {load:>4.1f}")
                if is_well:
                    out.unlink()
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        for loop in loops:
            loop.kill()
    print("")
    for program in programs:
        runs = well[program.name] + failed[program.name]
        print(f"{program.name:<44} {well[program.name]:>3} of {runs} well")
    print(f"{well.total()} of {well.total() + failed.total()} well" + (f"; what failed has printed: {log}.*" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
