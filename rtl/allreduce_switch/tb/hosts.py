"""Hosts of the benches: what each sends of the messages of a group."""

import random
import struct

from frames import FIRST, LAST, MIDDLE, address, roce


class Host:
    """What sends a port's part of messages: one connection, whose frames can be had again."""

    def __init__(self, port: int, ports: int, psn: int = 0, qp: int | None = None, to: int | None = None, seed: int = 0) -> None:
        self.port, self.psn, self.qp = port, psn, 0x100 + port if qp is None else qp
        self.src, self.dst = address(port), address((port + 1) % ports if to is None else to)
        self.random = random.Random(f"{seed} {port} {self.qp}")
        self.message, self.sent, self.label = 0, [], 0x12345

    def payload(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def frame(self, opcode: int) -> bytes:
        if opcode == FIRST:
            frame = roce(self.dst, self.src, opcode, self.qp, self.psn, self.payload(1004), message=self.message, label=self.label)
            self.message += 1
        else:
            frame = roce(self.dst, self.src, opcode, self.qp, self.psn, self.payload(1024), label=self.label)
        self.psn = (self.psn + 1) % 2**24
        self.sent.append(frame)
        return frame

    def whole(self, frames: int, last: int = LAST) -> list[bytes]:
        """A message of so many frames."""
        return [self.frame(FIRST), *(self.frame(MIDDLE) for _ in range(frames - 2)), self.frame(last)]


class Floats(Host):
    """Sends binary32 numbers: of all exponents, and those that are easily got wrong."""

    SPECIAL = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x33800000, 0x34000000)

    def payload(self, size: int) -> bytes:
        words = []
        for _ in range(size // 4):
            kind = self.random.randrange(4)
            if kind == 0:
                words.append(self.random.choice(self.SPECIAL))
            elif kind == 1:
                words.append(self.random.getrandbits(32))
            else:
                # Exponents that are near each other: the sums round.
                words.append(self.random.getrandbits(1) << 31 | self.random.randrange(120, 135) << 23 | self.random.getrandbits(23))
        return struct.pack(f"<{len(words)}I", *words)
