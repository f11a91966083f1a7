#!/usr/bin/env python3
"""AllReduce-Switch as its README says it, in as few lines as that takes: what the benches compare the hardware with, to the bit.

It speaks lines on standard input and output. `ports N [FLOWS FRAMES]` is a new switch, `config MODE CFG` writes both registers (in
hexadecimal) or neither, `frame PORT HEX` is a frame that has come in at a port, without frame check sequence. Each is answered with lines
`out PORT HEX`, `drop PORT REASON` or `refused`, then `end`. Another program that speaks them can stand in its place: the benches start what
ALLREDUCE_SWITCH_REFERENCE names.

The hardware takes a frame in steps, and those of several ports come between each other. `learn PORT HEX` learns a frame's source; `find PORT HEX`
looks up its destination, and keeps the frame unless it drops it; `pass PORT` does the rest with the oldest frame that a port keeps, and `lose PORT`
drops that one without a word. `frame` is the first three of them.
"""

import sys
import zlib
from collections import deque
from collections.abc import Iterator

import numpy as np

LENGTHS = {0x06: 1110, 0x07: 1094, 0x08: 1094, 0x09: 1098}
# Where the payload begins.
HEADERS = {0x06: 102, 0x07: 66, 0x08: 66, 0x09: 70}
LONGEST = 2048


def icrc(frame: bytes) -> bytes:
    """The invariant CRC of a RoCE v1 frame that ends with its payload."""
    grh = bytearray(frame[14:])
    grh[0] |= 0x0F
    grh[1:4] = b"\xff\xff\xff"
    grh[7] = 0xFF
    grh[40 + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + grh).to_bytes(4, "little")


def add(a: np.ndarray, b: np.ndarray, floating: bool) -> np.ndarray:
    """Two payloads as words of 32 bits, added."""
    if not floating:
        return a + b
    with np.errstate(all="ignore"):
        result = a.view(np.float32) + b.view(np.float32)
    words = result.view(np.uint32).copy()
    words[np.isnan(result)] = 0x7FC00000
    return words


class Port:
    """What a port remembers of aggregation."""

    def __init__(self, flows: int) -> None:
        self.qp: int | None = None
        self.bases: list[int | None] = [None] * flows
        # The column that is opened next.
        self.next = 0
        self.expected = 0
        self.done: set[int] = set()


