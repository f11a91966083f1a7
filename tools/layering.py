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

# The floors, from the bottom up, each with those that it may import. A floor is a folder of `crates`, with a room for each of its folders, or a
# room by itself. That transports, engines and drivers import neither each other nor themselves is the point.
FLOORS: dict[str, set[str]] = {
    # Words of the field: units, frames, collectives, fabrics.
    "base": {"base"},
    # Between what moves data and what is computed: the engine contract, the trait of designs, what can happen to a frame.
    "seams": {"base", "seams"},
    "transports": {"base", "seams"},
    "engines": {"base", "seams"},
    # A line for each design.
    "catalog": {"base", "seams", "engines"},
    # Hosts, switches, accelerators: what engines run in.
    "nodes": {"base", "seams", "transports", "nodes"},
    # What a kernel has to offer: sockets, interfaces, namespaces, links.
    "machine": {"base", "machine"},
    # They know no protocol: what a frame is, their owner says.
    "drivers": {"base", "seams", "machine"},
    "control": {"base", "seams", "control"},
    "scenario": {"base", "seams", "transports", "nodes", "control", "scenario"},
    "processes": {"base", "seams", "transports", "nodes", "machine", "drivers", "control", "processes"},
    "studies": {"base", "seams", "transports", "engines", "nodes", "machine", "drivers", "control", "scenario", "processes", "studies"},
    "apps": {"base", "seams", "catalog", "nodes", "machine", "drivers", "control", "scenario", "processes", "studies", "apps"},
    # Whatever is not below `crates`.
    "outside": {"base", "seams", "catalog", "machine", "drivers", "control", "scenario", "processes", "studies", "apps"},
}

# Tests of rooms above the engines may have all designs, and some of their own; those of the catalog all that is below it.
FOR_TESTS = {"engines", "catalog"}

# A room that tests of any other may import, and nothing but tests.
NEEDS = "needs"

# Floors of pure state machines and data: `no_std`, so that a driver, a simulator and a checker can run the same code.
PURE = {"base", "seams", "transports", "engines", "catalog"}

# Rooms of other floors that are pure, too, and what is not on those.
PURE_ROOMS = {"crates/nodes/nodes", "crates/nodes/accelerator", "crates/nodes/compiler", "crates/control/manager"}

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

# Floors where designs are at home, and below: they may be named there. So may they in schedules, which are compared with each other, in the
# compiler, whose instructions are called so, in a study of one engine below its design, and in one of what papers tell of their rules.
HOMES = (
    "crates/base/", "crates/seams/", "crates/transports/", "crates/engines/", "crates/catalog/", "crates/nodes/compiler/", "crates/nodes/schedules/",
    "crates/studies/check/src/prior_systems/", "crates/studies/check/src/relays.rs",
)

# Names of designs and systems as they stand in code. Those that are words of the language too count as names where they are a whole
# text: "ring" in quotes is the design, a ring is a shape. `multi_write` and `MultiWrite` are an operation, as a read or a write is.
NAMED = re.compile(r"(?i:epic|scin|nvls|netreduce|net_reduce|switchml|switch_ml|cais|unicast-multipath)|multiwrite|MULTIWRITE|\"(?:atp|ring|ring-rq|direct|writes|unicast)\"")

# Defaults, and keys of files, which may be called as a design.
MAY_NAME = re.compile(r"default|#\[serde\(rename", re.IGNORECASE)

# Texts. Those of several lines are for people, such as the examples of the help.
STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
QUOTE = re.compile(r"(?<!\\)\"")


def fault(expected: str, found: str, where: object, remedy: str) -> str:
    """One line: what was expected, what was found, where, and what to do."""
    return f"{where}: expected {expected}, found {found}; {remedy}"


def members(root: Path) -> list[Path]:
    """Folders of the workspace's rooms."""
    with (root / "Cargo.toml").open("rb") as file:
        patterns = tomllib.load(file)["workspace"]["members"]
    return sorted(folder for pattern in patterns for folder in root.glob(pattern))


