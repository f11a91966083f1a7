#!/usr/bin/env python3
"""Resources of the switch by number of ports, mapped to UltraScale by Yosys (figure 16): `synthesise.py` for 2 to 8 ports, or `synthesise.py PORTS...`.

Without arguments it writes `rtl/allreduce_switch/resources.toml`, in some sixteen minutes of one core; with them it prints alone. Each module with its
parameters is mapped once by itself and counted as often as it is there, so that nothing is optimised across modules. The large buffers
(`prim_ram_1r1w`) are not mapped, for that takes Yosys long and gives what their sizes say: 72 bits by 512 words, 36 by 1,024, and so on.
"""

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent.parent / "tools")]

import rtl_tools

RESOURCES = rtl_tools.RTL / "allreduce_switch/resources.toml"
PORTS = range(2, 9)
# Words and bits of a RAMB36.
SHAPES = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
# LUTs of a memory in LUTs, by what a cell's name has; of all others two.
MEMORY_LUTS = {"RAM64M8": 8, "RAM32M16": 8, "RAM64M": 4, "RAM32M": 4, "RAM128X1D": 4, "RAM256X1S": 4}
# What resources.toml says of itself.
HEAD = """# What the switch takes of an UltraScale device, by number of ports: 4 flows of 128 frames. Written by `make synth-rtl` (rtl/bench/synthesise.py),
# which says how it counts; rtl/allreduce_switch/README.md has it as a table and as a figure.
"""


def block_rams(words: int, bits: int) -> int:
    return min(-(-words // deep) * -(-bits // wide) for deep, wide in SHAPES)


def buffers(ports: int) -> int:
    """RAMB36 of the buffers of 4 flows of 128 frames: payload and header of each port, and the sums. Where a frame goes fits into LUTs."""
    places = 512
    return ports * (block_rams(places * 128, 64) + block_rams(places * 16, 64)) + block_rams(places * 128, 64)


def memory_luts(cell: str) -> int:
    return 0 if cell.startswith("RAMB") else MEMORY_LUTS.get(cell, 2)


def count(ports: int) -> dict[str, int]:
    """LUTs, flip-flops and RAMB36 (two RAMB18 are one)."""
    folder = rtl_tools.BUILD / f"synth-{ports}"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [source for source in rtl_tools.switch_sources() if source.stem != "prim_ram_1r1w"]
    box = folder / "prim_ram_1r1w.sv"
    text = (rtl_tools.RTL / "prim/ram/rtl/prim_ram_1r1w.sv").read_text()
    head = text[: text.index(");\n", text.index(") (")) + 3]
    box.write_text("(* blackbox *)\n" + head[head.index("module") :] + "endmodule\n")
    script = f"read_verilog -sv {' '.join(map(str, [*sources, box]))}; chparam -set PORTS {ports} allreduce_switch; "
    script += "synth_xilinx -family xcu -top allreduce_switch -noiopad -noclkbuf; tee -o stat.txt stat"
    rtl_tools.run(["yosys", "-q", "-p", script], folder)
    stat = (folder / "stat.txt").read_text()
    cells = {name: int(number) for name, number in re.findall(r"^\s+(\w+)\s+(\d+)$", stat[stat.rindex("design hierarchy") :], re.M)}
    luts = sum(number for name, number in cells.items() if re.fullmatch(r"LUT\d|SRL\w+", name))
    luts += sum(number * memory_luts(name) for name, number in cells.items() if name.startswith("RAM"))
    flip_flops = sum(number for name, number in cells.items() if re.fullmatch(r"FD\w+", name))
    small = cells.get("RAMB18E2", 0)
    return {"luts": luts, "flip-flops": flip_flops, "block-rams": buffers(ports) + cells.get("RAMB36E2", 0) + -(-small // 2)}


def main() -> None:
    ports = [int(word) for word in sys.argv[1:]] or list(PORTS)
    counts = []
    for each in ports:
        counts.append(count(each))
        print(f"{each} ports: " + ", ".join(f"{number:,} {what}" for what, number in counts[-1].items()), flush=True)
    if not sys.argv[1:]:
        lines = [f"{what} = [{', '.join(f'{each[what]:_}' for each in counts)}]" for what in counts[0]]
        RESOURCES.write_text("\n".join([f"{HEAD}ports = {ports}", *lines]) + "\n")


if __name__ == "__main__":
    main()
