#!/usr/bin/env python3
"""Builds the simulators of the blocks: `simulators.py BLOCK NAME=VALUE...` says where the one with these parameters is.

It is the compiler's time that counts:
- Of a module that is there many times Verilator writes the code once if all of its copies are alike, to the names of their inputs. So these are kept,
  where they would be replaced by what the wires outside are called (`copies`); and functions of such a module are not put in place (`no_inline_task`).
- Verilator writes a file or more for each module, most of them small, and half of a compiler's time goes into what each of them includes. They are
  compiled many at a time.
- What runs once is not optimised, all else by -O1: it runs as fast as by -Os, Verilator's own choice, and takes half as long to compile.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import ClassVar

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent.parent / "tools")]

import rtl_tools
from rtl_tools import BUILD, RTL

# Bytes of C++ that are worth a compiler of their own.
UNIT = 6_000_000
# An input of a module, which has a line to itself.
INPUT = re.compile(r"^\s*input\s[^,;/]*?(\w+)\s*,?\s*$", re.M)
CLOCK = re.compile(r"clk|rst")
COMPILER = ["g++", "-std=c++17", "-pthread", "-w", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE=0"]


@dataclass(frozen=True)
class Block:
    """A folder of rtl/ with tb/sim.cpp, the main program; the module that it drives, as Vtop; modules that are there many times; sources beside those of the folder and of prim."""

    name: str
    top: str
    copies: str
    more: tuple[str, ...] = ()

    def sources(self) -> list[Path]:
        found = [*rtl_tools.prim_sources(), *sorted((RTL / self.name / "rtl").glob("*.sv"))]
        return [*rtl_tools.packages_first(found), *(RTL / self.name / path for path in self.more)]

    def settings(self) -> str:
        """What Verilator is told of the copies: each stays a module, and keeps its inputs but for clocks and resets."""
        lines = ["`verilator_config"]
        files = {path.stem: path for path in self.sources()}
        for module in self.copies.split():
            lines.append(f'no_inline -module "{module}"')
            inputs = [name for name in INPUT.findall(files[module].read_text()) if not CLOCK.search(name)]
            lines += [f'public_flat_rd -module "{module}" -var "{name}"' for name in inputs]
        return "".join(f"{line}\n" for line in lines)


OF_SWITCH = "prim_add_fp32 port_analyzer frame_analyzer cross_fifo_rx cross_fifo_tx forwarding_table output_arbiter frame_assembler aggregation_frame_handler prim_fifo_async prim_fifo_sync"
SWITCH = Block("allreduce_switch", "observed_switch", OF_SWITCH, ("tb/observed_switch.sv",))
SCIN = Block("scin_isa", "scin_switch", "prim_add_lane prim_add_fp32 dequantizer code_divider switch_port isa_receiver read_issuer write_issuer")
INC = Block("inc_engine", "inc_engine", "reduce_lane prim_add_fp32 delay_line crc_block port_receiver port_sender packet_reader page_pool slot_table group_control")
CAIS = Block("cais_merge", "cais_merge", "prim_add_lane prim_add_fp32 lookup_table access_order")
BLOCKS = {block.name: block for block in (SWITCH, SCIN, INC, CAIS)}


class Shape:
    """Parameters of a block's top module: a dataclass has them as fields, by their names in small letters."""

    block: ClassVar[Block]

    def parameters(self) -> dict[str, int]:
        return {name.upper(): value for name, value in vars(self).items()}

    def simulator(self) -> Path:
        return simulator(self.block, self.parameters())


def simulator(block: Block, parameters: dict[str, int]) -> Path:
    """The simulator of a block, built if its sources have changed. The main program finds the parameters as macros."""
    folder, sources, settings = RTL / block.name / "tb", block.sources(), block.settings()
    command = ["verilator", "--cc", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal", "--output-split", "1000000"]
    command += ["--prefix", "Vtop", "--top-module", block.top, *(f"-G{name}={value}" for name, value in parameters.items())]
    name = "-".join(["sim", block.name, *map(str, parameters.values())])
    whole = rtl_tools.digest([*sources, folder / "sim.cpp", RTL / "bench/sim.h", Path(__file__)], *command, settings)
    program = BUILD / f"{name}-{whole}/sim"
    with rtl_tools.alone(name):
        if not program.exists():
            for old in BUILD.glob(f"{name}-*/"):
                shutil.rmtree(old)
            program.parent.mkdir(parents=True)
            (program.parent / "copies.vlt").write_text(settings)
            rtl_tools.run([*command, "--Mdir", program.parent, "copies.vlt", *sources], program.parent)
            compile_all(folder / "sim.cpp", program, [f"-D{key}={value}" for key, value in parameters.items()])
    return program


def compile_all(main: Path, program: Path, macros: list[str]) -> None:
    """Compiles what Verilator has written beside the program, and the main program."""
    folder = program.parent
    written = sorted(folder.glob("*.cpp"), key=lambda path: -path.stat().st_size)
    once = [path for path in written if "__Slow" in path.name or "__Syms" in path.name]
    often = [path for path in written if path not in once]
    # Of nearly the same size: each file into the one that is smallest so far.
    parts: list[list[Path]] = [[] for _ in range(1 + sum(path.stat().st_size for path in often) // UNIT)]
    for path in often:
        min(parts, key=lambda part: sum(each.stat().st_size for each in part)).append(path)
    units = [(f"often_{number}", "-O1", part) for number, part in enumerate(parts)] + [("once", "-O0", once), ("main", "-O1", [main])]
    with ThreadPool(os.cpu_count() or 1) as pool:
        objects = pool.starmap(compile_unit, [(folder, *unit, macros) for unit in units], 1)
    # Under another name until it is whole.
    unfinished = folder / "unfinished"
    rtl_tools.run(["g++", "-pthread", *objects, library(), "-o", unfinished], folder)
    unfinished.rename(program)


def include() -> Path:
    return Path(rtl_tools.run(["verilator", "--getenv", "VERILATOR_ROOT"], RTL).strip()) / "include"


def compile_unit(folder: Path, name: str, level: str, files: list[Path], macros: list[str]) -> Path:
    """Compiles files as one: the object."""
    source = folder / f"{name}.cc"
    source.write_text("".join(f'#include "{file}"\n' for file in files))
    rtl_tools.run([*COMPILER, level, *macros, f"-I{folder}", f"-I{include()}", f"-I{include()}/vltstd", "-c", source], folder)
    return source.with_suffix(".o")


def library() -> Path:
    """Verilator's own library, which all simulators have in common: the object."""
    files = [include() / "verilated.cpp", include() / "verilated_threads.cpp"]
    folder = BUILD / f"verilated-{rtl_tools.digest(files, *COMPILER)}"
    with rtl_tools.alone("verilated"):
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            compile_unit(folder, "library", "-O0", files, [])
            (folder / "complete").touch()
    return folder / "library.o"


def main(words: list[str]) -> None:
    found = [re.fullmatch(r"([A-Z0-9_]+)=(\d+)", word) for word in words[1:]]
    if not words or words[0] not in BLOCKS or None in found:
        sys.exit(f"simulators.py: expected one of {', '.join(BLOCKS)} and NAME=NUMBER of its parameters, found {' '.join(words) or 'nothing'}; rtl/README.md has an example")
    print(simulator(BLOCKS[words[0]], {name: int(value) for name, value in (match.groups() for match in found)}))


if __name__ == "__main__":
    main(sys.argv[1:])
