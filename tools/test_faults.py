"""Tests of what `benches/faults.py` works out; what it plays needs root and half a minute a plan (benches/README.md)."""

import importlib
import random
import socket
import struct
import sys
import types
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> types.ModuleType:
    with mock.patch.object(sys, "path", [str(ROOT / "benches"), *sys.path]), mock.patch.dict(sys.modules, quincunx=mock.MagicMock()):
        return importlib.import_module(name)


faults, jobs, rounds, machines, services = map(load, ("faults", "jobs", "rounds", "machines", "services"))


class LooksAlike(unittest.TestCase):
    def test_its_invariant_crc_is_that_of_the_specification_whatever_may_change_on_the_way(self) -> None:
        frame = faults.look_alike("10.77.0.1", random.Random(1))
        # IP's identification 0 and "don't fragment", as a socket's datagrams have them; to UDP port 4791.
        self.assertEqual(frame[:8], bytes([0x45, 0, *struct.pack(">H", len(frame)), 0, 0, 0x40, 0]))
        self.assertEqual((frame[16:20], frame[22:24]), (socket.inet_aton("10.77.0.1"), (4791).to_bytes(2, "big")))
        masked = bytearray(b"\xff" * 8 + frame[:-4])
        for place in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 8 + 26, 8 + 27, 8 + 32):
            masked[place] = 0xFF
        self.assertEqual(frame[-4:], crc_32(bytes(masked)).to_bytes(4, "little"))


