#!/usr/bin/env python3
"""Checks that rooms import downward only, that state machines stay free of the world, and that no file above the engines names a design.

Reads the manifests and sources of the workspace: `python3 tools/layering.py [ROOT]`. Prints one line for each fault and
exits with status 1 if there is one. Needs Python 3.11, nothing else.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PREFIX = "quincunx-"

BASE = {"units", "wire", "collective", "fabric"}
PROTOCOLS = {"roce", "epic", "netreduce", "ring", "memory", "scin", "nvls", "cais", "multiwrite"}
MANAGED = (
    BASE
    | {"engine", "design", "designs", "network", "nodes", "control", "control-grpc", "driver-net"}
    | {"driver-verbs"}
    | PROTOCOLS
)

# Rooms that tests of any other may import, and nothing but tests.
FOR_TESTS = {"needs"}

# Who may import whom, from the bottom up. A new room gets a line here. That engines are not in each other's sets, nor
# drivers, nor anything above itself, is the point.
MAY_IMPORT: dict[str, set[str]] = {
    **{room: set() for room in sorted(FOR_TESTS)},
    "units": set(),
    "wire": {"units"},
    "collective": {"units"},
    "fabric": {"units", "collective"},
    "engine": {"units", "collective"},
    "network": {"units", "collective", "engine"},
    "design": BASE | {"engine"},
    **{protocol: BASE | {"engine", "design"} for protocol in PROTOCOLS},
    # The catalog: a line for each design.
    "designs": BASE | {"engine", "design"} | PROTOCOLS,
    # The catalog is for tests.
    "control": BASE | {"engine", "design", "designs"},
    "nodes": BASE | {"engine", "design"} | PROTOCOLS,
    "scenario": {"units", "collective", "fabric", "design", "designs"},
    # Other tools' files become files of a scenario's fabric, which tests read.
    "import": {"units", "scenario", "fabric", "design", "designs"},
    # Who stands where, and what each is told, by the manager's own policies; the catalog is for tests.
    "cluster": BASE | {"engine", "design", "designs", "memory", "nodes", "control", "scenario"},
    # Who computes what on an accelerator, and the packets of it; the ways to run a layer, each a value.
    "accelerator": BASE | {"engine", "memory"},
    "schedules": {"units", "collective", "accelerator"},
    # What is trained, and not how gradients are added up.
    "workload": {"units", "scenario"},
    "trace": {"units"},
    "report": set(),
    # Drivers know no protocol: what a frame is, their owner says.
    "driver-net": {"units", "collective", "engine", "network"},
    # No engine: queue pairs that somebody else executes.
    "driver-verbs": {"units", "engine"},
    "driver-des": {"units", "collective", "engine", "network"},
    "driver-check": {"units", "collective", "engine", "network"},
    # No design by name. The catalog is for its tests, and so are two protocols: one test has programs of its own above them.
    "sim": BASE
    | {"engine", "network", "memory", "design", "designs", "nodes", "scenario", "cluster", "workload", "trace", "driver-des"}
    # Schedules by their trait; their catalog is for tests.
    | {"accelerator", "schedules"}
    | {"multiwrite", "roce"},
    # What one driver has found wrong, another replays.
    "check": BASE
    | {"engine", "network", "design", "designs", "control", "nodes", "scenario", "cluster", "trace"}
    | {"driver-net", "driver-des", "driver-check"}
    # Studies of what is below designs.
    | {"roce", "multiwrite", "memory"},
    "control-grpc": BASE | {"control", "design", "designs"},
    "runtime": MANAGED,
    # What an application's program has of it, and its forms in other languages: the catalog is for those who start a program.
    "comm": MANAGED | {"runtime"},
    "capi": MANAGED | {"runtime", "comm"},
    "python": MANAGED | {"runtime", "comm"},
    "perf": MANAGED | {"scenario", "runtime", "comm", "report"},
    # Stands above all drivers: it alone may have them side by side.
    "conformance": MANAGED
    | {"runtime", "design", "designs", "scenario", "cluster", "driver-des", "driver-check"},
    "cli": MANAGED | {"runtime", "perf", "design", "designs", "scenario", "import", "schedules", "report", "sim", "check"},
}

# Rooms of pure state machines and data: `no_std`, so that a driver, a simulator and a checker can run the same code.
PURE = BASE | {"engine", "network", "design", "designs", "nodes", "control", "accelerator"} | PROTOCOLS

# What none of them may name, and what to use instead. `no_std` alone would let `extern crate std` in.
WORLD = [
    (re.compile(r"\bstd::time\b"), "take `now` as an argument; time is quincunx_units'"),
    (re.compile(r"\bstd::net\b"), "take frames as arguments; addresses are core::net's"),
    (re.compile(r"\bstd::thread\b"), "leave threads to the drivers"),
    (re.compile(r"\bstd::(env|fs|io|process)\b"), "leave the world to the rooms above"),
    (re.compile(r"\bHash(Map|Set)\b"), "use BTreeMap or BTreeSet: their order is the same in every run"),
    (re.compile(r"\b(rand|getrandom)::"), "let the driver hold the seed"),
]

COMMENT = re.compile(r"//.*$")

# Where designs are at home: their crates, the catalog with a line for each, and the schedules that are compared with each other.
HOMES = ("crates/engines/", "crates/designs/", "crates/schedules/")

# Names of designs and systems as they stand in code. Those that are words of the language too count as names where they are a whole
# text: "ring" in quotes is the design, a ring is a shape.
NAMED = re.compile(
    r"epic|scin|nvls|multiwrite|multi_write|netreduce|net_reduce|cais|unicast-multipath|"
    r"\"(?:ring|ring-rq|tree|direct|writes|unicast)\"",
    re.IGNORECASE,
)

# Files above the engines that name one all the same, each with the reason.
MAY_NAME = {
    "crates/wire/": "formats of frames: every system's are written and read in one place, as a dissector has them",
    "crates/check/src/multiwrite.rs": "a study: an engine below its design, with tables that no plan makes",
    "crates/check/src/study.rs": "the list of studies, which no catalog has",
    "crates/check/src/lib.rs": "the names of studies",
    "crates/cli/src/check.rs": "`tree` is a key of its rows",
    "crates/cli/src/checks.rs": "examples in the help",
    "crates/cli/src/compare.rs": "examples in the help",
    "crates/cli/src/demo.rs": "the presets that it shows",
    "crates/cli/src/group.rs": "examples in the help",
    "crates/cli/src/jobs.rs": "the example in the help; `tree` is a column",
    "crates/cli/src/layer.rs": "examples in the help, the default fabric, and the default of --design",
    "crates/cli/src/explain.rs": "a command about one system: no other has a compiler step",
    "crates/cli/src/lib.rs": "examples in the help, and that command",
    "crates/import/src/astra.rs": "a kind of dimension by ASTRA-sim's name for it",
    "crates/workload/src/profile.rs": "phases of profiles, which the file calls by the paper whose models they are of",
    "crates/cli/src/perf.rs": "examples in the help, and the default of --design",
    "crates/cli/src/report.rs": "an example in the help",
    "crates/cli/src/reproduce.rs": "examples in the help",
    "crates/cli/src/run.rs": "the default of --design",
    "crates/cli/src/sim.rs": "examples in the help, the default fabric, and the default of --design",
    "crates/cli/src/train.rs": "examples in the help, the default fabric, and the default of --design",
    "crates/cli/src/traffic.rs": "examples in the help, and the default fabric",
    "crates/comm/src/options.rs": "the default of what groups run, which the environment may change",
    "crates/runtime/src/writes.rs": "`multi_write` is a call of this library: one write to several",
    "crates/runtime/src/measure.rs": "makes that call",
    "crates/comm/src/group.rs": "offers that call",
    "capi/src/lib.rs": "offers that call in C",
    "python/quincunx/src/lib.rs": "offers that call in Python",
    "crates/sim/src/memory_fabric/tracer.rs": "the wire's name of a transaction",
}


def fault(expected: str, found: str, where: object, remedy: str) -> str:
    """One line: what was expected, what was found, where, and what to do."""
    return f"{where}: expected {expected}, found {found}; {remedy}"


def members(root: Path) -> list[Path]:
    """Folders of the workspace's rooms."""
    with (root / "Cargo.toml").open("rb") as file:
        patterns = tomllib.load(file)["workspace"]["members"]
    return sorted(folder for pattern in patterns for folder in root.glob(pattern))


