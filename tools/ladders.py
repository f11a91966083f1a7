"""One packet of an AllReduce of two hosts, in each of EPIC's modes, and what each does if it is lost: docs/modes.svg, by `pictures.py`.

Time goes down, and by events, not to scale: a time-out is a hundred times as long as a packet's way.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pictures import ANSWER_SECONDS, LINK, ROOT, Frame, frames

PICTURE = ROOT / "docs/modes.svg"
MODES = {"epic-1": "Mode I", "epic-2": "Mode II", "epic-3": "Mode III"}
# Seeds with which the first packet of a host is lost, and no other frame.
LOSSES = {"epic-1": 24, "epic-2": 24, "epic-3": 24}
LOSS = "8%"
NODES = ("host-0", "switch-0", "host-1")
# How `--trace` calls a frame: what it is, its PSN, how much data it has, and what became of it.
NAME = re.compile(rb"(?:SEND|WRITE|ACK|NAK|RNR|CNP|OTHER) 0x[0-9a-f]+ \d+ B(?:, [a-z ]+)*")
COLOURS = {"data": "#4477aa", "acknowledges": "#aaaaaa", "asks what is there": "#ccbb44", "says what is missing": "#aa3377", "lost": "#ee6677"}
WIDTH, ROW, TOP, EDGE = 300, 19, 64, 70


@dataclass(frozen=True)
class Step:
    """A frame, and how the trace calls it."""

    frame: Frame
    name: str

    @property
    def is_lost(self) -> bool:
        return self.name.endswith(", lost")

    @property
    def kind(self) -> str:
        """One of those in COLOURS."""
        word, _, length, *_ = self.name.split()
        if self.is_lost:
            return "lost"
        return {"SEND": "asks what is there" if length == "0" else "data", "NAK": "says what is missing"}.get(word, "acknowledges")


def run(program: Path, design: str, seed: int | None) -> list[Step]:
    """The frames of one packet's AllReduce, of which some are lost if there is a seed."""
    lossy = [] if seed is None else ["--loss", LOSS, "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        capture, trace = Path(folder, "run.pcapng"), Path(folder, "run.pftrace")
        settings = [word for setting in LINK for word in ("--set", setting)]
        asked = [program, "sim", "all_reduce", "--fabric", "star-2", "--design", design, "--size", "4KiB", *settings, *lossy]
        subprocess.run([*asked, "--pcap", capture, "--trace", trace], check=True, capture_output=True, timeout=ANSWER_SECONDS)
        found, names = list(frames(capture.read_bytes())), [name.decode() for name in NAME.findall(trace.read_bytes())]
    assert len(found) == len(names), f"expected a name for each of {len(found)} frames, found {len(names)}"
    return [Step(frame, name) for frame, name in zip(found, names)]


def ladder(title: str, steps: list[Step], left: int, top: int) -> tuple[list[str], int]:
    """A run's arrows between three lines; and how high it is."""
    times = sorted({time for step in steps for time in (step.frame.leaves, step.frame.arrives)})
    # What happens within a tenth of a microsecond stands on one line.
    rows: dict[int, int] = {}
    row, before = -1, -1000
    for time in times:
        row += time - before > 100
        before = time
        rows[time] = row
    place = {node: left + EDGE + number * (WIDTH - 2 * EDGE) // 2 for number, node in enumerate(NODES)}
    height = TOP + ROW * (row + 1)
    parts = [f'<text x="{place["switch-0"]}" y="{top + 20}" font-weight="bold">{title}</text>']
    for node, x in place.items():
        parts.append(f'<text x="{x}" y="{top + 42}">{node.split("-")[0]}{" " + node[-1] if node.startswith("host") else ""}</text>')
        parts.append(f'<line x1="{x}" y1="{top + 48}" x2="{x}" y2="{top + height - 6}" stroke="#bbbbbb"/>')
    for at in sorted(set(rows.values())):
        time = min(time for time, other in rows.items() if other == at)
        parts.append(f'<text x="{left + 26}" y="{top + TOP + ROW * at + 4}" font-size="10" fill="#777777">{time / 1000:.1f} us</text>')
    for step in steps:
        x, y = place[step.frame.source], top + TOP + ROW * rows[step.frame.leaves]
        to_x, to_y = place[step.frame.target], top + TOP + ROW * rows[step.frame.arrives]
        if step.is_lost:
            to_x, to_y = (x + to_x) // 2, (y + to_y) // 2
        parts.append(f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{COLOURS[step.kind]}" stroke-width="1.5" marker-end="url(#{"lost" if step.is_lost else "there"})"/>')
    return parts, height


def picture(program: Path) -> str:
    """The modes beside each other; above without loss, below with one."""
    parts, top = [], 0
    for words, seeds in (("", dict.fromkeys(MODES)), (": the packet is lost", LOSSES)):
        heights = []
        for number, (design, mode) in enumerate(MODES.items()):
            drawn, height = ladder(mode + words, run(program, design, seeds[design]), number * WIDTH, top)
            parts += drawn
            heights.append(height)
        top += max(heights) + 10
    for number, (kind, colour) in enumerate(COLOURS.items()):
        x = 3 * WIDTH // len(COLOURS) * number + 20
        parts.append(f'<line x1="{x}" y1="{top + 8}" x2="{x + 24}" y2="{top + 8}" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 30}" y="{top + 12}" text-anchor="start">{kind}</text>')
    top += 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * WIDTH} {top}" width="{3 * WIDTH}" '
        'font-family="sans-serif" font-size="13" text-anchor="middle">'
    )
    arrow = '<marker id="there" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777777"/></marker>'
    cross = '<marker id="lost" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="9" markerHeight="9"><path d="M1 1L7 7M7 1L1 7" stroke="#ee6677" stroke-width="1.5"/></marker>'
    return "\n".join([head, f"<defs>{arrow}{cross}</defs>", '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"
