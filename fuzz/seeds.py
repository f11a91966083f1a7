#!/usr/bin/env python3
"""Writes the seeds of the targets that read events: runs as well-behaved peers would make them, and mutations of those.

`python3 fuzz/seeds.py` from anywhere; the same seeds every time. The bytes are what `src/<target>.rs` reads, so a
change there that moves a byte means to change this, too.
"""

import random
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
MUTATIONS = 12


def each_edge(edges: int, *event: int) -> bytes:
    """One event at every edge: its code, the edge, its operands."""
    code, *operands = event
    return b"".join(bytes([code, edge, *operands]) for edge in range(edges))


def switch_run(edges: int, control: tuple[int, ...], data: bytes) -> bytes:
    """A collective at a switch: control messages, data, transmit slots, acknowledges."""
    return each_edge(edges, 0, *control) + data + each_edge(edges, 7, 3) + each_edge(edges, 4)


def inc_engine() -> dict[str, bytes]:
    """Heads: mode, reproducible, edges, parent, message, window. Control: reduction, root, pattern, packets."""
    data = each_edge(3, 1) + each_edge(3, 2)
    runs = {
        "all-reduce": switch_run(3, (0, 0, 0, 2), data),
        "reduce": switch_run(3, (0, 1, 2, 2), data),
        "broadcast": switch_run(3, (0, 1, 3, 2), data),
        "barrier": switch_run(3, (0, 0, 0, 0), b""),
    }
    runs["several"] = runs["all-reduce"] + runs["broadcast"] + runs["reduce"] + runs["all-reduce"]
    runs["resent"] = each_edge(3, 0, 0, 0, 0, 2) + data + each_edge(3, 6) + each_edge(3, 7, 3) + each_edge(3, 5, 0, 128)
    heads = {
        "mode-ii": bytes([1, 0, 1, 0, 1, 1]),
        "mode-iii": bytes([0, 0, 1, 0, 1, 1]),
        "mode-iii-below": bytes([0, 1, 1, 1, 1, 1]),
    }
    return {f"{mode}-{name}": head + run for mode, head in heads.items() for name, run in runs.items()}


def mode_i_switch() -> dict[str, bytes]:
    """Heads: edges, parent, message, window; otherwise as for the others, but data events have a length in packets."""
    data = each_edge(3, 1, 1)
    runs = {
        "all-reduce": switch_run(3, (0, 0, 0, 2), data),
        "reduce": switch_run(3, (0, 1, 2, 2), data),
        "broadcast": switch_run(3, (0, 1, 3, 2), data),
        "barrier": switch_run(3, (0, 0, 0, 0), b""),
    }
    runs["several"] = runs["all-reduce"] + runs["reduce"] + runs["broadcast"] + runs["all-reduce"]
    heads = {"star": bytes([1, 0, 1, 1]), "below": bytes([1, 1, 1, 1])}
    return {f"{place}-{name}": head + run for place, head in heads.items() for name, run in runs.items()}


def roce_host() -> dict[str, bytes]:
    """Head: acknowledge interval, retries, RNR retries, window (128 and more: what is missing is sent again alone;
    192 and more: congestion narrows the window)."""
    head = bytes([1, 2, 7, 5])
    selective = bytes([1, 2, 7, 131])
    narrowed = bytes([1, 2, 7, 197])
    question = bytes([2, 2, 0, 1, 200])
    far = bytes([2, 2, 241, 0, 1, 200])
    send = bytes([0, 0, 0, 80, 1]) + bytes([6, 4]) + bytes([4, 0, 0])
    write = bytes([0, 200, 0, 80, 0]) + bytes([6, 4]) + bytes([4, 0, 0])
    receive = bytes([1, 0, 96]) + bytes([2, 1, 0, 0, 0]) + bytes([2, 2, 0, 0, 0]) + bytes([2, 3, 0, 1, 0])
    return {
        "sends": head + 3 * send,
        "writes": head + 3 * write,
        "receives": head + 3 * receive,
        "lost": head + send[:7] + bytes([5, 0]) + bytes([6, 4]) + bytes([4, 0, 128]) + bytes([6, 4]) + send,
        "not-ready": head + send[:7] + bytes([4, 0, 180]) + bytes([5, 0]) + bytes([6, 4, 4, 0, 0]),
        "asks": selective + 2 * send[:7] + bytes([5, 0]) + bytes([6, 4]) + bytes([4, 0, 128]) + bytes([6, 4]) + 2 * send,
        "asked": selective + receive + question + receive[3:9] + question + receive[9:] + question,
        "asked-for-too-much": selective + receive + far + receive,
        "narrowed": narrowed + 2 * send[:7] + bytes([5, 0]) + bytes([6, 4]) + bytes([4, 0, 128]) + bytes([6, 4]) + 2 * send,
        "synchronized": head + send + bytes([7, 0, 9]) + send + receive,
    }


