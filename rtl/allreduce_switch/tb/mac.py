"""The whole switch in cocotb: a MAC at each port, which plays frames into it and takes what leaves, and its registers."""

from collections import Counter, deque
from collections.abc import Callable

import cocotb
from bench import Reference
from cocotb.triggers import FallingEdge, Timer, ValueChange
from cocotb.utils import get_sim_time

# The places of a port's word of drop_o, as allreduce_switch_pkg has them.
REASONS = ("overrun", "giant", "runt", "filtered", "bad ICRC", "no destination", "gap", "too long", "forgotten", "pending", "stale", "unknown")
# Frame check sequence, preamble and gap: so many beats of 8 bytes in which a wire carries no frame.
PAUSE_BEATS = 3
# Longer than a frame is in the switch: when nothing has moved for so long, nothing will.
QUIET_NS = 2500


class Mac:
    """The two AXI streams of a port. Both ends move at falling edges, so that what they see is what the next rising edge takes."""

    def __init__(self, port: int, streams, moved: Callable[[], None]) -> None:
        self.port, self.streams, self.moved = port, streams, moved
        # Frames to play, or a pause of so many beats.
        self.queue: deque[bytes | int] = deque()
        self.beats: deque[tuple[int, int, bool] | None] = deque()
        self.frame, self.taking = b"", bytearray()
        # Whether a beat would be taken, asked anew for each.
        self.ready: Callable[[], bool] = lambda: True
        # What the wires say, for most edges change none of them.
        self.is_ready = self.is_playing = False
        # When the last beat of a frame went in or came out, in ns, and the frame.
        self.sent: list[tuple[float, bytes]] = []
        self.received: list[bytes] = []

    async def run(self) -> None:
        edge = FallingEdge(self.streams.clk)
        while True:
            await edge
            self.take()
            self.play()

    def take(self) -> None:
        streams, ready = self.streams, self.ready()
        if ready != self.is_ready:
            streams.tx_tready.value = self.is_ready = ready
        if not ready:
            return
        if int(streams.tx_tvalid.value) == 0:
            assert not self.taking, f"port {self.port}: expected the beats of a frame one after the other, found a pause"
            return
        keep, last = int(streams.tx_tkeep.value), int(streams.tx_tlast.value)
        assert keep & (keep + 1) == 0 and (last or keep == 0xFF), f"port {self.port}: expected bytes without gaps, found tkeep {keep:#x}"
        self.taking += int(streams.tx_tdata.value).to_bytes(8, "little")[: keep.bit_count()]
        self.moved()
        if last:
            self.received.append(bytes(self.taking))
            self.taking.clear()

    def play(self) -> None:
        streams = self.streams
        if not self.beats and self.queue:
            self.load(self.queue.popleft())
        beat = self.beats.popleft() if self.beats else None
        if self.is_playing != (beat is not None):
            streams.rx_tvalid.value = self.is_playing = beat is not None
        if beat is not None:
            streams.rx_tdata.value, streams.rx_tkeep.value, streams.rx_tlast.value = beat
            self.moved()
            if beat[2]:
                self.sent.append((get_sim_time("ns"), self.frame))

    def load(self, item: bytes | int) -> None:
        if isinstance(item, int):
            self.beats.extend([None] * item)
            return
        self.frame = item
        parts = [item[at : at + 8] for at in range(0, len(item), 8)]
        self.beats.extend((int.from_bytes(part, "little"), (1 << len(part)) - 1, place == len(parts)) for place, part in enumerate(parts, 1))
        self.beats.extend([None] * PAUSE_BEATS)


class Switch:
    """The switch and its reference. `run` lets all frames through, asks the reference, and raises AssertionError at a difference."""

    def __init__(self, dut) -> None:
        self.dut, self.ports = dut, int(dut.PORTS.value)
        self.flows, self.frames = int(dut.FLOWS.value), int(dut.FRAMES.value)
        self.reference = Reference(self.ports, self.flows, self.frames)
        self.moved_at = 0.0
        self.macs = [Mac(port, dut.gen_port[port].u_port, self.moved) for port in range(self.ports)]
        self.dropped: Counter = Counter()

    @classmethod
    async def after_reset(cls, dut) -> "Switch":
        switch = cls(dut)
        dut.rst_n.value = 0
        await Timer(60, "ns")
        dut.rst_n.value = 1
        await Timer(60, "ns")
        for mac in switch.macs:
            cocotb.start_soon(mac.run())
        cocotb.start_soon(switch.count_drops())
        return switch

    def moved(self) -> None:
        self.moved_at = get_sim_time("ns")

    async def count_drops(self) -> None:
        edge, change = FallingEdge(self.dut.clk), ValueChange(self.dut.drop)
        while True:
            await change
            await edge
            while pulses := int(self.dut.drop.value):
                for place in range(self.ports * len(REASONS)):
                    if pulses >> place & 1:
                        self.dropped[place // len(REASONS), REASONS[place % len(REASONS)]] += 1
                await edge

    def send(self, port: int, *frames: bytes) -> None:
        self.macs[port].queue.extend(frames)

    def rest(self, port: int, beats: int) -> None:
        """Lets the port's wire rest before the next frame."""
        self.macs[port].queue.append(beats)

    def sink(self, port: int, ready: Callable[[], bool]) -> None:
        self.macs[port].ready = ready

    async def settle(self) -> None:
        """Until nothing has moved for long."""
        self.moved()
        while get_sim_time("ns") - self.moved_at < QUIET_NS or any(mac.queue for mac in self.macs):
            await Timer(200, "ns")

    async def run(self, *, lossy: bool = False) -> list[tuple[int, str]]:
        """What left by which port, all that was sent since the last time; compared to the bit. `lossy` is as in `Reference.compare`."""
        await self.settle()
        sent = sorted((when, mac.port, frame) for mac in self.macs for when, frame in mac.sent)
        found = [(mac.port, frame.hex()) for mac in self.macs for frame in mac.received]
        self.drops, self.dropped = self.dropped, Counter()
        for mac in self.macs:
            assert not mac.taking, f"port {mac.port}: expected whole frames, found one without an end"
            mac.sent, mac.received = [], []
        self.reference.compare([(port, frame) for _, port, frame in sent], found, self.drops, lossy=lossy)
        return found

    async def spi(self, write: bool, address: int, value: int = 0) -> int:
        """A transfer of 40 bits, at an eighth of the processing clock: the value that was read."""
        dut, out, found = self.dut, write << 39 | address << 32 | value, 0
        dut.spi_cs_n.value = 0
        await Timer(40, "ns")
        for bit in range(39, -1, -1):
            dut.spi_mosi.value = out >> bit & 1
            await Timer(40, "ns")
            found = found << 1 | int(dut.spi_miso.value)
            dut.spi_sck.value = 1
            await Timer(40, "ns")
            dut.spi_sck.value = 0
        await Timer(40, "ns")
        dut.spi_cs_n.value = 1
        await Timer(40, "ns")
        return found & 0xFFFFFFFF

    async def config(self, mode: int, cfg: int) -> bool:
        """Writes both registers, or neither if the second is refused: by both sides alike. Whether it was refused."""
        before = await self.spi(False, 1)
        await self.spi(True, 1, cfg)
        refused = self.reference.config(mode, cfg)
        expected, found = before if refused else cfg, await self.spi(False, 1)
        assert found == expected, f"expected {expected:#x} in AGG_PORT_CFG after {cfg:#x} was written, found {found:#x}"
        if not refused:
            await self.spi(True, 0, mode)
        return refused
