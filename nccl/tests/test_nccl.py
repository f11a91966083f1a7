"""NCCL's plugin, called as NCCL calls it by a loader of ours: messages between ranks, collectives in a switch, and what goes wrong.

NCCL itself needs GPUs. `make test` runs it where a compiler of C is (Debian: g++ brings one).
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "python/quincunx/tests"), str(ROOT / "tools")]

from build import build as build_plugin  # noqa: E402
from package import build, one_address  # noqa: E402

import needs  # noqa: E402

# Longer than the loader lets itself take.
LIMIT_SECONDS = 60


@needs.programs("g++", "cc")
class Nccl(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.target = build()
        cls.plugin = build_plugin(cls.target) / "libnccl-net-quincunx.so"
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.loader = cls.folder / "loader"
        subprocess.run(["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "loader.c", "-o", cls.loader, "-ldl"], check=True)
        # What else a test says of them is its own.
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(("QUINCUNX_", "NCCL_", "LD_"))}

    def setUp(self) -> None:
        self.place = self.folder / self._testMethodName
        self.place.mkdir()

    def daemon(self, *command: str) -> tuple[subprocess.Popen, Path]:
        """Starts a manager or a switch, which ends with the test; what it says comes into a file."""
        said = self.place / f"{command[0]}.log"
        with said.open("w") as stderr:
            process = subprocess.Popen([str(self.target / "quincunx"), *command], stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.addCleanup(process.stdout.close)
        return process, said

    def manager(self) -> str:
        process, _ = self.daemon("manager", "--listen", "127.0.0.1:0")
        return process.stdout.readline().split()[-1]

    def fabric(self) -> tuple[str, subprocess.Popen, Path]:
        """A manager with a switch: where it serves, the switch's process, and what that says."""
        manager = self.manager()
        switch, said = self.daemon("switch", "--name", "s", "--address", one_address(9), "--memory", "64MiB", "--manager", manager)
        return manager, switch, said

    def start(self, test: str, ranks: int, manager: str | None, **more: str) -> list[subprocess.Popen]:
        environment = self.environment | {"WORLD_SIZE": str(ranks), "QUINCUNX_SWITCHES": "1", **more}
        if manager is not None:
            environment["QUINCUNX_MANAGER"] = manager
        command = [self.loader, self.plugin, self.place, test]
        started = []
        for rank in range(ranks):
            started.append(subprocess.Popen(command, env=environment | {"RANK": str(rank)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            self.addCleanup(started[-1].wait)
            self.addCleanup(started[-1].kill)
        return started

    def expect_right(self, test: str, started: list[subprocess.Popen], dead: int | None = None) -> list[str]:
        """Waits for the ranks, all of which find everything right but one that dies; the log of each."""
        expected = [-signal.SIGKILL if rank == dead else 0 for rank in range(len(started))]
        end = time.monotonic() + LIMIT_SECONDS
        while (ended := [process.poll() for process in started]) != expected and None in ended and time.monotonic() < end:
            if any(status not in (None, right) for status, right in zip(ended, expected, strict=True)):
                # The others would wait for it.
                break
            time.sleep(0.005)
        for process in started:
            process.kill()
        said, logs = zip(*(process.communicate() for process in started), strict=True)
        self.assertEqual(ended, expected, "\n".join(logs))
        self.assertEqual(list(said), ["" if rank == dead else f"{test}: right\n" for rank in range(len(started))])
        return list(logs)

    def hold(self, test: str, ranks: int = 2, manager: str | None = None, dead: int | None = None, **more: str) -> list[str]:
        return self.expect_right(test, self.start(test, ranks, manager, **more), dead)

    def hold_message(self, test: str, ranks: int = 2, dead: int | None = None) -> list[str]:
        return self.hold(test, ranks, self.manager(), dead, QUINCUNX_SWITCHES="0")

    def await_file(self, name: str, started: list[subprocess.Popen]) -> None:
        end = time.monotonic() + LIMIT_SECONDS
        while not (self.place / name).exists() and started[0].poll() is None:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def ask(self, manager: str, *question: str) -> dict:
        asked = subprocess.run([self.target / "quincunx", "group", *question, "--manager", manager, "--json"], text=True, capture_output=True, check=True)
        return json.loads(asked.stdout)

    def expect_no_group(self, manager: str, started: list[subprocess.Popen]) -> None:
        """When rank 0 says that it is ready: the manager soon has none, though all processes are there."""
        self.await_file("ready", started)
        end = time.monotonic() + 10
        while groups := self.ask(manager, "list")["groups"]:
            self.assertLess(time.monotonic(), end, groups)
        (self.place / "seen").touch()

    def expect_in_network(self, collectives: int, manager: str, started: list[subprocess.Popen]) -> None:
        """When rank 0 says that it is ready: so many collectives were in the network, and none among hosts."""
        self.await_file("ready", started)
        ran = self.ask(manager, "show", "1")["group"]["ran"]
        self.assertEqual([ran[where]["collectives"] for where in ("in_network", "among_hosts")], [collectives, 0])
        (self.place / "seen").touch()

    def hold_in_switch(
        self, test: str, groups: list[int], ranks: int = 2, dead: int | None = None, collectives: int | None = None, **more: str
    ) -> list[str]:
        """Holds it, and that groups of so many ranks were in the switch, and none among hosts. Of collectives, zero is that no group is left."""
        manager, _, said = self.fabric()
        started = self.start(test, ranks, manager, **more)
        if collectives == 0:
            self.expect_no_group(manager, started)
        elif collectives is not None:
            self.expect_in_network(collectives, manager, started)
        logs = self.expect_right(test, started, dead)
        self.assertEqual([int(ranks) for ranks in re.findall(r"group installed .*ranks=(\d)", said.read_text())], groups, said.read_text())
        self.assertNotIn("among its hosts", "".join(logs))
        return logs

    def expect_lines(self, log: str, *expected: str) -> None:
        """The log has lines with these words, each once, and no other."""
        lines = [line for line in log.splitlines() if line.startswith("log ")]
        self.assertEqual(len(lines), len(expected), log)
        for line, words in zip(lines, expected, strict=True):
            self.assertIn(words, line)

    # Messages.

    def test_messages_of_many_sizes_are_right_in_either_order_of_posting(self) -> None:
        for log in self.hold_message("pingpong", ranks=3):
            self.expect_lines(log)

    def test_a_request_more_than_there_may_be_is_to_be_asked_for_again(self) -> None:
        self.hold_message("requests_run_out")

    def test_a_message_longer_than_its_buffer_is_an_error_and_writes_nothing(self) -> None:
        logs = self.hold_message("short_buffer")
        self.expect_lines(logs[1], "expected a message of 100 bytes at most, found 101")

    def test_a_message_of_another_tag_is_an_error(self) -> None:
        logs = self.hold_message("wrong_tag")
        self.expect_lines(logs[1], "expected a message of tag 5, found tag 6")

    def test_a_peer_that_dies_is_an_error_both_ways(self) -> None:
        logs = self.hold_message("peer_dies", dead=1)
        self.assertIn("expected a peer that ", logs[0])

    def test_a_rank_that_does_not_listen_is_an_error(self) -> None:
        logs = self.hold_message("nobody_listens", ranks=1)
        self.expect_lines(logs[0], "expected a rank that listens, found Connection refused")

    def test_strangers_are_not_taken_for_ranks(self) -> None:
        self.hold_message("strangers", ranks=1)

    def test_memory_is_the_hosts_and_registered(self) -> None:
        self.hold_message("registration")

    # What is there.

    def test_without_a_manager_nothing_is_offered_and_that_is_said_once(self) -> None:
        logs = self.hold("no_manager", ranks=1)
        self.expect_lines(logs[0], "expected a manager in QUINCUNX_MANAGER, found none: NCCL's own networks are used")

    def test_where_the_library_cannot_attach_nothing_is_offered_and_that_is_said_once(self) -> None:
        # It would wait half a minute for a manager that is not there.
        logs = self.hold("no_manager", 1, "127.0.0.1:4790", QUINCUNX_DESIGN="none-such")
        self.expect_lines(logs[0], "NCCL's own networks are used: expected")

    def test_without_a_switch_no_rank_has_a_communicator(self) -> None:
        logs = self.hold("no_switch", 3, self.manager(), NCCL_QUINCUNX_TIMEOUT="5", QUINCUNX_SWITCHES="0")
        self.assertIn("expected an attached switch", logs[0])
        for log in logs:
            self.assertIn("expected a group of 3 ranks in the network, found none", log)

    def test_if_a_rank_stays_away_no_rank_has_a_communicator(self) -> None:
        manager, _, _ = self.fabric()
        logs = self.hold("rank_stays_away", 3, manager, NCCL_QUINCUNX_TIMEOUT="1")
        self.assertIn("expected all of 3 ranks to come to rank 0", logs[0])

    def test_if_a_rank_cannot_join_no_rank_has_a_communicator_and_no_group_is_left(self) -> None:
        logs = self.hold_in_switch("rank_cannot_join", [3], ranks=3, collectives=0)
        self.assertIn("expected a group of 3 ranks in the network, found none", logs[2])

    # Collectives.

    def test_sums_are_right_to_the_bit_in_the_switch_with_many_under_way(self) -> None:
        for log in self.hold_in_switch("allreduce", [4], ranks=4, collectives=3 * 8 + 12 * 4):
            self.expect_lines(log)

    def test_communicators_at_once_and_one_after_the_other_leave_nothing_behind(self) -> None:
        for log in self.hold_in_switch("communicators", [2] * 8, collectives=0):
            self.expect_lines(log)

    def test_allgather_and_reducescatter_in_windows_are_right(self) -> None:
        # A window has a Broadcast or Reduce for each rank whose part is in it, but one of all parts.
        for log in self.hold_in_switch("windows", [3], ranks=3, collectives=2 * (3 + 5 + 1)):
            self.expect_lines(log)

    def test_what_is_not_supported_is_refused_and_nothing_begins(self) -> None:
        self.hold_in_switch("unsupported", [2])

    def test_a_rank_that_closes_waits_for_the_others_but_not_for_long(self) -> None:
        self.hold_in_switch("leave", [2, 2])

    def test_a_rank_that_dies_is_an_error_at_the_others(self) -> None:
        self.hold_in_switch("rank_dies", [3], ranks=3, dead=1)

    def test_sums_go_on_when_the_switch_dies(self) -> None:
        manager, switch, said = self.fabric()
        started = self.start("switch_dies", 2, manager)
        self.await_file("ready", started)
        switch.kill()
        switch.wait()
        (self.place / "killed").touch()
        self.expect_right("switch_dies", started)
        self.assertEqual(said.read_text().count("group installed"), 1)

    def test_a_communicator_that_is_closed_in_the_midst_leaves_its_buffers_alone(self) -> None:
        self.hold_in_switch("abandoned", [2])

    def test_a_rank_that_does_not_come_is_an_error_after_a_time(self) -> None:
        logs = self.hold_in_switch("late", [2], NCCL_QUINCUNX_TIMEOUT="1")
        self.assertIn("expected the end of a collective or message in time, found none", logs[0])

    def test_ranks_that_call_another_collective_hear_of_it(self) -> None:
        for log in self.hold_in_switch("disagreement", [2]):
            self.assertIn("found another data type", log)


if __name__ == "__main__":
    unittest.main()
