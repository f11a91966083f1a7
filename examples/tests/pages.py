"""The commands of the project's pages, and whether the program still has what they name.

A block of a page without a language has commands, each on a line or after `$ `, with what they print below. Blocks of another language
(`text` among them) have none. Where a page says more of a block than readers want to know, it does so in a comment right above:

    <!-- first: COMMAND -->       what is run before, and not shown; with ` &` behind it, it goes on beside what follows
    <!-- not run: WHY -->         the commands are parsed, not run
    <!-- begun: WHY               those of the lines below, or all, are run for a moment, and interrupted
    COMMAND'S BEGINNING -->
    <!-- as above -->             a table: its cells are what the command before it prints
"""

import functools
import re
import shlex
from dataclasses import dataclass, field

import program

ROOT = program.ROOT

# Other tests hold the blocks of these to the code, byte by byte.
HELD_ELSEWHERE = ("docs/demo.md", "docs/keys.md", "docs/wire.md", "docs/papers.md")
FOREIGN = "cargo cp dpkg export for ip make mkdir mpirun mv openssl printf promtool python3 sqlite3 sysctl systemctl torchrun"
# Of these, those that run here as ours do, and those of which it is looked up whether what they name is there. Others have a note.
RUN = ("cp", "for", "mkdir", "mv", "openssl", "printf", "sqlite3")
LOOKED_UP = ("cargo", "make", "python3")
FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.M | re.S)
NOTE = re.compile(r"<!-- (first|not run|begun|as above)(?:: ([^\n]*?))?((?:\n[^\n]*?)*?) ?-->")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PREFIX = re.compile(r"^(?:sudo |[A-Z_]+=\S+ )*(?:target/\w+/)?(?=quincunx )")
# A number, with a unit of sizes or times if it has one.
NUMBER = re.compile(r"(?<![\w.])-?\d[\d.,]*(?:(?:[KMG]iB|B|[mun]?s)\b)?")
# Those that run on real sockets.
REAL = ("perf", "group", "nodes", "top", "doctor", "manager")
MONTH = re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b")
# Where in a program something was called.
SITE = re.compile(r"\S+\.(?:py|c|rs):\d+")
PLACEHOLDER = re.compile(r"\.\.\.|(?:^|[=. ])[A-Z]+(?:[ :.]|$)")


