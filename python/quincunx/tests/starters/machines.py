"""Machines as network namespaces, each joined by a cable to one box, all gone at the end: processes are ended, and namespaces with them."""

import os
import subprocess
import time
from pathlib import Path

BOX = "10.77.0.1"
# Longer than anything here takes on a machine that is busy.
LIMIT_SECONDS = 120.0


class Machines:
    """`box`, whose ports `to-NAME` lead to `eth0` of each machine."""

    def __init__(self, folder: Path, machines: dict[str, str]) -> None:
        self.folder, self.addresses = folder, machines
        self.processes: list[subprocess.Popen[str]] = []
        self.spaces = {name: f"qx-{os.getpid()}-{name}" for name in ("box", *machines)}
        try:
            for space in self.spaces.values():
                self._ip("netns", "add", space)
                self._ip("-n", space, "link", "set", "lo", "up")
            for name, address in machines.items():
                cable = [f"to-{name}", "netns", self.spaces["box"], "type", "veth", "peer", "name", "eth0", "netns", self.spaces[name]]
                self._ip("link", "add", *cable)
                self._ip("-n", self.spaces["box"], "link", "set", f"to-{name}", "up")
                self._ip("-n", self.spaces[name], "addr", "add", f"{address}/24", "dev", "eth0")
                self._ip("-n", self.spaces[name], "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=20)

    def on(self, machine: str, *command: str) -> list[str]:
        """The command line that runs a command there."""
        return ["ip", "netns", "exec", self.spaces[machine], *command]

    def start(self, machine: str, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Starts a process there; what it prints is in `printed`."""
        log = (self.folder / f"{len(self.processes)}.out").open("w")
        with log:
            words = self.on(machine, *command)
            # A group of its own, so that what it has started ends with it.
            process = subprocess.Popen(words, stdout=log, stderr=log, text=True, env=os.environ | environment, start_new_session=True)
        self.processes.append(process)
        return process

    def printed(self, process: subprocess.Popen[str]) -> str:
        """All that it has printed so far."""
        return (self.folder / f"{self.processes.index(process)}.out").read_text(errors="replace")

    def call(self, machine: str, *command: str) -> str:
        """What a command prints there. Raises CalledProcessError if it fails."""
        return subprocess.run(self.on(machine, *command), check=True, text=True, capture_output=True, timeout=LIMIT_SECONDS).stdout

    def wait_for(self, what: str, holds) -> None:
        """Until it holds. Raises TimeoutError with what all processes have printed last."""
        end = time.monotonic() + LIMIT_SECONDS
        while not holds():
            if time.monotonic() > end:
                said = "\n".join(f"{process.args}: {self.printed(process)[-1500:]}" for process in self.processes)
                raise TimeoutError(f"expected {what}, found none in {LIMIT_SECONDS} s\n{said}")
            time.sleep(0.1)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Ends it as a crash does."""
        process.kill()
        process.wait(10)

    def close(self) -> None:
        """Ends it all."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait(10)
        for space in self.spaces.values():
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL, timeout=20)
