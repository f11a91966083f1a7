"""The package as it is here, and programs of its tests run on ranks by `quincunx run`."""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGE = HERE.parent / "quincunx"

# Longer than any of them takes on a machine that is busy.
LIMIT_SECONDS = 300


def build() -> Path:
    """Builds the package's module and the program; where the program is. Raises CalledProcessError if the build fails."""
    command = ["cargo", "build", "-q", "-p", "quincunx-python", "-p", "quincunx-cli", "-p", "quincunx-capi"]
    # With what else was built before, if somebody says.
    subprocess.run([*command, *os.environ.get("QUINCUNX_BUILD", "").split()], cwd=ROOT, check=True)
    found = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, check=True, capture_output=True)
    target = Path(json.loads(found.stdout)["target_directory"]) / "debug"
    # Another file of the name, not other bytes in it: a process that has loaded it, as this one may have, goes on with the one that it knows.
    fresh = PACKAGE / f"_core.abi3.so.{os.getpid()}"
    shutil.copyfile(target / "lib_core.so", fresh)
    fresh.replace(PACKAGE / "_core.abi3.so")
    return target


class OnRanks(unittest.TestCase):
    """Tests whose method names are those of functions in `programs`, each run by every one of three ranks."""

    programs: str
    # Options of `quincunx run` in all of them.
    everywhere: tuple[str, ...] = ()
    # What the ranks of the last run have printed there.
    errors: str
    target: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.target = build()

    def run_on_ranks(self, *command: str, ranks: int = 3, options: tuple[str, ...] = ()) -> str:
        """Runs a command on ranks, with options of `quincunx run`; what they printed. Fails if one of them does."""
        path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        program = str(self.target / "quincunx")
        environment = dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1", LD_LIBRARY_PATH=str(self.target), QUINCUNX_COMMAND=program)
        started = [program, "run", "-n", str(ranks), *self.everywhere, *options, "--", *command]
        ended = subprocess.run(started, env=environment, text=True, capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual(ended.returncode, 0, ended.stderr[-4000:] + ended.stdout[-1000:])
        self.errors = ended.stderr
        return ended.stdout

    def hold(self, ranks: int = 3, options: tuple[str, ...] = ()) -> None:
        """Runs the function that is called as the test is."""
        name = self._testMethodName.removeprefix("test_")
        self.run_on_ranks(sys.executable, str(HERE / self.programs), name, ranks=ranks, options=options)


def one_address(last: int) -> str:
    """An address of loopback that no other process's tests have."""
    return f"127.{128 + os.getpid() // 250 % 60}.{os.getpid() % 250}.{last}"


def groups_at_the_manager() -> int:
    """Asked by a rank: how many there are that have not failed; of each group of ranks one for collectives, one for messages."""
    asked = [os.environ["QUINCUNX_COMMAND"], "group", "list", "--manager", os.environ["QUINCUNX_MANAGER"], "--json"]
    listed = json.loads(subprocess.run(asked, text=True, capture_output=True, check=True).stdout)
    return sum(group["state"] != "failed" for group in listed["groups"])


def expect_groups_at_the_manager(count: int) -> None:
    """Waits until there are no more: ranks do not wait for the end of what they give back."""
    for _ in range(100):
        if (found := groups_at_the_manager()) == count:
            return
        time.sleep(0.1)
    sys.exit(f"expected {count} groups at the manager, found {found}")


def asked_of_group(question: str) -> dict[str, Any]:
    """Asked by a rank: what `group waits --json` or `group calls --json` says of the job's collectives."""
    operate = [os.environ["QUINCUNX_COMMAND"], "group"]
    manager = ["--manager", os.environ["QUINCUNX_MANAGER"], "--json"]
    listed = json.loads(subprocess.run([*operate, "list", *manager], text=True, capture_output=True, check=True).stdout)
    # The other one is for messages.
    number = next(group["group"] for group in listed["groups"] if group["runs"] != "writes")
    asked = subprocess.run([*operate, question, str(number), *manager], text=True, capture_output=True, check=True)
    return json.loads(asked.stdout)


def waits() -> dict[str, Any]:
    """Whom the job's ranks wait for in their collectives."""
    return asked_of_group("waits")["waits"]


def wait_for_waits(ranks: list[int], state: str) -> dict[str, Any]:
    """The answer, once just these ranks are waited for, for that reason."""
    for _ in range(100):
        found = waits()
        if [(rank.get("rank"), rank["state"]) for rank in found["waited_for"]] == [(rank, state) for rank in ranks] and found["waiting"]:
            return found
        time.sleep(0.05)
    sys.exit(f"expected ranks {ranks} to be waited for, found {found}")


def expect_as_shown(beginning: str) -> None:
    """Ends the program unless a command prints what docs/operators.md shows of it, but for numbers and places in programs."""
    sys.path += [str(ROOT / "examples" / "tests")]
    import pages

    text = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
    [command] = [command for command in pages.commands("docs/operators.md", text) if command.text.startswith(beginning) and command.shown]
    asked = [os.environ["QUINCUNX_COMMAND"], *command.words, "--manager", os.environ["QUINCUNX_MANAGER"]]
    printed = subprocess.run(asked, text=True, capture_output=True, check=True).stdout
    if why := pages.differs(command, printed.splitlines()):
        sys.exit(f"expected {command} as its page shows it, found {printed}\n{why}")


class Analysed(unittest.TestCase):
    """Tests that import the package, whose command is the one that is built here."""

    @classmethod
    def setUpClass(cls) -> None:
        target = build()
        if str(PACKAGE.parent) not in sys.path:
            sys.path.insert(0, str(PACKAGE.parent))
        os.environ["QUINCUNX_COMMAND"] = str(target / "quincunx")


def is_told(text: str, kind: str) -> bool:
    """Whether an error says what differs, and names rank 1 and one other, whoever had come by then, each with its line of the program."""
    others = sum(f"rank {other} (" in text for other in (0, 2, 3))
    what = kind.split(" of ")[0].split(" in ")[0]
    return "expected all ranks of group " in text and f"another {what}: " in text and "rank 1 (" in text and others == 1 and text.count(".py:") == 2
