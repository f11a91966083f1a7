#!/usr/bin/env python3
"""Says which rules of the engines explorations take: coverage of branches by the checker, and by nothing else.

Builds the checker with counters in the workspace's crates (target/explored; crates/studies/check/examples/explored.rs), runs the explorations of tools/explored.txt, and tells of
each region and of each side of each condition in the rooms below which group of explorations takes it first, or that none does.

    rustup component add llvm-tools
    tools/explored.py                   builds, explores (some three minutes), and writes docs/explored.md
    tools/explored.py --only switchml   those explorations alone, and what they take; writes no page
    tools/explored.py --untaken epic    what none takes, of files whose name has that, by what was counted last
    tools/explored.py --page            the page again, by what was counted last

target/explored/rules.tsv has every rule in a line: file, line, function, source, and the explorations that take it first.

Left out, by what they are and not by name: rules that the checker breaks (`mutation.rs`, and conditions that ask for one), texts and what only
looks (`fmt`, `assert_invariants`), set-up (the files of a design's value, its parameters and closed forms, which no frame reaches), what asserts,
and refusals of what no caller does. What is untaken and no exploration can take is explained in tools/explored-explained.toml:
`file`, `function`, and `reason` why; `line`, a part of its source, where it is one rule of a function. `--check` exits with status 1 if something untaken
is not explained, or something explained is taken. Branches are counted by an option of the compiler that is not stable, and is asked for by RUSTC_BOOTSTRAP.
Needs Python 3.11.
"""

import argparse
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "tools" / "explored-explained.toml"
EXPLORATIONS = ROOT / "tools" / "explored.txt"
PAGE = ROOT / "docs" / "explored.md"
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "explored"

# What runs in an exploration: engines, what they stand on, nodes, and the control plane.
ROOMS = ("crates/engines/*", "crates/transports/roce", "crates/transports/memory", "crates/seams/engine", "crates/seams/pieces", "crates/nodes/nodes", "crates/control/manager")
SET_UP = re.compile(r"(^|/)(mutation|mutations|design|design_\w+|config|params|closed_forms|capacity|error|contexts?)\.rs$|_tests\.rs$")
# Texts and what only looks; and what the owners of nodes ask, which in explorations have neither memory to give nor hardware to tell.
FUNCTIONS = ("fmt", "name", "assert_invariants", "default", "break_rule", "ignore_digests", "buffer_bytes", "told_to_hardware", "statistics")
# What follows a condition whose taking is a refusal.
THEN_REFUSES = re.compile(r"[\s)]*(?:\{|=>|else \{)?\s*(return\s+)?(Some\()?(Err\(|Refusal::|panic!|unreachable!)")
# A condition, or what follows it, that is about a rule which the checker breaks.
BREAKS = re.compile(r"mutation|Mutation|\bbreaks\(|break_rule|\.breaking\(")
# What a caller's misuse meets, and what asserts.
REFUSES = re.compile(r"^\s*(return\s+)?(Err\(|Refusal::)|^\s*\?|^\s*(panic|unreachable|unimplemented|debug_assert|assert)\w*!|^\s*\|_?\w*\|\s*(Refusal|panic!|unreachable!)")
SECONDS = 240

CODE, BRANCH_TRUE, BRANCH_FALSE = "code", "true", "false"


@dataclass(frozen=True, order=True)
class Rule:
    """A region of the source, or a side of a condition."""

    file: str
    line: int
    column: int
    end: int
    end_column: int
    kind: str


@dataclass(frozen=True)
class Exploration:
    """A command of the list."""

    words: str
    # Status that is expected.
    status: int = 0


@dataclass(frozen=True)
class Section:
    """Explorations under a heading."""

    title: str
    explorations: tuple[Exploration, ...]


def sections(text: str) -> list[Section]:
    """Those of a list: an exploration a line; one that begins with `!` finds a fault, or a rule that never mattered. A line that begins with `#` after an
    empty one is a heading."""
    found: list[tuple[str, list[Exploration]]] = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        title = next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")
        words = [line.partition("#")[0].strip() for line in lines]
        found.append((title, [Exploration(word.lstrip("! "), 1 if word.startswith("!") else 0) for word in words if word]))
    return [Section(title, tuple(each)) for title, each in found if each]


