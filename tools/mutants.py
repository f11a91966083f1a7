#!/usr/bin/env python3
"""Measures the tests: changes the engines, and other rooms by name, in small ways, one at a time, and sees whether a test fails.

The changes ("mutants") are those of cargo-mutants. Each is put into a copy of the sources, and the stages of its crate run: the
crate's own tests, those of the rooms that drive it, a quick exploration by the checker, the tests that know how many states there
are, the longest explorations, and those of the rooms that plan with it. The first test that fails, or does not end, has caught the mutant, and the rest is not run. What
does not compile is not viable and counts for nothing.

    cargo install cargo-mutants
    tools/mutants.py list                          what is drawn: 300 of the mutants of EPIC and RoCE, by seed 1
    tools/mutants.py run                           puts them to the test; run it again to go on where it stopped
    tools/mutants.py run --shard 2/8               every eighth of them, from the second on
    tools/mutants.py run --only responder.rs       those whose name has it
    tools/mutants.py run --until own               only the first stage, which is quick; a later run goes on with what passed it
    tools/mutants.py run --again                   the survivors once more, after tests were added
    tools/mutants.py report                        counts, and what survived without being explained
    tools/mutants.py run --crates scin multiwrite --sample 100 --seed 7

Left out, for no test could or should see them: what is in `mutation.rs` (rules that the checker breaks), in a function `fmt` (texts
for people who debug), and in a function `assert_invariants` (it only looks). A survivor that no test can tell from the original is
explained in tools/mutants-explained.toml: `mutant` is its name without the position, `line` the line that it changes, `reason` why. What
breaks a rule of `mutation.rs` elsewhere is not left out: the explorations of broken rules are its tests.

Mutants are judged in the order in which they are drawn, so that those judged so far are a fair sample whenever it stops. Draw and
results know a mutant by its file, its change and its place among equals, so that edits elsewhere change neither. `report`
exits with status 1 if less than 95 % of a crate's viable mutants were caught, a survivor has no explanation or one is not judged. Needs Python 3.11 and
cargo-mutants; memory of a test is limited, and everything runs at low priority.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "tools" / "mutants-explained.toml"
PREFIX = "quincunx-"

WANTED_SHARE = 0.95
BUILD_SECONDS = 1800
# A test program is given so many seconds of the processors, or so many times what it takes with the sources as they are: whatever else
# runs here makes no test late. One that waits without an end is given so many times longer by the clock.
LEAST_SECONDS = 15
PATIENCE = 5
IDLE_PATIENCE = 20
MEMORY_BYTES = 8 << 30
# Random tests draw the same in every run, so that a verdict can be had again.
PROPTEST_SEED = "1"

LEFT_OUT_FILE = "mutation.rs"
LEFT_OUT_FUNCTION = re.compile(r"(?:^|::)(?:fmt|assert_invariants)$")
POSITION = re.compile(r"^(.*?):\d+:\d+: ")
OUT_OF_TIME = "(signal: 24"
FAILED = re.compile(r"^test (.+?) \.\.\. FAILED$")

# The tests that know how many states there are. Most changes change that, be they right or wrong.
COUNTS = "how_many_states_there_are_is_known"
# Explorations that take longest: broken rules, and large trees.
LONGEST = ("every_broken_rule_is_noticed", "in_every_order_on_a_tree")
# What those show already, or what is shown of the checker and not of the engines.
OF_THE_CHECKER = (
    "what_is_left_out_changes_no_verdict",
    "every_counterexample_is_the_same_run",
    "figure_6_is_a_wrong_sum",
    "buffers_that_are_not_cleared",
    "have_tracks_of_their_own",
)


@dataclass(frozen=True)
class Stage:
    """Tests that run together: packages, and what the test program is told."""

    name: str
    packages: tuple[str, ...]
    filters: tuple[str, ...] = ()

    def command(self, skip: Iterable[str], run: bool) -> list[str]:
        named = [word for package in self.packages for word in ("-p", PREFIX + package)]
        told = [*self.filters, *(word for name in skip for word in ("--skip", name))]
        tail = ["--", *told] if run else ["--no-run"]
        return ["cargo", "test", "--offline", "--lib", "--tests", *named, *tail]


def explored(*modules: str) -> tuple[Stage, ...]:
    """The checker's tests of some modules: the quick ones, then how many states there are, then the longest."""
    skipped = tuple(word for name in (COUNTS, *LONGEST, *OF_THE_CHECKER) for word in ("--skip", name))
    return (
        Stage("exploration", ("check",), (*(f"{module}::" for module in modules), *skipped)),
        Stage("counts", ("check",), tuple(f"{module}::{COUNTS}" for module in modules)),
        Stage("longest", ("check",), LONGEST),
    )


