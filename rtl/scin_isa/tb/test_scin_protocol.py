"""What the in-switch accelerator does at its edges: packets that nobody asked for, barriers, refusals, and the switch core beside it."""

import struct
import unittest

import rtl_tools
import scin_build
from scin_bench import NOTIFY, REGION, WAIT, Simulator, instruction

READ, READ_RESPONSE, WRITE, WRITE_RESPONSE, ADD, STORE = range(1, 7)
NODE, COUNTER = 9, 1 << 47
PORTS = 4


def packet(kind: int, source: int, destination: int, address: int = 0, length: int = 0, tag: int = 0, payload: bytes = b"") -> str:
    head = bytes([kind << 4 | 8]) + (source << 12 | destination).to_bytes(3, "big") + address.to_bytes(6, "big") + length.to_bytes(2, "big")
    return (head + tag.to_bytes(3, "big") + b"\0" + payload).hex()


def floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


@rtl_tools.programs("verilator", "g++")
class Protocol(unittest.TestCase):
    turn = 2

    def setUp(self) -> None:
        self.simulator = Simulator(scin_build.PROTOTYPE.simulator())

    def all_reduce(self, length: int = 32, number: int = 1) -> None:
        """Accelerator p has p + 1 in each element."""
        for port in range(PORTS):
            self.simulator.tell(f"memory {port} 4096 {floats(*[port + 1.0] * (length // 4)).hex()}")
        self.simulator.tell(instruction(number, length, WAIT | NOTIFY | REGION, 15, 15, [4096] * PORTS))

    def arrive(self, *ports: int, operand: int = 1) -> None:
        self.simulator.tell(*(f"add {port} {operand}" for port in ports))

    def of(self, answers: list[list[str]], what: str) -> list[list[str]]:
        return [rest for kind, *rest in answers if kind == what]

    def result(self, answers: list[list[str]]) -> list[tuple[float, ...]]:
        return [struct.unpack(f"<{len(rest[2]) // 8}f", bytes.fromhex(rest[2])) for rest in self.of(answers, "memory")]

    def test_what_nobody_asked_for_is_dropped_and_changes_nothing(self) -> None:
        strange = {
            # Nothing is under way yet: no response is awaited, in the tables or beyond them.
            packet(READ_RESPONSE, 0, NODE, length=32, payload=bytes(32)): "response",
            packet(READ_RESPONSE, 0, NODE, length=32, tag=0xFFFFFF, payload=bytes(32)): "response",
            packet(WRITE_RESPONSE, 0, NODE): "response",
            packet(WRITE_RESPONSE, 0, NODE, tag=0x800000): "response",
            packet(READ_RESPONSE, 1, NODE, length=32, payload=bytes(32)): "source",
            packet(ADD, 1, NODE, address=COUNTER, length=8, payload=(4).to_bytes(8, "big")): "source",
            packet(ADD, 0, NODE + 1, address=COUNTER, length=8, payload=(4).to_bytes(8, "big")): "source",
            packet(ADD, 0, NODE, address=COUNTER + 8, length=8, payload=(4).to_bytes(8, "big")): "transaction",
            packet(ADD, 0, NODE, address=4096, length=8, payload=(4).to_bytes(8, "big")): "transaction",
            packet(READ, 0, NODE, address=4096, length=32): "transaction",
            packet(WRITE, 0, NODE, address=4096, length=32, payload=bytes(32)): "transaction",
            packet(STORE, 0, NODE, address=COUNTER, length=8, payload=bytes(8)): "transaction",
        }
        self.all_reduce()
        self.simulator.tell(*(f"raw 0 {each}" for each in strange), "run")
        self.arrive(*range(PORTS))
        self.simulator.tell("run", "dump 0 4096 36")
        answers = self.simulator.run()
        drops = self.of(answers, "drop")
        self.assertEqual({port for port, _, _ in drops}, {"0"})
        # Classes have queues of their own, so packets of several leave in another order.
        self.assertEqual(sorted(reason for _, reason, _ in drops), sorted(strange.values()))
        self.assertEqual([(port, value) for port, _, value, _ in self.of(answers, "flag")], [(str(port), "1") for port in range(PORTS)])
        self.assertEqual(self.result(answers), [(10.0,) * 8 + (0.0,)])

    def test_a_response_is_taken_once_and_only_with_its_length(self) -> None:
        self.simulator.tell("read 1000 1000", "link 5")
        self.all_reduce(64)
        self.arrive(*range(PORTS))
        # The reads are under way. Short, long, of another entry and place; then one that fits, and the memory's own comes too late.
        self.simulator.tell("cycles 100")
        wrong = [(32, 0), (96, 0), (64, 1 << 3), (64, 1)]
        for length, tag in wrong:
            self.simulator.tell(f"raw 2 {packet(READ_RESPONSE, 2, NODE, 4096, length, tag, bytes(length))}")
        # A packet of fewer flits than its header says, and one of more.
        self.simulator.tell(f"raw 2 {packet(READ_RESPONSE, 2, NODE, 4096, 64, 0, bytes(32))}", f"raw 2 {packet(READ_RESPONSE, 2, NODE, 4096, 64, 0, bytes(96))}")
        self.simulator.tell(f"raw 2 {packet(READ_RESPONSE, 2, NODE, 4096, 64, 0, floats(*[7.0] * 16))}", "run", "dump 3 4096 64")
        answers = self.simulator.run()
        self.assertEqual([(port, reason) for port, reason, _ in self.of(answers, "drop")], [("2", "response")] * 7)
        self.assertEqual(self.result(answers), [(14.0,) * 16])
        self.assertEqual(len(self.of(answers, "flag")), PORTS)

    def test_an_instruction_waits_for_all_and_the_count_begins_anew(self) -> None:
        self.all_reduce(number=7)
        self.arrive(0, 1, 3)
        self.simulator.tell("run")
        self.arrive(2)
        self.simulator.tell("run")
        self.all_reduce(number=8)
        self.arrive(0, 1, 2)
        self.simulator.tell("run")
        # One that counts for several, and more than the counter holds.
        self.arrive(3, operand=1 << 63)
        self.simulator.tell("run")
        self.all_reduce(number=9)
        self.simulator.tell("run")
        self.arrive(0, operand=4)
        self.simulator.tell("run")
        runs: list[list[str]] = [[]]
        # An instruction that waits is work left over; the simulator says `busy` of links and tables alone.
        for what, *rest in self.simulator.run():
            if what == "started":
                runs[-1].append(rest[0])
            if what == "end":
                runs.append([])
        self.assertEqual(runs, [[], ["7"], [], ["8"], [], ["9"], []])

    def test_a_barrier_waits_for_all_that_came_before(self) -> None:
        self.simulator.tell("trace", "write 500 500")
        self.simulator.tell(instruction(1, 1 << 14, WAIT | REGION, 15, 15, [4096] * PORTS), instruction(2, 0, WAIT | NOTIFY, 15, 15, [0] * PORTS))
        self.arrive(*range(PORTS))
        # They arrive at the second one while the first one runs.
        self.simulator.tell("cycles 200")
        self.arrive(*range(PORTS))
        self.simulator.tell("run")
        answers = self.simulator.run()
        (first, began), (second, then) = self.of(answers, "started")
        written = max(int(rest[-1]) for rest in self.of(answers, "come") if rest[1] == "write-response")
        self.assertEqual((first, second), ("1", "2"))
        self.assertGreater(written, int(began))
        self.assertGreater(int(then), written)

    def test_flags_count_and_go_to_participants_alone(self) -> None:
        for round_number, mask in enumerate((15, 6, 9), 1):
            self.simulator.tell(instruction(round_number, 0, WAIT | NOTIFY, mask, mask, [0] * PORTS))
            self.arrive(*(port for port in range(PORTS) if mask >> port & 1))
            self.simulator.tell("run")
        flags = [(int(port), int(value)) for port, _, value, _ in self.of(self.simulator.run(), "flag")]
        self.assertEqual(flags, [(0, 1), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (0, 3), (3, 3)])

    def test_without_a_quantizer_a_quantised_instruction_is_refused_with_its_scales(self) -> None:
        simulator = Simulator(scin_build.EIGHT.simulator())
        simulator.tell(instruction(1, 64, 13, 255, 255, [4096] * 8), instruction(2, 2, 2, 255, 255, [8192] * 8))
        simulator.tell(instruction(3, 0, WAIT | NOTIFY, 255, 255, [0] * 8), *(f"add {port} 1" for port in range(8)), "run")
        answers = simulator.run()
        self.assertEqual([rest[0] for rest in self.of(answers, "refused")], ["1"])
        self.assertEqual([rest[0] for rest in self.of(answers, "started")], ["3"])

    def test_the_switch_core_never_runs_out_of_credits(self) -> None:
        # Several times as many packets of each class as there are credits, each way.
        ways = [(source, target, kind) for source, target in ((1, 0), (2, 0), (0, 3)) for kind in (READ, READ_RESPONSE, WRITE, WRITE_RESPONSE)]
        for length in (32, 4096):
            simulator = Simulator(self.simulator.program)
            simulator.tell("link 2", *(f"send {source} {target} {kind} {length} 60" for source, target, kind in ways), "run")
            crossed = self.of(simulator.run(), "core")
            self.assertEqual([count for *_, count, _ in crossed], ["60"] * len(ways))

    def time(self, *settings: str) -> int:
        self.simulator = Simulator(self.simulator.program)
        self.simulator.tell("link 10", *settings)
        self.all_reduce(1 << 16)
        self.arrive(*range(PORTS))
        self.simulator.tell("run")
        answers = self.simulator.run()
        return max(int(rest[3]) for rest in self.of(answers, "flag")) - int(self.of(answers, "started")[0][1])

    def test_a_switch_core_that_stops_does_not_stop_the_accelerator(self) -> None:
        # Its packets fill its own queues, and then wait at their senders; those that have passed have shared the links.
        traffic = ["send 1 0 3 4096 20", "send 0 2 2 4096 20"]
        stopped = self.time("core 1", *traffic)
        self.assertLess(stopped, self.time(*traffic))
        self.assertLess(stopped, 1.5 * self.time())

    def test_links_are_shared_in_turn_with_the_switch_core(self) -> None:
        alone = self.time()
        # Two accelerators send to the first one as fast as the link takes it, for longer than the AllReduce takes.
        shared = self.time("send 1 0 3 4096 40", "send 2 0 2 4096 40")
        self.assertGreater(shared, 1.6 * alone)
        # Of each wave a read and a write leave, each in turn with a packet of the core: a third of the link at worst.
        self.assertLess(shared, 3 * alone)


if __name__ == "__main__":
    unittest.main()