def imports(manifest: dict) -> set[str]:
    """Rooms that a manifest names, in dependencies of any kind, for any target; not those that are for tests, where tests have them."""
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    tables = [manifest, *manifest.get("target", {}).values()]
    names = set()
    for table in tables:
        for kind in kinds:
            for key, value in table.get(kind, {}).items():
                name = value.get("package", key) if isinstance(value, dict) else key
                if kind != "dev-dependencies" or name.removeprefix(PREFIX) not in FOR_TESTS:
                    names.add(name)
    return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}


def import_faults(room: str, found: set[str], where: Path) -> list[str]:
    """What is wrong with the imports of `room`."""
    if room not in MAY_IMPORT:
        remedy = "add a line for it to MAY_IMPORT in tools/layering.py, and a row in ARCHITECTURE.md"
        return [fault("a room with a place among the layers", room, where, remedy)]
    allowed = MAY_IMPORT[room]
    expected = "imports of " + ", ".join(sorted(allowed)) if allowed else "no imports of other rooms"
    remedy = "move what both need down a layer, or join them in a room above"
    return [fault(expected, other, where, remedy) for other in sorted(found - allowed)]


def source_faults(folder: Path) -> list[str]:
    """What is wrong with the sources of a room of pure state machines."""
    faults = []
    library = folder / "src" / "lib.rs"
    if not re.search(r"^#!\[no_std\]", library.read_text(encoding="utf-8"), re.MULTILINE):
        remedy = "add it: that nothing here touches the world is then proved by the compiler"
        faults.append(fault("#![no_std]", "a library with std", library, remedy))
    for source in sorted((folder / "src").rglob("*.rs")):
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            code = COMMENT.sub("", line)
            for pattern, remedy in WORLD:
                if match := pattern.search(code):
                    faults.append(fault("a state machine without the world", match[0], f"{source}:{number}", remedy))
    return faults


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a source that are code: without comments, and without the tests at its end."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#[cfg(test)]"):
            return
        yield number, COMMENT.sub("", line)


