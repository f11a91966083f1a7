"""A rank of EPIC in a language that shares nothing with the others, written from docs/wire.md: `rank.py --manager HOST:PORT --name NAME --address IP`.

It attaches to the manager under a name, waits until it is a rank of a group, and runs what standard input says, a line each, beside the
group's other ranks: `all_reduce TYPE HEX`, `reduce ROOT TYPE HEX`, `broadcast ROOT TYPE HEX` with its input as hexadecimal bytes. What comes
out is printed in the same way, an empty line where this rank gets nothing. When all is done it answers its peers until the group is over.

Sums of i32 and f32 in Mode-II and Mode-III (epic-2, epic-3), over IPv4. One invocation at a time; one channel; no locks.
"""

import argparse
import array
import select
import socket
import struct
import sys
import time
import zlib

from control import FAILED, INSTALL, INSTALLED, READY, REMOVE, REMOVED, Group, Manager, first_number

PORT = 4791
# Linux: no identification in a datagram's IP header, "don't fragment" set, as the invariant CRC has it.
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
FIRST, MIDDLE, LAST, ONLY, ONLY_IMMEDIATE, ACKNOWLEDGE = 0, 1, 2, 4, 5, 17
ACK, NOT_READY, NAK = 0, 1, 3
NO_CREDITS, SEQUENCE_ERROR = 31, 0
# How long a peer that is not ready is left alone, by code, in units of 10 us.
DELAYS = [65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
DELAYS += [4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152]
ALL_REDUCE, REDUCE, BROADCAST, CONFIRMATION = range(4)
COLLECTIVES = {"all_reduce": ALL_REDUCE, "reduce": REDUCE, "broadcast": BROADCAST}
TYPES = {"f32": (0, "f"), "i32": (3, "i")}
MAX_DATA_PACKETS = (1 << 13) - 1


def invariant_crc(source: str, destination: str, source_port: int, body: bytes) -> bytes:
    """Of a datagram from the BTH to the end of the pad: what may change on the way counts as ones."""
    length = 8 + len(body) + 4
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + length, 0, 0x4000, 0xFF, 17, 0xFFFF) + ends
    udp = struct.pack(">HHHH", source_port, PORT, length, 0xFFFF)
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + body[:4] + b"\xff" + body[5:]))


def digest(collective: int, root: int, data_type: int, length: int) -> int:
    """What all ranks must agree on, in 30 bits: a polynomial division. The operation, a sum, is 0."""
    remainder = length << 32 | root << 16 | collective << 13 | data_type << 9
    while remainder.bit_length() > 30:
        remainder ^= (1 << 30 | 0x04C11DB7) << remainder.bit_length() - 31
    return remainder


def add(one: bytes, other: bytes, code: str) -> bytes:
    """Element by element; integers wrap."""
    pairs = zip(array.array(code, one), array.array(code, other), strict=True)
    if code == "f":
        return array.array(code, (a + b for a, b in pairs)).tobytes()
    return b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in pairs)


def near(psn: int, count: int) -> int:
    """The number without end nearest to `count` whose low 24 bits are `psn`."""
    step = (psn - count) & 0xFFFFFF
    return count + step - (step >> 23 << 24)


