#!/usr/bin/env python3
"""Pictures that are made from runs: `python3 tools/pictures.py PROGRAM` writes docs/ring-and-switch.svg and docs/modes.svg.

A simulation writes every frame on every link (`sim --pcap`), and what became of it (`--trace`). The first picture moves one dot for each frame
that has data, from when it leaves until it is there; the other one, of `ladders.py`, has an arrow for each. The same run makes the same picture,
which `examples/tests/test_pictures.py` holds.
"""

import json
import math
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/ring-and-switch.svg"

SIZE = "16KiB"
HOSTS = 4
# What `star-4` is drawn for: bits in a nanosecond, and nanoseconds from one end of a link to the other.
LINK = ("link.rate=100Gbit/s", "link.latency=1us")
RATE, LATENCY = 100, 1000
# Shorter frames are acknowledges.
DATA_BYTES = 200
# How many seconds of the picture a microsecond takes, and how long it rests before it begins again.
SLOWER, REST = 0.5, 2.0
ANSWER_SECONDS = 120

# Kinds of blocks of pcapng, and where in them what is.
INTERFACE, PACKET = 1, 6
NAME = 2

SIDE, RADIUS = 340, 115
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")


@dataclass(frozen=True)
class Frame:
    """A frame on a link: whose it is, when it leaves (ns), how long it is."""

    source: str
    target: str
    leaves: int
    length: int

    @property
    def arrives(self) -> int:
        return self.leaves + self.length * 8 // RATE + LATENCY


def frames(capture: bytes) -> Iterator[Frame]:
    """The frames of a capture, in which an interface is a direction of a link."""
    links: list[list[str]] = []
    at = 0
    while at < len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        body = capture[at + 8 : at + length - 4]
        if kind == INTERFACE:
            code, size = struct.unpack_from("<HH", body, 8)
            assert code == NAME, "expected an interface's name as its first option"
            links.append(body[12 : 12 + size].decode().split(" > "))
        elif kind == PACKET:
            link, high, low, _, size = struct.unpack_from("<5I", body)
            yield Frame(*links[link], high << 32 | low, size)
        at += length


def run(program: Path, design: str) -> tuple[list[Frame], float]:
    """A simulated AllReduce: its frames, and how many microseconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder, "run.pcapng")
        settings = [word for setting in LINK for word in ("--set", setting)]
        asked = [program, "sim", "all_reduce", "--fabric", f"star-{HOSTS}", "--design", design, "--size", SIZE, *settings, "--pcap", capture, "--json"]
        printed = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=ANSWER_SECONDS).stdout
        return [frame for frame in frames(capture.read_bytes()) if frame.length >= DATA_BYTES], json.loads(printed)["rows"][0]["time_us"]


def place(node: str, left: int) -> tuple[float, float]:
    """Where a node is drawn: the switch in the middle, hosts around it."""
    if node.startswith("switch"):
        return left + SIDE / 2, SIDE / 2 + 20
    angle = math.tau * (int(node.split("-")[1]) + 0.5) / HOSTS
    return left + SIDE / 2 + RADIUS * math.cos(angle), SIDE / 2 + 20 + RADIUS * math.sin(angle)


def moving(frame: Frame, left: int, whole: float) -> str:
    """A dot that goes from end to end of a link while the frame is on it."""
    (x, y), (to_x, to_y) = place(frame.source, left), place(frame.target, left)
    begin, end = (time / 1000 * SLOWER / whole for time in (frame.leaves, frame.arrives))
    host = next(node for node in (frame.source, frame.target) if not node.startswith("switch"))
    colour = COLOURS[int(host.split("-")[1])] if host == frame.source else "#222222"

    def animate(what: str, values: str) -> str:
        return f'<animate attributeName="{what}" dur="{whole:g}s" repeatCount="indefinite" keyTimes="0;{begin:.5f};{end:.5f};1" values="{values}"/>'

    shown = (
        f'<animate attributeName="opacity" dur="{whole:g}s" repeatCount="indefinite" calcMode="discrete" '
        f'keyTimes="0;{begin:.5f};{end:.5f}" values="0;1;0"/>'
    )
    paths = animate("cx", f"{x:.1f};{x:.1f};{to_x:.1f};{to_x:.1f}") + animate("cy", f"{y:.1f};{y:.1f};{to_y:.1f};{to_y:.1f}")
    return f'<circle r="7" fill="{colour}" opacity="0" cx="{x:.1f}" cy="{y:.1f}">{shown}{paths}</circle>'


def panel(title: str, found: list[Frame], took: float, left: int, whole: float) -> list[str]:
    """One run: links, nodes, frames on their way, and when it was over."""
    hosts = [f"host-{number}" for number in range(HOSTS)]
    (middle_x, middle_y), parts = place("switch-0", left), []
    for host in hosts:
        x, y = place(host, left)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{middle_x:.1f}" y2="{middle_y:.1f}" stroke="#bbbbbb" stroke-width="2"/>')
    parts += [moving(frame, left, whole) for frame in found]
    for number, host in enumerate(hosts):
        x, y = place(host, left)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="19" fill="{COLOURS[number]}"/><text x="{x:.1f}" y="{y + 5:.1f}" fill="#ffffff">{number}</text>')
    parts.append(f'<rect x="{middle_x - 17:.1f}" y="{middle_y - 17:.1f}" width="34" height="34" rx="5" fill="#555555"/>')
    parts.append(f'<text x="{middle_x:.1f}" y="24" font-weight="bold">{title}</text>')
    over = took * SLOWER / whole
    shown = f'<animate attributeName="opacity" dur="{whole:g}s" repeatCount="indefinite" calcMode="discrete" keyTimes="0;{over:.5f}" values="0;1"/>'
    said = f"{len(found)} frames with data on links, done after {took:.1f} us"
    parts.append(f'<text x="{middle_x:.1f}" y="{SIDE + 20}" opacity="0">{said}{shown}</text>')
    return parts


def picture(program: Path) -> str:
    """Both runs beside each other, in one time."""
    ring, switch = run(program, "ring"), run(program, "epic-3")
    whole = round(max(ring[1], switch[1]) * SLOWER + REST, 2)
    parts = panel("among hosts: ring", *ring, 0, whole) + panel("in the switch: epic-3", *switch, SIDE, whole)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * SIDE} {SIDE + 36}" width="{2 * SIDE}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle">'
    )
    about = f"<title>An AllReduce of {SIZE} of {HOSTS} hosts, simulated: by a ring, and in a switch</title>"
    return "\n".join([head, about, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    import ladders

    for file, text in ((PICTURE, picture(Path(sys.argv[1]))), (ladders.PICTURE, ladders.picture(Path(sys.argv[1])))):
        file.write_text(text, encoding="utf-8")
        print(file)