def name_faults(folder: Path, root: Path) -> tuple[list[str], set[str]]:
    """Where sources of a room name a design that they should ask for, and which exceptions it makes use of."""
    faults, used = [], set()
    for source in sorted((folder / "src").rglob("*.rs")):
        place = source.relative_to(root).as_posix()
        if source.name == "tests.rs":
            continue
        exception = next((known for known in MAY_NAME if place.startswith(known)), None)
        for number, line in code_lines(source.read_text(encoding="utf-8")):
            if not (match := NAMED.search(line)):
                continue
            if exception is not None:
                used.add(exception)
                break
            remedy = "ask the design's value, or give the exception a reason in tools/layering.py"
            faults.append(fault("no design by name above the engines", match[0], f"{place}:{number}", remedy))
    return faults, used


def check(root: Path) -> tuple[int, list[str]]:
    """Checks the workspace at `root`: how many rooms, and the faults in a line each."""
    rooms = members(root)
    faults, used = [], set()
    for folder in rooms:
        path = folder / "Cargo.toml"
        with path.open("rb") as file:
            manifest = tomllib.load(file)
        room = manifest["package"]["name"].removeprefix(PREFIX)
        faults += import_faults(room, imports(manifest), path.relative_to(root))
        if room in PURE:
            faults += source_faults(folder)
        if not (folder.relative_to(root).as_posix() + "/").startswith(HOMES):
            found, known = name_faults(folder, root)
            faults += found
            used |= known
    for exception in sorted(known for known in MAY_NAME if (root / known).exists() and known not in used):
        faults.append(fault("a design by name", "none", exception, "take the exception out of tools/layering.py"))
    return len(rooms), [line.replace(f"{root}/", "") for line in faults]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    rooms, faults = check(root)
    for line in faults:
        print(line)
    print(f"layering: {rooms} rooms, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
