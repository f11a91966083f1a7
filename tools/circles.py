#!/usr/bin/env python3
"""Checks that no modules of a room import each other in a circle.

Reads the sources of the workspace: `python3 tools/circles.py [ROOT]`. Prints one line for each circle and exits with
status 1 if there is one. Needs Python 3.11, nothing else.

A module imports the one that defines what it names, through however many others the name is handed on: who hands a name
on does not import it. Tests are left out. The sources are taken to be formatted, so that what a module defines stands at
the beginning of a line.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from layering import fault, members

# What is no code: comments, texts, characters. A lifetime is not among them.
HIDDEN = re.compile(r"//[^\n]*|/\*.*?\*/|r(#*)\".*?\"\1|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\\n]|\\[^\n']+|\\')'", re.DOTALL)
# Attributes that name functions and modules in a text.
NAMING = re.compile(r"\b(?:with|default|try_from|from|into) = \"([\w:]+)\"")

# The patterns below begin with the end of a line, which is faster to find than a line's beginning.
VISIBLE = r"(?:pub(?:\([^)]*\))? )?"
# What is compiled for tests alone.
FOR_TESTS = re.compile(r"\n( *)#!?\[cfg\((?:test|all\(test\b[^\n]*)\)\]")
USE = re.compile(rf"\n *({VISIBLE})use\s+([^;]+);")
CHILD = re.compile(rf"\n *{VISIBLE}mod (\w+);")
INLINE = re.compile(rf"\n( *){VISIBLE}mod (\w+) \{{(\n.*?)\n\1\}}", re.DOTALL)
MACRO = re.compile(r"(\n#\[macro_export\](?:\n#\[[^\n]*)*)?\nmacro_rules! (\w+)")
KIND = r"(?:(?:default|async|unsafe|const|extern *) )*(fn|struct|enum|union|trait|type|const|static(?: mut)?)"
ITEM = {indent: re.compile(rf"\n{indent}{VISIBLE}{KIND} (\w+)") for indent in ("", "    ")}
# A name or a path, with what stands before it: a dot before a method, colons before the rest of a path.
WORD = re.compile(r"(?:\.|::)?[A-Za-z_$][\w:]*")


@dataclass(frozen=True)
class Use:
    """A name that a module brings in, and where from."""

    name: str
    path: tuple[str, ...]
    is_visible: bool
    place: int


@dataclass(eq=False)
class Module:
    """A module, in a file of its own or in one with the module around it."""

    name: str
    file: Path
    parent: "Module | None"
    # What is code in its file.
    text: str
    children: dict[str, "Module"] = field(default_factory=dict)
    # What it defines, by name: the kind of each.
    items: dict[str, str] = field(default_factory=dict)
    # What it brings in, by the names that it has here: one may be a module and a function.
    uses: dict[str, list[Use]] = field(default_factory=dict)
    globs: list[Use] = field(default_factory=list)
    # What is left of that in the module without what it brings in, and where it begins.
    code: str = ""
    start: int = 0

    def root(self) -> "Module":
        return self if self.parent is None else self.parent.root()

    def owner(self) -> "Module":
        """The module that has the file."""
        return self.parent.owner() if self.parent and self.parent.file == self.file else self


@dataclass(frozen=True)
class Item:
    """What a path leads to: a name, and the module that defines it."""

    module: Module
    name: str

    def kind(self) -> str | None:
        return self.module.items.get(self.name)


@dataclass(frozen=True)
class Import:
    """Where one module names what another defines."""

    name: str
    file: Path
    line: int


Graph = dict[Module, dict[Module, Import]]


def lines_of(text: str) -> str:
    """As many lines, with nothing in them."""
    return "\n" * text.count("\n")


def cover(found: re.Match[str]) -> str:
    """As many characters, and the same lines, with nothing in them that looks like code."""
    return re.sub(r"[^\n]", ";", found[0])


def code_of(text: str) -> str:
    """A source without comments, texts and tests; what is left is in the same lines."""
    text = NAMING.sub(lambda found: found[0].replace('"', " "), text)
    text = HIDDEN.sub(lambda found: lines_of(found[0]), text)
    place = 0
    while found := FOR_TESTS.search(text, place):
        end = len(text) if "#![" in found[0] else end_of_item(text, found)
        place = found.start()
        text = text[:place] + lines_of(text[place:end]) + text[end:]
    return text


def end_of_item(text: str, attribute: re.Match[str]) -> int:
    """Where the item ends that an attribute stands before: at the first line as far left as it that ends like an item."""
    place = attribute.end()
    for line in text[place:].splitlines(keepends=True):
        place += len(line)
        bare = line.rstrip()
        if bare.endswith((";", ",", "}")) and len(bare) - len(bare.lstrip()) <= len(attribute[1]):
            return place - 1
    return place


def leaves(tree: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The paths in the tree of a `use`, each with the name that it gets; `*` for all names."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = (part.strip() for part in tree.partition(" as "))
        names = tuple(part.strip() for part in path.split("::") if part.strip())
        if names:
            yield names, alias or names[-1]
        return
    front = tuple(part.strip() for part in head.split("::") if part.strip())
    depth, branch = 0, ""
    for letter in rest.rstrip().removesuffix("}") + ",":
        depth += (letter == "{") - (letter == "}")
        if letter != "," or depth:
            branch += letter
            continue
        for path, name in leaves(branch.strip()):
            if path == ("self",):
                yield front, front[-1] if name == "self" else name
            else:
                yield front + path, name
        branch = ""


def fill(module: Module, code: str, start: int, indent: str, macros: dict[str, Module]) -> None:
    """Reads what a module defines and brings in from its code, and from the files of the modules below."""
    module.start = start
    for found in INLINE.finditer(code):
        if found[1] == indent == "":
            child = module.children[found[2]] = Module(found[2], module.file, module, module.text)
            fill(child, found[3], start + found.start(3), "    ", macros)
            code = code[: found.start()] + cover(found) + code[found.end() :]
    for found in USE.finditer(code):
        for path, name in leaves(" ".join(found[2].split())):
            use = Use(name, path, bool(found[1]), start + found.start(2))
            if name == "*":
                module.globs.append(use)
            else:
                module.uses.setdefault(name, []).append(use)
    for found in ITEM[indent].finditer(code):
        module.items[found[2]] = found[1]
    for found in MACRO.finditer(code):
        module.items[found[2]] = "macro"
        if found[1]:
            macros[found[2]] = module
    for found in CHILD.finditer(code):
        folder = module.file.parent if module.file.name in ("lib.rs", "main.rs", "mod.rs") else module.file.with_suffix("")
        for file in (folder / f"{found[1]}.rs", folder / found[1] / "mod.rs"):
            if file.exists():
                module.children[found[1]] = load(file, found[1], module, macros)
    module.code = CHILD.sub(cover, USE.sub(cover, code))


def load(file: Path, name: str, parent: Module | None, macros: dict[str, Module]) -> Module:
    """The module in a file, with those below it."""
    text = code_of("\n" + file.read_text(encoding="utf-8"))
    module = Module(name, file, parent, text)
    fill(module, text, 0, "", macros)
    return module


def look_up(module: Module, name: str, seen: set[tuple[Module, str]]) -> Iterator[Module | Item]:
    """What a name may be in a module: one of its items, a module, or what it brings in."""
    if (module, name) in seen:
        return
    seen = seen | {(module, name)}
    if name in module.items:
        yield Item(module, name)
    if name in module.children:
        yield module.children[name]
    for use in module.uses.get(name, ()):
        yield from resolve(module, use.path, seen)
    if name in module.items or name in module.children or name in module.uses:
        return
    for use in module.globs:
        for target in resolve(module, use.path[:-1], seen):
            if isinstance(target, Module):
                yield from look_up(target, name, seen)


def resolve(module: Module, path: tuple[str, ...], seen: set[tuple[Module, str]] | None = None) -> list[Module | Item]:
    """What a path leads to from a module: nothing if out of the room."""
    seen = set() if seen is None else seen
    found: list[Module | Item] = [module]
    for place, name in enumerate(path):
        inside = [target for target in found if isinstance(target, Module)]
        if not inside:
            # A variant or a function of a type: it is where the type is.
            return found
        if name == "super":
            found = [target.parent for target in inside if target.parent]
        elif name in ("crate", "$crate"):
            found = [module.root()]
        elif name != "self":
            is_last = place == len(path) - 1
            found = [target for one in inside for target in step(one, name, is_last, seen) or made(one, name, place > 0)]
    return found


def step(module: Module, name: str, is_last: bool, seen: set[tuple[Module, str]]) -> list[Module | Item]:
    """What a name leads to in a module. Only at its end a path may lead to a function that is called as a module."""
    if not is_last and name in module.children:
        return [module.children[name]]
    return list(look_up(module, name, seen))


def made(module: Module, name: str, is_named: bool) -> list[Module | Item]:
    """What nobody has written down in a module that is named: a macro has, if it is not from another room."""
    is_from_afar = name in module.uses or any(use.path[0] not in {"crate", "self", "super", *module.children} for use in module.globs)
    return [Item(module, name)] if is_named and not is_from_afar else []


def imports(module: Module) -> Iterator[tuple[Item, int | str]]:
    """What a module uses of others, and where: a place in the file, or the path."""
    found = {word.rstrip(":") for word in WORD.findall(module.code) if word[0] not in ".:"}
    words = {word.partition("::")[0] for word in found}
    for name, use in ((name, use) for name, uses in module.uses.items() for use in uses):
        for target in resolve(module, use.path):
            # A trait is used where its methods are, by no name.
            if isinstance(target, Item) and (name in words or (target.kind() == "trait" and not use.is_visible)):
                yield target, use.place
    unknown = sorted(words - module.items.keys() - module.uses.keys() - module.children.keys()) if module.globs else []
    for use in module.globs:
        for inside in resolve(module, use.path[:-1]):
            for target in (target for word in unknown for target in look_up(inside, word, set())) if isinstance(inside, Module) else [inside]:
                if isinstance(target, Item):
                    yield target, use.place
    for path in sorted(word for word in found if "::" in word):
        for target in resolve(module, tuple(path.split("::"))):
            if isinstance(target, Item):
                yield target, path


def line_of(module: Module, where: int | str) -> int:
    """In which line of its file a module imports something."""
    if isinstance(where, str):
        found = re.search(rf"(?<![\w:.]){re.escape(where)}\b", module.code)
        assert found is not None
        where = module.start + found.start()
    return module.text.count("\n", 0, where)


def every(module: Module) -> Iterator[Module]:
    """A module and all below it."""
    yield module
    for child in module.children.values():
        yield from every(child)


def graph_of(root: Module) -> Graph:
    """Which module of a room imports which, by files, with the first place of each import."""
    graph: Graph = {}
    for module in every(root):
        edges = graph.setdefault(module.owner(), {})
        for target, where in imports(module):
            other = target.module.owner()
            if other is not module.owner() and other not in edges:
                edges[other] = Import(target.name, module.file, line_of(module, where))
    return graph


def knots(graph: Graph) -> list[list[Module]]:
    """Groups of modules each of which imports all others of its group, directly or not (Tarjan's algorithm)."""
    order: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found = []

    def visit(module: Module) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in graph[module]:
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            place = stack.index(module)
            found.append(stack[place:])
            del stack[place:]

    for module in graph:
        if module not in order:
            visit(module)
    return [group for group in found if len(group) > 1]


def circle(graph: Graph, group: list[Module]) -> list[Module]:
    """A shortest circle in a group."""
    best: list[Module] = []
    for start in group:
        paths = [[start]]
        seen = {start}
        for path in paths:
            if start in graph[path[-1]]:
                if not best or len(path) < len(best):
                    best = path
                break
            for other in graph[path[-1]]:
                if other in group and other not in seen:
                    seen.add(other)
                    paths.append([*path, other])
    return best


def path_of(module: Module) -> str:
    """A module's name in its room."""
    return module.name if module.parent is None or module.parent.parent is None else f"{path_of(module.parent)}::{module.name}"


def room_faults(folder: Path, root: Path) -> tuple[int, list[str]]:
    """How many modules a room has, and the circles in it."""
    top = next((file for name in ("lib.rs", "main.rs") if (file := folder / "src" / name).exists()), None)
    if top is None:
        return 0, []
    macros: dict[str, Module] = {}
    module = load(top, "lib" if top.name == "lib.rs" else "main", None, macros)
    for name, place in macros.items():
        if place is not module:
            path = ("crate", *path_of(place).split("::"), name)
            module.uses.setdefault(name, []).append(Use(name, path, True, 0))
    graph = graph_of(module)
    faults = []
    for group in knots(graph):
        around = circle(graph, group)
        steps = [(one, other, graph[one][other]) for one, other in zip(around, [*around[1:], around[0]])]
        text = ", ".join(f"{path_of(one)} imports {path_of(other)}::{found.name} ({found.file.relative_to(folder)}:{found.line})" for one, other, found in steps)
        more = f" in a knot of {len(group)} modules" if len(group) > len(around) else ""
        faults.append(fault("modules without circles", f"that {text}{more}", folder.relative_to(root), "move what both need into a file below both"))
    return len(graph), faults


def check(root: Path) -> tuple[int, list[str]]:
    """Checks the workspace at `root`: how many modules, and the faults in a line each."""
    count, faults = 0, []
    for folder in members(root):
        modules, found = room_faults(folder, root)
        count += modules
        faults += found
    return count, faults


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    count, faults = check(root)
    for line in faults:
        print(line)
    print(f"circles: {count} modules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
