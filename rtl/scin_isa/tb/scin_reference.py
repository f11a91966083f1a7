"""What the in-switch accelerator is to make of accelerators' memories, in the lines of the engine's example `answers`.

It is held to the engine's vectors. Another program that speaks its lines can stand in its place: SCIN_ISA_REFERENCE is its command.
"""

import os
import shlex
import struct
from fractions import Fraction

from lines import Program

REFERENCE = "SCIN_ISA_REFERENCE"
NAN_F32, NAN_F16, NAN_BF16, INFINITY_F16 = 0x7FC00000, 0x7E00, 0x7FC0, 0x7C00


def f32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f16(bits: int) -> float:
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def bits_of(number: float, form: str, whole: str, nan: int, infinity: int, sign: int) -> int:
    """A number rounded to nearest, ties to even. The sum of two in binary64 and once more rounded is that of one rounding."""
    if number != number:
        return nan
    try:
        return struct.unpack(whole, struct.pack(form, number))[0]
    except OverflowError:
        return infinity | (sign if number < 0 else 0)


def to_f32(number: float) -> int:
    return bits_of(number, "<f", "<I", NAN_F32, 0x7F800000, 1 << 31)


def to_f16(number: float) -> int:
    return bits_of(number, "<e", "<H", NAN_F16, INFINITY_F16, 1 << 15)


def add_bf16(a: int, b: int) -> int:
    total = to_f32(f32(a << 16) + f32(b << 16))
    if total & 0x7FFFFFFF > 0x7F800000:
        return NAN_BF16
    return total + 0x7FFF + (total >> 16 & 1) >> 16


# By type: what an element is packed as, and how two are added.
TYPES = {0: ("I", lambda a, b: to_f32(f32(a) + f32(b))), 1: ("H", lambda a, b: to_f16(f16(a) + f16(b))), 2: ("H", add_bf16)}


def accumulate(vectors: list[bytes], data_type: int) -> bytes:
    """Neighbours are added first, and one that is left over later; what comes from one alone stays as it is."""
    form, add = TYPES[data_type]
    count = len(vectors[0]) // struct.calcsize(form)
    level = [struct.unpack(f"<{count}{form}", vector) for vector in vectors]
    while len(level) > 1:
        pairs = [list(map(add, a, b)) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2 :]
    return struct.pack(f"<{count}{form}", *level[0])


def scale_for(magnitude: float) -> int:
    """The smallest binary16 number that times 127 is no less."""
    bits = to_f16(magnitude / 127)
    reaches = [each for each in range(max(0, bits - 2), bits + 3) if each >= INFINITY_F16 or Fraction(f16(each)) * 127 >= Fraction(magnitude)]
    return reaches[0] if reaches[0] < INFINITY_F16 else NAN_F16


def quantised(codes: list[bytes], scales: list[bytes]) -> tuple[bytes, bytes]:
    """Dequantises, adds up in binary32 from the first to the last, and quantises."""
    out_codes, out_scales = bytearray(), bytearray()
    for start in range(0, len(codes[0]), 64):
        sums: list[float] | None = None
        for vector, factors in zip(codes, scales):
            (scale,) = struct.unpack_from("<e", factors, start // 32)
            if scale in (float("inf"), -float("inf")):
                scale = float("nan")
            values = [code * scale for code in struct.unpack(f"<{len(vector[start : start + 64])}b", vector[start : start + 64])]
            sums = values if sums is None else [f32(to_f32(a + b)) for a, b in zip(sums, values)]
        largest = float("nan") if any(each != each for each in sums) else max(map(abs, sums))
        scale = NAN_F16 if largest != largest else scale_for(largest)
        out_scales += struct.pack("<H", scale)
        step = Fraction(0) if scale == NAN_F16 else Fraction(f16(scale))
        out_codes += bytes((round(Fraction(each) / step) if step else 0) & 255 for each in sums)
    return bytes(out_codes), bytes(out_scales)


class Reference:
    """Memories, and what instructions make of them."""

    def __init__(self, ports: int, data_type: int) -> None:
        self.ports, self.data_type = ports, data_type
        self.memories: list[dict[int, int]] = [{} for _ in range(ports)]
        self.loaded: list[list[int]] = []
        self.notified = 0
        self.other = None
        if command := os.environ.get(REFERENCE):
            self.other = Program(*shlex.split(command))
            self.answer(f"ports {ports} {data_type}")

    def close(self) -> None:
        if self.other:
            self.other.close()

    def bytes_at(self, port: int, address: int, length: int) -> bytes:
        return bytes(self.memories[port].get(address + i, 0) for i in range(length))

    def put(self, port: int, address: int, content: bytes) -> None:
        self.memories[port].update(enumerate(content, address))

    def answer(self, line: str) -> list[list[str]]:
        if self.other:
            return self.other.ask(line)[:-1]
        match line.split():
            case ["memory", port, address, content]:
                self.put(int(port), int(address), bytes.fromhex(content))
            case ["instruction", *numbers]:
                self.loaded.append([int(number) for number in numbers])
            case ["add", *_]:
                pass
            case ["run"]:
                return self.run()
            case ["dump", port, address, length]:
                return [["memory", port, address, self.bytes_at(int(port), int(address), int(length)).hex()]]
            case _:
                raise AssertionError(f"expected a line of the example `answers`, found {line}")
        return []

    def run(self) -> list[list[str]]:
        loaded, self.loaded = self.loaded, []
        flags = []
        while loaded:
            _, length, kind, sources, destinations, *addresses = loaded.pop(0)
            members, targets = ([port for port in range(self.ports) if mask >> port & 1] for mask in (sources, destinations))

            def at(port: int, kind: int = kind, addresses: list[int] = addresses) -> int:
                return addresses[0 if kind & 2 else port]

            vectors = [self.bytes_at(port, at(port), length) for port in members]
            if kind & 1:
                _, scale_length, scale_kind, _, _, *scale_addresses = loaded.pop(0)

                def scale_at(port: int, kind: int = scale_kind, addresses: list[int] = scale_addresses) -> int:
                    return addresses[0 if kind & 2 else port]

                codes, scales = quantised(vectors, [self.bytes_at(port, scale_at(port), scale_length) for port in members])
                for port in targets:
                    self.put(port, at(port), codes)
                    self.put(port, scale_at(port), scales)
            else:
                result = accumulate(vectors, self.data_type)
                for port in targets:
                    self.put(port, at(port), result)
            if kind & 8:
                self.notified += 1
                flags += [["flag", str(port), str(self.notified)] for port in sorted({*members, *targets})]
        return flags