STAGES: dict[str, tuple[Stage, ...]] = {
    "roce": (Stage("own", ("roce",)), Stage("drivers", ("nodes",)), *explored("exchange", "epic")),
    "epic": (Stage("own", ("epic",)), Stage("drivers", ("nodes",)), *explored("epic", "overlap"), Stage("plans", ("designs",))),
    "multiwrite": (Stage("own", ("multiwrite",)), Stage("plans", ("designs",)), *explored("multiwrite", "designs")),
    "netreduce": (Stage("own", ("netreduce",)), Stage("plans", ("designs",)), *explored("netreduce")),
    "switchml": (Stage("own", ("switchml",)), Stage("plans", ("designs",)), *explored("switchml")),
    "atp": (Stage("own", ("atp",)), Stage("plans", ("designs",)), *explored("atp")),
    "scin": (Stage("own", ("scin",)), Stage("plans", ("designs",)), *explored("designs", "memory")),
    "ring": (Stage("own", ("ring",)), Stage("plans", ("designs",)), *explored("designs", "memory")),
    "cais": (Stage("own", ("cais",)), Stage("plans", ("designs",)), *explored("memory", "merging")),
    "nvls": (Stage("own", ("nvls",)), Stage("plans", ("designs",)), *explored("memory")),
    # Transports and what engines stand on.
    "memory": (Stage("own", ("memory",)), Stage("drivers", ("nodes",)), *explored("memory")),
    "engine": (Stage("own", ("engine",)), Stage("drivers", ("nodes",)), *explored("exchange", "epic", "designs")),
    "pieces": (Stage("own", ("pieces",)), Stage("drivers", ("switchml", "atp")), *explored("switchml", "atp")),
    "lldp": (Stage("own", ("lldp",)), Stage("drivers", ("runtime",))),
    # The control plane, what applications call, and machines' interfaces.
    "control": (Stage("own", ("control",)), *explored("control"), Stage("drivers", ("control-grpc", "world"))),
    "comm": (Stage("own", ("comm",)), Stage("drivers", ("capi", "perf"))),
    "ports": (Stage("own", ("ports",)), Stage("drivers", ("driver-net", "runtime"))),
    "driver-net": (Stage("own", ("driver-net",)), Stage("drivers", ("runtime",))),
}


def until(stages: tuple[Stage, ...], last: str) -> tuple[Stage, ...]:
    """The stages up to that of a name, or all."""
    names = [stage.name for stage in stages]
    return stages[: names.index(last) + 1] if last in names else stages