class Source:
    """A file, and which function each of its lines is in; sources are as rustfmt leaves them."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.functions: list[tuple[int, int, str]] = []
        owners: list[tuple[int, str]] = []
        opened: list[tuple[int, int, str]] = []
        for number, line in enumerate(self.lines, 1):
            stripped = line.lstrip()
            indent = len(line) - len(stripped)
            if opened and indent == opened[-1][0] and stripped.startswith("}"):
                _, begin, name = opened.pop()
                self.functions.append((begin, number, name))
            while owners and stripped and indent <= owners[-1][0] and not stripped.startswith(("}", ")", "{", "where", "#", "//")):
                owners.pop()
            if found := re.match(r"(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:impl|trait)\b(?:<.*?>)? ?(.*?)(?: \{|$)", stripped):
                name = re.sub(r"<.*", "", found[1].split(" for ")[-1]).split(":")[0]
                owners.append((indent, name))
            elif found := re.match(r"(?:pub(?:\([^)]*\))? )?(?:default )?(?:const )?(?:async )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)", stripped):
                name = "::".join([owner for _, owner in owners] + [found[1]])
                if stripped.endswith("}"):
                    self.functions.append((number, number, name))
                elif not stripped.endswith(";"):
                    opened.append((indent, number, name))
        self.functions.sort()

    def function(self, line: int) -> str:
        """The innermost one."""
        found = [each for each in self.functions if each[0] <= line <= each[1]]
        return found[-1][2] if found else ""

    def text(self, rule: Rule) -> str:
        """What a rule says, on one line."""
        if rule.line == rule.end:
            return self.lines[rule.line - 1][rule.column - 1 : rule.end_column - 1]
        first = self.lines[rule.line - 1][rule.column - 1 :]
        rest = self.lines[rule.line : rule.end - 1] + [self.lines[rule.end - 1][: rule.end_column - 1]]
        return " ".join([first, *(line.strip() for line in rest)])

    def is_left_out(self, rule: Rule) -> bool:
        if SET_UP.search(rule.file) or self.function(rule.line).rpartition("::")[2] in FUNCTIONS:
            return True
        text = self.text(rule)
        body = text.lstrip("{ ")
        if REFUSES.match(body) or re.match(r"^\s*(\?|\.ok_or|\.expect)", text):
            return True
        if text == "}":
            # The end of a block that was left before; whoever leaves it is counted.
            return True
        if rule.kind != CODE:
            after = self.lines[rule.end - 1][rule.end_column - 1 :] + " " + "".join(self.lines[rule.end : rule.end + 1]).strip()
            refused = BRANCH_FALSE if "else" in after.partition("{")[0] else BRANCH_TRUE
            if rule.kind == refused and THEN_REFUSES.match(after.partition("else")[2] if refused == BRANCH_FALSE else after):
                return True
        # The condition before a block, which may be on lines above.
        before = self.lines[rule.line - 1][: rule.column - 1] if rule.kind == CODE else ""
        return bool(BREAKS.search(before) or BREAKS.search(text if rule.kind != CODE else text[:120]))


IN_ROOMS = re.compile("|".join(re.escape(room).replace(r"\*", "[^/]*") + "/src/" for room in ROOMS))


@functools.cache
def in_rooms(name: str) -> str:
    """A source file of the rooms, from the root on; empty if it is another."""
    file = name.removeprefix(f"{ROOT}/")
    return file if IN_ROOMS.match(file) else ""


def room_of(file: str) -> str:
    return "/".join(file.split("/")[1:3])


def counted(exported: dict) -> dict[Rule, int]:
    """How often each rule was taken, over all types that a function is compiled for."""
    counts: Counter[tuple] = Counter()
    for function in exported["data"][0]["functions"]:
        files = [in_rooms(name) for name in function["filenames"]]
        if not any(files):
            continue
        for line, column, end, end_column, count, file, _, kind in function["regions"]:
            if kind == 0 and files[file]:
                counts[files[file], line, column, end, end_column, CODE] += count
        for line, column, end, end_column, yes, no, file, *_ in function["branches"]:
            if files[file]:
                counts[files[file], line, column, end, end_column, BRANCH_TRUE] += yes
                counts[files[file], line, column, end, end_column, BRANCH_FALSE] += no
    return {Rule(*place): count for place, count in counts.items()}


def tool(name: str) -> str:
    """A tool of LLVM that the compiler brings."""
    libraries = subprocess.run(["rustc", "--print", "target-libdir"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    found = Path(libraries).parent / "bin" / name
    if not found.exists():
        sys.exit(f"error: expected {name} beside the compiler, found none; rustup component add llvm-tools")
    return str(found)


def build() -> Path:
    """The program with counters."""
    WORK.mkdir(parents=True, exist_ok=True)
    wrapper = WORK / "counting-rustc"
    wrapper.write_text('#!/bin/sh\nexec env RUSTC_BOOTSTRAP=1 "$@" -C instrument-coverage -Z coverage-options=branch\n')
    wrapper.chmod(0o755)
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(WORK / "build"),
        "RUSTC_WORKSPACE_WRAPPER": str(wrapper),
        "CARGO_PROFILE_DEV_DEBUG": "none",
        "CARGO_INCREMENTAL": "0",
        # Programs that run while it is built (macros, build scripts) count, too.
        "LLVM_PROFILE_FILE": str(WORK / "build" / "unused-%p.profraw"),
    }
    subprocess.run(["cargo", "build", "-p", "quincunx-check", "--example", "explored"], cwd=ROOT, env=environment, check=True)
    return WORK / "build" / "debug" / "examples" / "explored"


def explore(program: Path, raw: Path, exploration: Exploration) -> dict | str:
    """Runs one, whose counts go to a file: what it has found, or what is wrong with that."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [program, *shlex.split(exploration.words)], cwd=ROOT, env={**os.environ, "LLVM_PROFILE_FILE": str(raw)}, text=True, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"expected that `quincunx check {exploration.words}` ends within {SECONDS} s, found that it does not; explore less"
    seconds = time.monotonic() - began
    if done.returncode != exploration.status:
        return f"expected status {exploration.status} of `quincunx check {exploration.words}`, found {done.returncode}: {done.stderr.strip()[-400:]}"
    distinct, verdict = done.stdout.strip().split("\t")
    return {"words": exploration.words, "seconds": seconds, "distinct": int(distinct), "verdict": verdict}


