"""A bench for the whole switch: the simulator and a reference side by side, and every frame that leaves compared to the bit."""

import os
import shlex
import sys
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path

from lines import Program
from switch_build import Shape

HERE = Path(__file__).resolve().parent
REFERENCE = "ALLREDUCE_SWITCH_REFERENCE"


class Reference(Program):
    """What a switch with so many ports is to do: the reference, or the program that stands in its place."""

    def __init__(self, ports: int, flows: int = 4, frames: int = 128) -> None:
        command = os.environ.get(REFERENCE)
        super().__init__(*(shlex.split(command) if command else [sys.executable, HERE / "reference.py"]))
        self.ask(f"ports {ports} {flows} {frames}")

    def config(self, mode: int, cfg: int) -> bool:
        """Writes both registers: whether that was refused."""
        return any(words[0] == "refused" for words in self.ask(f"config {mode:x} {cfg:x}"))

    def compare(self, sent: list[tuple[int, bytes]], found: list[tuple[int, str]], drops: Counter, *, lossy: bool = False) -> None:
        """Gives it frames by port, in the order of their ends, and raises AssertionError unless the switch has sent out the same by port, and dropped the same.

        With `lossy`, frames that were dropped for want of room are no difference, but whatever leaves must have been sent.
        """
        expected, expected_drops = [], Counter()
        for port, frame in sent:
            for what, *words in self.ask(f"frame {port} {frame.hex()}"):
                if what == "out":
                    expected.append((int(words[0]), words[1].lower()))
                elif what == "drop":
                    expected_drops[int(words[0]), " ".join(words[1:])] += 1
        if lossy:
            strange = Counter(found) - Counter(expected)
            assert not strange, f"frames left that were not expected, such as {next(iter(strange))}"
            return
        passed = {frame.hex() for _, frame in sent}

        # Of each source in order, at each port; what is forwarded may overtake what is added up.
        def flow(port: int, frame: str) -> tuple[int, str, str]:
            return port, frame[12:24], "forwarded" if frame in passed else "added up"

        for side in sorted({flow(*out) for out in expected + found}):
            want = [frame for port, frame in expected if flow(port, frame) == side]
            have = [frame for port, frame in found if flow(port, frame) == side]
            where = f"port {side[0]}, source {side[1]}, {side[2]}"
            for number, (wanted, had) in enumerate(zip(want, have)):
                assert wanted == had, f"{where}, frame {number}: {difference(wanted, had)}"
            assert len(want) == len(have), f"{where}: expected {len(want)} frames, found {len(have)}; dropped {dict(drops)}, expected {dict(expected_drops)}"
        assert drops == expected_drops, f"expected drops {dict(expected_drops)}, found {dict(drops)}"


class Out:
    """A frame that left: at which port, and when its first and last beat did, in ns."""

    def __init__(self, port: str, first: str, last: str, frame: str = "") -> None:
        self.port, self.first, self.last, self.frame = int(port), int(first) / 1000, int(last) / 1000, frame


class Bench:
    """The switch in a shape. `run` lets all frames through, asks the reference, and raises AssertionError at a difference."""

    def __init__(self, shape: Shape) -> None:
        self.ports = shape.ports
        self.reference = Reference(shape.ports, shape.flows, shape.frames)
        self.simulator = Program(shape.simulator())
        self.queues: list[list[bytes]] = [[] for _ in range(shape.ports)]
        self.refused = False
        # What came and left since the last comparison.
        self.forget()

    def close(self) -> None:
        self.reference.close()
        self.simulator.close()

    def send(self, port: int, *frames: bytes) -> None:
        for frame in frames:
            self.simulator.tell(f"frame {port} {frame.hex()}")
            self.queues[port].append(frame)

    def rest(self, port: int, ns: int) -> None:
        """Lets the port's wire rest before the next frame."""
        self.simulator.tell(f"gap {port} {ns}")

    def sink(self, port: int, mode: str) -> None:
        self.simulator.tell(f"sink {port} {mode}")

    def write(self, address: int, value: int) -> None:
        """Writes a register of the hardware alone."""
        self.simulator.tell(f"spi {address} {value:#x}")
        self.hear()

    def read(self, address: int) -> int:
        self.simulator.tell(f"read {address}")
        return self.hear()

    def config(self, mode: int, ports: int, number: int | None = None) -> None:
        """Writes both registers, or neither if the second is refused: by both sides alike."""
        cfg = (ports.bit_count() if number is None else number) << 27 | ports
        before = self.read(1)
        self.write(1, cfg)
        self.refused = self.reference.config(mode, cfg)
        expected = before if self.refused else cfg
        found = self.read(1)
        assert found == expected, f"expected {expected:#x} in AGG_PORT_CFG after {cfg:#x} was written, found {found:#x}"
        if not self.refused:
            self.write(0, mode)
            assert self.read(0) == mode

    def run(self, cycles: int | None = None, *, lossy: bool = False) -> list[Out]:
        """Runs until nothing more comes, or so many cycles without a comparison: what left. `lossy` is as in `Reference.compare`."""
        self.simulator.tell("run" if cycles is None else f"cycles {cycles}")
        before = len(self.seen)
        self.hear()
        outs = self.seen[before:]
        if cycles is None:
            self.compare(lossy)
        return outs

    def forget(self) -> None:
        """Lets what came and left until now go without a comparison."""
        self.held, self.seen, self.dropped = [], [], Counter()
        self.sent, self.drops = [], Counter()

    def hear(self) -> int | None:
        """Takes in what the simulator says: a register's value, if it says one. `sent` and `drops` are what is new."""
        value = None
        self.sent, self.drops = [], Counter()
        for what, *words in chain.from_iterable(self.simulator.answers()):
            match what:
                case "out":
                    self.seen.append(Out(*words))
                case "sent":
                    sent = Out(*words)
                    sent.bytes = self.queues[sent.port].pop(0)
                    self.sent.append(sent)
                case "drop":
                    self.drops[int(words[0]), " ".join(words[1:])] += 1
                case "reg":
                    value = int(words[1], 0)
        self.held += self.sent
        self.dropped += self.drops
        return value

    def compare(self, lossy: bool) -> None:
        sent = [(frame.port, frame.bytes) for frame in sorted(self.held, key=lambda frame: frame.last)]
        found, drops = [(out.port, out.frame) for out in self.seen], self.dropped
        self.held, self.seen, self.dropped = [], [], Counter()
        self.reference.compare(sent, found, drops, lossy=lossy)


def difference(wanted: str, had: str) -> str:
    if len(wanted) != len(had):
        return f"expected {len(wanted) // 2} bytes, found {len(had) // 2}"
    place = next(i for i in range(0, len(wanted), 2) if wanted[i : i + 2] != had[i : i + 2]) // 2
    return f"byte {place}: expected {wanted[2 * place : 2 * place + 16]}..., found {had[2 * place : 2 * place + 16]}..."


def group(outs: list[Out]) -> dict[int, list[Out]]:
    """What left, by port."""
    ports = defaultdict(list)
    for out in outs:
        ports[out.port].append(out)
    return ports