@dataclass(frozen=True)
class Mutant:
    """A change to one file."""

    crate: str
    file: str
    # What cargo-mutants calls it, without the position.
    name: str
    position: str
    # The changed lines as they were, each without its indentation.
    lines: tuple[str, ...]
    # Which among those that are equal in all of this, from the top of the file.
    nth: int
    diff: str

    @property
    def key(self) -> str:
        text = "\n".join((self.file, self.name, *self.lines, str(self.nth)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def line(self) -> str:
        """The first line that it changes."""
        return self.lines[0] if self.lines else ""


def sift(found: list[dict]) -> list[Mutant]:
    """Mutants of what cargo-mutants lists, without those that are left out."""
    mutants: list[Mutant] = []
    seen: Counter[tuple] = Counter()
    for entry in found:
        function = (entry["function"] or {}).get("function_name", "")
        if Path(entry["file"]).name == LEFT_OUT_FILE or LEFT_OUT_FUNCTION.search(function):
            continue
        name = POSITION.sub("", entry["name"])
        position = entry["name"].removesuffix(": " + name)
        lines = tuple(
            line[1:].strip() for line in entry["diff"].splitlines()[2:] if line.startswith("-") and line[1:].strip()
        )
        same = (entry["file"], name, lines)
        crate = entry["package"].removeprefix(PREFIX)
        mutants.append(Mutant(crate, entry["file"], name, position, lines, seen[same], entry["diff"]))
        seen[same] += 1
    return mutants


def draw(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them, by seed, in the order in which they are drawn: the first hundred of them are a sample, too. One that is added or
    gone moves no other in or out but the last."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.key}".encode()).digest())[:count]


def mutated(text: str, diff: str) -> str:
    """A file with a change of one hunk in it."""
    lines = text.split("\n")
    header, *body = diff.splitlines()[2:]
    start = int(re.match(r"@@ -(\d+)", header).group(1)) - 1
    body = [line for line in body if not line.startswith("\\")]
    before = [line[1:] for line in body if line[:1] in (" ", "-", "")]
    after = [line[1:] for line in body if line[:1] in (" ", "+", "")]
    if lines[start : start + len(before)] != before:
        raise ValueError(f"expected the sources that the change is for, found others at line {start + 1}")
    return "\n".join(lines[:start] + after + lines[start + len(before) :])


@dataclass(frozen=True)
class Explanation:
    """Why no test can, or should, catch a mutant."""

    mutant: str
    line: str
    reason: str

    def is_for(self, row: dict) -> bool:
        return self.mutant == row["mutant"] and self.line == row["line"]


def explanations(text: str) -> list[Explanation]:
    return [Explanation(entry["mutant"], entry["line"], entry["reason"]) for entry in tomllib.loads(text).get("survivor", [])]


def tally(rows: list[dict], explained: list[Explanation]) -> tuple[dict[str, Counter], list[dict]]:
    """Counts by crate, and the survivors without an explanation."""
    counts: dict[str, Counter] = {}
    unexplained = []
    for row in sorted(rows, key=lambda row: row["crate"]):
        count = counts.setdefault(row["crate"], Counter())
        count["sample"] += 1
        count[row["verdict"]] += 1
        if row["verdict"] != "unviable":
            count["viable"] += 1
        if row["verdict"] == "caught":
            count[f"by {row['stage']}"] += 1
        if row["verdict"] == "survived":
            if any(explanation.is_for(row) for explanation in explained):
                count["explained"] += 1
            else:
                unexplained.append(row)
    return counts, unexplained


def share(count: Counter) -> float:
    """What is caught of the viable; a test that does not end has caught its mutant, and what is open counts as not caught."""
    return (count["caught"] + count["timeout"]) / count["viable"] if count["viable"] else 1.0


COLUMNS = ["sample", "viable", "by own", "by drivers", "by exploration", "by counts", "by longest", "by plans", "timeout", "open", "survived", "explained"]


def table(counts: dict[str, Counter]) -> list[str]:
    """The counts as a Markdown table."""
    lines = ["| | " + " | ".join(COLUMNS) + " | caught |", "|---" * (len(COLUMNS) + 2) + "|"]
    rows = list(counts.items())
    if len(rows) > 1:
        rows.append(("all", sum((count for _, count in rows), Counter())))
    for crate, count in rows:
        cells = [str(count[column]) for column in COLUMNS]
        lines.append(f"| {crate} | " + " | ".join(cells) + f" | {100 * share(count):.1f} % |")
    return lines


def processor_time() -> float:
    """Seconds of the processors that have gone into all that was run and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Worker:
    """A copy of the sources, with builds of its own."""

    def __init__(self, folder: Path, skip: list[str]) -> None:
        self.tree = folder / "tree"
        self.skip = skip
        self.seconds: dict[Stage, float] = {}
        self.environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(folder / "build"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_TERM_COLOR": "never",
            "PROPTEST_RNG_SEED": PROPTEST_SEED,
            "RUST_BACKTRACE": "0",
        }

    def sync(self) -> None:
        """Makes the copy what the sources are. What is the same keeps its time, so that little is built again."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE
        )
        wanted = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
        for path in [path for path in self.tree.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.tree)) not in wanted:
                path.unlink()
        for name in wanted:
            source, copy = ROOT / name, self.tree / name
            if not copy.is_file() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
                os.utime(copy)

    def forget(self) -> None:
        """Removes what random tests keep of their failures: the next mutant's tests are not to know it."""
        for pattern in ("*.proptest-regressions", "proptest-regressions/*"):
            for path in self.tree.glob(f"crates/**/{pattern}"):
                path.unlink()

    def execute(self, command: list[str], seconds: float, processor_seconds: int | None) -> tuple[int | None, str, str]:
        """Status (none: it did not end), the first test that failed, and the last lines; ended at the first failure. Where seconds of the
        processors are given, memory is limited, too."""

        def before() -> None:
            os.nice(10)
            if processor_seconds is not None:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
                resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds + 5))

        process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=self.environment,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
        )
        over = threading.Event()

        def end() -> None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

        def too_late() -> None:
            over.set()
            end()

        timer = threading.Timer(seconds, too_late)
        timer.start()
        failed, last = "", []
        for line in process.stdout:
            last = [*last[-20:], line]
            if found := FAILED.match(line.rstrip()):
                failed = found.group(1)
                break
        timer.cancel()
        if failed:
            end()
        process.stdout.close()
        status = process.wait()
        is_late = over.is_set() or any(OUT_OF_TIME in line for line in last)
        return (None if is_late and not failed else status), failed, "".join(last)

    def run(self, stage: Stage) -> tuple[str, str]:
        """`unviable`, `caught` (and by which test), `timeout` or `passed`; the first time, how long it takes becomes its measure."""
        status, _, last = self.execute(stage.command((), run=False), BUILD_SECONDS, None)
        if status != 0:
            return "unviable", last
        limit = int(max(LEAST_SECONDS, PATIENCE * self.seconds.get(stage, LEAST_SECONDS)))
        began = processor_time()
        status, failed, last = self.execute(stage.command(self.skip, run=True), IDLE_PATIENCE * limit, limit)
        self.seconds.setdefault(stage, processor_time() - began)
        if status is None:
            return "timeout", ""
        if failed or status != 0:
            return "caught", failed or last
        return "passed", ""

    def baseline(self, stages: Iterable[Stage]) -> None:
        """Every stage passes with the sources as they are."""
        for stage in stages:
            verdict, detail = self.run(stage)
            if verdict != "passed":
                sys.exit(f"expected that {stage.name} passes unchanged, found {verdict}: {detail}; repair it, or leave it out by --skip TEST")
            print(f"{stage.name} of {', '.join(stage.packages)}: {self.seconds[stage]:.0f} s", flush=True)

    def judge(self, mutant: Mutant, last_stage: str, passed: str) -> dict:
        """What becomes of a mutant, as a row of the results; `open` if it has passed all stages but not been through the last. It has
        `passed` the stages up to that one before; of these only the first, to which tests are added, is run again."""
        path = self.tree / mutant.file
        original = path.read_text()
        began = time.monotonic()
        verdict, stage_name, by = "survived", "", ""
        try:
            path.write_text(mutated(original, mutant.diff))
            stages = STAGES[mutant.crate]
            before = until(stages, passed)[1:] if passed else ()
            for stage in (stage for stage in until(stages, last_stage) if stage not in before):
                verdict, by = self.run(stage)
                if verdict != "passed":
                    stage_name = stage.name
                    break
                verdict, stage_name = ("survived", "") if stage == stages[-1] else ("open", stage.name)
        finally:
            path.write_text(original)
            self.forget()
        row = {"key": mutant.key, "crate": mutant.crate, "mutant": f"{mutant.file}: {mutant.name}", "line": mutant.line, "at": mutant.position}
        return {**row, "verdict": verdict, "stage": stage_name, "by": by[-200:], "seconds": round(time.monotonic() - began, 1)}


