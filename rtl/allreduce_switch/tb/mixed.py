"""Random traffic in which everything comes between everything: new messages, retransmissions, frames that are lost, damaged or not for aggregation,
receivers that stop until FIFOs are full, addresses that move, and register writes at any instant.

Hosts keep to what the README asks of them: as many messages under way as the switch has columns, and a group begins with a write. What is on the wire
or in the switch when a register is written belongs to nobody, and still comes. A failure is shortened to what still fails.
"""

import random
import time
from collections.abc import Callable

from frames import FIRST, IMMEDIATE, LAST, MIDDLE, address, ethernet, spoil
from hosts import Floats, Host
from ledger import Ledger

# Frames that a port may have waiting at its wire.
WAITING = 14


class Sender:
    """A host that sends messages, sees which results have left, and goes back to what it has no answer to."""

    def __init__(self, host: Host, last: int) -> None:
        self.host, self.port, self.last = host, host.port, last
        self.label = host.qp.to_bytes(3)
        # Of each message its frames, and of each frame whether its result has left.
        self.messages: list[list[bytes]] = []
        self.answered: set[int] = set()

    def hears(self, frame: bytes) -> None:
        self.answered.add(int.from_bytes(frame[63:66]))

    def lacks(self, frame: bytes) -> bool:
        return int.from_bytes(frame[63:66]) not in self.answered

    def is_over(self, message: int) -> bool:
        return not any(map(self.lacks, self.messages[message]))

    def may_begin(self, window: int) -> bool:
        return len(self.messages) < window or self.is_over(len(self.messages) - window)

    def begin(self, frames: int) -> list[bytes]:
        self.messages.append(self.host.whole(frames, self.last))
        return self.messages[-1]

    def unanswered(self) -> list[bytes]:
        """All from the first one without an answer."""
        frames = [frame for message in self.messages[-8:] for frame in message]
        first = next((i for i, frame in enumerate(frames) if self.lacks(frame)), len(frames))
        return frames[first:]


