#!/usr/bin/env python3
"""Gates and bits of memory of CAIS's merge unit (V-D) on an open library of 180 nm, by Yosys: `area.py` writes `rtl/cais_merge/area.toml`, in some seven minutes of
one core. The library is osu018 of Debian's `qflow-tech-osu018`.

Memories are counted in bits and are not mapped: what an FPGA or a process has for them is not in the library. A gate is an area of NAND2X1.
"""

import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent.parent / "tools")]

import rtl_tools
import simulators

LIBRARY = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
AREA = rtl_tools.RTL / "cais_merge/area.toml"
# Those of a port, and the one of a switch.
MODULES = ("merge_control", "packet_mover", "packet_splitter", "group_sync_table")
HEAD = """# CAIS's merge unit with the paper's table, eight accelerators, on osu018 (180 nm): gates are areas of NAND2X1; bits of memory are not in them.
# Written by rtl/bench/area.py; rtl/cais_merge/README.md has it as a table.
"""


def measure(module: str, gate: float) -> dict[str, float]:
    folder = rtl_tools.BUILD / f"area-{module}"
    folder.mkdir(parents=True, exist_ok=True)
    script = f"read_verilog -sv {' '.join(map(str, simulators.CAIS.sources()))}; hierarchy -check -top {module}; proc; flatten; opt; memory -nomap; opt; tee -q -o memories dump t:$mem_v2; "
    script += f"techmap; opt; dfflibmap -liberty {LIBRARY}; abc -liberty {LIBRARY}; opt_clean; tee -q -o stat stat -liberty {LIBRARY}"
    rtl_tools.run(["yosys", "-q", "-p", script], folder)
    area = float(re.search(r"Chip area for module .*: ([\d.]+)", (folder / "stat").read_text())[1])
    parameters = re.findall(r"parameter \\(SIZE|WIDTH) (\d+)", (folder / "memories").read_text())
    sizes = [int(number) for name, number in parameters if name == "SIZE"]
    widths = [int(number) for name, number in parameters if name == "WIDTH"]
    return {"gates": round(area / gate), "mm2": round(area / 1e6, 3), "bits": sum(words * bits for words, bits in zip(sizes, widths, strict=True))}


def main() -> None:
    if not LIBRARY.exists():
        sys.exit(f"area.py: expected {LIBRARY}, found nothing; apt-get install qflow-tech-osu018")
    cell = LIBRARY.read_text()
    gate = float(re.search(r"area\s*:\s*([\d.]+)", cell[cell.index("cell (NAND2X1)") :])[1])
    tables = []
    for module in MODULES:
        found = measure(module, gate)
        print(f"{module}: " + ", ".join(f"{number:,} {what}" for what, number in found.items()), flush=True)
        tables.append(f"\n[{module}]\n" + "".join(f"{what} = {number}\n" for what, number in found.items()))
    AREA.write_text(HEAD + "".join(tables))


if __name__ == "__main__":
    main()
