"""Ranks that mpirun starts, with the component that is built here, and manager and switch beside them."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "python/quincunx/tests"), str(ROOT / "tools")]

from build import build as build_component  # noqa: E402
from package import build, one_address  # noqa: E402


# Messages between ranks by shared memory in pieces: a sender that does nothing for them is one whose receiver waits.
OF_OPEN_MPI = ("btl", "self,vader"), ("btl_vader_single_copy_mechanism", "none")


class Ranks(unittest.TestCase):
    limit_seconds = 120

    @classmethod
    def setUpClass(cls) -> None:
        cls.target = build()
        cls.component = build_component(cls.target)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.environment = dict(os.environ, OMPI_MCA_mca_base_component_path=f"{cls.component}:SYSTEM_DEFAULT")
        cls.environment.pop("QUINCUNX_MANAGER", None)

    def daemon(self, *command: str) -> tuple[subprocess.Popen, Path]:
        """Starts a manager or a switch, which ends with the test; what it says comes into a file."""
        said = self.folder / f"{self._testMethodName}.{command[0]}"
        with said.open("w") as stderr:
            process = subprocess.Popen([str(self.target / "quincunx"), *command], stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.addCleanup(process.stdout.close)
        return process, said

    def manager(self) -> str:
        process, _ = self.daemon("manager", "--listen", "127.0.0.1:0")
        return process.stdout.readline().split()[-1]

    def fabric(self, memory: str = "64MiB") -> tuple[str, Path]:
        """A manager with a switch: where it serves, and what the switch says."""
        manager = self.manager()
        _, said = self.daemon("switch", "--name", "s", "--address", one_address(9), "--memory", memory, "--manager", manager)
        return manager, said

    def run_ranks(
        self, ranks: int, *command: str, manager: str | None = None, options: tuple[str, ...] = (), cwd: Path | None = None
    ) -> subprocess.CompletedProcess:
        environment = self.environment | ({} if manager is None else {"QUINCUNX_MANAGER": manager})
        alone = ["--oversubscribe", "--allow-run-as-root", "--mca", "plm", "isolated", *(word for option in OF_OPEN_MPI for word in ("--mca", *option))]
        started = ["mpirun", "-n", str(ranks), *alone, *options, *command]
        return subprocess.run(started, env=environment, cwd=cwd, text=True, capture_output=True, timeout=self.limit_seconds)
