"""Groups and their operations on arrays, each test on three ranks of a fabric that `quincunx run` starts."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import needs
from package import HERE, LIMIT_SECONDS, PACKAGE, ROOT, OnRanks, one_address


def closes_all(listener: socket.socket) -> None:
    """Takes connections, and closes each after its first bytes, until the listener is closed."""
    while listener.fileno() >= 0:
        try:
            taken, _ = listener.accept()
        except OSError:
            return
        with taken:
            taken.recv(24)


@needs.modules("numpy")
class Arrays(OnRanks):
    programs = "arrays_on_ranks.py"

    def test_sums_are_in_place_and_whole_however_long(self) -> None:
        self.hold()

    def test_each_primitive_gives_what_its_table_says(self) -> None:
        self.hold()

    def test_messages_come_whole_and_in_order(self) -> None:
        self.hold()

    def test_every_type_and_operation_is_reduced(self) -> None:
        self.hold()

    def test_block_formats_are_added_up_in_the_network(self) -> None:
        self.hold(options=("--set", "group.reproducible=true"))

    def test_many_are_under_way_at_once(self) -> None:
        self.hold()

    def test_parts_of_a_group_are_groups(self) -> None:
        self.hold()

    def test_groups_that_are_dropped_closed_or_left_are_given_back(self) -> None:
        self.hold()

    def test_a_group_of_all_ranks_is_left_with_its_with(self) -> None:
        self.hold()

    def test_misuse_is_an_exception_and_changes_nothing(self) -> None:
        self.hold()

    def test_memory_in_use_is_refused_until_its_end(self) -> None:
        self.hold()

    def test_a_forked_child_is_refused_and_its_parent_goes_on(self) -> None:
        self.hold()

    def test_a_rank_that_dies_is_an_exception_at_the_others(self) -> None:
        self.hold()

    def test_who_is_waited_for_is_said_while_ranks_hang(self) -> None:
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, WAITS=f"{folder}/go", QUINCUNX_NOTICE="100ms"):
            self.hold()
        # Nobody needs to ask: who waits hears it.
        told = r"quincunx: all_reduce of 4000 bytes, sum of f32 at \S+arrays_on_ranks.py:\d+ \(number 2 of group 1 \"rank\.all\"\): 1 of 3 ranks wait"
        self.assertRegex(self.errors, told)

    def test_the_rank_that_is_slow_is_named(self) -> None:
        self.hold(ranks=8)

    def test_who_comes_last_is_told_as_the_page_has_it(self) -> None:
        self.hold(ranks=2, options=("--design", "epic-3"))

    def test_a_connection_that_is_closed_ends_no_program_that_leaves_sigpipe_as_it_is(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closing:
            threading.Thread(target=closes_all, args=(closing,), daemon=True).start()
            # Python ignores the signal, and programs in C do not.
            program = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); from quincunx._core import Endpoint; Endpoint()"
            told = dict(os.environ, PYTHONPATH=str(PACKAGE.parent), QUINCUNX_MANAGER=f"127.0.0.1:{closing.getsockname()[1]}", QUINCUNX_ADDRESS="127.0.0.1")
            ended = subprocess.run([sys.executable, "-c", program], env=told, text=True, capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("expected a connection to the manager, but it is gone", ended.stderr)

    def test_a_pause_is_no_death(self) -> None:
        for design in ("epic-1", "epic-2", "epic-3", "ring"):
            with self.subTest(design):
                self.hold(options=("--design", design))

    def test_ranks_that_disagree_hear_which_two_and_in_what(self) -> None:
        for design in ("epic-1", "epic-2", "epic-3", "ring", "tree", "direct"):
            with self.subTest(design):
                self.hold(ranks=4, options=("--design", design))

    def test_a_time_without_end_is_a_time(self) -> None:
        self.hold()


@needs.modules("numpy")
class BehindOneAddress(Arrays):
    """The same, all ranks behind one address."""

    everywhere = ("--addresses", one_address(201))

    # Takes as long as processes are stopped, and has nothing to do with addresses.
    test_a_pause_is_no_death = None


@needs.modules("numpy")
class OnServers(OnRanks):
    """Two servers of two ranks."""

    programs = "arrays_on_ranks.py"

    def test_a_message_to_several_ranks_is_among_the_others_in_order(self) -> None:
        self.hold(ranks=4)

    def test_tokens_go_to_the_ranks_of_their_experts_and_come_back_as_sums(self) -> None:
        self.hold(ranks=4)

    def test_a_batch_that_makes_no_sense_is_an_exception_and_changes_nothing(self) -> None:
        self.hold(ranks=4)

    def test_a_token_goes_to_another_server_once(self) -> None:
        self.hold(ranks=4)


@needs.modules("numpy")
@needs.root()
class OnLinks(OnRanks):
    """The same, each rank with a link of its own."""

    programs = "arrays_on_ranks.py"

    def test_a_message_to_several_ranks_goes_to_another_server_once(self) -> None:
        self.hold(ranks=4, options=("--link", "netns"))


@needs.modules("numpy", "hypothesis")
class Fuzzed(OnRanks):
    def test_whatever_the_arguments_a_call_is_done_or_refused(self) -> None:
        self.assertIn("2000 calls", self.run_on_ranks(sys.executable, str(HERE / "fuzz_on_ranks.py"), "2000", ranks=2))


class Restarted(OnRanks):
    def test_ranks_that_are_always_busy_outlive_managers_and_agents(self) -> None:
        program = str(ROOT / "benches" / "restarts.py")
        ended = subprocess.run(
            [sys.executable, program, str(self.target / "quincunx"), "--restarts", "3"], text=True, capture_output=True, timeout=LIMIT_SECONDS
        )
        self.assertEqual(ended.returncode, 0, ended.stderr + ended.stdout)
        rows = [line.split() for line in ended.stdout.splitlines()[1:]]
        self.assertEqual([row[2:5] for row in rows], 6 * [["3", "0", "0"]], ended.stdout)


@needs.modules("numpy")
class Hangs(OnRanks):
    def test_each_is_answered_while_it_lasts_and_the_job_goes_on(self) -> None:
        program = str(ROOT / "benches" / "hangs.py")
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE.parent))
        ended = subprocess.run(
            [sys.executable, program, str(self.target / "quincunx"), "--within", "60"], env=environment, text=True, capture_output=True, timeout=LIMIT_SECONDS
        )
        self.assertEqual(ended.returncode, 0, ended.stderr + ended.stdout)
        self.assertEqual(len(ended.stdout.splitlines()), 10, ended.stdout)


class InC(OnRanks):
    def compiled(self, name: str) -> str:
        """An example as a program, which is gone with the test."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = f"{folder.name}/{name}"
        source = ROOT / f"crates/apps/capi/examples/{name}.c"
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}/crates/apps/capi/include", f"-L{self.target}"]
        subprocess.run(["cc", *flags, source, "-o", program, "-lquincunx"], check=True)
        return program

    def test_the_example_in_c_compiles_and_adds_up(self) -> None:
        self.assertIn("0 wrong", self.run_on_ranks(self.compiled("all_reduce"), ranks=4))

    def test_tokens_in_c_go_to_their_experts_and_come_back(self) -> None:
        said = self.run_on_ranks("env", "LOCAL_WORLD_SIZE=2", self.compiled("experts"), ranks=4)
        self.assertEqual(said.count(" 0 wrong"), 4, said)

    def test_the_line_is_told_of_ranks_that_are_waited_for_and_of_those_that_disagree(self) -> None:
        said = self.run_on_ranks(self.compiled("waits"), ranks=2)
        self.assertRegex(said, r"(?m)^barrier at \S+waits\.c:\d+ \(number 3 of group \d+ \"\S+\"\): 1 of 2 ranks wait")
        heard = [line for line in said.splitlines() if "another operation: " in line]
        self.assertEqual([line.count("waits.c:") for line in heard], [2, 2], said)

    def test_communicators_that_are_destroyed_are_given_back(self) -> None:
        parts = self.compiled("parts")
        self.assertIn("only the first is left", self.run_on_ranks(sys.executable, str(HERE / "c_on_ranks.py"), parts, ranks=2))


if __name__ == "__main__":
    unittest.main()
