"""What a rank says to the manager and hears from it: gRPC by hand, over one connection, with nothing but Python's standard library.

Messages are those of proto/quincunx/control/v1/control.proto. What is here of HTTP/2 is what a client of one server needs: it reads no headers,
and a call without an answer has failed. No TLS: the manager serves without certificates, or an agent of this machine passes on.
"""

import json
import socket
import struct
from collections.abc import Iterator

SERVICE = "/quincunx.control.v1.Control/"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_STREAM, END_HEADERS = 1, 1, 4

# AttachRequest.node, NodeDescription's role and encapsulation.
HOST, UDP = 1, 1
# Fields of Instruction, and of ReportRequest.
INSTALL, READY, REMOVE, FAILED = 6, 3, 4, 5
INSTALLED, REFUSED, REMOVED = 3, 4, 6
# Of EPIC's parameters and roles: what this was written for.
VERSION = 6
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "us": 1e-6, "ms": 1e-3, "s": 1}


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    """A field of a message: a number, a text, or another message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, in order: numbers as they are, everything else as bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or number()
        yield key >> 3, message[at : at + length]
        at += length


def endpoint(message: bytes) -> tuple[str, int]:
    """Address and queue pair of an Endpoint."""
    found = dict(fields(message))
    return found[1].decode(), found.get(2, 0)


def first_number(message: bytes) -> int:
    """The first field, which in instructions is the group."""
    return dict(fields(message)).get(1, 0)


def quantity(value: int | str) -> float:
    """A size in bytes or a time in seconds, from a number with its unit: 4KiB, 20ms."""
    if isinstance(value, int):
        return value
    unit = value.lstrip("0123456789.")
    return float(value.removesuffix(unit)) * UNITS[unit]


class Group:
    """What a rank is told of its group (GroupContext), as far as one with one connection to a switch needs it."""

    def __init__(self, message: bytes) -> None:
        found = dict(fields(message))
        design = dict(fields(found[2]))
        self.number = found.get(1, 0)
        self.rank, self.ranks = found.get(3, 0), found.get(6, 0)
        self.psn = found.get(8, 0)
        self.channels, self.is_locked = found.get(16, 0) or 1, 14 in found
        connections = [dict(fields(value)) for number, value in fields(message) if number == 11]
        self.connections = [(endpoint(one[1]), endpoint(one[2])) for one in connections]
        self.design, self.version = design[1].decode(), design.get(2, 0)
        self.role = json.loads(found[5])
        self.parameters = json.loads(design[3]).get("group", {})

    def refusal(self) -> str | None:
        """Why this rank cannot run it; nothing if it can."""
        if self.design not in ("epic-2", "epic-3") or self.version != VERSION or not self.role.get("skips"):
            return f"expected epic-2 or epic-3 of version {VERSION} whose ranks skip PSNs, found {self.design} of {self.version}; choose one"
        if len(self.connections) != 1 or self.channels != 1 or self.is_locked:
            return "expected one channel and no locks, found others; set group.channels=1"
        said = self.parameters
        if not said["selective"] or said["run_ahead"] or said["verify"]:
            return "expected group.selective and neither group.run_ahead nor group.verify, found others; leave them as they are by default"
        self.mtu, self.message, self.window = int(quantity(said["mtu"])), said["message"], said["window"]
        self.retry_timeout, self.confirm, self.eager = quantity(said["retry_timeout"]), said["confirm"], said["eager"]
        return None


class Manager:
    """A connection to the manager. `socket` is what to wait on, `hear` what to call then."""

    def __init__(self, place: str, name: str, address: str) -> None:
        host, _, port = place.rpartition(":")
        self.name, self.authority = name, place
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.parts, self.streams = b"", {}, 1
        most = (1 << 31) - 1
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._send(SETTINGS, 0, 0, struct.pack(">HI", 4, most))
        self._send(WINDOW_UPDATE, 0, 0, struct.pack(">I", most - 65535))
        node = field(1, name) + field(2, HOST) + field(3, address) + field(5, 64) + field(8, UDP)
        self._call("Attach", field(1, node))

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)

    def _call(self, method: str, message: bytes) -> None:
        """Begins a call: the answer comes by `hear`, or nobody waits for it."""
        stream, self.streams = self.streams, self.streams + 2
        said = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": self.authority}
        said |= {"content-type": "application/grpc", "te": "trailers"}
        # Literals that nobody is to remember (RFC 7541 6.2.2); all are shorter than 127 bytes.
        block = b"".join(b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in pair) for pair in said.items())
        self._send(HEADERS, END_HEADERS, stream, block)
        self._send(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message)

    def report(self, group: int, what: int) -> None:
        """Tells of a group: INSTALLED or REMOVED."""
        self._call("Report", field(1, self.name) + field(2, group) + field(what, b""))

    def refuse(self, group: int, reason: str) -> None:
        """Tells that this rank cannot run a group."""
        self._call("Report", field(1, self.name) + field(2, group) + field(REFUSED, field(1, reason)))

    def hear(self) -> list[tuple[int, bytes]]:
        """Reads what there is: the instructions in it, each a field of Instruction and its contents."""
        found = self.socket.recv(1 << 16)
        if not found:
            raise ConnectionError("expected the manager to stay, found that it has closed the connection")
        self.buffer += found
        heard = []
        while len(self.buffer) >= 9:
            length = int.from_bytes(self.buffer[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            if len(self.buffer) < 9 + length:
                break
            payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
            if kind in (SETTINGS, PING) and not flags & ACK:
                self._send(kind, ACK, 0, payload if kind == PING else b"")
            elif kind in (RST_STREAM, GOAWAY) or stream == 1 and kind == HEADERS and flags & END_STREAM:
                raise ConnectionError("expected the manager to take this node, found that it has ended the call")
            elif kind == DATA and stream == 1:
                heard += self._messages(payload)
                self._send(WINDOW_UPDATE, 0, 1, struct.pack(">I", max(1, length)))
        return heard

    def _messages(self, payload: bytes) -> list[tuple[int, bytes]]:
        """The instructions that are whole now; a message has five bytes of gRPC before it."""
        whole = self.parts.pop(1, b"") + payload
        heard = []
        while len(whole) >= 5 and len(whole) >= 5 + (length := int.from_bytes(whole[1:5], "big")):
            heard += [one for one in fields(whole[5 : 5 + length]) if isinstance(one[1], bytes)]
            whole = whole[5 + length :]
        self.parts[1] = whole
        return heard
