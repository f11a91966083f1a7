"""Frames for the benches, field by field; the switch's README has the format."""

import zlib

FIRST, MIDDLE, LAST, IMMEDIATE = 0x06, 0x07, 0x08, 0x09


def address(port: int, host: int = 0) -> bytes:
    """The Ethernet address of a host behind a port."""
    return bytes([2, 0, 0, 0, host, port])


def ethernet(dst: bytes, src: bytes, size: int, fill: int = 0, kind: bytes = b"\x08\x00") -> bytes:
    """A frame of `size` bytes that is not for aggregation."""
    body = bytes((fill + i) & 0xFF for i in range(max(size - 14, 0)))
    return (dst + src + kind + body)[:size]


def icrc(frame: bytes) -> bytes:
    """Of a frame without it; by its bits as the InfiniBand specification has them, not as the reference does it."""
    masked = bytearray(frame[14:])
    masked[0] = masked[0] & 0xF0 | 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = 0xFF
    masked[44] = 0xFF
    return zlib.crc32(bytes([0xFF] * 8) + bytes(masked)).to_bytes(4, "little")


def roce(dst: bytes, src: bytes, opcode: int, qp: int, psn: int, payload: bytes, *, field: bytes = b"QNR1", message: int = 0, traffic: int = 0, hops: int = 64, flags: int = 0, label: int = 0x12345) -> bytes:
    """A frame for aggregation; `payload` is 1,004 bytes in a First, 1,024 in another."""
    bth = bytes([opcode, 0x40, 0xFF, 0xFF, flags]) + qp.to_bytes(3) + b"\x80" + (psn & 0xFFFFFF).to_bytes(3)
    extra = b""
    if opcode == FIRST:
        extra = bytes(8) + b"\0\0\x12\x34" + (1024 * 4).to_bytes(4) + field + message.to_bytes(4) + bytes.fromhex("0003 0004 00000400 00000007")
    elif opcode == IMMEDIATE:
        extra = b"\x01\x02\x03\x04"
    grh = (6 << 28 | traffic << 20 | label).to_bytes(4) + (len(bth) + len(extra) + len(payload) + 4).to_bytes(2)
    grh += bytes([0x1B, hops]) + b"\xfe\x80" + bytes(8) + src + b"\xfe\x80" + bytes(8) + dst
    frame = dst + src + b"\x89\x15" + grh + bth + extra + payload
    return frame + icrc(frame)


def spoil(frame: bytes, place: int, bits: int = 1) -> bytes:
    """The frame with some bits of one byte turned over."""
    return frame[:place] + bytes([frame[place] ^ bits]) + frame[place + 1 :]