class Mixed:
    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger, self.random, self.ports = ledger, random.Random(seed), ledger.ports
        self.groups = 0
        # How often registers are written: in some runs groups last, in others not.
        self.writes = self.random.choice((0.02, 0.06, 0.2))
        self.senders: list[Sender] = []
        # Register writes to come before the next group, steps until then.
        self.rest = 0
        ledger.left = self.hear
        self.announce()
        self.group(is_calm=True)

    def hear(self, source: int, frame: bytes) -> None:
        for sender in self.senders:
            if sender.port == source and frame[59:62] == sender.label:
                sender.hears(frame)

    def announce(self) -> None:
        for port in range(self.ports):
            self.ledger.send(port, ethernet(b"\xff" * 6, address(port), 60, port))
            self.ledger.run()

    # ---- Registers
    def group(self, is_calm: bool = False) -> None:
        """A group on some of the ports, from the registers as they are. `is_calm`: nothing was on its way when they were written."""
        rng, ledger = self.random, self.ledger
        self.groups += 1
        part = [p for p in range(self.ports) if ledger.config >> p & 1]
        kind = Floats if ledger.mode and rng.random() < 0.8 else Host
        shift = rng.randrange(1, len(part))
        to = [rng.choice([q for q in range(self.ports) if q != p]) for p in part] if rng.random() < 0.2 else part[shift:] + part[:shift]
        self.senders = []
        for p, t in zip(part, to):
            host = kind(p, self.ports, psn=rng.choice((0, 2**24 - 5, rng.getrandbits(24))), qp=self.groups * 100 + p, to=t, seed=rng.getrandbits(32))
            host.label = rng.choice((0x12345, 0x4E521))
            self.senders.append(Sender(host, rng.choice((LAST, IMMEDIATE))))
        # One First that was on its way when the registers were written may have a column.
        self.window = ledger.flows if is_calm else max(1, ledger.flows - 1)
        # A message has as many frames everywhere. Those of long ones fill the FIFO of sums where one port does not take its own.
        self.lengths: list[int] = []
        self.sizes = rng.choice(((2, 2, 3), (2, 3, 5, 8), (2, 3, 5, 8), (5, min(ledger.frames, 20))))

    def length(self, message: int) -> int:
        while len(self.lengths) <= message:
            self.lengths.append(self.random.choice(self.sizes))
        return self.lengths[message]

    def write(self) -> None:
        """Writes registers at this instant; what waits at the wires is taken back, or belongs to nobody and comes."""
        rng, ledger = self.random, self.ledger
        if rng.random() < 0.6:
            # As they are added up: a write takes 664 cycles, and a frame 178.
            for sender in self.senders:
                if self.has_room(sender) and sender.may_begin(self.window):
                    self.send(sender.port, *sender.begin(self.length(len(sender.messages))))
            ledger.cycles(rng.randrange(1, 600))
        if is_new := rng.random() < 0.85:
            if rng.random() < 0.6:
                for port in range(self.ports):
                    ledger.flush(port)
            else:
                self.rest = rng.randrange(2, 6)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            choice = rng.random()
            if not is_new or choice < 0.15:
                # Refused.
                ports = rng.getrandbits(self.ports)
                ledger.write(1, rng.choice((1 << 27 | 1, (ports.bit_count() + 1) % 32 << 27 | ports, 3 << 27 | 1 << self.ports | 3, 1 << 26 | 2 << 27 | 3)))
            elif choice < 0.4:
                ledger.write(0, rng.choice((0, 1, rng.getrandbits(32))))
            else:
                part = rng.sample(range(self.ports), rng.randrange(2, self.ports + 1))
                ledger.write(1, len(part) << 27 | sum(1 << p for p in part))
        if is_new:
            # One that is surely taken.
            if rng.getrandbits(1):
                ledger.write(0, rng.getrandbits(1))
            else:
                part = rng.sample(range(self.ports), self.ports if rng.random() < 0.4 else rng.randrange(2, self.ports + 1))
                ledger.write(1, len(part) << 27 | sum(1 << p for p in part))
            self.senders = []
            if not self.rest:
                self.group()

    # ---- Frames
    def other(self, port: int) -> bytes:
        """A frame that is not for aggregation, or not quite, or damaged."""
        rng = self.random
        kind = rng.randrange(12)
        to = rng.choice((address(rng.randrange(self.ports)), address(rng.randrange(self.ports), rng.randrange(3)), b"\xff" * 6, bytes([2, 9, 9, 9, 9, rng.randrange(256)])))
        sender = next((sender for sender in self.senders if sender.port == port and sender.messages), None)
        if kind < 6 or sender is None:
            size = rng.choice((14, 60, 61, 66, 100, 1094, 1110, 1514, rng.randrange(14, 1515), rng.randrange(14, 200)))
            frame = ethernet(to, address(port), size)
            return frame[:14] + rng.randbytes(size - 14)
        frame = rng.choice(rng.choice(sender.messages[-3:]))
        match kind:
            case 6:
                # Any one bit, the addresses and what the ICRC leaves out among them.
                return spoil(frame, rng.randrange(rng.choice((14, 66, len(frame)))), 1 << rng.randrange(8))
            case 7:
                return frame[: rng.randrange(1, len(frame))]
            case 8:
                return frame + rng.randbytes(rng.choice((1, 4, 8, 900, 1200)))
            case 9:
                return rng.randbytes(rng.randrange(1, 20))
            case 10:
                # A connection that nobody knows.
                return frame[:59] + rng.randbytes(3) + frame[62:]
            case _:
                # To somebody at the port of its own sender, or another host's name.
                return rng.choice((address(port), frame[:6])) + address(port, rng.randrange(4)) + frame[12:]

    def send(self, port: int, *frames: bytes) -> None:
        rng = self.random
        for frame in frames:
            if rng.random() < 0.15:
                self.ledger.rest(port, rng.choice((100, 700, 2000)))
            if rng.random() < 0.15:
                self.ledger.send(port, self.other(port))
            self.ledger.send(port, frame)

    def has_room(self, sender: Sender, frames: list[bytes] | None = None) -> bool:
        """Whether a message's frames, or these, may wait at the wire: no more Firsts than the switch has columns, less one that may be in it. So what a write
        leaves behind fits."""
        queue = self.ledger.queues[sender.port]
        begun = sum(len(frame) > 54 and frame[54] == FIRST for frame in queue)
        more = 1 if frames is None else sum(frame[54] == FIRST for frame in frames)
        return begun + more <= max(1, self.ledger.flows - 1)

    def go_on(self, sender: Sender) -> None:
        rng, port = self.random, sender.port
        choice = rng.random()
        if choice < 0.55:
            if self.has_room(sender) and sender.may_begin(self.window):
                frames = sender.begin(self.length(len(sender.messages)))
                fate = rng.random()
                if fate < 0.1:
                    lost = rng.randrange(len(frames))
                    self.send(port, *frames[:lost], *frames[lost + 1 :])
                elif fate < 0.15:
                    lost = rng.randrange(len(frames))
                    self.send(port, *frames[:lost], spoil(frames[lost], rng.randrange(66, len(frames[lost])), 1 << rng.randrange(8)), *frames[lost + 1 :])
                else:
                    self.send(port, *frames)
        elif choice < 0.8:
            # Back to the first one without an answer, be it that it was lost or that it is still to come.
            frames = sender.unanswered()[: rng.choice((1, 3, WAITING))]
            if self.has_room(sender, frames):
                self.send(port, *frames)
        elif sender.messages:
            # Once more what was answered, or was not.
            frames = [frame for message in sender.messages[-self.ledger.flows - 1 :] for frame in message]
            frames = rng.choices(frames, k=rng.randrange(1, 5))
            if self.has_room(sender, frames):
                self.send(port, *frames)

    def step(self) -> None:
        rng, ledger = self.random, self.ledger
        for port in range(self.ports):
            if rng.random() < 0.2:
                ledger.sink(port, rng.choice(("wire", "wire", "wire", "stop", f"random {rng.getrandbits(16)} {rng.choice((20, 50, 90))}")))
        if self.rest:
            self.rest -= 1
            if not self.rest:
                # Those of the last group are gone, or are taken back.
                for port in range(self.ports):
                    ledger.flush(port)
                ledger.write(rng.getrandbits(1) and 1, ledger.config)
                self.group()
        elif rng.random() < self.writes:
            self.write()
        for port in range(self.ports):
            if rng.random() < 0.25 and len(ledger.queues[port]) < WAITING:
                self.send(port, *(self.other(port) for _ in range(rng.randrange(1, 5))))
        for sender in self.senders:
            if rng.random() < 0.7 and len(ledger.queues[sender.port]) < WAITING:
                self.go_on(sender)
        ledger.cycles(rng.choice((rng.randrange(1, 200), rng.randrange(200, 900), 900, 1800)))

    def settle(self) -> None:
        """All ports take frames again, until nothing is left."""
        rng, ledger = self.random, self.ledger
        for port in range(self.ports):
            ledger.sink(port, "wire")
        ledger.run()
        if rng.getrandbits(1):
            # All is over: a group that begins now has every column.
            self.rest = 0
            ledger.write(0, rng.getrandbits(1))
            self.group(is_calm=True)

    def finish(self) -> None:
        """After all that, a group of all ports finds the switch as it was after reset."""
        ledger = self.ledger
        self.settle()
        self.announce()
        assert ledger.write(1, self.ports << 27 | (1 << self.ports) - 1)
        self.group(is_calm=True)
        for sender in self.senders:
            sender.host.dst = address((sender.port + 1) % self.ports)
            for _ in range(ledger.flows):
                for frame in sender.begin(3):
                    ledger.send(sender.port, frame)
        ledger.run()
        for sender in self.senders:
            assert not sender.unanswered(), f"port {sender.port}: a fresh group lacks {len(sender.unanswered())} results"