def explore_all(program: Path, number: int, section: Section, sources: list[str]) -> tuple[list[dict | str], dict[Rule, int]]:
    """Runs those of a section, and reads what they took together."""
    folder = WORK / f"section-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    raw = [folder / f"{index}.profraw" for index in range(len(section.explorations))]
    found = [explore(program, *pair) for pair in zip(raw, section.explorations)]
    data = folder / "all.profdata"
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *(file for file in raw if file.exists()), "-o", data], check=True)
    exported = subprocess.run([tool("llvm-cov"), "export", f"-instr-profile={data}", program, *sources], check=True, stdout=subprocess.PIPE).stdout
    shutil.rmtree(folder)
    return found, counted(json.loads(exported))


@dataclass
class Outcome:
    """What was counted: sections in their order, and for each rule the first that takes it, if any does."""

    sections: list[dict]
    first: dict[Rule, int | None]

    def write(self, file: Path) -> None:
        rules = [[*vars(rule).values(), first] for rule, first in sorted(self.first.items())]
        file.write_text(json.dumps({"sections": self.sections, "rules": rules}))

    @staticmethod
    def read(file: Path) -> "Outcome":
        if not file.exists():
            sys.exit("error: expected counts of explorations, found none; run tools/explored.py")
        found = json.loads(file.read_text())
        return Outcome(found["sections"], {Rule(*rule): first for *rule, first in found["rules"]})


def run(chosen: list[Section]) -> Outcome:
    """What the sections take."""
    program = build()
    sources = [str(path) for room in ROOMS for path in ROOT.glob(f"{room}/src")]
    taken: list[dict] = []
    first: dict[Rule, int | None] = {}
    failed = False
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda pair: explore_all(program, *pair, sources), enumerate(chosen))
        for index, (section, (found, counts)) in enumerate(zip(chosen, done)):
            fresh = 0
            for rule, count in counts.items():
                if first.setdefault(rule, None) is None and count > 0:
                    first[rule] = index
                    fresh += 1
            for error in (each for each in found if isinstance(each, str)):
                print(f"error: {error}", flush=True)
                failed = True
            runs = [each for each in found if not isinstance(each, str)]
            taken.append({"title": section.title, "fresh": fresh, "runs": runs})
            seconds = sum(each["seconds"] for each in runs)
            print(f"{index + 1}/{len(chosen)} {section.title}: {len(runs)} explorations, {seconds:.1f} s, {fresh} regions and sides taken first", flush=True)
    if failed:
        sys.exit("error: expected that all explorations end as the list says, found that some do not; see above")
    return Outcome(taken, first)


