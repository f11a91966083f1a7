"""A bench for CAIS's merge unit: random packets, what the hardware did, and what the engine in `crates/engines/cais` answers to the same in the same order."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import cais_build
import lines

NODE = 64
READ, READ_RESPONSE, WRITE, WRITE_RESPONSE, REDUCE, SYNC, RELEASE = 1, 2, 3, 4, 11, 13, 14
LOADED, ADDED, BOUNDARY = 2, 3, 0xFFFFFF
# Why a packet is dropped, by drop_e, in the engine's words.
DROPS = ("", "Source", "Home", "BadLength", "Contributions", "UnexpectedResponse", "Sync", "UnexpectedTransaction")


def packet(kind: int, source: int, destination: int, address: int, *, length: int = 0, tag: int = 0, inc: bool = True, notify: bool = False, data: bytes = b"") -> str:
    """Header and payload as hexadecimal digits (crates/base/wire/src/flit.rs); the length of what carries data is that of the data."""
    first = kind << 4 | inc << 3 | notify << 2
    header = bytes([first]) + (source << 12 | destination).to_bytes(3, "big") + address.to_bytes(6, "big")
    return (header + (length or len(data)).to_bytes(2, "big") + tag.to_bytes(3, "big") + b"\0" + data).hex()


@dataclass(frozen=True)
class Set:
    """What a unit is set to."""

    home: int
    participants: int
    type: int = 0


@dataclass
class Run:
    """What the hardware did, in order: (cycle, order at a tie, line for the engine, why it was dropped); what came, from cycle to cycle; what left: port, first
    and last cycle, digits; and entries that are left."""

    steps: list[tuple[int, int, str, str]] = field(default_factory=list)
    came: list[tuple[int, int]] = field(default_factory=list)
    left: list[tuple[int, int, int, str]] = field(default_factory=list)
    taken: int = 0


def simulate(program: Path, told: list[str]) -> list[Run]:
    """The runs that are among the lines. Raises AssertionError at what must never be."""
    runs = []
    for line, said in zip(told, lines.converse([program], told), strict=True):
        if not line.startswith("run"):
            continue
        run = Run()
        for what, *words in said:
            match what:
                case "decided":
                    # A boundary has been passed before what is decided in the same cycle.
                    is_sync = words[3].startswith("d")
                    run.steps.append((int(words[0]), not is_sync, f"packet {words[0]} {words[2]} {words[3]}", DROPS[int(words[1])]))
                case "expired":
                    run.steps.append((int(words[0]), 2, f"timer {words[0]}", ""))
                case "in":
                    run.came.append((int(words[0]), int(words[1])))
                case "out":
                    run.left.append((int(words[0]), int(words[1]), int(words[2]), words[3]))
                case "taken":
                    run.taken = int(words[0])
        run.steps.sort(key=lambda step: step[:2])
        runs.append(run)
    return runs


def unit_line(shape: cais_build.Shape, setting: Set) -> str:
    """The unit as the engine is told it."""
    numbers = (shape.ports, setting.participants, shape.entries, shape.payload_bytes, setting.type, shape.groups, shape.streams, shape.timeout, shape.group_timeout)
    return " ".join(["unit", *map(str, numbers)])


def by_queue(left: list[tuple[int, str]]) -> dict[tuple[int, str], list[str]]:
    """What leaves by each port in order: data, releases of merges, releases of groups. These two meet behind the unit, and so do groups with one another."""
    found: dict[tuple[int, str], list[str]] = {}
    for port, digits in left:
        tag = int(digits[24:30], 16)
        queue = "data" if int(digits[0], 16) != RELEASE else "merges" if tag in (LOADED, ADDED) else "groups"
        found.setdefault((port, queue), []).append(digits)
    for (_, queue), digits in found.items():
        if queue == "groups":
            digits.sort()
    return found


def differences(shape: cais_build.Shape, settings: list[Set], runs: list[Run]) -> list[str]:
    """How each run differs from what the engine answers to the same packets in the same order; nothing where it does not."""
    told = [line for setting, run in zip(settings, runs, strict=True) for line in (unit_line(shape, setting), *(step[2] for step in run.steps))]
    answers = iter(lines.converse([cais_build.engine()], told))
    return [difference(run, answers) for run in runs]


def difference(run: Run, answers) -> str:
    next(answers)
    expected: list[tuple[int, str]] = []
    different = ""
    for _, _, line, dropped in run.steps:
        said = next(answers)[:-1]
        drop = "".join(words[1] for words in said if words[0] == "drop")
        if drop != dropped and not different:
            different = f"expected {drop or 'taken'}, found {dropped or 'taken'}: {line}"
        expected += [(int(words[1]), words[2]) for words in said if words[0] == "out"]
    want, have = by_queue(expected), by_queue([(port, digits) for port, _, _, digits in run.left])
    for key in sorted(want.keys() | have.keys()):
        one, other = want.get(key, []), have.get(key, [])
        if one != other and not different:
            at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
            different = f"port {key[0]}, {key[1]}, packet {at} of {len(one)} (found {len(other)}):\nexpected {one[at : at + 1]}\nfound    {other[at : at + 1]}"
    return different


KINDS = (
    (0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FA00001, 0x7F7FFFFF),
    (0, 0x8000, 1, 0x83FF, 0x7C00, 0xFC00, 0x7D55, 0x7BFF),
    (0, 0x8000, 1, 0x807F, 0x7F80, 0xFF80, 0x7FA5, 0x7F7F),
)


def elements(noise: random.Random, type_: int, length: int) -> bytes:
    """Elements of any kind, or near one another, so that sums round and cancel."""
    size = 2 if type_ else 4
    found = bytearray()
    while len(found) < length:
        match noise.randrange(8):
            case 0:
                value = noise.choice(KINDS[type_])
            case 1:
                value = noise.getrandbits(8 * size)
            case _:
                near = ((0x3F00, 0x80FF), (0x38, 0x83), (0x3F00, 0x807F))[type_]
                value = (noise.getrandbits(32) & 0x80FFFFFF) + 0x3F000000 if type_ == 0 else (noise.getrandbits(16) & (0x83FF if type_ == 1 else 0x807F)) + (0x3800 if type_ == 1 else near[0])
        found += (value % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(found[:length])


def random_case(seed: int, shape: cais_build.Shape, packets: int) -> tuple[Set, list[str]]:
    """A unit and what it is told. Whoever asks asks for a few addresses, so that requests meet; a few packets make no sense."""
    noise = random.Random(seed)
    home = noise.randrange(shape.ports)
    participants = shape.ports - 1 if noise.randrange(4) else noise.randrange(1, shape.ports + 1)
    setting = Set(home, participants, noise.randrange(3))
    others = [port for port in range(shape.ports) if port != home]
    # Fewer addresses than entries, or more.
    pool = [128 * (1 + each) + (noise.randrange(2) << 40) for each in range(noise.choice((1, 3, 2 * shape.entries)))]
    waits = noise.choice((0, 0, 3, 40))
    told = [f"seed {seed}", f"pace 0 {waits}", f"stall {noise.choice((0, 0, 30, 80))}", f"home {noise.choice(('5 20', '20 200', '0 0'))}"]
    told.append(f"unit {setting.home} {setting.participants} {setting.type}")
    loads = noise.choice((10, 50, 90))
    element = 2 if setting.type else 4
    for _ in range(packets):
        if noise.randrange(50) == 0:
            # All come to a boundary, or to a point of a group.
            address, tag = noise.choice(((noise.randrange(shape.streams), BOUNDARY), (noise.randrange(5), noise.randrange(2))))
            told += [f"packet {port} {packet(SYNC, port, NODE, address, tag=tag)}" for port in noise.sample(range(shape.ports), shape.ports)]
        source = noise.choice(others)
        address = noise.choice(pool)
        length = shape.payload_bytes if noise.randrange(12) else element * noise.randrange(1, shape.payload_bytes // element + 1)
        notify = noise.randrange(3) == 0
        kind, port, destination, inc = READ if noise.randrange(100) < loads else REDUCE, source, home, True
        tag = noise.getrandbits(24) if kind == READ else 1 if noise.randrange(6) else noise.randrange(1, participants + 1)
        match noise.randrange(60):
            case 0 | 1 | 2 | 3:
                kind, source, destination = SYNC, noise.randrange(shape.ports), NODE
                port, address, tag, length, notify = source, noise.randrange(5), noise.randrange(2), 0, False
            case 4 | 5:
                kind, source, destination = SYNC, noise.randrange(shape.ports), NODE
                port, address, tag, length, notify = source, noise.randrange(shape.streams + 1), BOUNDARY, 0, False
            case 6:
                match noise.randrange(9):
                    case 0:
                        port = noise.randrange(16)
                    case 1:
                        inc = False
                    case 2:
                        destination = noise.choice((shape.ports, NODE, 4095))
                    case 3:
                        source = port = home
                    case 4:
                        length = noise.choice((0, shape.payload_bytes + element, shape.payload_bytes - 1, shape.payload_bytes - 2))
                    case 5:
                        kind, tag = REDUCE, noise.choice((0, participants + 1, 64, 0xFFFFFF))
                    case 6:
                        kind, source, destination, inc, tag = READ_RESPONSE, noise.choice((home, source)), NODE, noise.randrange(4) == 0, noise.choice((0, 1, shape.entries, 0xFFFFFF))
                        port = source
                    case 7:
                        # A sync that is not for the switch, or without the CAIS bit.
                        kind, tag, length, notify = SYNC, 0, 0, False
                        destination, inc = noise.choice(((home, True), (NODE, False)))
                    case 8:
                        kind, length = noise.choice(((WRITE, 16), (WRITE_RESPONSE, 0), (RELEASE, 0)))
        data = elements(noise, setting.type, length) if kind in (REDUCE, READ_RESPONSE, WRITE) else b""
        digits = packet(kind, source, destination, address, length=length if kind == READ else 0, tag=tag, inc=inc, notify=notify, data=data)
        # Now and then all is quiet for about as long as a time-out.
        gap = noise.randrange(2 * shape.timeout) if noise.randrange(40) == 0 else -1
        told.append(f"packet {port} {digits}" + (f" {gap}" if gap >= 0 else ""))
    told.append(f"run {shape.timeout + 100 if noise.randrange(2) else shape.group_timeout + shape.timeout}")
    return setting, told
