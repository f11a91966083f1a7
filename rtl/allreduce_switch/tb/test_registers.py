"""The registers over SPI, and what a write to them does to a group."""

import needs
import rtl_tools
from case import Case
from frames import FIRST, address, ethernet
from hosts import Floats, Host


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Registers(Case):
    def test_registers_refuse_what_makes_no_sense(self) -> None:
        for number, mask in ((7, 0xFF), (9, 0xFF), (1, 0x01), (0, 0x00), (9, 0x1FF), (2, 0x2000001), (8, 0x40000FF)):
            self.bench.config(0, mask, number)
            self.assertTrue(self.bench.refused, f"{number} of {mask:#x}")
        self.bench.config(1, 0xF0, 4)
        self.assertFalse(self.bench.refused)
        self.assertEqual(self.bench.read(1), 0x200000F0)

    def test_registers_are_after_reset_as_the_paper_has_them(self) -> None:
        self.assertEqual((self.bench.read(0), self.bench.read(1)), (0, 0x400000FF))

    def test_a_group_leaves_nothing_to_the_next(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts[:5]:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for mode, kind in ((1, Floats), (0, Host), (0, Host)):
            self.bench.config(mode, 0xFF)
            # Of the connection before, nothing is known: its frames pass as any others.
            self.bench.send(0, hosts[0].sent[2])
            self.bench.run()
            for host in self.hosts(kind):
                self.bench.send(host.port, *host.whole(3))
            self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_registers_may_be_written_while_frames_pass(self) -> None:
        self.learn()
        for round in range(6):
            for host in self.hosts(qp=round):
                self.bench.send(host.port, *host.whole(6))
            self.bench.run(300 + 411 * round)
            self.bench.write(1, 0x400000FF)
            self.bench.run(12000)
            # Whatever was under way is over; no frame is half, and no sum is wrong.
            self.bench.forget()
            self.bench.config(0, 0xFF)
            for host in self.hosts(qp=0x40 + round):
                self.bench.send(host.port, *host.whole(3))
            self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def begin(self, **how: int) -> None:
        """A new group at all ports, of which nothing old may be seen."""
        self.bench.forget()
        self.assertFalse(self.bench.reference.config(0, 0x400000FF))
        # Nobody's sum is made before the last one has come.
        self.bench.rest(0, 3000)
        # As many columns as have been used before.
        for host in self.hosts(**how):
            self.bench.send(host.port, *host.whole(2), *host.whole(2))
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_a_frame_that_waits_is_of_an_old_group_however_often_the_registers_are_written(self) -> None:
        for writes in (1, 2, 3, 4, 5, 8):
            with self.subTest(writes=writes):
                self.setUp()
                self.learn()
                # A First waits behind what cannot leave.
                self.bench.sink(1, "stop")
                self.bench.send(0, *(ethernet(address(1), address(0), 1500, i) for i in range(3)), Host(0, self.ports, qp=0x55).frame(FIRST))
                self.bench.run(20000)
                for _ in range(writes):
                    self.bench.write(1, 0x400000FF)
                self.bench.sink(1, "wire")
                self.bench.run(20000)
                self.assertEqual(self.bench.drops, {(0, "stale"): 1})
                self.begin()

    def test_a_frame_is_of_the_old_group_or_of_the_new_whenever_the_registers_are_written(self) -> None:
        # A write takes 664 cycles and a First 178: it is stored as the group changes, or judged in that very cycle.
        for cycles in (*range(290, 435, 15), *range(435, 480)):
            self.bench.forget()
            self.bench.config(0, 0xFF)
            self.learn()
            hosts = self.hosts()
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
            self.bench.run()
            self.bench.rest(0, 5 * cycles)
            self.bench.send(0, hosts[0].frame(FIRST))
            self.bench.write(1, 0x400000FF)
            self.bench.run(1200)
            self.begin(qp=0x300)

    def test_results_that_wait_are_nobodys_when_the_registers_are_written(self) -> None:
        self.learn()
        self.bench.config(0, 0x03)
        self.bench.sink(1, "stop")
        # So many that all FIFOs on the way are full.
        for port in (0, 1):
            self.bench.send(port, *Host(port, self.ports, to=1 - port).whole(100))
        self.bench.run(40000)
        # The others have room for results, and no part in these. One write alone: another would clear what the first has left.
        self.bench.write(1, 0x200000F0)
        self.bench.sink(1, "wire")
        # What is forwarded from now on, and what was under way, is for these two.
        self.assertEqual({out.port for out in self.bench.run(20000)}, {0, 1})
        self.bench.forget()
        self.assertFalse(self.bench.reference.config(0, 0x200000F0))
        self.bench.rest(6, 3000)
        for port in range(4, 8):
            self.bench.send(port, *Host(port, self.ports, to=4 + (port + 1) % 4).whole(60))
        self.assertEqual(len(self.bench.run()), 4 * 60)
        # Nor have they counted for the next one of the first two.
        self.bench.config(0, 0x03)
        for port in (0, 1):
            self.bench.send(port, *Host(port, self.ports, to=1 - port, qp=0x99).whole(60))
        self.assertEqual(len(self.bench.run()), 2 * 60)

    def test_a_sum_that_is_being_made_is_nobodys_when_the_registers_are_written(self) -> None:
        for later in range(0, 900, 60):
            self.bench.forget()
            self.bench.config(0, 0x03)
            self.learn()
            # One sum after another is made while the write comes.
            self.bench.rest(0, later)
            for port in (0, 1):
                self.bench.send(port, *Host(port, self.ports, to=1 - port).whole(12))
            self.bench.run(1500)
            self.bench.write(1, 0x200000F0)
            self.bench.run(12000)
            self.assertLessEqual({out.port for out in self.bench.seen}, {0, 1})
            self.bench.forget()
            self.assertFalse(self.bench.reference.config(0, 0x200000F0))
            for port in range(4, 8):
                self.bench.send(port, *Host(port, self.ports, to=4 + (port + 1) % 4).whole(12))
            self.assertEqual(len(self.bench.run()), 4 * 12)

    def test_a_sum_that_leaves_is_not_spoiled_as_the_mode_changes(self) -> None:
        # A sum a frame, 178 cycles: the write meets each of its cycles, in steps of five.
        for later in range(36):
            self.bench.forget()
            self.bench.config(0, 0x03)
            self.learn()
            for port in (0, 1):
                host = Host(port, self.ports, to=1 - port)
                host.label = 0x4E521
                self.bench.rest(port, 25 * later)
                self.bench.send(port, *host.whole(8))
            self.bench.run(400)
            self.bench.write(0, 1)
            self.bench.run(2000)
            self.assertGreater(len(self.bench.seen), 0)
            # Each that left is the sum, whole, of the mode before.
            self.bench.compare(lossy=True)

    def test_a_retransmission_leaves_or_is_counted_once_whenever_the_registers_are_written(self) -> None:
        answers = set()
        for later in range(1200, 3200, 50):
            self.bench.forget()
            self.bench.config(0, 0xFF)
            self.learn()
            hosts = self.hosts()
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
            self.bench.run()
            self.bench.rest(3, later)
            self.bench.send(3, hosts[3].sent[1])
            self.bench.write(1, 0x400000FF)
            self.bench.run(1200)
            dropped = sum(self.bench.dropped.values())
            answers.add((len(self.bench.seen), dropped))
        # It leaves, is dropped as stale, or is forwarded as any other frame of no connection; in the FIFO it is neither.
        self.assertLessEqual(answers, {(1, 0), (0, 1), (0, 0)})
        self.assertLessEqual({(1, 0), (0, 1)}, answers)
