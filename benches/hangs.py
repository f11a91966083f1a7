#!/usr/bin/env python3
"""Makes a job hang in nine ways, and asks `quincunx group waits` each time what is the matter: what it says, and how long that takes.

    python3 benches/hangs.py QUINCUNX [--only KIND,...] [--within 2]

Three ranks in Python call AllReduce, and rank 1, the switch or the manager does something else. The answer must name what it is within --within
seconds, while the job hangs. Where it can, the job goes on afterwards and must be right. A machine that is cut off needs namespaces: it is left out without root.
The package must be importable (PYTHONPATH), and so must NumPy.

Needs Python 3.11; Linux.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Options of `quincunx run`, and what the answer says.
KINDS = {
    "dead": ([], r"is over: node \"rank1\""),
    "stopped": ([], r"rank 1 \(rank1\) does not answer, though its machine takes what is sent to it: its process is stopped"),
    "cut-off": (["--link", "netns"], r"rank 1 \(rank1\) is cut off"),
    "not-called": ([], r"rank 1 \(rank1\) has not called it: its last, all_gather .* at \S+hangs\.py:\d+ \(number 1\)"),
    "computes": ([], r"rank 1 \(rank1\) has not called it: .*it computes, or waits for something else"),
    "message": ([], r"rank 1 \(rank1\) has not called it: .*it waits in receive from rank 0 with tag 7 at \S+ for \"rank0\""),
    "opposite-order": ([], r"rank 1 \(rank1\) has called nothing yet; it waits in all_reduce .* of group \d+ \"\S+\"\) for \"rank0\""),
    "switch": ([], r"switch switch0 does not answer, though its machine takes what is sent to it: its process is stopped"),
    "manager": ([], r"expected .*manager"),
}


def ask(number: int) -> tuple[str, float]:
    """What the command says of a group, and after how many seconds."""
    begin = time.monotonic()
    command = [os.environ["HANGS_COMMAND"], "group", "waits", str(number), "--manager", os.environ["QUINCUNX_MANAGER"]]
    # In namespaces a manager asks for certificates.
    identity = os.environ.get("QUINCUNX_IDENTITY")
    command += ["--identity", identity] if identity else []
    ended = subprocess.run(command, text=True, capture_output=True, check=False)
    return ended.stdout + ended.stderr, time.monotonic() - begin


def ask_until(number: int, wanted: str) -> None:
    """Asks until it says so; prints how long the last answer took. What happens before a hang is complete is none of its."""
    end = time.monotonic() + 10
    while True:
        said, seconds = ask(number)
        if re.search(wanted, said):
            line = next(line for line in said.splitlines() if re.search(wanted, line))
            print(f"answer\t{seconds:.2f}\t{line.strip()}", flush=True)
            return
        if time.monotonic() > end:
            sys.exit(f"expected an answer with {wanted}, found: {said}")
        time.sleep(0.05)


def processes_of_run(word: str) -> list[int]:
    """Processes that `quincunx run` has started with this word as their command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int(re.search(r"PPid:\s+(\d+)", (folder / "status").read_text())[1])
        except (OSError, TypeError):
            continue
        if parent == os.getppid() and word.encode() in words[1:2]:
            found.append(int(folder.name))
    return found


def cut_off(what: str) -> None:
    """Nothing leaves this namespace any more, and its links stay up: "add"; or it does again: "del"."""
    for family in ("-4", "-6"):
        subprocess.run(["ip", family, "rule", what, "pref", "1", "blackhole"], check=True)


def rank(kind: str) -> None:
    """What a rank does."""
    import numpy

    import quincunx

    done = Path(os.environ["HANGS_FOLDER"]) / "done"
    wanted = KINDS[kind][1]
    group = quincunx.init()
    values = numpy.ones(1000, numpy.float32)
    pids = numpy.zeros((group.size, 1), numpy.int64)
    group.all_gather(numpy.array([os.getpid()]), pids)

    def until_asked() -> None:
        while not done.exists():
            time.sleep(0.01)

    if kind == "opposite-order":
        first, second = group.split(0), group.split(0)
        pending = (first if group.rank == 0 else second).all_reduce(values, wait=False)
        if group.rank == 0:
            # The world's two groups, and then two for each part.
            ask_until(3, wanted)
            done.touch()
        until_asked()
        other = (second if group.rank == 0 else first).all_reduce(numpy.ones(1000, numpy.float32), wait=False)
        pending.wait()
        other.wait()
    elif group.rank == 1 and kind not in ("switch", "manager"):
        if kind == "dead":
            os._exit(0)
        if kind == "cut-off":
            cut_off("add")
        if kind == "computes":
            while not done.exists():
                sum(range(10_000))
        if kind == "message":
            group.receive(numpy.empty(1), 0, tag=7)
        until_asked()
        if kind == "cut-off":
            cut_off("del")
        group.all_reduce(values)
    elif group.rank == 0:
        others = [int(pids[1, 0])] if kind == "stopped" else processes_of_run(kind) if kind in ("switch", "manager") else []
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        if kind in ("switch", "manager") and len(others) != 1:
            sys.exit(f"expected a process of the {kind}, found {others}")
        pending = group.all_reduce(values, wait=False)
        ask_until(1, wanted)
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        done.touch()
        if kind == "dead":
            os._exit(0)
        if kind == "message":
            group.send(numpy.zeros(1), 1, tag=7)
        pending.wait()
    else:
        try:
            group.all_reduce(values)
        except quincunx.GroupError:
            if kind != "dead":
                raise
            until_asked()
            os._exit(0)
    if not (values == group.size).all():
        sys.exit(f"expected {group.size}, found {values}")
    quincunx.shutdown()


def main() -> None:
    """Prints a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", metavar="QUINCUNX", help="the quincunx command")
    parser.add_argument("--only", default=",".join(KINDS), help="[default: all]")
    parser.add_argument("--within", type=float, default=2.0, help="seconds [default: 2]")
    options = parser.parse_args()
    print(f"{'hang':16}{'seconds':>8}  answer")
    failed = []
    for kind in options.only.split(","):
        more, _ = KINDS[kind]
        if "netns" in more and os.geteuid() != 0:
            print(f"{kind:16}{'-':>8}  left out: needs root")
            continue
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, HANGS_COMMAND=str(Path(options.command).resolve()), HANGS_FOLDER=folder, QUINCUNX_NOTICE="0s")
            started = [options.command, "run", "-n", "3", *more, "--", sys.executable, __file__, "--rank", kind]
            ended = subprocess.run(started, env=environment, text=True, capture_output=True, timeout=120, check=False)
        answer = next((line.split("\t") for line in ended.stdout.splitlines() if line.startswith("answer\t")), None)
        if answer is None or ended.returncode != 0 or float(answer[1]) > options.within:
            failed.append(f"{kind}: {ended.stderr.strip()[-1000:]}")
        seconds, line = answer[1:] if answer else ("-", "none")
        print(f"{kind:16}{seconds:>8}  {line}", flush=True)
    if failed:
        sys.exit(f"expected the cause within {options.within} s, and a right end, found otherwise:\n" + "\n".join(failed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2])
    else:
        main()