def imports(manifest: dict, kinds: tuple[str, ...]) -> set[str]:
    """Packages of ours that a manifest names in dependencies of these kinds, for any target."""
    tables = [manifest, *manifest.get("target", {}).values()]
    names = set()
    for table in tables:
        for kind in kinds:
            for key, value in table.get(kind, {}).items():
                names.add(value.get("package", key) if isinstance(value, dict) else key)
    return {name for name in names if name.startswith(PREFIX)}


def floor_of(folder: Path, root: Path) -> str:
    """On which floor a room is."""
    parts = folder.relative_to(root).parts
    return parts[1] if parts[0] == "crates" else "outside"


def import_faults(room: str, floor: str, manifest: dict, floors: dict[str, str], where: Path) -> list[str]:
    """What is wrong with the imports of a room."""
    if floor not in FLOORS:
        return [fault("a room on one of the floors " + ", ".join(FLOORS), room, where, "move it to one, or give FLOORS in tools/layering.py a new one")]
    faults = []
    remedy = "move what both need down a floor, or join them in a room above"
    for kinds, more in ((("dependencies", "build-dependencies"), set()), (("dev-dependencies",), FOR_TESTS)):
        allowed = FLOORS[floor] | (more if floor not in ("base", "seams", "transports", "engines", "drivers") else set())
        for other in sorted(imports(manifest, kinds)):
            name = other.removeprefix(PREFIX)
            if name == NEEDS and kinds == ("dev-dependencies",):
                continue
            if name == NEEDS or floors.get(other) not in allowed:
                faults.append(fault("imports from " + ", ".join(sorted(allowed)), f"{name} of {floors.get(other)}", where, remedy))
    return faults


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


def split(line: str) -> tuple[str, bool]:
    """A line without its comment, and whether a text begins in it that does not end there."""
    hidden = STRING.sub(lambda text: "x" * len(text[0]), line.replace("'\"'", "'x'"))
    code, _, _ = hidden.partition("//")
    return line[: len(code)], '"' in code


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a source that are code: without comments, texts of several lines, and the tests at its end."""
    is_text = False
    for number, line in enumerate(text.splitlines(), 1):
        if is_text:
            is_text = not QUOTE.search(line)
            continue
        if line.startswith("#[cfg(test)]"):
            return
        code, is_text = split(line)
        yield number, code


def name_faults(folder: Path, root: Path) -> list[str]:
    """Where sources of a room name a design that they should ask for."""
    faults = []
    for source in sorted((folder / "src").rglob("*.rs")):
        place = source.relative_to(root).as_posix()
        if source.name == "tests.rs" or place.startswith(HOMES):
            continue
        for number, line in code_lines(source.read_text(encoding="utf-8")):
            if (match := NAMED.search(line)) and not MAY_NAME.search(line):
                faults.append(fault("no design by name above the engines", match[0], f"{place}:{number}", "ask the design's value"))
    return faults


def check(root: Path) -> tuple[int, list[str]]:
    """Checks the workspace at `root`: how many rooms, and the faults in a line each."""
    rooms = {}
    for folder in members(root):
        with (folder / "Cargo.toml").open("rb") as file:
            rooms[folder] = tomllib.load(file)
    floors = {manifest["package"]["name"]: floor_of(folder, root) for folder, manifest in rooms.items()}
    faults = []
    for folder, manifest in rooms.items():
        name = manifest["package"]["name"]
        faults += import_faults(name.removeprefix(PREFIX), floors[name], manifest, floors, (folder / "Cargo.toml").relative_to(root))
        place = folder.relative_to(root).as_posix()
        if (floors[name] in PURE and name != PREFIX + NEEDS) or place in PURE_ROOMS:
            faults += source_faults(folder)
        if not f"{place}/".startswith(HOMES):
            faults += name_faults(folder, root)
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
