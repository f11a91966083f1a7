"""The pages' commands run as they are printed, and print what the pages show.

What is simulated or explored is held to the last digit; tables that take minutes, by an optimised program alone (`make test-pages`). Of what
runs on real sockets the numbers may differ, and nothing else. QUINCUNX_PAGES=times prints how long each command takes.

Each page has a folder and a network of its own: namespaces that end with the test, in which the pages' addresses are those of loopback.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools")]

import needs  # noqa: E402
import pages  # noqa: E402
import program  # noqa: E402
from pages import Command, differs  # noqa: E402

# Those with most to run come first.
LONGEST = ["docs/architects.md", "docs/designers.md", "docs/measure.md", "README.md"]
OTHERS = sorted(str(path.relative_to(pages.ROOT)) for path in (pages.ROOT / "docs").rglob("*.md"))
PAGES = [pages.ROOT / page for page in LONGEST + [page for page in OTHERS if page not in (*LONGEST, *pages.HELD_ELSEWHERE)]]

# Longer than any command takes on a machine that is busy.
LIMIT_SECONDS = 300.0
# In which a command that is interrupted has said what it does not understand.
BEGUN_SECONDS = 1.0
# A row of `perf`, which is interrupted when the first one is there. The last column says how many results were wrong.
MEASURED = re.compile(r"^(?:[\w-]+ +)?(\w+) +\d+ +\d+ +\w+ +\w+ +-?\d+ +.* (\d+|-)$")
# How a page says that `doctor` ends with a fault.
MENDED = "something is to be mended"

# What the pages have of addresses, in a network that nobody else is in; what is written to /etc, /run and /var/lib is gone with it.
# Few machines have SQLite's own program.
SQLITE = """#!/usr/bin/env python3
import sqlite3, sys
[flag, file, asked] = sys.argv[1:]
known = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
for one in asked.split(";"):
    for row in known.execute(one):
        print(*row, sep="|")