class Sources:
    """Files, read once."""

    def __init__(self) -> None:
        self.known: dict[str, Source] = {}

    def of(self, file: str) -> Source:
        if file not in self.known:
            self.known[file] = Source((ROOT / file).read_text(encoding="utf-8"))
        return self.known[file]

    def rules(self, first: dict[Rule, int | None]) -> dict[Rule, int | None]:
        """Those that count."""
        return {rule: taken for rule, taken in first.items() if not self.of(rule.file).is_left_out(rule)}


@dataclass(frozen=True)
class Untaken:
    """Rules that no exploration takes and that stand together."""

    file: str
    line: int
    end: int
    function: str
    text: str
    rules: int


def gather(rules: dict[Rule, int | None], sources: Sources) -> list[Untaken]:
    """What is untaken, whatever is within or beside another one together with it."""
    found: list[list[Rule]] = []
    # A condition whose block is untaken is told by the block.
    for rule in sorted(rule for rule, taken in rules.items() if taken is None):
        last = found[-1] if found else None
        if last and last[0].file == rule.file and rule.line <= max(each.end for each in last) + 2:
            same = sources.of(rule.file).function(rule.line) == sources.of(rule.file).function(last[0].line)
            if same:
                last.append(rule)
                continue
        found.append([rule])
    gathered = []
    for group in found:
        source, head = sources.of(group[0].file), group[0]
        text = source.lines[head.line - 1].strip()
        if head.kind != CODE:
            text = f"`{source.text(head)}` is never {head.kind}"
        else:
            text = f"`{text}`"
        gathered.append(Untaken(head.file, head.line, max(each.end for each in group), source.function(head.line), text, len(group)))
    return gathered


@dataclass(frozen=True)
class Explanation:
    """Why no exploration takes something."""

    file: str
    function: str
    reason: str
    line: str = ""

    def is_for(self, untaken: Untaken, sources: Sources) -> bool:
        if self.file != untaken.file or self.function not in ("", untaken.function):
            return False
        lines = sources.of(untaken.file).lines[untaken.line - 1 : untaken.end]
        return not self.line or any(self.line in line for line in lines)


def explanations(text: str) -> list[Explanation]:
    return [Explanation(**entry) for entry in tomllib.loads(text).get("untaken", [])]


def page(outcome: Outcome, rules: dict[Rule, int | None], untaken: list[Untaken], explained: list[Explanation], sources: Sources) -> str:
    """The page, whole."""
    by_room: dict[str, Counter] = defaultdict(Counter)
    by_file: dict[str, Counter] = defaultdict(Counter)
    takers: dict[str, set[int]] = defaultdict(set)
    for rule, taken in rules.items():
        side = "branches" if rule.kind != CODE else "regions"
        for count in (by_room[room_of(rule.file)], by_file[rule.file]):
            count[side] += 1
            count[f"{side} taken"] += taken is not None
        if taken is not None:
            takers[rule.file].add(taken + 1)
    reasons: dict[Untaken, str] = {}
    for each in untaken:
        reasons[each] = next((explanation.reason for explanation in explained if explanation.is_for(each, sources)), "")
        count = by_room[room_of(each.file)]
        count["explained" if reasons[each] else "open"] += 1

    def share(count: Counter, side: str) -> str:
        return f"{count[f'{side} taken']} of {count[side]}" + (f", {100 * count[f'{side} taken'] / count[side]:.0f} %" if count[side] else "")

    total = sum(by_room.values(), Counter())
    runs = [each for section in outcome.sections for each in section["runs"]]
    seconds = sum(each["seconds"] for each in runs)
    lines = [
        "# What explorations take",
        "<!-- Made by tools/explored.py; what is written by hand is there. -->",
        "",
        "A checker shows nothing of a rule that it never takes. This page counts, for each room that runs in explorations, the regions of code",
        "(an arm, a block, what follows a condition) and the sides of conditions that the explorations below take, and lists what none takes.",
        "`python3 tools/explored.py` makes it; its first lines say what is left out, and `target/explored/rules.tsv` has every rule with",
        f"the explorations that take it first; `--only TEXT` tells of one by itself. The {len(runs)} explorations took {seconds:.0f} s, with counters, on two busy cores.",
        "",
        "| room | regions | sides of conditions | untaken, explained | untaken, open |",
        "|---|---|---|---|---|",
    ]
    for room, count in [*sorted(by_room.items()), ("all", total)]:
        lines.append(f"| {room} | {share(count, 'regions')} | {share(count, 'branches')} | {count['explained']} | {count['open']} |")
    lines += ["", "## Explorations", "Regions and sides that a group of explorations is the first to take are counted for it."]
    for number, section in enumerate(outcome.sections, 1):
        lines += ["", f"{number}. {section['title']}: first to take {section['fresh']}.", "", "| `quincunx check` | states | verdict |", "|---|---|---|"]
        lines += [f"| {each['words']} | {each['distinct']} | {each['verdict']} |" for each in section["runs"]]
    lines += ["", "## Files", "| file | regions | sides of conditions | first taken by |", "|---|---|---|---|"]
    for file, count in sorted(by_file.items()):
        by = ", ".join(map(str, sorted(takers[file])))
        lines.append(f"| {file.removeprefix('crates/')} | {share(count, 'regions')} | {share(count, 'branches')} | {by} |")
    lines += ["", "## Untaken, and why"]
    by_reason: dict[str, dict[tuple[str, str], list[Untaken]]] = defaultdict(lambda: defaultdict(list))
    for each in untaken:
        by_reason[reasons[each]][each.file, each.function].append(each)
    for reason, places in sorted(by_reason.items(), key=lambda pair: (not pair[0], pair[0])):
        lines += ["", f"{reason or 'Open: no exploration of the list takes these, and nobody has said why.'}", "", "| file | function | lines | the first of them |", "|---|---|---|---|"]
        for (file, function), group in sorted(places.items()):
            text = group[0].text.replace("|", "\\|")
            numbers = ", ".join(str(each.line) for each in group)
            lines.append(f"| {file.removeprefix('crates/').replace('/src', '')} | {function} | {numbers} | {text} |")
    return "\n".join(lines) + "\n"


