"""The units in examples/systemd are what systemd and the program take; and they are run: killed, each comes back, and collectives go through."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import needs
import program
from machine import Machine

FOLDER = program.EXAMPLES / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
# systemd gives a unit up that has been started five times in ten seconds, unless that is limited otherwise.
STARTS = 7
# Words for what a unit's environment, an instance's name and systemd's folders are.
VALUES = {
    "ADDRESS": "10.0.0.1", "PORTS": "--port eth1 --port eth2", "MANAGER": "10.0.0.9:4790", "MEMORY": "16MiB", "METRICS": "127.0.0.1:9791",
    "LISTEN": "127.0.0.1:4790", "STATE_DIRECTORY": "/var/lib/quincunx", "LOGS_DIRECTORY": "/var/log/quincunx", "CREDENTIALS_DIRECTORY": "/run/credentials",
}


def starts(text: str) -> list[list[str]]:
    """The commands of a unit, word by word, as systemd makes them of its environment."""
    commands = []
    for line in re.findall(r"^ExecStart=(\w.*)$", text, re.M):
        words = []
        for word in line.replace("%i", "leaf1").split():
            # An unbraced variable is split at its blanks.
            split = re.fullmatch(r"\$(\w+)", word)
            words += VALUES[split[1]].split() if split else [re.sub(r"\$\{(\w+)\}", lambda found: VALUES[found[1]], word)]
        commands.append(words)
    return commands


def settings(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.M)


class UnitTest(unittest.TestCase):
    def test_the_program_takes_what_they_start_it_with(self) -> None:
        for file in sorted(FOLDER.iterdir()):
            for command in starts(file.read_text(encoding="utf-8")):
                with self.subTest(file=file.name):
                    self.assertEqual(command[0], "quincunx", "found in /usr/local/bin or /usr/bin")
                    self.assertIsNone(program.refusal(*command[1:]))

    def test_an_option_that_the_program_does_not_have_is_noticed(self) -> None:
        [command] = starts((FOLDER / "quincunx-manager.service").read_text(encoding="utf-8").replace("--store", "--stores"))
        self.assertIn("no --stores", program.refusal(*command[1:]))

    def test_each_variable_is_set_by_the_unit_or_told_of_in_its_head(self) -> None:
        for file in UNITS:
            text = file.read_text(encoding="utf-8")
            told = set(re.findall(r"^#   (\w+)=", text, re.M)) | set(re.findall(r"(\w+)=", " ".join(settings(text, "Environment"))))
            told |= {f"{kind.upper()}_DIRECTORY" for kind in ("State", "Logs") if settings(text, f"{kind}Directory")}
            told |= {"CREDENTIALS_DIRECTORY"} if settings(text, "LoadCredential") else set()
            used = set(re.findall(r"\$\{?(\w+)", " ".join(settings(text, "ExecStart"))))
            with self.subTest(unit=file.name):
                self.assertEqual(used - told, set())

    def test_none_is_given_up(self) -> None:
        for file in UNITS:
            text = file.read_text(encoding="utf-8")
            with self.subTest(unit=file.name):
                self.assertEqual((settings(text, "Restart"), settings(text, "StartLimitIntervalSec")), (["always"], ["0"]))


@needs.programs("systemd", "systemd-analyze")
class VerifyTest(unittest.TestCase):
    def test_systemd_has_nothing_to_say_of_them(self) -> None:
        self.assertEqual(self.verify({file.name: file.read_text(encoding="utf-8") for file in UNITS}), "")

    def test_a_setting_that_systemd_does_not_know_is_noticed(self) -> None:
        text = (FOLDER / "quincunx-manager.service").read_text(encoding="utf-8")
        for old, new in (("StateDirectory=", "StateDir="), ("RestartSec=500ms", "RestartSec=soon")):
            self.assertRegex(self.verify({"quincunx-manager.service": text.replace(old, new)}), "Unknown key|Failed to parse")

    def verify(self, units: dict[str, str]) -> str:
        """What systemd says of units, in which another program stands for ours."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in units.items():
                Path(folder, name.replace("@", "@leaf1")).write_text(text.replace("ExecStart=quincunx", "ExecStart=/bin/true"), encoding="utf-8")
            command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *sorted(map(str, Path(folder).iterdir()))]
            ended = subprocess.run(command, text=True, capture_output=True, timeout=program.ANSWER_SECONDS)
        # It looks at units of this machine, too.
        return "".join(line for line in ended.stderr.splitlines(keepends=True) if "quincunx" in line)


