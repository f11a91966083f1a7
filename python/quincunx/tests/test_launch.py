"""What torch.distributed reads, by each that starts ranks. Needs torch, for the module is part of its backend."""

import importlib.util
import unittest
from pathlib import Path

# By its file: the package around it wants torch.
_PATH = Path(__file__).resolve().parent.parent / "quincunx" / "torch" / "_launch.py"
_SPEC = importlib.util.spec_from_file_location("_launch", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
_launch = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_launch)


def filled(**variables: str) -> dict[str, str]:
    """An environment with what was added to it."""
    environ = dict(variables)
    _launch.fill_environment(environ)
    return environ


class Launch(unittest.TestCase):
    def test_ranks_of_slurm_meet_at_the_first_machine(self) -> None:
        found = filled(SLURM_PROCID="3", SLURM_NTASKS="4", SLURM_LOCALID="1", SLURM_STEP_NODELIST="gpu[07-09]", SLURM_JOB_ID="7")
        self.assertEqual([found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")], ["3", "4", "1", "gpu07"])
        again = filled(SLURM_PROCID="0", SLURM_NTASKS="4", SLURM_STEP_NODELIST="gpu[07-09]", SLURM_JOB_ID="7")
        self.assertEqual(found["MASTER_PORT"], again["MASTER_PORT"], "all ranks have one")

    def test_ranks_of_mpirun_on_one_machine_meet_on_loopback_and_others_where_somebody_says(self) -> None:
        one = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
        self.assertEqual(filled(**one, OMPI_COMM_WORLD_LOCAL_SIZE="2")["MASTER_ADDR"], "127.0.0.1")
        self.assertNotIn("MASTER_ADDR", filled(**one, OMPI_COMM_WORLD_LOCAL_SIZE="1"))

    def test_what_is_there_stays_and_a_process_alone_is_none(self) -> None:
        self.assertEqual(filled(RANK="0", SLURM_PROCID="3", SLURM_NTASKS="4"), {"RANK": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"})
        self.assertEqual(filled(SLURM_PROCID="1", SLURM_NTASKS="2", MASTER_ADDR="a", MASTER_PORT="5")["MASTER_ADDR"], "a")
        self.assertEqual(filled(HOME="x"), {"HOME": "x"})

    def test_the_first_of_slurms_list(self) -> None:
        for nodes, first in (("a", "a"), ("a,b", "a"), ("gpu[07-09,12]", "gpu07"), ("n[1,3],m2", "n1"), ("", "")):
            self.assertEqual(_launch.first_host(nodes), first, nodes)


if __name__ == "__main__":
    unittest.main()
