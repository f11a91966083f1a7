#!/usr/bin/env python3
"""Resources of the switch by number of ports, mapped to UltraScale by Yosys: `synthesise.py [PORTS...]`; a table for the README.

LUTs and flip-flops are counted with `synth_xilinx`. Block RAM is counted from the memories as they stand in the sources (72 bits by 512 words,
36 by 1,024, and so on, the cheapest width for each), for mapping the large buffers takes Yosys long and gives the same.
"""

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent.parent / "tools")]

import rtl_tools

# The paper's device, XCVU190.
LUTS, FLIP_FLOPS, BLOCK_RAMS = 1_074_240, 2_148_480, 3_780
# Words and bits of a RAMB36.
SHAPES = ((512, 72), (1024, 36), (2048, 18), (4096, 9), (8192, 4), (16384, 2), (32768, 1))
# Smaller memories lie in LUTs.
SMALLEST_BITS = 8192


def block_rams(words: int, bits: int) -> int:
    return min(-(-words // deep) * -(-bits // wide) for deep, wide in SHAPES)


def memories(ports: int) -> int:
    """RAMB36 of a switch: FIFOs of whole frames, and the buffers of 4 flows of 128 frames."""
    places = 512
    of_port = block_rams(places * 128, 64) + block_rams(places * 16, 64) + block_rams(512, 68) + block_rams(512, 68 + ports)
    return ports * of_port + ports * (ports - 1) * block_rams(512, 68) + block_rams(places * 128, 64)


def count(ports: int) -> tuple[int, int]:
    """LUTs and flip-flops. Large memories are black boxes here."""
    folder = rtl_tools.BUILD / "synth"
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
    whole = stat[stat.rindex("design hierarchy") :] if "design hierarchy" in stat else stat
    cells = {name: int(number) for name, number in re.findall(r"^\s+(\w+)\s+(\d+)$", whole, re.M)}
    luts = sum(number for name, number in cells.items() if re.fullmatch(r"LUT\d", name))
    # Four LUTs for a memory of 64 words by 3 bits, two for one of 32 by 6, and so on.
    luts += sum(number * (8 if "M16" in name else 4 if name in ("RAM64M", "RAM32M") else 2) for name, number in cells.items() if name.startswith("RAM") and not name.startswith("RAMB"))
    luts += sum(number for name, number in cells.items() if name.startswith("SRL"))
    return luts, sum(number for name, number in cells.items() if re.fullmatch(r"FD\w+", name))


def main() -> None:
    print("| ports | LUT | of XCVU190 | flip-flops | of XCVU190 | RAMB36 | of XCVU190 |\n|---|---|---|---|---|---|---|")
    for ports in map(int, sys.argv[1:] or range(2, 9)):
        luts, flip_flops = count(ports)
        rams = memories(ports)
        shares = (luts, f"{luts / LUTS:.2%}", flip_flops, f"{flip_flops / FLIP_FLOPS:.2%}", rams, f"{rams / BLOCK_RAMS:.2%}")
        print(f"| {ports} | " + " | ".join(f"{share:,}" if isinstance(share, int) else share for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main()