def table(outcome: Outcome, rules: dict[Rule, int | None], sources: Sources) -> str:
    """Every rule in a line."""
    lines = ["file\tline\tfunction\tkind\tsource\tfirst taken by"]
    for rule, taken in sorted(rules.items()):
        source = sources.of(rule.file)
        by = "" if taken is None else outcome.sections[taken]["title"]
        lines.append("\t".join((rule.file, str(rule.line), source.function(rule.line), rule.kind, source.text(rule)[:120].replace("\t", " "), by)))
    return "\n".join(lines) + "\n"


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", help="explorations that have it")
    parser.add_argument("--untaken", metavar="TEXT", help="print what none takes, of files that have it")
    parser.add_argument("--page", action="store_true", help="make the page by what was counted last")
    parser.add_argument("--check", action="store_true", help="status 1 if something untaken has no explanation, or something explained is taken")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    counts = WORK / "counts.json"
    is_read = options.page or options.untaken is not None
    chosen = sections(EXPLORATIONS.read_text())
    if options.only is not None:
        kept = (Section(each.title, tuple(one for one in each.explorations if options.only in one.words)) for each in chosen)
        chosen = [each for each in kept if each.explorations]
    if is_read:
        outcome = Outcome.read(counts)
    else:
        outcome = run(chosen)
        if options.only is None:
            outcome.write(counts)
    sources = Sources()
    rules = sources.rules(outcome.first)
    untaken = gather(rules, sources)
    explained = explanations(EXPLAINED.read_text())
    is_open = [each for each in untaken if not any(explanation.is_for(each, sources) for explanation in explained)]
    unneeded = [explanation for explanation in explained if not any(explanation.is_for(each, sources) for each in untaken)]
    if options.untaken is not None:
        for each in is_open:
            if options.untaken in each.file:
                print(f"{each.file}:{each.line}-{each.end} {each.function} ({each.rules}): {each.text}")
    elif options.only is None:
        PAGE.write_text(page(outcome, rules, untaken, explained, sources))
        (WORK / "rules.tsv").write_text(table(outcome, rules, sources))
    print(f"{sum(taken is not None for taken in rules.values())} of {len(rules)} rules are taken; of {len(untaken)} untaken places {len(is_open)} are not explained")
    for explanation in unneeded:
        print(f"explained, and taken or gone: {explanation.file} {explanation.function} {explanation.line}")
    return int(options.check and bool(is_open or unneeded))


if __name__ == "__main__":
    sys.exit(main())
