"""Frames that were lost, or come again: what is dropped, and what is sent once more."""

import needs
import rtl_tools
from case import Case
from frames import FIRST, IMMEDIATE, MIDDLE, address, ethernet, roce
from hosts import Host


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Loss(Case):
    def test_frames_after_a_lost_one_are_dropped_until_it_comes(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            whole = host.whole(6)
            self.bench.send(host.port, *(whole if host.port else [*whole[:2], *whole[3:]]))
        self.assertEqual(len(self.bench.run()), 2 * self.ports)
        self.assertEqual(self.bench.drops, {(0, "gap"): 3})
        self.bench.send(0, *hosts[0].sent[2:])
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_a_lost_first_is_not_replaced_by_what_follows(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            whole = host.whole(3)
            self.bench.send(host.port, *(whole if host.port != 2 else whole[1:]))
        self.assertEqual(self.bench.run(), [])
        self.bench.send(2, *hosts[2].sent[3:])
        self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_a_connection_begins_with_its_first_message_alone(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *[host.whole(2), host.whole(2)][1 if host.port == 4 else 0])
        self.bench.run()
        # Its First is dropped; what follows is of no connection that the switch knows, and passes.
        self.assertEqual(self.bench.drops, {(4, "gap"): 1})
        self.bench.send(4, *hosts[4].sent)
        self.assertEqual(len(self.bench.run()), 2 * self.ports)

    def test_a_message_id_is_zero_in_all_of_its_bytes(self) -> None:
        self.learn()
        for bit in range(0, 32, 5):
            self.bench.send(1, roce(address(2), address(1), FIRST, 0x77, 9, bytes(1004), message=1 << bit))
        self.bench.run()
        self.assertEqual(self.bench.drops, {(1, "gap"): 7})

    def test_what_was_added_up_is_sent_again_to_who_asks(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(4, IMMEDIATE))
        self.bench.run()
        self.bench.send(5, hosts[5].sent[1], hosts[5].sent[3], hosts[5].sent[0])
        self.assertEqual([out.port for out in self.bench.run()], [6, 6, 6])
        for host in hosts:
            self.bench.send(host.port, *host.sent)
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_what_waits_for_others_is_not_sent_again(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts[1:]:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        self.bench.send(3, *hosts[3].sent)
        self.bench.run()
        self.assertEqual(self.bench.drops, {(3, "pending"): 3})
        self.bench.send(0, *hosts[0].whole(3))
        self.assertEqual(len(self.bench.run()), 3 * self.ports)

    def test_the_fifth_message_takes_the_place_of_the_first(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            for _ in range(4):
                self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            self.bench.send(host.port, *host.sent[:3])
        self.assertEqual(len(self.bench.run()), 3 * self.ports)
        for host in hosts:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        for host in hosts:
            self.bench.send(host.port, *host.sent)
        self.assertEqual(len(self.bench.run()), 12 * self.ports)
        self.assertEqual(self.bench.drops, {(p, "forgotten"): 3 for p in range(self.ports)})

    def test_a_column_that_is_opened_again_has_nothing_left_of_before(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            for _ in range(4):
                self.bench.send(host.port, *host.whole(4))
        self.bench.run()
        # The fifth message comes from all ports but one: nothing of the first message is an answer to it.
        for host in hosts[:-1]:
            self.bench.send(host.port, *host.whole(4))
        self.bench.run()
        for host in hosts[:-1]:
            self.bench.send(host.port, *host.sent[-4:])
        self.assertEqual(self.bench.run(), [])
        self.bench.send(hosts[-1].port, *hosts[-1].whole(4))
        self.assertEqual(len(self.bench.run()), 4 * self.ports)

    def test_a_new_connection_forgets_the_one_before(self) -> None:
        self.learn()
        old = self.hosts(psn=100)
        for host in old:
            self.bench.send(host.port, *host.whole(3))
        self.bench.run()
        new = self.hosts(psn=90, qp=0x999)
        for host in new:
            self.bench.send(host.port, *host.whole(3))
        self.assertEqual(len(self.bench.run()), 3 * self.ports)
        # Numbers of the old one in the new one's name: a gap from 93, and before 90 nothing is known.
        for psn in (100, 89, 92):
            self.bench.send(1, roce(address(2), address(1), MIDDLE, 0x999, psn, bytes(1024)))
            self.bench.run()

    def test_sums_and_retransmissions_share_the_way_out(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(10))
        self.bench.run()
        # Half of the ports ask for all once more; from their second frame on the others are late.
        again = [host for host in hosts if host.port % 2]
        for host in again:
            self.bench.send(host.port, *host.sent[:10])
        self.assertEqual(len(self.bench.run()), 10 * len(again))

    def test_sums_and_retransmissions_take_turns(self) -> None:
        self.learn()
        hosts = self.hosts()
        for host in hosts:
            self.bench.send(host.port, *host.whole(12))
        self.bench.run()
        # Where the results of port 3 go, nothing leaves until both sums and retransmissions wait for their turn.
        self.bench.sink(4, "stop")
        for host in hosts:
            self.bench.send(host.port, *host.whole(10))
        self.bench.send(3, *hosts[3].sent[:10])
        self.bench.run(20000)
        self.bench.sink(4, "wire")
        outs = [out.frame for out in self.bench.run(40000) if out.port == 4]
        # Both sides answer in another order than one would that had time for each.
        self.bench.forget()
        self.assertEqual(len(outs), 20)
        again = [int(frame[126:132], 16) < 12 for frame in outs]
        # Those that were on their way when the port stopped, then one of each while there are both.
        first = again.index(True)
        both = again[first : first + 2 * (10 - first)]
        self.assertEqual(both, [True, False] * (10 - first))

    def test_a_retransmission_that_waits_is_dropped_when_its_column_is_opened_anew(self) -> None:
        self.learn()
        hosts = self.hosts()
        for _ in range(2):
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
        self.bench.run()
        # Results of port 0 wait, so that what it asks for waits behind them. Meanwhile its fifth message comes: the first is acknowledged.
        self.bench.sink(1, "stop")
        for _ in range(2):
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
        self.bench.run(20000)
        self.bench.send(0, *hosts[0].sent[:2], *hosts[0].whole(2))
        self.bench.run(20000)
        self.assertEqual(self.bench.drops, {(0, "forgotten"): 2})
        self.bench.sink(1, "wire")
        for host in hosts[1:]:
            self.bench.send(host.port, *host.whole(2))
        # Nothing leaves but what the reference has: no new header before the old sum.
        outs = self.bench.run(lossy=True)
        self.assertEqual(sum(out.port == 1 for out in outs), 6)

    def test_a_retransmission_that_waits_is_not_answered_with_the_sum_of_the_message_that_came_into_its_column(self) -> None:
        self.learn()
        hosts = self.hosts()
        for _ in range(2):
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
        self.bench.run()
        # As above; but the fifth message comes from everybody, and is added up while the retransmissions wait.
        self.bench.sink(1, "stop")
        for _ in range(2):
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
        self.bench.run(20000)
        self.bench.send(0, *hosts[0].sent[:2])
        self.bench.run(5000)
        for host in hosts:
            self.bench.send(host.port, *host.whole(2))
        self.bench.run(20000)
        self.bench.sink(1, "wire")
        outs = self.bench.run(40000)
        self.assertEqual(self.bench.dropped, {(0, "forgotten"): 2})
        self.bench.forget()
        # The results of three messages, each once.
        self.assertEqual(sum(out.port == 1 for out in outs), 6)

    def test_a_sum_is_not_asked_for_before_it_has_begun_to_leave(self) -> None:
        self.learn()
        hosts = self.hosts()
        # The results of port 1 cannot leave, and so in the end nobody's can.
        self.bench.sink(2, "stop")
        for _ in range(4):
            for host in hosts:
                self.bench.send(host.port, *host.whole(2))
        self.bench.run(40000)
        waiting = 8 - sum(out.port == 1 for out in self.bench.seen)
        self.assertGreater(waiting, 0)
        # Who had its results that way would open the columns of those that wait.
        self.bench.send(0, *hosts[0].sent[8 - waiting :])
        self.bench.run(20000)
        self.assertEqual(self.bench.drops, {(0, "pending"): waiting})
        self.bench.sink(2, "wire")
        self.bench.run(lossy=True)
        self.bench.send(0, *hosts[0].sent)
        self.assertEqual(len(self.bench.run()), 8)

    def test_a_result_leaves_whole_by_one_port_whatever_comes_in_for_its_place(self) -> None:
        for later in range(0, 1200, 100):
            with self.subTest(later=later):
                self.setUp()
                self.learn()
                hosts = self.hosts()
                for _ in range(4):
                    for host in hosts:
                        self.bench.send(host.port, *host.whole(2))
                self.bench.run()
                # Another connection, for another destination, opens the column of what has just been asked for.
                self.bench.send(0, hosts[0].sent[0])
                self.bench.rest(0, later)
                self.bench.send(0, Host(0, self.ports, qp=0x999, to=5).frame(FIRST))
                self.bench.send(2, *(ethernet(address(to), address(2), 100) for to in (1, 5)))
                self.assertEqual(sorted(out.port for out in self.bench.run()), [1, 1, 5])