def fails(told: list[str], fresh: Callable[[], Ledger]) -> str | None:
    """What the ledger of a new switch objects to that is told these lines; none if it does not."""
    ledger = fresh()
    try:
        ledger.repeat(told)
        return None
    except AssertionError as difference:
        return str(difference)
    finally:
        ledger.close()


def shorten(ledger: Ledger, fresh: Callable[[], Ledger], seconds: float = 60) -> list[str]:
    """What a simulator was told until it failed, without what it fails in the same way without; all of it, if nothing can go.

    First groups may go, from the writing of a register to that of another; then what is not for aggregation. Within a group the rest stays, as its hosts would
    otherwise do what they must not.
    """
    end, told = time.monotonic() + seconds, ledger.told
    why = fails(told, fresh)
    if why is None:
        return told

    def thin(pieces: list[list[str]], may_go: Callable[[list[str]], bool]) -> list[list[str]]:
        size = len(pieces) // 2
        while size:
            at = 0
            while at < len(pieces) and time.monotonic() < end:
                without = pieces[:at] + [piece for piece in pieces[at : at + size] if not may_go(piece)] + pieces[at + size :]
                # Most differences begin alike.
                if len(without) < len(pieces) and (fails(sum(without, []), fresh) or "")[:24] == why[:24]:
                    pieces = without
                else:
                    at += size
            size //= 2
        return pieces

    starts = [0, *(i for i, line in enumerate(told) if line.startswith("spi ")), len(told)]
    groups = [told[a:b] for a, b in zip(starts, starts[1:]) if a < b]
    # The first group goes with the frames that say where everybody is.
    told = sum(thin(groups, lambda group: group is not groups[0]), [])

    def is_foreign(piece: list[str]) -> bool:
        what, *words = piece[0].split()
        return what in ("gap", "sink", "read") or (what == "frame" and words[1][24:28] != "8915" and not words[1].startswith("f" * 12))

    return sum(thin([[line] for line in told], is_foreign), [])