@needs.root()
@needs.programs("systemd", "systemctl")
@needs.programs("iproute2", "ip", "tc")
class RunTest(unittest.TestCase):
    """Manager, agent and switches are units of one machine; `hosts` is a network namespace behind a port of the switch s0."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        made = program.ask("manager", "init", f"{folder}/certs", "--node", "leaf1,s0,gpu1", "--tenant", "blue")
        assert made.returncode == 0, made.stderr
        files = {f"etc/quincunx/{file.name}": file.read_text(encoding="utf-8") for file in Path(folder, "certs").iterdir()}
        for file in FOLDER.glob("*.service"):
            files[f"etc/systemd/system/{file.name}"] = file.read_text(encoding="utf-8")
        files["etc/systemd/system/quincunx-switch@leaf1.service.d/behind-agent.conf"] = (FOLDER / "behind-agent.conf").read_text(encoding="utf-8")
        files["etc/quincunx/agent-leaf1.env"] = "LISTEN=127.0.0.1:4792\nMANAGER=127.0.0.1:4790\n"
        files["etc/systemd/system/quincunx-agent@gpu1.service.d/cables.conf"] = (FOLDER / "cables.conf").read_text(encoding="utf-8")
        files["etc/quincunx/agent-gpu1.env"] = "LISTEN=127.0.0.1:4793\nMANAGER=127.0.0.1:4790\nPORTS=--port a0\n"
        files["etc/quincunx/leaf1.env"] = "ADDRESS=127.0.0.2\nMANAGER=127.0.0.1:4792\nMEMORY=16MiB\nMETRICS=127.0.0.1:9791\n"
        files["etc/quincunx/s0.env"] = "ADDRESS=10.77.0.1/24\nPORTS=--port p0 --port p1\nMANAGER=127.0.0.1:4790\nMEMORY=16MiB\nMETRICS=127.0.0.1:9792\n"
        cls.machine = Machine(program.program().resolve(), files)
        cls.addClassCleanup(cls.machine.close)
        for command in (
            "ip netns add hosts",
            "ip link add p0 mtu 9000 type veth peer name h0 mtu 9000 netns hosts",
            "ip link set p0 up",
            "ip link add p1 mtu 9000 type veth peer name a0 mtu 9000",
            "ip link set p1 up",
            "ip link set a0 up",
            "ip -n hosts link set lo up",
            "ip -n hosts link set h0 up",
            "ip -n hosts addr add 10.77.0.11/24 dev h0",
            "ip -n hosts addr add 10.77.0.12/24 dev h0",
            "systemctl start quincunx-manager",
        ):
            cls.machine.run(*command.split())

    def test_a_switch_without_a_certificate_is_there_by_way_of_the_agent(self) -> None:
        self.start("quincunx-agent@leaf1", "quincunx-switch@leaf1")
        self.until_there("leaf1")
        self.reduce("127.0.0.1:4790", "127.0.0.11,127.0.0.12")

    def test_a_switch_with_ports_has_no_more_than_it_needs_and_collectives_pass_it(self) -> None:
        self.start("quincunx-ports@s0")
        self.until_there("s0")
        self.assertEqual(self.held("quincunx-ports@s0"), 1 << 12 | 1 << 13, "CAP_NET_ADMIN and CAP_NET_RAW")
        self.reduce("10.77.0.1:4790", "10.77.0.11,10.77.0.12", "ip", "netns", "exec", "hosts")

    def test_an_agent_with_ports_has_no_more_than_it_needs_and_hears_the_switch(self) -> None:
        self.start("quincunx-ports@s0", "quincunx-agent@gpu1")
        self.until_there("s0")
        self.assertEqual(self.held("quincunx-agent@gpu1"), 1 << 13, "CAP_NET_RAW")
        self.machine.until("the cable is found", lambda: re.search(r"^gpu1 +a0 +s0 +p1 +found ", self.operate("nodes", "--links", check=False).stdout, re.M))

    def test_each_comes_back_however_often_it_is_killed(self) -> None:
        units = ["quincunx-manager", "quincunx-agent@leaf1", "quincunx-switch@leaf1"]
        self.start(*units)
        self.until_there("leaf1")
        for unit, kills in zip(units, (STARTS, STARTS, 1)):
            with self.subTest(unit=unit):
                before = int(self.machine.property(unit, "NRestarts"))
                for _ in range(kills):
                    self.kill(unit)
                # Had it been given up, another unit that wants it would have started it, and the count begun anew.
                self.assertEqual(int(self.machine.property(unit, "NRestarts")) - before, kills)
                self.until_there("leaf1")
        self.reduce("127.0.0.1:4790", "127.0.0.13,127.0.0.14")

    def test_a_job_does_not_notice_that_the_agent_of_its_switch_is_killed(self) -> None:
        self.start("quincunx-agent@leaf1", "quincunx-switch@leaf1")
        self.until_there("leaf1")
        job = self.begin_to_reduce("127.0.0.1:4790", "127.0.0.15,127.0.0.16", iterations=10**8)
        try:
            self.machine.until("the group is ready", lambda: " ready " in self.operate("group", "list").stdout)
            self.kill("quincunx-agent@leaf1")
            self.until_there("leaf1")
            self.assertIn(" ready ", self.operate("group", "list").stdout)
        finally:
            # Of this name there is nothing else on that machine.
            self.machine.run("pkill", "--signal", "INT", "--full", "quincunx perf")
        ended = self.machine.end(job, check=False)
        self.assertNotIn("made anew", ended.stdout + ended.stderr)

    def test_the_next_manager_has_what_the_one_before_kept(self) -> None:
        self.operate("manager", "revoke", "tenant/red")
        self.kill("quincunx-manager")
        self.machine.until("the manager serves", lambda: self.operate("nodes", check=False).returncode == 0)
        self.assertIn("tenant/red", self.operate("manager", "revoke").stdout)

    def start(self, *units: str) -> None:
        """Starts units that end with the test."""
        self.machine.run("systemctl", "start", *units)
        for unit in units:
            if unit != "quincunx-manager":
                self.addCleanup(self.machine.run, "systemctl", "stop", unit)

    def held(self, unit: str) -> int:
        """The capabilities of a unit's process, which is not root's."""
        status = self.machine.run("cat", f"/proc/{self.machine.property(unit, 'MainPID')}/status").stdout
        self.assertNotRegex(status, r"(?m)^Uid:\t0\t")
        return int(re.search(r"^CapEff:\t(\w+)$", status, re.M)[1], 16)

    def kill(self, unit: str) -> None:
        """Kills a unit's process, and waits until there is another one."""
        before = self.machine.property(unit, "MainPID")
        self.machine.run("systemctl", "kill", "--signal=KILL", unit)
        self.machine.until(f"{unit} comes back", lambda: self.machine.property(unit, "MainPID") not in (before, "0"))

    def operate(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        return self.machine.run("quincunx", *command, "--manager", "127.0.0.1:4790", "--identity", "/etc/quincunx/operator-admin.pem", check=check)

    def until_there(self, node: str) -> None:
        self.machine.until(f"{node} is attached", lambda: re.search(rf"^{node} ", self.operate("nodes", check=False).stdout, re.M))

    def begin_to_reduce(self, manager: str, addresses: str, *within: str, iterations: int) -> subprocess.Popen:
        """AllReduces of two ranks, checked."""
        asked = ["perf", "all_reduce", "--ranks", "2", "--design", "epic-3", "--sizes", "4KiB", "--iterations", str(iterations)]
        there = ["--manager", manager, "--identity", "/etc/quincunx/tenant-blue.pem", "--addresses", addresses]
        return self.machine.begin(*within, "quincunx", *asked, *there)

    def reduce(self, manager: str, addresses: str, *within: str) -> None:
        """Some of them, which use the network."""
        ended = self.machine.end(self.begin_to_reduce(manager, addresses, *within, iterations=3))
        self.assertRegex(ended.stdout, r"(?m)^epic-3 .* 0$", ended.stderr)


if __name__ == "__main__":
    unittest.main()
