"""MPI programs that know nothing of Quincunx, through its switches: what they compute, and that they go on where no switch can be had.

`make test` runs it where Open MPI and its headers are (Debian: openmpi-bin, libopenmpi-dev).
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ranks import HERE, Ranks  # noqa: E402

import needs  # noqa: E402


@needs.programs("openmpi-bin libopenmpi-dev", "mpirun", "mpicc", "ompi_info")
class OpenMpi(Ranks):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = str(cls.folder / "collectives")
        subprocess.run(["mpicc", "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "collectives.c", "-o", cls.program], check=True)

    def test_every_call_is_right_and_runs_in_a_switch(self) -> None:
        # Room for some thirty groups at once.
        manager, said = self.fabric(memory="16MiB")
        ended = self.run_ranks(4, self.program, "ours", manager=manager)
        self.assertEqual((ended.stdout, ended.returncode), ("4 ranks, 0 wrong\n", 0), ended.stderr)
        self.assertNotIn("Open MPI's own", ended.stderr)
        # All ranks, the same turned round, fifty times the same again, the odd and the even ones; a rank alone has no group.
        groups = re.findall(r"group installed .*ranks=(\d)", said.read_text())
        self.assertEqual(sorted(groups), ["2", "2", *["4"] * 52], said.read_text())

    def hold_limit(self, name: str, limit: int) -> None:
        manager, said = self.fabric()
        ended = self.run_ranks(2, self.program, manager=manager, options=("--mca", f"coll_quincunx_{name}", str(limit)))
        self.assertEqual((ended.stdout, ended.returncode), ("2 ranks, 0 wrong\n", 0), ended.stderr)
        # Barriers have no bytes, and are ours: those of all ranks and of the same turned round.
        self.assertEqual(said.read_text().count("group installed"), 2)

    def test_calls_of_fewer_bytes_are_left_to_open_mpi(self) -> None:
        self.hold_limit("least_bytes", 1 << 30)

    def test_calls_of_more_bytes_are_left_to_open_mpi(self) -> None:
        self.hold_limit("most_bytes", 1)

    def test_open_mpi_s_own_may_be_made_of_other_collectives(self) -> None:
        # `basic` makes an AllReduce of Reduce and Bcast of the same communicator, which is being asked whether they are ours.
        manager, said = self.fabric()
        ended = self.run_ranks(2, self.program, manager=manager, options=("--mca", "coll", "quincunx,basic,libnbc,self,inter"))
        self.assertEqual((ended.stdout, ended.returncode), ("2 ranks, 0 wrong\n", 0), ended.stderr)
        self.assertGreater(said.read_text().count("group installed"), 2)

    def test_without_a_manager_it_is_open_mpi_s_own_and_said(self) -> None:
        ended = self.run_ranks(2, self.program)
        self.assertEqual((ended.stdout, ended.returncode), ("2 ranks, 0 wrong\n", 0), ended.stderr)
        self.assertIn("expected a manager in QUINCUNX_MANAGER, found none: Open MPI's own collectives are used", ended.stderr)

    def test_without_a_switch_it_is_open_mpi_s_own_and_said(self) -> None:
        ended = self.run_ranks(2, self.program, manager=self.manager())
        self.assertEqual((ended.stdout, ended.returncode), ("2 ranks, 0 wrong\n", 0), ended.stderr)
        self.assertIn("Open MPI's own collectives are used: expected an attached switch", ended.stderr)

    def test_it_is_listed_with_its_parameters(self) -> None:
        command = ["ompi_info", "--param", "coll", "quincunx", "--level", "9"]
        said = subprocess.run(command, env=self.environment, text=True, capture_output=True, check=True)
        for name in ("priority", "timeout", "least_bytes", "most_bytes"):
            self.assertIn(f'"coll_quincunx_{name}"', said.stdout)


if __name__ == "__main__":
    unittest.main()