def crc_32(data: bytes) -> int:
    """IEEE 802.3, bit by bit."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0xEDB88320 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


class Versions(unittest.TestCase):
    PLAN = {"faults": [{"kind": {"upgrade": "s0"}}, {"kind": {"kill": "s1"}}, {"kind": "full-store"}]}

    def test_what_a_plan_upgrades_runs_the_build_before_until_then(self) -> None:
        builds = services.Builds(self.PLAN, Path("now"), Path("before"))
        self.assertEqual([str(builds.of(name)) for name in ("s0", "s1", "m0")], ["before", "now", "now"])
        builds.upgrade("s0")
        self.assertEqual(str(builds.of("s0")), "now")

    def test_without_another_build_all_run_one(self) -> None:
        self.assertEqual(str(services.Builds(self.PLAN, Path("now")).of("s0")), "now")


class Times(unittest.TestCase):
    def test_a_plans_times_are_read_with_their_units(self) -> None:
        self.assertEqual([jobs.seconds(text) for text in ("12.05s", "665ms", "200us", "0s")], [12.05, 0.665, 0.0002, 0.0])


def told(elements: int) -> dict:
    return {"seed": 7, "kinds": jobs.KINDS, "elements": elements}


class Settings(unittest.TestCase):
    def test_a_jobs_keys_stand_beside_those_of_all_jobs_or_in_their_place(self) -> None:
        plan = {"settings": {"group.message": 1, "group.selective": False, "group.modes": "III/I"}}
        self.assertEqual(jobs.settings_of(plan), "group.mtu=256,group.message=1,group.window=4,group.selective=false,group.modes=III/I")
        self.assertEqual(jobs.settings_of({}), "group.mtu=256,group.message=2,group.window=4")


class Calls(unittest.TestCase):
    def test_all_ranks_draw_the_same_call_and_each_its_own_vector(self) -> None:
        calls = [rounds.Call(told(200), 1, 0, 3, 4) for _ in range(2)]
        self.assertEqual(*[(call.kind, call.op, call.root, call.count) for call in calls])
        self.assertEqual(calls[0].vector(1, 4), calls[1].vector(1, 4))

    def test_a_result_is_what_its_collective_makes_of_all_vectors(self) -> None:
        seen = Counter()
        for number in range(60):
            call = rounds.Call(told(8), 1, 0, number, 3)
            seen[call.kind] += 1
            call.vector = lambda rank, size, call=call: [rank + 1] * (call.count * (3 if call.kind == "reduce_scatter" else 1))
            reduced = [{"sum": 6, "max": 3, "min": 1}[call.op]] * call.count
            expected = {
                "all_reduce": reduced, "reduce": reduced if call.root == 1 else None, "broadcast": [call.root + 1] * call.count,
                "reduce_scatter": reduced, "all_gather": [1] * call.count + [2] * call.count + [3] * call.count, "barrier": None,
            }
            self.assertEqual(call.expected(1, 3), expected[call.kind], call.kind)
        self.assertEqual(set(seen), set(jobs.KINDS))


class Mistakes(unittest.TestCase):
    def test_one_rank_makes_them_once_in_a_round_in_one_of_so_many_rounds(self) -> None:
        plan = {**told(200), "collectives": 5, "mistake": {"rank": 2, "one_in": 3, "differs_in": "root"}}
        drawn = [rounds.mistake(plan, 1, number, 2) for number in range(300)]
        self.assertTrue(70 < sum(index is not None for index in drawn) < 130)
        self.assertEqual(set(drawn), {None, 0, 1, 2, 3, 4})
        self.assertEqual({rounds.mistake(plan, 1, number, 1) for number in range(300)}, {None})
        self.assertIsNone(rounds.mistake({**plan, "mistake": None}, 1, 1, 2))

    def test_a_call_by_mistake_differs_in_what_is_said_and_in_nothing_else(self) -> None:
        seen = set()
        for differs_in, of in {"collective": "kind", "root": "root", "operation": "op", "type": "letter", "length": "count"}.items():
            for number in range(60):
                right, wrong = (rounds.Call(told(200), 1, 0, number, 3) for _ in range(2))
                differs = wrong.mistaken(differs_in, jobs.KINDS, 3)
                self.assertEqual([key for key in vars(right) if vars(right)[key] != vars(wrong)[key]], [of] if differs else [])
                seen.add((differs_in, right.kind, differs))
        self.assertIn(("root", "broadcast", True), seen)
        self.assertIn(("root", "all_reduce", False), seen)
        self.assertIn(("length", "barrier", False), seen)
        self.assertIn(("operation", "broadcast", False), seen)


class Ways(unittest.TestCase):
    def setUp(self) -> None:
        self.ran: list[tuple[str, str]] = []
        take = lambda command, text: self.ran.append((command[2], text))  # noqa: E731
        self.enterContext(mock.patch.object(machines, "run", take))
        self.machines = machines.Machines([1, 1], 2, ["m0", "e0"])
        self.ran.clear()

    def hop(self, at: str, goal: str) -> str:
        """How the switch's last order sends what is for the goal."""
        lines = [line for name, text in self.ran if name == at for line in text.splitlines() if f" {self.machines.address(goal)}/32" in line]
        return lines[-1]

    def test_a_link_that_is_cut_is_gone_round_and_used_again_when_it_is_mended(self) -> None:
        self.machines.cut(["s0", "s2"], True)
        self.assertIn("via 10.77.0.195 dev to-s3", self.hop("s0", "h1"))
        self.machines.cut(["s0", "s2"], True)
        self.machines.cut(["s0", "s2"], False)
        self.assertIn("to-s3", self.hop("s0", "s2"), "cut twice, and mended once")
        self.machines.cut(["s0", "s2"], False)
        self.assertIn("dev to-s2", self.hop("s0", "s2"))

    def test_where_no_way_is_left_a_switch_says_so(self) -> None:
        for spine in ("s2", "s3"):
            self.machines.cut(["s0", spine], True)
        self.assertIn("unreachable", self.hop("s0", "h1"))

    def test_a_switch_without_power_passes_nothing_on(self) -> None:
        self.machines.power("s2", True)
        self.assertIn("to-s3", self.hop("s0", "h1"))

    def test_a_lone_switch_with_ports_has_no_address_and_no_routes_of_its_kernels(self) -> None:
        self.ran.clear()
        machines.Machines([2], 0, ["m0", "e0"], has_ports=True)
        told = "".join(text for name, text in self.ran if name == "s0")
        self.assertIn("link set to-h0 up", told)
        self.assertNotIn("10.77.0.192", told)
        self.assertNotIn("route", told)


if __name__ == "__main__":
    unittest.main()