class QueuePair:
    """The connection to the switch, with selective reliability. Numbers count without end; PSNs are their low 24 bits."""

    def __init__(self, group: Group) -> None:
        (self.address, self.own), (self.peer, self.other) = group.connections[0]
        self.window = group.window * group.message
        self.patience = group.retry_timeout
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((self.address, PORT))
        self.socket.setblocking(False)
        first = (1 << 24) + group.psn
        # Sending: everything before `acked` has arrived, everything before `sent` is on the wire, and `packets` are to be sent.
        self.packets: dict[int, tuple[int, int | None, bytes, bool]] = {}
        self.acked = self.sent = first
        # Receiving: everything before `expected` has been taken; nothing from `reached` on has come or been asked for; before `known` the
        # peer is to send. What has come and waits is `early`.
        self.expected = self.reached = self.known = first
        self.executed = first - 1
        self.early: dict[int, tuple[int | None, bytes, bool]] = {}
        self.taken: list[tuple[int | None, bytes]] = []
        self.asked: dict[int, float] = {}
        self.deadline, self.silent, self.pause = 0.0, 0, 0.0

    def transmit(self, opcode: int, number: int, extension: bytes = b"", payload: bytes = b"", asks: bool = False) -> None:
        pad = -len(payload) % 4
        bth = struct.pack(">BBHII", opcode, 0x40 | pad << 4, 0xFFFF, self.other, asks << 31 | number & 0xFFFFFF)
        body = bth + extension + payload + bytes(pad)
        self.socket.sendto(body + invariant_crc(self.address, self.peer, PORT, body), (self.peer, PORT))

    def answer(self, kind: int, value: int, number: int) -> None:
        self.transmit(ACKNOWLEDGE, number, struct.pack(">I", (kind << 5 | value) << 24))

    def send(self, number: int, asks: bool) -> None:
        opcode, immediate, payload, is_last = self.packets[number]
        self.transmit(opcode, number, b"" if immediate is None else struct.pack(">I", immediate), payload, asks or is_last)
        self.deadline = time.monotonic() + self.timeout()

    def timeout(self) -> float:
        return min(self.patience, 0.002 * 2 ** min(self.silent, 8))

    def advance(self, limit: int) -> None:
        """Sends what may be sent: packets before `limit`."""
        now = time.monotonic()
        while self.sent in self.packets and self.sent < limit and now >= self.pause:
            self.send(self.sent, self.sent + 1 == limit)
            self.sent += 1
        if self.acked < self.sent and now >= self.deadline:
            # Nothing is sent twice because of a time-out: the peer is asked what it lacks.
            self.silent += 1
            self.deadline = now + self.timeout()
            self.transmit(MIDDLE, self.sent - 1, asks=True)

    def receive(self) -> None:
        """Takes in all datagrams that have come."""
        while True:
            try:
                datagram, (source, port) = self.socket.recvfrom(1 << 16)
            except BlockingIOError:
                return
            body = datagram[:-4]
            if source != self.peer or len(body) < 12 or invariant_crc(source, self.address, port, body) != datagram[-4:]:
                continue
            opcode, flags, _, queue_pair, tail = struct.unpack(">BBHII", body[:12])
            psn, rest = tail & 0xFFFFFF, body[12 : len(body) - (flags >> 4 & 3)]
            if queue_pair & 0xFFFFFF != self.own:
                continue
            if opcode == ACKNOWLEDGE:
                self.acknowledged(near(psn, self.acked), rest[0] >> 5, rest[0] & 31)
            elif opcode == MIDDLE and not rest:
                self.asked_what_is_missing(near(psn, self.expected))
            elif opcode in (FIRST, MIDDLE, LAST, ONLY, ONLY_IMMEDIATE):
                immediate = int.from_bytes(rest[:4], "big") if opcode == ONLY_IMMEDIATE else None
                self.arrived(near(psn, self.expected), immediate, rest[0 if immediate is None else 4 :], tail >> 31 == 1)

    def acknowledged(self, number: int, kind: int, value: int) -> None:
        if kind == NAK and value != SEQUENCE_ERROR:
            raise SystemExit(f"expected the switch to take what is sent, found refusal {value} of packet {number & 0xFFFFFF}")
        if not self.acked <= number < self.sent:
            return
        self.silent, self.deadline = 0, time.monotonic() + self.timeout()
        if kind == NAK:
            self.send(number, True)
            return
        self.acked = number + 1 if kind == ACK else number
        self.packets = {sent: packet for sent, packet in self.packets.items() if sent >= self.acked}
        if kind == NOT_READY:
            self.sent, self.pause = self.acked, time.monotonic() + DELAYS[value] / 1e5

    def arrived(self, number: int, immediate: int | None, payload: bytes, asks: bool) -> None:
        if number < self.expected:
            self.answer(ACK, NO_CREDITS, self.executed)
        elif number < self.expected + self.window:
            self.early.setdefault(number, (immediate, payload, asks))
            self.asked.pop(number, None)
            self.drain()
            self.ask(min(number, self.known))

    def drain(self) -> None:
        while self.expected < self.known and self.expected in self.early:
            immediate, payload, asks = self.early.pop(self.expected)
            self.taken.append((immediate, payload))
            self.executed, self.expected = self.expected, self.expected + 1
            if asks:
                self.answer(ACK, NO_CREDITS, self.executed)
        self.reached = max(self.reached, self.expected)

    def ask(self, end: int) -> None:
        """Asks for what is missing before `end` and has not been asked for, and once more for what was asked for long ago."""
        now = time.monotonic()
        fresh = [number for number in range(self.reached, end) if number not in self.early]
        self.reached = max(self.reached, end)
        for number in fresh + [number for number, then in self.asked.items() if now - then > self.patience / 2]:
            self.asked[number] = now
            self.answer(NAK, SEQUENCE_ERROR, number)

    def asked_what_is_missing(self, newest: int) -> None:
        if newest < self.expected:
            self.answer(ACK, NO_CREDITS, self.executed)
        for number in range(self.expected, min(newest + 1, self.known)):
            if number not in self.early:
                self.asked[number] = time.monotonic()
                self.answer(NAK, SEQUENCE_ERROR, number)
        self.reached = max(self.reached, min(newest + 1, self.known))

    def skip(self, sends: bool, receives: bool, first: int, end: int) -> None:
        """An invocation has the numbers from `first` to before `end`: those of a direction in which nothing flows here are skipped."""
        self.acked = self.sent = first if sends else end
        self.known = end
        if not receives:
            self.expected = self.reached = end
            self.early = {number: packet for number, packet in self.early.items() if number >= end}
            self.asked.clear()
        self.drain()
        self.ask(min(max(self.early, default=0), end))