def read_rows(path: Path) -> dict[str, dict]:
    """The results by mutant; the later one counts."""
    if not path.exists():
        return {}
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}


def listed(crates: list[str]) -> list[Mutant]:
    """All mutants of some crates."""
    if not shutil.which("cargo-mutants"):
        sys.exit("error: expected cargo-mutants on PATH, found none; cargo install cargo-mutants")
    named = [word for crate in crates for word in ("-p", PREFIX + crate)]
    command = ["cargo", "mutants", "--list", "--diff", "--json", "--no-config", *named]
    done = subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    return sift(json.loads(done.stdout))


def shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected K/N with K from 1 to N, found {text}")
    return int(found[1]), int(found[2])


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "run", "report"])
    parser.add_argument("--crates", nargs="+", default=["epic", "roce"], choices=sorted(STAGES), help="rooms, by their packages (epic roce)")
    parser.add_argument("--sample", type=int, default=300, help="how many are drawn (300); 0: all")
    parser.add_argument("--seed", type=int, default=1, help="by which they are drawn (1)")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="K/N", help="every Nth of them, from the Kth on (1/1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name has it")
    names = dict.fromkeys(stage.name for stages in STAGES.values() for stage in stages)
    parser.add_argument("--until", choices=list(names), default="", help="the last stage to run")
    parser.add_argument("--again", action="store_true", help="survivors that are not explained once more")
    parser.add_argument("--skip", action="append", default=[], metavar="TEST", help="a test to leave out")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--work", type=Path, default=target / "mutants", help="copy, builds and results (target/mutants)")
    return parser.parse_args(words)