"""
NETWORK = """
set -e
mount -t tmpfs tmpfs /run
cp -a /etc /run/etc
mount --bind /run/etc /etc
mount -t tmpfs tmpfs /var/lib
ip link set lo up
for n in 1 8 9 11 12; do ip addr add 10.0.0.$n/32 dev lo; done
echo ready
exec cat
"""


def lacks(command: Command, printed: list[str]) -> str | None:
    """A row of a table whose cells no printed line has in their order; None if there is none."""
    for row in command.shown:
        cells = [cell.strip() for cell in row.strip("| ").split("|")]
        pattern = re.compile(r"^\s*" + r"\s+(?:.*\s)?".join(map(re.escape, cells)) + r"(?:\s|$)")
        if not any(pattern.match(line) for line in printed):
            return f"the page has the row\n  {row}\nand no line of what it prints has these in their order"
    return None


class Session:
    """A folder and a network for the commands of a page, until it is closed."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quincunx-pages-"))
        work = self.folder / "work"
        for folder in (work / "target/release", work / "target/debug", self.folder / "bin"):
            folder.mkdir(parents=True)
            (folder / "quincunx").symlink_to(program.program().resolve())
        for entry in pages.ROOT.iterdir():
            if entry.name[0] != "." and entry.name != "target":
                (work / entry.name).symlink_to(entry)
        self.work = work
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("QUINCUNX_")},
            "PATH": f"{self.folder / 'bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin",
            "HOME": str(self.folder),
        }
        if not shutil.which("sqlite3"):
            (self.folder / "bin/sqlite3").write_text(SQLITE)
            (self.folder / "bin/sqlite3").chmod(0o755)
        self.servers: list[tuple[subprocess.Popen, Path]] = []
        self.background: list[subprocess.Popen] = []
        self.network = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", NETWORK],
            env=self.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.network.stdout is not None
        if self.network.stdout.readline() != "ready\n":
            self.close()
            raise AssertionError("expected a network namespace, found none")

    def close(self) -> None:
        self.end_servers()
        for process in self.background:
            self.kill(process)
        self.network.communicate(timeout=LIMIT_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def end_servers(self) -> None:
        # Switches before their manager.
        for process, _ in reversed(self.servers):
            self.kill(process, signal.SIGTERM)
        self.servers = []

    @staticmethod
    def kill(process: subprocess.Popen, by: int = signal.SIGKILL) -> None:
        """Ends a process with all that it has begun."""
        for way in (by, signal.SIGKILL):
            try:
                os.killpg(process.pid, way)
                process.wait(20)
            except ProcessLookupError:
                process.wait(20)
            except subprocess.TimeoutExpired:
                continue
            return

    def begin(self, text: str, output) -> subprocess.Popen:
        return subprocess.Popen(
            ["nsenter", "-t", str(self.network.pid), "-n", "-m", f"--wd={self.work}", "bash", "-c", text],
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def serve(self, command: Command) -> str | None:
        """Starts a manager, switch or agent, and waits until it says that it is there."""
        if command.words[0] == "manager":
            self.end_servers()
        log = self.folder / f"server-{len(self.servers)}-{time.monotonic_ns()}"
        with log.open("w") as output:
            process = self.begin(f"exec {command.text.rstrip(' &')}", output)
        self.servers.append((process, log))
        end = time.monotonic() + LIMIT_SECONDS
        while not re.search(r"listens at|attached node|agent", log.read_text()):
            if process.poll() is not None or time.monotonic() > end:
                return f"it does not serve: {log.read_text()[-1000:]}"
            time.sleep(0.02)
        return None

    def run(self, command: Command) -> str | None:
        """Runs a command as it is printed; what is wrong with it, or None."""
        if command.is_server:
            return self.serve(command)
        text = command.text.removeprefix("sudo ")
        if text.endswith(" &") and command.how == "first":
            log = self.folder / f"beside-{time.monotonic_ns()}"
            with log.open("w") as output:
                self.servers.append((self.begin(f"{text.removesuffix(' &')}", output), log))
            return None
        if text.endswith(" &"):
            self.background.append(self.begin(text.removesuffix(" &"), subprocess.DEVNULL))
            return None
        first = command.words[0] if command.words else ""
        # A table is minutes of simulation without optimisation.
        begun = command.how in ("begun", "inline") or command.how == "table" and not is_optimised()
        with tempfile.NamedTemporaryFile("r", dir=self.folder) as printed:
            with open(printed.name, "w") as output:
                # What redirects its output, or sets variables, is run by a shell that waits for it.
                process = self.begin(text if re.search(r"[|>;&]|^[A-Z_]+=", text) else f"exec {text}", output)
            start = time.monotonic()
            interrupted = 0.0
            lines: list[str] = []
            while process.poll() is None:
                time.sleep(0.02)
                lines = Path(printed.name).read_text(errors="replace").splitlines()
                busy = time.monotonic() - start
                if busy > LIMIT_SECONDS:
                    self.kill(process)
                    return f"it had not ended after {LIMIT_SECONDS:.0f} s; if it need not, say `<!-- begun: WHY -->` above it\n" + "\n".join(lines[-5:])
                row = first == "perf" and any(MEASURED.match(line) for line in lines)
                if not interrupted and (row or begun and busy > BEGUN_SECONDS):
                    interrupted = busy
                    os.killpg(process.pid, signal.SIGINT)
                if interrupted and busy > interrupted + (20 if first == "perf" else BEGUN_SECONDS):
                    self.kill(process)
            lines = Path(printed.name).read_text(errors="replace").splitlines()
        for other in self.background:
            if other.wait(LIMIT_SECONDS) != 0:
                return "what runs in the background beside it fails"
        self.background = []
        if first == "perf" and (wrong := [line for line in lines if (row := MEASURED.match(line)) and row[2] not in "0-"]):
            return f"a wrong result: {wrong[0]}"
        incomplete = command.how == "inline" and any("required arguments were not provided" in line for line in lines)
        if not incomplete and not (interrupted and process.returncode in (130, -signal.SIGINT, -signal.SIGKILL)):
            wrong_run = any("expected every run to be right" in line for line in lines)
            is_wrong = "--mutate" in command.words or command.remark.startswith("a wrong") or "group.unproved=true" in text
            expected = 1 if is_wrong or command.remark == MENDED else 0
            if process.returncode != expected or wrong_run != is_wrong:
                return f"expected status {expected}, found {process.returncode}:\n" + "\n".join(lines[-5:])
        if command.how == "table":
            return None if begun else lacks(command, lines)
        return differs(command, lines)


def is_optimised() -> bool:
    return program.program().resolve().parent.name != "debug"


def is_run(command: Command) -> bool:
    """Whether a command is run here: what is ours, whole, and not excused."""
    if command.how == "not run" or command.how != "first" and not command.words and command.program not in (*pages.RUN, "umask"):
        return False
    if command.how == "inline":
        return command.words[0] in ("sim", "check") and not command.has_placeholders
    return True


class Count:
    """What was done with a page's commands."""

    def __init__(self) -> None:
        self.run = self.begun = self.compared = self.parsed = self.foreign = 0
        self.seconds = 0.0

    def __str__(self) -> str:
        return f"{self.run} run, {self.compared} of them compared; {self.begun} begun, {self.parsed} parsed, {self.foreign} of other programs; {self.seconds:.1f} s"


def parsed(page: str, text: str) -> list[str]:
    """What is wrong with a page's commands, as far as that can be told without running them."""
    faults = []
    for command in pages.commands(page, text):
        if why := (pages.refused(command) if command.words else pages.lacking(command)):
            faults.append(f"{command}: {why}")
    return faults


def ran(page: str, text: str, count: Count | None = None) -> list[str]:
    """What is wrong with what a page's commands do and print."""
    count = count or Count()
    faults = []
    known: set[str] = set()
    todo = pages.commands(page, text)
    start = time.monotonic()
    if not any(is_run(command) for command in todo):
        for command in todo:
            count.foreign += not command.words
            count.parsed += bool(command.words)
        return []
    session = Session()
    try:
        for command in todo:
            if not is_run(command):
                count.foreign += not command.words
                count.parsed += bool(command.words)
                continue
            if command.how == "inline" and command.text in known:
                continue
            known.add(command.text)
            since = time.monotonic()
            if fault := session.run(command):
                faults.append(f"{command}: {fault}")
            if os.environ.get("QUINCUNX_PAGES") == "times":
                print(f"{time.monotonic() - since:6.1f} {command.how} {command}", file=sys.stderr, flush=True)
            begun = command.how in ("begun", "inline") or command.how == "table" and not is_optimised()
            count.compared += bool(command.shown) and not begun
            if begun:
                count.begun += 1
            else:
                count.run += command.how != "first"
    finally:
        session.close()
    count.seconds = time.monotonic() - start
    return faults


SIMULATED = """
```
$ quincunx sim all_reduce --fabric epic-star8 --design epic-3 --size 4KiB
epic-3   all_reduce           4096      1024   f32   sum   -1         2.7    1.5291    2.6759    1.6381       0
```
Also `group list --json`, `quincunx group why NAME`, `quincunx perf all_reduce --ranks N` and `sim jobs`.
"""


class NoticedTest(unittest.TestCase):
    """What is wrong with a page is noticed."""

    def test_a_mistyped_command_and_a_flag_that_is_gone_are_named(self) -> None:
        self.assertEqual(parsed("page.md", SIMULATED), [])
        for right, wrong, named in (
            ("quincunx sim all_reduce", "quincunx smi all_reduce", "no command 'smi'"),
            ("sim all_reduce", "sim all_reduec", "all_reduec"),
            ("--fabric epic", "--fabrics epic", "no --fabrics"),
            ("perf all_reduce --ranks N", "perf all_reduce --rank N", "no --rank"),
            ("group list --json", "group list --jsn", "no --jsn"),
            ("group why NAME", "group wyh NAME", "no 'wyh'"),
        ):
            with self.subTest(wrong=wrong):
                self.assertIn(right, SIMULATED)
                self.assertIn(named, "".join(parsed("page.md", SIMULATED.replace(right, wrong))))

    def test_what_is_neither_a_command_nor_its_output_and_a_note_of_nothing_are_mistakes(self) -> None:
        for text, named in (
            ("```\nquincnux sim\n```\n", "quincnux"),
            ("<!-- begun: long\nquincunx check -->\n```\nquincunx sim\n```\n", "quincunx check"),
            ("<!-- not run: root -->\nwords\n\n```\nquincunx sim\n```\n", "right below"),
            ("<!-- as above -->\n| a |\n|---|\n| 1 |\n", "a command above"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(pages.Mistake, named):
                pages.commands("page.md", text)

    def test_files_targets_and_packages_that_are_gone_are_named(self) -> None:
        for text in ("make nothing", "python3 benches/nothing.py", "cargo test -p nothing", "cargo test -p quincunx-cli --test nothing", "python3 benches/shares.py --nothing"):
            with self.subTest(command=text):
                self.assertIn("nothing", "".join(parsed("page.md", f"```\n{text}\n```\n")))

    def test_numbers_on_real_sockets_may_differ_and_words_may_not(self) -> None:
        command = Command("page.md", 1, "quincunx nodes", shown=["leaf1  switch  127.0.0.2  0/4096  0B/16MiB", "...", "leaf2  switch"])
        self.assertIsNone(differs(command, ["leaf1  switch  127.0.0.9  12/4096  64.25KiB/16MiB", "leaf1.5", "leaf2  switch"]))
        self.assertIn("leaf2", differs(command, ["leaf1  switch  127.0.0.9  12/4096  64.25KiB/16MiB"]) or "")
        self.assertIn("leaf1", differs(command, ["leaf1  host  127.0.0.9  12/4096  64.25KiB/16MiB", "leaf2  switch"]) or "")


class ReadTest(unittest.TestCase):
    def test_each_command_names_what_is_there(self) -> None:
        for path in PAGES:
            page = str(path.relative_to(pages.ROOT))
            with self.subTest(page=page):
                self.assertEqual(parsed(page, path.read_text(encoding="utf-8")), [])

    def test_sentences_of_pages_whose_blocks_are_held_elsewhere_name_what_is_there(self) -> None:
        for page in pages.HELD_ELSEWHERE:
            text = (pages.ROOT / page).read_text(encoding="utf-8")
            with self.subTest(page=page):
                self.assertEqual(parsed(page, pages.FENCE.sub("", text)), [])


@needs.root()
class RunTest(unittest.TestCase):
    def test_a_row_that_differs_in_a_digit_is_noticed_and_so_is_a_status(self) -> None:
        self.assertEqual(ran("page.md", SIMULATED), [])
        self.assertIn("1.5292", "".join(ran("page.md", SIMULATED.replace("1.5291", "1.5292"))))
        self.assertIn("status 0", "".join(ran("page.md", "```\nquincunx sim all_reduce --fabric nothing\n```\n")))
        wrong = "```\nquincunx check switchml-rules all_reduce --window 1 --reorder   # right\n```\n"
        self.assertIn("status 0", "".join(ran("page.md", wrong)))
        self.assertEqual(ran("page.md", wrong.replace("right", "a wrong sum")), [])

    def test_each_command_runs_as_it_is_printed_and_prints_what_is_shown(self) -> None:
        counts = {path: Count() for path in PAGES}

        def one(path: Path) -> list[str]:
            return ran(str(path.relative_to(pages.ROOT)), path.read_text(encoding="utf-8"), counts[path])

        with ThreadPoolExecutor(2) as workers:
            found = list(workers.map(one, PAGES))
        for path, faults in zip(PAGES, found):
            print(f"{path.relative_to(pages.ROOT)}: {counts[path]}")
            for fault in faults:
                with self.subTest(page=path.name):
                    self.fail(fault)


if __name__ == "__main__":
    unittest.main()