@dataclass
class Command:
    """A command as it is printed, and what the page says of it."""

    page: str
    line: int
    text: str
    # What stands behind it, after a `#`.
    remark: str = ""
    # What it prints, by the page.
    shown: list[str] = field(default_factory=list)
    # "run", "begun", "not run", "first" or "inline".
    how: str = "run"
    why: str = ""

    @property
    def words(self) -> list[str]:
        """The words of the program's, from `quincunx` to where the shell has something else to do; none of another program's."""
        begin = PREFIX.match(self.text)
        if not begin:
            return []
        lexer = shlex.shlex(self.text[begin.end() :], posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words: list[str] = []
        for word in lexer:
            if word[0] in "|&;<>" or word == "--":
                break
            words.append(word)
        return words[1:]

    @property
    def is_server(self) -> bool:
        return self.words[:1] in (["switch"], ["agent"]) or (self.words[:1] == ["manager"] and self.words[1:2] not in (["init"], ["revoke"]))

    @property
    def program(self) -> str:
        """The first word that is no setting: whose command it is."""
        return next((word.lstrip("(") for word in self.text.split() if word != "sudo" and not re.match(r"[A-Z_]+=", word)), "")

    @property
    def has_placeholders(self) -> bool:
        return bool(PLACEHOLDER.search(self.text))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: `{self.text}`"


def differs(command: Command, printed: list[str]) -> str | None:
    """What a page shows and the command has not printed; None if all is there. `...` stands for any number of lines."""
    real = not command.words or command.words[0] in REAL

    def alike(line: str) -> str:
        return " ".join(MONTH.sub("#", NUMBER.sub("#", SITE.sub("#", line))).split()) if real else line.rstrip()

    shown = [alike(line) for line in command.shown if line.strip()]
    found = [alike(line) for line in printed if line.strip() and not line.startswith("progress: ")]
    at = 0
    gap = True
    for line in shown:
        if line == "...":
            gap = True
            continue
        try:
            place = found.index(line, at)
        except ValueError:
            place = -1
        if place < 0 or not gap and place != at:
            there = found[at] if at < len(found) else "the end"
            return f"the page shows\n  {line}\nand it prints\n  {there}"
        at, gap = place + 1, False
    return None


class Mistake(Exception):
    """A page is not as it should be; the message says where."""


def is_command(line: str) -> bool:
    """Whether a line of a block without a language is a command: of ours, or of a program that pages name."""
    words = line.removeprefix("sudo ").split()
    return bool(words) and (words[0] in ("quincunx", *FOREIGN.split()) or bool(re.match(r"tools/|[A-Z_]+=|\(umask$", words[0])))


def split(line: str) -> tuple[str, str]:
    """A command, and the remark behind it."""
    text, _, remark = re.sub(r"\s+# ", "\0", line, count=1).partition("\0")
    return text.rstrip(), remark


def of_block(page: str, number: int, body: str, notes: list[re.Match[str]]) -> list[Command]:
    """The commands of a block, and of the notes above it."""
    commands = [Command(page, number, note[2], how="first") for note in notes if note[1] == "first"]
    ways = [(note[1], note[2], [line.strip() for line in note[3].splitlines() if line.strip()]) for note in notes if note[1] != "first"]
    prompted = bool(re.search(r"^\$ ", body, re.M))
    begun = {start for _, _, starts in ways for start in starts}
    # What a line ends with that goes on in the next one, and loops, are one command.
    lines = re.sub(r"&&\n\s+|(?<=do)\n\s+|\n(?=done\b)", lambda found: "; " if found[0] == "\n" else f"{found[0].strip()} ", body).splitlines()
    for at, line in enumerate(lines, number + 1):
        if line.startswith("$ ") or not prompted and is_command(line):
            text, remark = split(line.removeprefix("$ "))
            command = Command(page, at, text, remark)
            for how, why, starts in ways:
                found = [start for start in starts if text.startswith(start)]
                begun.difference_update(found)
                if found or not starts:
                    command.how, command.why = how, why
            commands.append(command)
        elif commands and commands[-1].how != "first":
            commands[-1].shown.append(line)
        else:
            raise Mistake(f"{page}:{at}: expected a command of ours or of {FOREIGN}, found {line!r}; a block of something else is `text`")
    if begun:
        raise Mistake(f"{page}:{number}: expected commands that begin with {sorted(begun)} below, found none")
    return commands


def commands(page: str, text: str) -> list[Command]:
    """The commands of a page, in its order."""
    found: list[Command] = []
    # Where each piece of code in a sentence begins, of those that are commands.
    places: list[tuple[int, Command]] = []
    at = 0
    notes: list[re.Match[str]] = []

    def prose(part: str, offset: int) -> None:
        nonlocal notes
        for code in CODE.finditer(part):
            if is_ours(code[1]):
                number = text.count("\n", 0, offset + code.start()) + 1
                found.append(Command(page, number, code[1] if code[1].startswith(("quincunx ", "sudo ")) else f"quincunx {code[1]}", how="inline"))
                places.append((offset + code.start(), found[-1]))
        # Those right above a block, one below the other.
        behind = ((note, part[note.end() :].lstrip()) for note in NOTE.finditer(part))
        notes = [note for note, rest in behind if note[1] == "as above" or not rest or NOTE.match(rest)]
        for note in NOTE.finditer(part):
            if note[1] == "as above":
                rows = part[note.end() :].lstrip("\n").split("\n\n")[0].splitlines()[2:]
                above = [command for place, command in places if place < offset + note.start()]
                if not above or not rows:
                    raise Mistake(f"{page}: expected a command above {note[0]!r} and a table below, found none")
                above[-1].how, above[-1].shown = "table", rows
            elif note not in notes and note.start() not in [other.start() for other in notes]:
                raise Mistake(f"{page}: expected a block right below {note[0]!r}, found none")

    for block in FENCE.finditer(text):
        prose(text[at : block.start()], at)
        if block[1] == "":
            number = text.count("\n", 0, block.start()) + 1
            found += of_block(page, number, block[2], [note for note in notes if note[1] != "as above"])
        at = block.end()
    prose(text[at:], at)
    return found


@functools.cache
def help_of(*path: str) -> str | None:
    """The help of a command; None if there is no such command."""
    asked = program.ask(*path, "--help")
    return asked.stdout if asked.returncode == 0 and "Usage:" in asked.stdout else None


@functools.cache
def subcommands(*path: str) -> frozenset[str]:
    text = help_of(*path) or ""
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
    return frozenset(re.findall(r"^  ([a-z][\w-]*)", listed[1] if listed else "", re.M)) - {"help"}


@functools.cache
def options(*path: str) -> frozenset[str]:
    lines = re.findall(r"^ {2,8}(-\w)?(?:, )?(--[\w-]+)?", help_of(*path) or "", re.M)
    aliases = re.findall(r"\[alias(?:es)?:\s+([^\]]*)\]", help_of(*path) or "")
    return frozenset(name for pair in lines for name in pair if name) | {name for alias in aliases for name in re.split(r",\s+", alias)}


def is_ours(code: str) -> bool:
    """Whether a piece of code in a sentence is a command of ours, with or without `quincunx`."""
    if code.startswith(("quincunx ", "sudo quincunx ")):
        return True
    first, *rest = code.split()
    return first in subcommands() and bool(rest) and (rest[0].startswith("--") or rest[0] in subcommands(first) or any(word.startswith("--") for word in rest))


def refused(command: Command) -> str | None:
    """Why the program has no such command, or not its options; None if it has."""
    words = command.words
    path: list[str] = []
    while words[len(path) :] and words[len(path)] in subcommands(*path):
        path.append(words[len(path)])
    if not path and words and not words[0].startswith("-"):
        if help_of(words[0]) is None:
            return f"there is no command {words[0]!r}"
        path = words[:1]
    after = words[len(path)] if words[len(path) :] else "-"
    # Its usage says whether it wants one of its commands; a page may leave that open.
    if re.search(r"^Usage: [^\n]*<COMMAND>$", help_of(*path) or "", re.M) and not re.match(r"-|\.\.\.|[A-Z]+$", after):
        return f"`quincunx {' '.join(path)}` has no {after!r}"
    for word in words[len(path) :]:
        name = word.partition("=")[0]
        if re.match(r"--?[a-zA-Z]", word) and name not in options(*path) and word not in ("--help", "--version", "-h"):
            return f"`quincunx {' '.join(path)}` has no {name}"
    if command.has_placeholders or not words:
        return None
    asked = program.ask(*words, *([] if "--help" in words else ["--help"]))
    # In a sentence an option may stand for itself.
    if command.how == "inline" and "a value is required for" in asked.stderr:
        return None
    return None if asked.returncode == 0 else asked.stderr.strip()


def lacking(command: Command) -> str | None:
    """What a command of cargo, make or Python names that the tree does not have."""
    words = command.text.split()
    if command.how == "run" and command.program not in (*RUN, *LOOKED_UP, "umask"):
        return "it is not run, and no `<!-- not run: WHY -->` is above it"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    if words[0] == "make" and not re.search(rf"^{re.escape(words[1])}:", makefile, re.M):
        return f"there is no target {words[1]!r}"
    for word, after in zip(words, [*words[1:], ""]):
        if word == "python3" and after.endswith(".py"):
            if not (ROOT / after).is_file():
                return f"there is no {after}"
            source = (ROOT / after).read_text(encoding="utf-8")
            if unknown := [flag for flag in words if flag.startswith("--") and f'"{flag}"' not in source]:
                return f"{after} has no {unknown}"
        if re.match(r"(tools|benches|examples)/\S+\.(sh|py)$", word) and not (ROOT / word).is_file():
            return f"there is no {word}"
        if "cargo" in words and word == "-p" and not _package(after):
            return f"there is no package {after!r}"
        if "cargo" in words and word in ("--example", "--test", "--bench"):
            package = _package(words[words.index("-p") + 1])
            folder = {"--example": "examples", "--test": "tests", "--bench": "benches"}[word]
            if package and not any((package / folder / place).exists() for place in (f"{after}.rs", after, f"{after}/main.rs")):
                return f"{package.name} has no {word} {after}"
    return None


@functools.cache
def _packages() -> dict[str, object]:
    found = {}
    for manifest in ROOT.glob("[!t]*/**/Cargo.toml"):
        if name := re.search(r'^name = "([^"]+)"', manifest.read_text(encoding="utf-8"), re.M):
            found[name[1]] = manifest.parent
    return found


def _package(name: str):
    return _packages().get(name)
