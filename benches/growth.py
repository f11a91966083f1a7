#!/usr/bin/env python3
"""How the cost of a simulation grows with the size, with the ranks and with loss.

`python3 benches/growth.py QUINCUNX [GROUP ...]`, or `make bench-growth`. Each line is one `quincunx sim` in a process of its own:
packets (frames on all links), processor seconds, packets a processor second, and the most memory that the process had. Needs Linux and
Python 3.11. Other work on the machine makes the seconds mean less: the load is printed first.
"""

import json
import os
import sys
import tempfile

# What is simulated: its name, and the arguments of each line with what stands before it.
GROUPS = {
    "size, packet fabric": [
        (f"{design} {size}", ["--design", design, "--size", size])
        for design in ("epic-2", "epic-3", "netreduce", "ring")
        for size in ("4MiB", "16MiB", "64MiB", "256MiB")
    ],
    "size, memory fabric": [
        (f"{design} {size}", ["--fabric", "scin-dgx8", "--design", design, "--size", size])
        for design in ("scin", "nvls", "ring")
        for size in ("4MiB", "16MiB", "64MiB")
    ],
    # A switch of EPIC has at most 63 edges, so that more ranks are a tree.
    "ranks, ring on a star": [
        (f"ring {ranks} ranks", ["--fabric", f"star-{ranks}", "--design", "ring", "--size", "4MiB"])
        for ranks in (8, 32, 128, 512)
    ],
    "ranks, tree of switches": [
        (f"{design} {shape}", ["--fabric", shape, "--design", design, "--size", "4MiB"])
        for design in ("epic-2", "epic-3", "ring")
        for shape in ("tree-2x4", "tree-4x8", "tree-8x16", "tree-16x32")
    ],
    "loss on all links": [
        (f"{design} {loss}", ["--design", design, "--size", "16MiB", "--loss", f"{loss}@8"])
        for design in ("epic-2", "epic-3", "ring")
        for loss in ("0%", "0.1%", "1%", "5%")
    ],
}


def measure(program: str, arguments: list[str]) -> tuple[int, float, float]:
    """Packets, processor seconds and MiB of memory of one simulation."""
    command = [program, "sim", "all_reduce", *arguments, "--json"]
    with tempfile.TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        process = os.posix_spawn(program, command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"expected exit status 0, found {os.waitstatus_to_exitcode(status)} of {' '.join(command)}")
        output.seek(0)
        packets = json.load(output)["rows"][0]["frames"]
    return packets, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Prints a table a group."""
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        raise SystemExit("expected the quincunx command as the first argument; cargo build --release -p quincunx-cli makes it")
    program, wanted = sys.argv[1], sys.argv[2:] or list(GROUPS)
    for name in wanted:
        if name not in GROUPS:
            raise SystemExit(f'expected groups of {", ".join(GROUPS)}, found "{name}"')
    print(f"Load of the last minute: {os.getloadavg()[0]:.2f}")
    for name in wanted:
        print(f"\n| {name} | packets | processor s | packets/s | memory MiB |\n|---|---|---|---|---|")
        for line, arguments in GROUPS[name]:
            packets, seconds, memory = measure(program, arguments)
            print(f"| {line} | {packets:,} | {seconds:.2f} | {packets / seconds:,.0f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