def host() -> dict[str, bytes]:
    """Head: program, ranks, rank, message, window. Start: kind, root, reduction, length in words."""
    acks = bytes([8, 0, 3]) + bytes([5, 0])
    result = bytes([1, 0, 0, 0, 0, 4]) + bytes([2, 0, 1, 0]) + bytes([2, 0, 1, 0])
    epic = {f"epic-{kind}": bytes([0, 0, kind, 0, 0, 8]) + acks + result + acks + acks for kind in range(6)}
    piece = bytes([2, 0, 1, 128]) + bytes([2, 1, 1, 129])
    over = bytes([8, 0, 3]) + bytes([8, 0, 3]) + bytes([5, 0]) + bytes([5, 1])
    between = {kind: bytes([0, 0, kind, 0, 0, 8]) + over + piece + over + piece + over for kind in range(6)}
    runs = {f"mode-{mode}-{name}": bytes([1 - mode, 1, 0, 1, 1]) + run for mode in (0, 1) for name, run in epic.items()}
    for program, name in ((2, "ring"), (3, "tree"), (4, "direct")):
        runs |= {f"{name}-{kind}": bytes([program, 1, 1, 0, 2]) + run for kind, run in between.items()}
    return runs


def mutated(source: random.Random, run: bytes) -> bytes:
    """A run with bytes changed, lost, doubled."""
    bytes_of_run = bytearray(run)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(bytes_of_run))
        match source.randrange(4):
            case 0:
                bytes_of_run[at] = source.randrange(256)
            case 1:
                del bytes_of_run[at]
            case 2:
                bytes_of_run[at:at] = bytes_of_run[at : at + source.randint(1, 12)]
            case _:
                bytes_of_run += bytes_of_run[at:]
        bytes_of_run = bytes_of_run[:600] or bytearray(1)
    return bytes(bytes_of_run)


def ethernet_switch() -> dict[str, bytes]:
    """Events of five bytes: port and kind; rank; PSN (128: in its turn); message; what to spoil."""
    in_turn = 128

    def message(number: int, kinds: tuple[int, ...] = (0, 1, 3), ports: int = 4) -> bytes:
        each = (bytes([kind << 2 | port, 0, in_turn, number, 0]) for kind in kinds for port in range(ports))
        return b"".join(each)

    # So that everybody is known: frames that are forwarded.
    hello = b"".join(bytes([1 << 2 | port, 0, 127, 0, 3]) for port in range(4))
    registers = bytes([0, 2, 0b0011, 1, 0xFF])
    return {
        "message": hello + message(0),
        "five": hello + b"".join(message(number, (0, 3)) for number in range(5)),
        "repeated": hello + message(0) + bytes([0, 0, 125, 0, 0, 4, 0, 126, 0, 0]),
        "gap": hello + bytes([0, 0, 130, 0, 0]) + message(0, (0, 2)),
        "spoiled": hello + bytes([0, 0, in_turn, 0, 1, 0, 0, in_turn, 0, 2]) + message(0, (0, 3)),
        "registers": hello + message(0, (0,)) + registers + message(0, (0, 3), 2),
    }


def main() -> None:
    for target in (inc_engine, mode_i_switch, roce_host, host, ethernet_switch):
        source = random.Random(target.__name__)
        folder = CORPUS / target.__name__
        folder.mkdir(parents=True, exist_ok=True)
        runs = target()
        for name, run in runs.items():
            (folder / f"run-{name}").write_bytes(run)
        for number in range(MUTATIONS):
            _, run = source.choice(sorted(runs.items()))
            (folder / f"mutation-{number:02}").write_bytes(mutated(source, run))


if __name__ == "__main__":
    main()
