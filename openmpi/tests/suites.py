"""Others' MPI programs, unchanged, through our switches: mpi4py's own tests and the HPC Challenge benchmark.

`make test-openmpi` (Debian: openmpi-bin, libopenmpi-dev, python3-mpi4py, hpcc; it fetches mpi4py's source for its tests). Ten minutes.
"""

import re
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ranks import Ranks  # noqa: E402

import needs  # noqa: E402

RANKS = 4
# The system's interpreter, whose mpi4py is built with this Open MPI.
PYTHON = "/usr/bin/python3"
# Collectives of every kind, and what makes communicators and operations.
SUITES = ("test_cco", "test_comm", "test_op", "test_group", "test_win", "test_p2p_buf", "test_msgzero")
# Its example's problem: a matrix of 1,000.
HPCC_INPUT = "/usr/share/doc/hpcc/examples/_hpccinf.txt"


@needs.programs("openmpi-bin libopenmpi-dev hpcc", "mpirun", "mpicc", "hpcc")
class Unchanged(Ranks):
    limit_seconds = 900

    def test_mpi4py_s_own_tests_pass(self) -> None:
        version = subprocess.run([PYTHON, "-c", "import mpi4py; print(mpi4py.__version__)"], text=True, capture_output=True)
        self.assertEqual(version.returncode, 0, "expected mpi4py, found none; apt-get install python3-mpi4py")
        fetch = [sys.executable, "-m", "pip", "download", f"mpi4py=={version.stdout.strip()}", "--no-deps", "--no-binary", ":all:", "-q", "-d", self.folder]
        subprocess.run(fetch, check=True, timeout=self.limit_seconds)
        (source,) = self.folder.glob("mpi4py-*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(self.folder, filter="data")
        manager, said = self.fabric()
        named = [word for suite in SUITES for word in ("-i", suite)]
        tests = ["test/runtests.py", "--no-threads", "-q", *named]
        ended = self.run_ranks(RANKS, PYTHON, *tests, manager=manager, cwd=source.with_suffix("").with_suffix(""))
        self.assertEqual(ended.returncode, 0, ended.stderr[-4000:])
        self.assertEqual(len(re.findall(r"(?m)^OK", ended.stderr)), RANKS, ended.stderr[-4000:])
        groups = said.read_text().count("group installed")
        print(re.search(r"Ran \d+ tests", ended.stderr)[0], f"on {RANKS} ranks, {groups} groups in the switch")
        self.assertGreater(groups, 100)

    def hpcc(self, name: str, manager: str, *options: str) -> str:
        """What the benchmark has written."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "hpccinf.txt").write_text(Path(HPCC_INPUT).read_text())
        ended = self.run_ranks(RANKS, "hpcc", manager=manager, options=options, cwd=folder)
        self.assertEqual(ended.returncode, 0, ended.stderr[-4000:])
        return (folder / "hpccoutf.txt").read_text()

    def test_hpcc_finds_what_it_finds_by_open_mpi_s_own(self) -> None:
        manager, said = self.fabric()
        own = self.hpcc("own", manager, "--mca", "coll", "^quincunx")
        self.assertEqual(said.read_text().count("group installed"), 0)
        ours = self.hpcc("ours", manager)
        self.assertGreater(said.read_text().count("group installed"), 0)
        for found in (own, ours):
            self.assertIn("\nSuccess=1\n", found)
            self.assertNotIn("FAILED", found)
        residual = lambda found: re.search(r"\|\|Ax-b\|\|.*= +(\S+)", found)[1]  # noqa: E731
        self.assertEqual(residual(ours), residual(own))
        for name in ("HPL_Tflops", "PTRANS_GBs", "MPIFFT_Gflops", "MPIRandomAccess_GUPs"):
            values = [re.search(rf"(?m)^{name}=(\S+)", found)[1] for found in (own, ours)]
            print(f"{name:22}  own {values[0]:>12}  ours {values[1]:>12}")


if __name__ == "__main__":
    unittest.main()
