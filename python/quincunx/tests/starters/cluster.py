"""A cluster of Slurm on this machine, with several nodes of its own, gone at the end: its daemons, its keys and all that they write."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

# Nodes, each with so many processors as Slurm sees it.
NODES, PROCESSORS = 2, 4
START_SECONDS = 20.0


# What of it must be installed (Debian: slurm-wlm, munge).
DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")


class Cluster:
    """Slurm's control daemon and the daemons of its nodes, in a folder of their own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quincunx-slurm-"))
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        # Nobody else may write where a key is, and munge sees to that.
        self.folder.chmod(0o755)
        (self.folder / "slurm.conf").write_text(self._configuration())
        try:
            munge = [f"--{name}={self.folder / name}" for name in ("key-file", "socket", "pid-file", "log-file", "seed-file")]
            munge[0] = f"--key-file={key}"
            self._start(["munged", "--foreground", "--force", *munge])
            self._wait("munge's socket", lambda: (self.folder / "socket").exists())
            self._start(["slurmctld", "-D", "-c"])
            for node in range(NODES):
                self._start(["slurmd", "-D", "-N", f"n{node}"])
            self._wait("idle nodes", lambda: self.idle() == NODES)
        except BaseException:
            self.close()
            raise

    def _configuration(self) -> str:
        host, folder = socket.gethostname().split(".")[0], self.folder
        # Ports that no other cluster of these tests has.
        first = 17000 + os.getpid() * 8 % 8000
        words = {
            "ClusterName": "quincunx",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder / 'socket'}",
            "SlurmctldPort": first,
            "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool-%n",
            "SlurmctldPidFile": folder / "slurmctld.pid",
            "SlurmdPidFile": folder / "slurmd-%n.pid",
            "SlurmctldLogFile": folder / "slurmctld.log",
            "SlurmdLogFile": folder / "slurmd-%n.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            # Nodes have the processors that are said, whatever the machine has.
            "SlurmdParameters": "config_overrides",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "ReturnToService": 2,
            "KillWait": 5,
        }
        ports = f"[{first + 1}-{first + NODES}]"
        nodes = f"NodeName=n[0-{NODES - 1}] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} CPUs={PROCESSORS} RealMemory=1000"
        partition = "PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP"
        return "".join(f"{name}={value}\n" for name, value in words.items()) + f"{nodes}\n{partition}\n"

    def _start(self, command: list[str]) -> None:
        with (self.folder / f"{command[0]}-{len(self.daemons)}.out").open("wb") as log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def _wait(self, what: str, holds) -> None:
        end = time.monotonic() + START_SECONDS
        while not holds():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(path.read_text(errors="replace")[-800:] for path in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"expected {what}, found none; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def idle(self) -> int:
        """Nodes that take a job."""
        asked = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=self.environment, text=True, capture_output=True, timeout=20)
        counts = [line.split() for line in asked.stdout.splitlines()]
        return sum(int(count) for state, count in counts if state == "idle")

    def close(self) -> None:
        """Ends it."""
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