class Switch:
    def __init__(self, ports: int, flows: int = 4, frames: int = 128) -> None:
        self.count, self.flows, self.frames = ports, flows, frames
        # Of each port: four places for addresses, filled in turn, and the one that is filled next.
        self.places: list[list[bytes | None]] = [[None] * 4 for _ in range(ports)]
        self.turn = [0] * ports
        # Of each port, the frames whose destination has been looked up, each with the port that it lies behind.
        self.kept: list[deque[tuple[bytes, int | None]]] = [deque() for _ in range(ports)]
        self.floating, self.enabled = False, list(range(ports))
        self.clear()

    def clear(self) -> None:
        self.ports = [Port(self.flows) for _ in range(self.count)]
        self.arrived: dict[int, int] = {}
        # By port and index: the stored frame, where it goes, its payload; by index: the sum.
        self.stored: dict[tuple[int, int], tuple[bytes, int, np.ndarray]] = {}
        self.sums: dict[int, np.ndarray] = {}

    def config(self, mode: int, cfg: int) -> Iterator[str]:
        number, enabled = cfg >> 27, cfg & 0x3FFFFFF
        if cfg >> 26 & 1 or number != enabled.bit_count() or number < 2 or enabled >> self.count:
            yield "refused"
            return
        self.floating = bool(mode & 1)
        self.enabled = [p for p in range(self.count) if enabled >> p & 1]
        self.clear()

    def frame(self, port: int, frame: bytes) -> Iterator[str]:
        self.learn(port, frame)
        dropped = list(self.find(port, frame))
        yield from dropped or self.pass_on(port)

    def find(self, port: int, frame: bytes) -> Iterator[str]:
        if len(frame) > LONGEST:
            yield f"drop {port} giant"
            return
        if len(frame) < 14:
            yield f"drop {port} runt"
            return
        found = next((p for p in range(self.count) if frame[:6] in self.places[p]), None)
        if found == port:
            yield f"drop {port} filtered"
        else:
            self.kept[port].append((frame, found))

    def pass_on(self, port: int) -> Iterator[str]:
        frame, found = self.kept[port].popleft()
        if not self.is_candidate(port, frame):
            yield from self.forward(port, found, frame)
        elif frame[54] != 0x06 and int.from_bytes(frame[59:62]) != self.ports[port].qp:
            if int.from_bytes(frame[14:18]) & 0xFFFFF == 0x4E521:
                yield f"drop {port} unknown"
            else:
                yield from self.forward(port, found, frame)
        elif frame[54] == 0x06 and frame[82:86] != b"QNR1":
            yield from self.forward(port, found, frame)
        elif icrc(frame[:-4]) != frame[-4:]:
            yield f"drop {port} bad ICRC"
        elif found is None:
            yield f"drop {port} no destination"
        else:
            yield from self.aggregate(port, frame, found)

    def forward(self, port: int, found: int | None, frame: bytes) -> Iterator[str]:
        for p in [found] if found is not None else range(self.count):
            if p != port:
                yield f"out {p} {frame.hex()}"

    def learn(self, port: int, frame: bytes) -> None:
        address = frame[6:12]
        if not 14 <= len(frame) <= LONGEST or address[0] & 1 or address in self.places[port]:
            return
        for places in self.places:
            if address in places:
                places[places.index(address)] = None
        self.places[port][self.turn[port]] = address
        self.turn[port] = (self.turn[port] + 1) % 4

    def is_candidate(self, port: int, frame: bytes) -> bool:
        """Whether its form is that of one for aggregation, at a port that takes part."""
        if len(frame) < 66 or frame[12:14] != b"\x89\x15" or frame[14] >> 4 != 6 or frame[20] != 0x1B:
            return False
        return LENGTHS.get(frame[54]) == len(frame) and port in self.enabled

    def aggregate(self, number: int, frame: bytes, found: int) -> Iterator[str]:
        """A good frame for aggregation whose destination lies at port `found`."""
        port, first = self.ports[number], frame[54] == 0x06
        qp, psn = int.from_bytes(frame[59:62]), int.from_bytes(frame[63:66])
        fresh = first and qp != port.qp
        if fresh:
            if frame[86:90] != bytes(4):
                yield f"drop {number} gap"
                return
            port.qp = qp
            port.bases = [None] * self.flows
        ahead = (psn - port.expected) % 2**24
        newest = (port.next - 1) % self.flows
        if first and (fresh or ahead == 0):
            column, offset = port.next, 0
            port.bases[column] = psn
            port.next = (column + 1) % self.flows
            port.done -= set(range(column * self.frames, (column + 1) * self.frames))
        elif ahead == 0:
            base = port.bases[newest]
            column, offset = newest, self.frames if base is None else (psn - base) % 2**24
            if offset >= self.frames:
                yield f"drop {number} too long"
                return
        elif ahead < 2**23:
            yield f"drop {number} gap"
            return
        else:
            for back in range(self.flows):
                column = (newest - back) % self.flows
                base = port.bases[column]
                if base is not None and (psn - base) % 2**24 < self.frames:
                    break
            else:
                yield f"drop {number} forgotten"
                return
            index = column * self.frames + (psn - base) % 2**24
            if index in port.done:
                yield self.result(number, index)
            else:
                yield f"drop {number} pending"
            return
        index = column * self.frames + offset
        port.expected = (psn + 1) % 2**24
        header = HEADERS[frame[54]]
        payload = np.frombuffer(frame[header:-4], np.uint32)
        self.stored[number, index] = frame[:header], found, payload
        self.arrived[index] = self.arrived.get(index, 0) + 1
        if self.arrived[index] == len(self.enabled):
            self.arrived[index] = 0
            self.sums[index] = self.sum(index)
            for p in self.enabled:
                self.ports[p].done.add(index)
                yield self.result(p, index)

    def sum(self, index: int) -> np.ndarray:
        """Ports in pairs, in the tree's shape; one that takes no part is left out."""
        width = 1 << (self.count - 1).bit_length()
        level = [self.stored[p, index][2] if p in self.enabled else None for p in range(width)]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=True)
            level = [add(a, b, self.floating) if a is not None and b is not None else a if b is None else b for a, b in pairs]
        return level[0]

    def result(self, port: int, index: int) -> str:
        header, found, payload = self.stored[port, index]
        frame = header + self.sums[index][: len(payload)].tobytes()
        return f"out {found} {(frame + icrc(frame)).hex()}"


def main() -> None:
    switch = Switch(8)
    for line in sys.stdin:
        match line.split():
            case ["ports", *sizes]:
                switch, answers = Switch(*map(int, sizes)), []
            case ["config", mode, cfg]:
                answers = switch.config(int(mode, 16), int(cfg, 16))
            case ["frame", port, *frame]:
                answers = switch.frame(int(port), bytes.fromhex("".join(frame)))
            case ["learn", port, frame]:
                switch.learn(int(port), bytes.fromhex(frame))
                answers = []
            case ["find", port, frame]:
                answers = switch.find(int(port), bytes.fromhex(frame))
            case ["pass", port]:
                answers = switch.pass_on(int(port))
            case ["lose", port]:
                switch.kept[int(port)].popleft()
                answers = []
            case words:
                sys.exit(f"expected `ports N [FLOWS FRAMES]`, `config MODE CFG`, or a frame or a step of one at a port, found {words}")
        print("\n".join([*answers, "end"]), flush=True)


if __name__ == "__main__":
    main()
