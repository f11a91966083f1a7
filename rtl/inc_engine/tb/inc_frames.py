"""Frames of a switch's neighbours, for what is measured: the addresses are those of the engine's example `answers`."""

import struct
import zlib

ALL_REDUCE, BROADCAST = 0, 2 << 30
SEND_MIDDLE, SEND_ONLY_IMMEDIATE = 0x01, 0x05


def frame(edge: int, psn: int, opcode: int, payload: bytes = b"", word: int | None = None) -> str:
    """A frame that the neighbour on an edge sends, of whole words, in hexadecimal."""
    extension = b"" if word is None else struct.pack(">I", word)
    length = 20 + 8 + 12 + len(extension) + len(payload) + 4
    addresses = bytes([10, 0, 0, edge + 1, 10, 0, 0, 254])
    ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", ip))
    ip = ip[:10] + struct.pack(">H", 0xFFFF - (total + total // 0xFFFF) % 0xFFFF if total % 0xFFFF else 0) + ip[12:]
    udp = struct.pack(">HHHH", 4791, 4791, length - 20, 0)
    bth = struct.pack(">BBHIB", opcode, 0x40, 0xFFFF, 0x100 + edge, 0) + psn.to_bytes(3, "big")
    masked = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:] + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:]
    crc = zlib.crc32(b"\xff" * 8 + masked + extension + payload)
    ethernet = bytes([2, 0, 0, 0, 0, 254, 2, 0, 0, 0, 0, edge + 1, 8, 0])
    return (ethernet + ip + udp + bth + extension + payload + struct.pack("<I", crc)).hex()
