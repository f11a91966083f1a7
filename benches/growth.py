#!/usr/bin/env python3
"""Shows how the cost of a simulation grows with the size, with the ranks, with loss, and with a model's hidden size.

    python3 benches/growth.py QUINCUNX [GROUP ...]

`make bench-growth` runs it, too. Each line is one `quincunx sim` in a process of its own: packets (frames on all links), steps of the
simulation, processor seconds, nanoseconds a packet, packets a processor second, and the most memory of the process.

Other work on the machine makes the seconds mean less: the load is printed first.

Needs Python 3.11; Linux.
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
    # Twice the hidden size: twice the bytes that are sent, four times the products.
    "hidden size, a sub-layer": [
        (f"{design} x{scale}", ["layer", "--model", "mega-gpt-4b", "--sublayer", "L2", "--design", design, "--set", f"layer.scale={scale}"])
        for design in ("cais", "sp-nvls")
        for scale in (1, 2, 4)
    ],
}


def measure(program: str, arguments: list[str]) -> tuple[int, int, float, float]:
    """Packets, steps, processor seconds and MiB of memory of one simulation: an AllReduce, unless the first argument is no option."""
    what = [] if arguments[0] == "layer" else ["all_reduce"]
    command = [program, "sim", *what, *arguments, "--json"]
    with tempfile.TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        process = os.posix_spawn(program, command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"expected exit status 0, found {os.waitstatus_to_exitcode(status)} of {' '.join(command)}")
        output.seek(0)
        row = json.load(output)["rows"][0]
    # A layer has packets and steps of each of its sub-layers.
    parts = row.get("sub_layers", [row])
    packets = sum(part.get("packets", part.get("frames")) for part in parts)
    steps = sum(part["steps"] for part in parts)
    return packets, steps, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


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
        print(f"\n| {name} | packets | steps | processor s | ns a packet | packets/s | memory MiB |\n|---|---|---|---|---|---|---|")
        for line, arguments in GROUPS[name]:
            packets, steps, seconds, memory = measure(program, arguments)
            rates = f"{seconds / packets * 1e9:,.0f} | {packets / seconds:,.0f}"
            print(f"| {line} | {packets:,} | {steps:,} | {seconds:.2f} | {rates} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
