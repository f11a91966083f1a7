"""One program, unchanged, under quincunx run, torchrun, mpirun, srun and sbatch: the same bits. A rank that dies, a job that is queued again.

`make test-slurm`: needs root, Slurm and munge (Debian: slurm-wlm, munge) and torch; mpirun, if it is there, is one of the starters. Two minutes.
"""

import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[3] / "tools")]

import needs  # noqa: E402
from cluster import DAEMONS, Cluster  # noqa: E402
from package import PACKAGE, build, one_address  # noqa: E402

RANKS = 4
LIMIT_SECONDS = 120
JOB = str(HERE / "job.py")


@needs.root()
@needs.modules("torch", by="`make test-slurm`")
@needs.programs("slurm-wlm munge", *DAEMONS)
class Starters(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        target = build()
        cls.program = str(target / "quincunx")
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        manager = subprocess.Popen([cls.program, "manager", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(manager.wait)
        cls.addClassCleanup(manager.terminate)
        cls.addClassCleanup(manager.stdout.close)
        cls.manager = manager.stdout.readline().split()[-1]
        switch = [cls.program, "switch", "--name", "s", "--address", one_address(9), "--memory", "16MiB", "--manager", cls.manager]
        process = subprocess.Popen(switch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        cls.environment = dict(
            cls.cluster.environment,
            PYTHONPATH=str(PACKAGE.parent),
            OMP_NUM_THREADS="1",
            QUINCUNX_MANAGER=cls.manager,
            QUINCUNX_SWITCHES="1",
            # Slurm's names of nodes are names of no machine here.
            MASTER_ADDR="127.0.0.1",
            # Sums have one order, whoever comes first.
            QUINCUNX_SET="group.reproducible=true",
        )

    def start(self, *command: str, fails: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            command, env=self.environment | more, text=True, capture_output=True, timeout=LIMIT_SECONDS, cwd=self.cluster.folder
        )
        said = f"{' '.join(command)}: {ended.stderr[-3000:]} {ended.stdout[-1000:]}"
        self.assertEqual(ended.returncode != 0, fails, said)
        return ended

    def bits(self, printed: str) -> str:
        """What all ranks have the sum's bits as; each of them has said so once."""
        lines = [line.split() for line in printed.splitlines() if line.startswith("rank ")]
        self.assertEqual(sorted(int(line[1]) for line in lines), list(range(RANKS)), printed)
        self.assertEqual({line[3] for line in lines}, {str(RANKS)})
        [bits] = {line[4] for line in lines}
        return bits

    def test_one_program_has_the_same_bits_under_each_starter(self) -> None:
        run = [self.program, "run", "-n", str(RANKS), "--manager", self.manager, "--set", "group.reproducible=true", "--"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", str(RANKS), "--master-port", "29871"]
        starters = {
            "quincunx run": run,
            "torchrun": torchrun,
            "srun": ["srun", "-N", "2", "-n", str(RANKS)],
            "srun, nodes with unlike ranks": ["srun", "-N", "2", "-n", str(RANKS), "--distribution=block"],
        }
        if shutil.which("mpirun"):
            starters["mpirun"] = ["mpirun", "-n", str(RANKS), "--oversubscribe", "--allow-run-as-root", "--mca", "plm", "isolated"]
        found = {}
        for name, starter in starters.items():
            for kind in ([], ["torch"]):
                with self.subTest(starter=name, kind=kind):
                    found[name, *kind] = self.bits(self.start(*starter, sys.executable, JOB, *kind).stdout)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_the_others_hear_of_a_rank_of_sruns_that_dies(self) -> None:
        for kind in ([], ["torch"]):
            with self.subTest(kind=kind):
                ended = self.start("srun", "-N", "2", "-n", str(RANKS), "--kill-on-bad-exit=0", sys.executable, JOB, *kind, "2", fails=True)
                heard = [line for line in ended.stderr.splitlines() if "heard: " in line]
                self.assertEqual(len(heard), RANKS - 1, ended.stderr)

    def test_a_job_of_sbatch_that_is_queued_again_runs_under_another_name(self) -> None:
        script, marks = self.cluster.folder / "again.sh", self.cluster.folder / "marks"
        # The first time it waits to be taken away, in the middle of the job.
        script.write_text(
            f"#!/bin/sh\necho begun >> {marks}\nsrun {sys.executable} {JOB}\n"
            'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 60; fi\n'
        )
        marks.write_text("")
        asked = self.start(
            "sbatch", "--parsable", "--requeue", "-N", "2", "-n", str(RANKS), "--open-mode=append", "-o", "again.out", str(script)
        )
        number = asked.stdout.strip()
        self.wait_for("the first run", lambda: self.printed().count("rank ") == RANKS)
        self.start("scontrol", "requeue", number)
        # It is held for a while after it was taken away, unless somebody says that it may begin.
        self.wait_for("another run", lambda: self.begins(number, marks))
        self.wait_for("its ranks", lambda: self.printed().count("rank ") == 2 * RANKS)
        bits = {line.split()[4] for line in self.printed().splitlines() if line.startswith("rank ")}
        self.assertEqual(len(bits), 1)

    def begins(self, number: str, marks: Path) -> bool:
        subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], env=self.environment, capture_output=True, timeout=20)
        return marks.read_text().count("begun") == 2

    def printed(self) -> str:
        path = self.cluster.folder / "again.out"
        return path.read_text() if path.exists() else ""

    def wait_for(self, what: str, holds) -> None:
        end = time.monotonic() + LIMIT_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), end, f"{what}: {self.printed()}")
            time.sleep(0.2)


if __name__ == "__main__":
    unittest.main()