class Rank:
    """A rank of one group: what CommLib does above the queue pair."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.group: Group | None = None
        self.ready = self.over = False
        self.begins = 0

    def instruct(self) -> None:
        for kind, contents in self.manager.hear():
            if kind == INSTALL:
                group = Group(contents)
                if wrong := group.refusal():
                    self.manager.refuse(group.number, wrong)
                    continue
                self.group, self.begins = group, (1 << 24) + group.psn
                self.queue_pair = QueuePair(group)
                self.manager.report(group.number, INSTALLED)
            elif self.group and first_number(contents) == self.group.number:
                self.ready |= kind == READY
                if kind == FAILED:
                    raise SystemExit(f"expected the group to live, found that it has failed: {contents!r}")
                if kind == REMOVE:
                    self.over = True
                    self.manager.report(self.group.number, REMOVED)

    def turn(self, wait: float) -> None:
        """Waits for frames and for the manager, and takes in what has come."""
        sockets = [self.manager.socket, *([self.queue_pair.socket] if self.group else [])]
        found, _, _ = select.select(sockets, [], [], wait)
        if self.manager.socket in found:
            self.instruct()
        if self.group:
            self.queue_pair.receive()

    def invoke(self, pattern: int, root: int, immediate: int, given: bytes, grain: int) -> list[bytes]:
        """One control message, and the data packets that it announces: what has come, packet by packet."""
        group, pair, length = self.group, self.queue_pair, len(given)
        head = length if length <= group.mtu else (group.mtu - 4) // grain * grain if length <= group.mtu * group.message else 0
        head *= group.eager
        pieces = [given[at : at + group.mtu] for at in range(head, length, group.mtu)]
        immediate += len(pieces)
        first, end = self.begins, self.begins + 1 + len(pieces)
        everybody, is_root = pattern in (ALL_REDUCE, CONFIRMATION), root == group.rank
        sends = everybody or is_root == (pattern == BROADCAST)
        receives = everybody or is_root == (pattern == REDUCE)
        if sends:
            pair.packets[first] = (ONLY_IMMEDIATE, immediate, given[:head], not pieces)
            for index, piece in enumerate(pieces):
                place, is_last = index % group.message, index + 1 == len(pieces) or (index + 1) % group.message == 0
                opcode = (ONLY if is_last else FIRST) if place == 0 else LAST if is_last else MIDDLE
                pair.packets[first + 1 + index] = (opcode, None, piece, is_last)
        pair.taken = []
        pair.skip(sends, receives, first, end)
        while (sends and pair.acked < end) or (receives and pair.expected < end):
            behind = min(pair.acked, pair.expected) if everybody else pair.acked
            pair.advance(behind + pair.window)
            self.turn(0.001)
        self.begins = end
        if receives and pair.taken[0][0] != immediate:
            raise SystemExit(f"expected control message {immediate:08x}, found {pair.taken[0]}; call what the other ranks call")
        return [payload for _, payload in pair.taken]

    def run(self, name: str, root: int, type_name: str, given: bytes) -> bytes:
        """A collective: what this rank gets."""
        group, pattern, (data_type, code) = self.group, COLLECTIVES[name], TYPES[type_name]
        most = (MAX_DATA_PACKETS - MAX_DATA_PACKETS % group.message) * group.mtu
        result = b""
        for at in range(0, max(len(given), 1), most):
            part = given[at : at + most]
            detail = (at + most < len(given)) << 6 if pattern == ALL_REDUCE else root
            grain = 1 if pattern == BROADCAST else struct.calcsize(code)
            result += b"".join(self.invoke(pattern, root, pattern << 30 | data_type << 23 | detail << 13, part, grain))
        if pattern != ALL_REDUCE and group.confirm:
            self.invoke(CONFIRMATION, 0, 3 << 30 | digest(pattern, root, data_type, len(given)), b"", 1)
        if root == group.rank and pattern != ALL_REDUCE:
            return add(result, given, code) if pattern == REDUCE else given
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, what in (("--manager", "HOST:PORT"), ("--name", "the node's, among the group's members"), ("--address", "IPv4, for frames")):
        parser.add_argument(name, required=True, help=what)
    options = parser.parse_args()
    rank = Rank(Manager(options.manager, options.name, options.address))
    while not rank.ready:
        rank.turn(0.1)
    for line in sys.stdin:
        name, *numbers, type_name, given = line.rstrip("\n").split(" ")
        result = rank.run(name, int(numbers[0]) if numbers else 0, type_name, bytes.fromhex(given))
        print(result.hex(), flush=True)
    while not rank.over:
        rank.turn(0.1)


if __name__ == "__main__":
    main()
