"""The registers over SPI, and what a write to them does to a group."""

import needs
import rtl_tools
from case import Case
from hosts import Floats, Host


@rtl_tools.programs("verilator", "g++", "make")
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
