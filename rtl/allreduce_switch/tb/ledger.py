"""Holds the hardware to its reference frame by frame, while frames of all kinds, register writes and full FIFOs come between each other.

The simulator says in which order frames pass the stages (`observed_switch.sv`); the reference is told the same frames in that order, in steps. What may
differ is told to it or counted: a frame that is dropped at the entry, the cycle in which a register is written, which of several ports comes first.
Nothing else may: each frame that leaves is the next one of those that are due at that port from that source, each drop is the reference's, and in the
end nothing is due and no buffer holds anything.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from bench import Reference, difference
from frames import FIRST
from lines import Program
from switch_build import Shape

# Why the Aggregation Frame Handler refuses frames.
REFUSALS = {"gap", "too long", "forgotten", "pending"}
# Why the Frame Analyzer drops them.
DROPS = {"unknown", "bad ICRC", "no destination", "gap"}
LONGEST = 2048
# That a sum has begun to leave is seen so many cycles later by who asks for it.
LATE = 2


class Answers(Reference):
    """The reference, told steps of frames."""

    def step(self, line: str) -> tuple[list[tuple[int, str]], str | None]:
        """The frames that leave, by port, and why the frame was dropped, if it was."""
        outs, why = [], None
        for what, *words in self.ask(line):
            match what:
                case "out":
                    outs.append((int(words[0]), words[1].lower()))
                case "drop":
                    why = " ".join(words[1:])
                case "refused":
                    raise AssertionError(f"the reference was told {line[:60]}, found {' '.join([what, *words])}")
        return outs, why


@dataclass
class Taken:
    """A frame for aggregation between the Frame Analyzer's judgement and the Aggregation Frame Handler's."""

    frame: bytes
    outs: list[tuple[int, str]] = field(default_factory=list)
    why: str | None = None
    # A register was written since.
    is_old: bool = False


@dataclass
class Again:
    """A retransmission that waits for its turn."""

    port: int
    frame: str
    # Number of its column, of those that the port has opened.
    column: int


class Ledger:
    """A simulator and a reference, and what is due. `left` is called with the source port and the frame of each result that has left."""

    def __init__(self, shape: Shape) -> None:
        ports = shape.ports
        self.ports, self.flows, self.frames = ports, shape.flows, shape.frames
        self.reference = Answers(self.ports, self.flows, self.frames)
        self.simulator = Program(shape.simulator())
        self.left: Callable[[int, bytes], None] = lambda source, frame: None
        # All that the simulator was told, for who wants to do it again.
        self.told: list[str] = []
        self.mode, self.config = 0, ports << 27 | (1 << ports) - 1
        self.counts: Counter[str] = Counter()
        self.drops: Counter[tuple[int, str]] = Counter()
        self.expected_drops: Counter[tuple[int, str]] = Counter()
        self.lost: Counter[int] = Counter()
        self.overruns: Counter[int] = Counter()

        def each() -> list[deque]:
            return [deque() for _ in range(ports)]

        # By port: frames that wait at the wire, those that are in, those with their way found (none: dropped), those for aggregation.
        self.queues, self.arrived, self.kept, self.taken = each(), each(), each(), each()
        self.entering: list[bytes | None] = [None] * ports
        self.learning: list[tuple[int, bytes]] = []
        # Sums that are to come, and that are there: the source port, the port it leaves by, and the frame. Retransmissions that wait, by port.
        self.sums: deque[list[tuple[int, int, str]]] = deque()
        self.made: deque[list[tuple[int, int, str]]] = deque()
        self.last_begun: list[tuple[int, list[tuple[int, int, str]]]] = []
        # By source port, connection and PSN: the port by which a sum leaves that has begun to, and the frame.
        self.results: dict[tuple[int, bytes, int], tuple[int, str]] = {}
        self.agains: list[deque[Again]] = each()
        # By port: the connection and the PSN of each column that was opened.
        self.opened: list[list[tuple[bytes, int]]] = [[] for _ in range(ports)]
        # What has begun to leave: by output port, whether it is forwarded, and source port.
        self.due: dict[tuple[int, bool, int], deque[str]] = defaultdict(deque)
        self.writing: tuple[int, int] | None = None
        self.tell("watch")

    def close(self) -> None:
        self.reference.close()
        self.simulator.close()

    # ---- What a bench does.
    def tell(self, line: str) -> None:
        self.told.append(line)
        self.simulator.tell(line)

    def send(self, port: int, frame: bytes) -> None:
        self.tell(f"frame {port} {frame.hex()}")
        self.queues[port].append(frame)

    def rest(self, port: int, ns: int) -> None:
        self.tell(f"gap {port} {ns}")

    def sink(self, port: int, mode: str) -> None:
        self.tell(f"sink {port} {mode}")

    def flush(self, port: int) -> None:
        """Takes back what a port has not begun to send."""
        self.tell(f"flush {port}")
        self.hear()

    def cycles(self, count: int) -> None:
        self.tell(f"cycles {count}")
        self.hear()

    def write(self, address: int, value: int) -> bool:
        """Writes a register while frames pass: whether it was taken, which the reference must say, too."""
        mode, config = (value & 1, self.config) if address == 0 else (self.mode, value)
        self.writing = mode, config
        self.tell(f"spi {address} {value:#x}")
        self.hear()
        if self.writing is None:
            return True
        self.writing = None
        assert self.reference.config(mode, config), f"{value:#x} was not taken by register {address}, and the reference takes it"
        return False

    def repeat(self, told: list[str]) -> None:
        """Tells the simulator once more what another one was told; ends as soon as something differs."""
        for line in told:
            match line.split():
                case ["frame", port, frame]:
                    self.send(int(port), bytes.fromhex(frame))
                case ["flush", port]:
                    self.flush(int(port))
                case ["cycles", count]:
                    self.cycles(int(count))
                case ["spi", address, value]:
                    self.write(int(address), int(value, 0))
                case ["run"]:
                    self.run()
                case ["watch"] | ["read", *_]:
                    # It does so by itself.
                    pass
                case _:
                    self.tell(line)

    def run(self) -> None:
        """Runs until nothing more comes: nothing may be left anywhere, and every drop is the reference's."""
        self.tell("run")
        self.hear()
        for port in range(self.ports):
            rest = {"on the wire": self.queues, "behind the entry": self.arrived, "before the Frame Analyzer": self.kept, "before the Aggregation Frame Handler": self.taken, "of the retransmissions": self.agains}
            for where, queues in rest.items():
                assert not queues[port], f"port {port}: expected nothing {where}, found {len(queues[port])}"
        assert not self.sums and not self.made, f"expected no sum to be due, found {len(self.sums)} that are not made and {len(self.made)} that have not begun to leave"
        for (port, is_forwarded, source), frames in self.due.items():
            assert not frames, f"port {port}: {len(frames)} frames did not leave that port {source} {'forwarded' if is_forwarded else 'added up'}"
        self.compare_drops()

    def compare_drops(self) -> None:
        found = Counter({key: count for key, count in self.drops.items() if key[1] not in ("overrun", "giant")})
        assert found == self.expected_drops, f"expected drops {dict(self.expected_drops - found)} more, found {dict(found - self.expected_drops)} more"
        for port in range(self.ports):
            overruns, giants = self.drops[port, "overrun"], self.drops[port, "giant"]
            assert overruns + giants == self.lost[port], f"port {port}: {self.lost[port]} frames were dropped at the entry, counted {overruns} overruns and {giants} giants"
            self.tell(f"read {0x10 + port:#x}")
            assert self.hear() == overruns, f"port {port}: expected {overruns} in the register of overruns"

    # ---- What it is told.
    def hear(self) -> int | None:
        value = None
        for words in chain.from_iterable(self.simulator.answers()):
            if words[0] not in ("learn", "cut"):
                self.learn_all()
            if words[0] == "reg":
                value = int(words[2], 0)
                continue
            try:
                getattr(self, f"on_{words[0]}")(*words[1:])
            except IndexError:
                raise AssertionError(f"found {' '.join(words[:2])}, and no frame is there for it") from None
        return value

    def on_end(self, *_: str) -> None:
        pass

    def on_flushed(self, port: str, count: str) -> None:
        for _ in range(int(count)):
            self.queues[int(port)].pop()

    def on_sent(self, port: str, first: str, last: str, lost: str = "") -> None:
        frame = self.queues[int(port)].popleft()
        self.counts["sent"] += 1
        if lost:
            self.lost[int(port)] += 1
            self.counts["lost"] += 1
        else:
            assert len(frame) <= LONGEST, f"port {port} took a frame of {len(frame)} bytes"
            self.arrived[int(port)].append(frame)

    def on_drop(self, port: str, *why: str) -> None:
        self.drops[int(port), " ".join(why)] += 1
        self.counts[" ".join(why)] += 1

    def on_learn(self, port: str) -> None:
        self.entering[int(port)] = frame = self.arrived[int(port)].popleft()
        self.learning.append((int(port), frame))

    def on_cut(self, port: str) -> None:
        self.entering[int(port)] = None

    def learn_all(self) -> None:
        """Those of one cycle: of two ports with one address the lower one learns it."""
        for port, frame in self.learning:
            if not any(other < port and at[6:12] == frame[6:12] and len(at) >= 14 for other, at in self.learning):
                self.reference.step(f"learn {port} {frame.hex()}")
        self.learning.clear()

    def on_find(self, port: str) -> None:
        frame = self.entering[int(port)]
        if frame is not None:
            _, why = self.reference.step(f"find {port} {frame.hex()}")
            if why is not None:
                self.expected_drops[int(port), why] += 1
                frame = None
        self.kept[int(port)].append(frame)

    def on_judge(self, number: str, kind: str, clear: str = "") -> None:
        port, frame = int(number), self.kept[int(number)].popleft()
        if frame is None:
            assert kind == "drop", f"port {port}: expected a frame to be dropped, found that it is {kind}"
        elif clear:
            # It is nobody's, whatever it was.
            self.reference.step(f"lose {port}")
            self.taken[port].append(Taken(frame, is_old=True))
        else:
            self.pass_on(port, frame, kind)

    def pass_on(self, port: int, frame: bytes, kind: str) -> None:
        """The reference judges a frame that the Frame Analyzer has judged."""
        outs, why = self.reference.step(f"pass {port}")
        is_first = frame[54:55] == bytes([FIRST])
        if outs and all(out == frame.hex() for _, out in outs):
            expected = {"forward"}
        elif why == "gap" and is_first:
            # Of a connection that is not known, or before its turn.
            expected = {"drop", "aggregate"}
        else:
            expected = {"drop" if why in DROPS - {"gap"} else "aggregate"}
        assert kind in expected, f"port {port}: expected {' or '.join(expected)}, found {kind} for a frame that the reference answers with {why or outs}"
        match kind:
            case "forward":
                for out, frame in outs:
                    self.due[out, True, port].append(frame)
            case "drop":
                self.expected_drops[port, why] += 1
            case _:
                self.taken[port].append(Taken(frame, outs, why))
                if is_first and why is None and len(outs) != 1:
                    self.opened[port].append((frame[59:62], int.from_bytes(frame[63:66])))
                if len(outs) > 1:
                    sources = [p for p in range(self.ports) if self.config >> p & 1]
                    self.sums.append([(source, out, frame) for source, (out, frame) in zip(sources, outs, strict=True)])

    def take(self, number: str, what: str) -> Taken:
        taken = self.taken[int(number)].popleft()
        assert taken.is_old == (what == "stale"), f"port {number}: found a frame {what}, that {'was' if taken.is_old else 'was not'} judged before a register was written"
        return taken

    def on_refuse(self, number: str, cycle: str) -> None:
        port, taken = int(number), self.take(number, "refused")
        if taken.why is None:
            # The reference has sent what waits in the hardware, for frames of its place or for its turn.
            (out, frame), *more = taken.outs or [(-1, "")]
            late = [sum for when, sum in self.last_begun if int(cycle) - when <= LATE]
            assert not more and any((port, out, frame) in sum for sum in (*self.sums, *self.made, *late)), f"port {port}: a frame was refused that the reference answers with {taken.outs}"
            self.counts["early"] += 1
        self.expected_drops[port, taken.why or "pending"] += 1

    def on_store(self, port: str) -> None:
        taken = self.take(port, "stored")
        assert taken.why is None and len(taken.outs) != 1, f"port {port}: a frame was stored that the reference answers with {taken.why or taken.outs}"
        self.counts["stored"] += 1

    def on_ask(self, number: str) -> None:
        port, taken = int(number), self.take(number, "asking for its sum")
        connection, psn = taken.frame[59:62], int.from_bytes(taken.frame[63:66])
        outs = taken.outs
        if taken.why == "pending" and (port, connection, psn) in self.results:
            # It has waited for the Aggregation Frame Handler until its sum began to leave.
            outs = [self.results[port, connection, psn]]
            self.counts["late"] += 1
        assert len(outs) == 1, f"port {port}: a frame asks for its sum that the reference answers with {taken.why or outs}"
        column = max(i for i, (of, base) in enumerate(self.opened[port]) if of == connection and (psn - base) % 2**24 < self.frames)
        self.agains[port].append(Again(*outs[0], column))

    def on_stale(self, port: str) -> None:
        self.take(port, "stale")
        self.expected_drops[int(port), "stale"] += 1

    def on_forget(self, number: str) -> None:
        port = int(number)
        again = self.agains[port].popleft()
        assert len(self.opened[port]) > again.column + self.flows, f"port {port}: a retransmission was forgotten, and its column is its own"
        self.expected_drops[port, "forgotten"] += 1
        self.counts["forgotten before it left"] += 1

    def on_again(self, number: str) -> None:
        port = int(number)
        assert self.agains[port], f"port {port}: a retransmission begins to leave that nobody asks for"
        again = self.agains[port].popleft()
        self.due[again.port, False, port].append(again.frame)
        self.counts["again"] += 1

    def on_sum(self) -> None:
        assert self.sums, "a sum was made that the reference does not make"
        self.made.append(self.sums.popleft())
        self.counts["sums"] += 1

    def on_done(self, cycle: str) -> None:
        assert self.made, "a sum begins to leave that is not there"
        sum = self.made.popleft()
        self.last_begun = [*self.last_begun[-1:], (int(cycle), sum)]
        for source, out, frame in sum:
            self.due[out, False, source].append(frame)
            header = bytes.fromhex(frame[118:132])
            self.results[source, header[:3], int.from_bytes(header[4:])] = out, frame

    def on_clear(self) -> None:
        assert self.writing is not None, "all is cleared, and no register was written"
        (self.mode, self.config), self.writing = self.writing, None
        refused = self.reference.config(self.mode, self.config)
        assert not refused, f"AGG_PORT_CFG has taken {self.config:#x}, which the reference refuses"
        self.counts["cleared"] += 1
        self.counts["sums cleared"] += len(self.sums) + len(self.made)
        self.counts["agains cleared"] += sum(map(len, self.agains))
        self.sums.clear()
        self.made.clear()
        self.last_begun.clear()
        self.results.clear()
        for port in range(self.ports):
            self.agains[port].clear()
            self.opened[port].clear()
            for taken in self.taken[port]:
                taken.is_old = True

    def on_out(self, number: str, first: str, last: str, frame: str) -> None:
        port = int(number)
        heads = [(source, is_forwarded) for (at, is_forwarded, source), due in self.due.items() if at == port and due and due[0] == frame]
        if not heads:
            near = [due[0] for (at, _, _), due in self.due.items() if at == port and due]
            like = next((head for head in near if head[24:132] == frame[24:132]), None)
            raise AssertionError(f"port {port}: {difference(like, frame) if like else f'expected the next of {len(near)} sources, found {frame[:140]}...'}")
        source, is_forwarded = heads[0]
        self.due[port, is_forwarded, source].popleft()
        self.counts["forwarded" if is_forwarded else "results"] += 1
        if not is_forwarded:
            self.left(source, bytes.fromhex(frame))