def run(options: argparse.Namespace, chosen: list[Mutant]) -> None:
    options.work.mkdir(parents=True, exist_ok=True)
    lock = open(options.work / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"error: another run works in {options.work}; wait for it, or name another folder by --work")
    results = options.work / "results.jsonl"
    rows, explained = read_rows(results), explanations(EXPLAINED.read_text())

    def is_due(mutant: Mutant) -> bool:
        row = rows.get(mutant.key)
        if row is None:
            return not options.again
        if row["verdict"] == "open":
            return options.until != row["stage"]
        return options.again and row["verdict"] == "survived" and not any(each.is_for(row) for each in explained)

    first, step = options.shard
    due = [mutant for mutant in chosen[first - 1 :: step] if is_due(mutant)]
    if not due:
        print("nothing is due")
        return
    worker = Worker(options.work.resolve(), options.skip)
    worker.sync()
    crates = dict.fromkeys(mutant.crate for mutant in due)
    worker.baseline(dict.fromkeys(stage for crate in crates for stage in until(STAGES[crate], options.until)))
    for index, mutant in enumerate(due, 1):
        known = rows.get(mutant.key, {})
        row = worker.judge(mutant, options.until, known.get("stage", "") if known.get("verdict") == "open" else "")
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        where = f" by {row['stage']}: {row['by'].strip().splitlines()[-1]}" if row["by"].strip() and row["verdict"] == "caught" else ""
        print(f"{index}/{len(due)} {row['seconds']:.0f} s {row['verdict']}{where} | {mutant.position} {mutant.name}", flush=True)


def report(options: argparse.Namespace, chosen: list[Mutant]) -> int:
    rows = read_rows(options.work / "results.jsonl")
    known = [{**rows[mutant.key], "at": mutant.position} for mutant in chosen if mutant.key in rows]
    counts, unexplained = tally(known, explanations(EXPLAINED.read_text()))
    print("\n".join(table(counts)))
    if len(known) < len(chosen):
        print(f"{len(chosen) - len(known)} of {len(chosen)} have not been put to any test yet")
    for row in sorted(unexplained, key=lambda row: row["at"]):
        print(f"survived: {row['at']}: {row['mutant'].partition(': ')[2]}\n    {row['line']}")
    return int(len(known) < len(chosen) or bool(unexplained) or any(share(count) < WANTED_SHARE for count in counts.values()))


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    everything = listed(options.crates)
    chosen = draw(everything, options.sample or len(everything), options.seed)
    chosen = [mutant for mutant in chosen if options.only in f"{mutant.file} {mutant.name}"]
    if options.what == "run":
        run(options, chosen)
        return 0
    if options.what == "report":
        return report(options, chosen)
    lines = sorted(f"{mutant.position}: {mutant.name}" for mutant in chosen)
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
