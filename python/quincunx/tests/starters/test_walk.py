"""Two machines of four ranks each, and a box as the switch between them: what an operator does to a job of torchrun's, over mTLS, from one end to
the other. Each time it ends as docs/operators.md says.

`make test-walk`: needs root and torch; about a minute.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tools")]

import needs  # noqa: E402
from machines import BOX, Machines  # noqa: E402
from package import PACKAGE, build  # noqa: E402

MACHINES = {"a": "10.77.0.11", "b": "10.77.0.12"}
EACH = 4
RANKS = EACH * len(MACHINES)
MANAGER = f"{BOX}:4790"
# Longer than what two seconds of a manager's patience were.
AWAY_SECONDS = 3.0


@needs.root()
@needs.modules("torch", by="`make test-walk`")
class Walk(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.program = str(build() / "quincunx")

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quincunx-walk-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.machines = Machines(self.folder, MACHINES)
        self.addCleanup(self.machines.close)
        certificates = self.folder / "certs"
        init = [self.program, "manager", "init", str(certificates), "--node", "leaf1", "--tenant", "blue,red"]
        subprocess.run(init, check=True, capture_output=True, timeout=30)
        self.certificates = certificates
        (self.folder / "tenants.toml").write_text("[tenants.blue]\ngroups = 1\n")
        self.audit = self.folder / "audit.jsonl"

    def manager(self) -> subprocess.Popen[str]:
        words = ["--listen", "0.0.0.0:4790", "--identity", str(self.certificates / "manager.pem"), "--store", str(self.folder / "groups.sqlite")]
        more = ["--tenants", str(self.folder / "tenants.toml"), "--audit", str(self.audit)]
        return self.machines.start("box", self.program, "manager", *words, *more)

    def switch(self) -> subprocess.Popen[str]:
        ports = [word for name in MACHINES for word in ("--port", f"to-{name}")]
        words = ["--name", "leaf1", "--address", f"{BOX}/24", *ports, "--memory", "16MiB", "--manager", "127.0.0.1:4790"]
        return self.machines.start("box", self.program, "switch", *words, "--identity", str(self.certificates / "node-leaf1.pem"))

    def job(self, steps: Path, tenant: str = "blue") -> list[subprocess.Popen[str]]:
        """A job of torchrun's on both machines."""
        started = []
        for node, name in enumerate(MACHINES):
            words = ["-m", "torch.distributed.run", "--nnodes", str(len(MACHINES)), "--node-rank", str(node), "--nproc-per-node", str(EACH)]
            words += ["--master-addr", MACHINES["a"], "--master-port", "29500", str(HERE / "steps.py"), str(steps)]
            environment = {
                "QUINCUNX_MANAGER": MANAGER,
                "QUINCUNX_IDENTITY": str(self.certificates / f"tenant-{tenant}.pem"),
                "PYTHONPATH": str(PACKAGE.parent),
                "OMP_NUM_THREADS": "1",
            }
            started.append(self.machines.start(name, sys.executable, *words, **environment))
        return started

    def ask(self, *words: str) -> str:
        """What the operator's command prints."""
        return self.machines.call(
            "box", self.program, *words, "--manager", "127.0.0.1:4790", "--identity", str(self.certificates / "operator-admin.pem")
        )

    def test_a_job_ends_as_the_page_says_whatever_the_operator_does(self) -> None:
        manager = self.manager()
        switch = self.switch()
        self.machines.wait_for("a switch", lambda: "leaf1" in self.nodes())
        steps = self.folder / "steps"
        steps.write_text("0")
        job = self.job(steps)
        first = lambda: self.machines.printed(job[0])  # noqa: E731
        self.machines.wait_for("the job's first sum", lambda: "\ngroup 0 runs epic-3" in first())

        # A switch that drains, then a quota that is used up: among hosts, with the reason at the job.
        self.ask("nodes", "drain", "leaf1")
        steps.write_text("1")
        self.machines.wait_for("a group among hosts", lambda: "\ngroup 1 runs ring" in first())
        self.assertIn('runs ring among its hosts, not epic-3: expected a switch that runs epic-3 for "blue/job-', first())
        self.assertIn('found "leaf1" draining', first())
        self.ask("nodes", "undrain", "leaf1")
        steps.write_text("2")
        self.machines.wait_for("another group among hosts", lambda: "\ngroup 2 runs ring" in first())
        self.assertIn("expected tenant blue to have at most 1 groups in switches, found another asked for", first())

        # The manager dies and comes back.
        self.machines.kill(manager)
        again = self.manager()
        self.machines.wait_for("the switch again", lambda: "leaf1" in self.nodes())
        steps.write_text("3")
        self.machines.wait_for("a group of the manager that came back", lambda: "\ngroup 3 runs ring" in first())

        # The switch dies, and with it the way to the manager and between the machines, and comes back: the job goes on, and its sums are right.
        self.machines.kill(switch)
        time.sleep(AWAY_SECONDS)
        switch = self.switch()
        self.machines.wait_for("the first group anew", lambda: "was made anew on " in first())
        steps.write_text("4")
        self.machines.wait_for("a group after that", lambda: "\ngroup 4 runs " in first())
        steps.write_text("-1")
        for process in job:
            self.assertEqual(process.wait(60), 0, self.machines.printed(process)[-3000:])
        right = [line for line in "".join(map(self.machines.printed, job)).splitlines() if " is right " in line]
        self.assertEqual(len(right), RANKS, right)

        # So do perf's groups. Its ranks are on both machines.
        perf = self.perf()
        made = lambda: [line for line in self.machines.printed(again).splitlines() if "group made " in line and 'tenant="red"' in line]  # noqa: E731
        self.machines.wait_for("a group of perf's", made)
        self.machines.kill(switch)
        time.sleep(AWAY_SECONDS)
        self.switch()
        self.assertEqual(perf.wait(100), 0, self.machines.printed(perf))
        self.assertIn("was made anew on ", self.machines.printed(perf))
        self.assertRegex(self.machines.printed(perf), r"\nepic-3 .* 0\n", "nothing is wrong")

        # Groups have names, and whoever ended in order is no trouble.
        calls = [json.loads(line) for line in self.audit.read_text().splitlines()]
        made = [call["what"] for call in calls if call["call"] == "InitGroup" and call["who"] == "tenant blue"]
        self.assertTrue(made and all('called "blue/job-' in what for what in made), made)
        gone = [line for line in self.machines.printed(again).splitlines() if "node gone" in line]
        self.assertFalse([line for line in gone if "red/" in line], gone)

        # Whoever is revoked hears that.
        steps.write_text("0")
        job = self.job(steps)
        self.machines.wait_for("the next job's first sum", lambda: "\ngroup 0 runs epic-3" in first())
        self.ask("manager", "revoke", "tenant/blue")
        for process in job:
            self.assertNotEqual(process.wait(60), 0)
        heard = self.heard(job)
        self.assertTrue(all("revoked (tenant/blue)" in line for line in heard), heard)

    def heard(self, job: list[subprocess.Popen[str]]) -> list[str]:
        """What each of a job's ranks has ended with, those that their starter has ended before left out."""
        said = "".join(map(self.machines.printed, job)).splitlines()
        heard = [line for line in said if line.startswith("heard: ")]
        self.assertGreaterEqual(len(heard), EACH, said[-40:])
        return heard

    def perf(self) -> subprocess.Popen[str]:
        """perf with ranks on both machines, as `ssh` would start them."""
        launcher = self.folder / "there.sh"
        of = [f"{address}) exec {' '.join(self.machines.on(name))} \"$@\" ;;" for name, address in MACHINES.items()]
        launcher.write_text("\n".join(["#!/bin/sh", 'case "$QUINCUNX_ADDRESS" in', *of, "esac"]))
        launcher.chmod(0o755)
        words = ["all_reduce", "--ranks", str(RANKS), "--addresses", ",".join(MACHINES.values()), "--rank-launcher", str(launcher)]
        words += ["--sizes", "64KiB", "--iterations", "1000", "--join-timeout", "60s", "--manager", MANAGER]
        return self.machines.start("a", self.program, "perf", *words, "--identity", str(self.certificates / "tenant-red.pem"))

    def nodes(self) -> str:
        """The nodes that are there; none while there is no manager."""
        try:
            return self.ask("nodes")
        except subprocess.CalledProcessError:
            return ""


def blocks(page: str, heading: str) -> list[list[str]]:
    """The lines of commands of a page's section, by block."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    return [block.strip().splitlines() for block in section.split("```")[1::2]]


@needs.root()
@needs.modules("torch", by="`make test-walk`")
class Page(unittest.TestCase):
    def test_two_machines_and_a_box_train_by_the_commands_of_the_page_alone(self) -> None:
        program = str(build() / "quincunx")
        on_box, on_machine = blocks((ROOT / "docs/programs.md").read_text(), "Two machines, and a box as the switch between them")
        # The certificate is copied to each machine.
        self.assertLessEqual(len(on_box) + 2 * len(on_machine) + 2, 15)
        with tempfile.TemporaryDirectory(prefix="quincunx-page-") as name:
            folder = Path(name)
            (folder / "bin").mkdir()
            (folder / "bin/quincunx").symlink_to(program)
            (folder / "bin/torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
            (folder / "bin/torchrun").chmod(0o755)
            (folder / "examples").symlink_to(ROOT / "examples")
            machines = Machines(folder, {"a": "10.0.0.11", "b": "10.0.0.12"})
            self.addCleanup(machines.close)
            for card, machine in (("eth1", "a"), ("eth2", "b")):
                machines.call("box", "ip", "link", "set", f"to-{machine}", "down")
                machines.call("box", "ip", "link", "set", f"to-{machine}", "name", card)

            def run(machine: str, lines: list[str]) -> subprocess.Popen[str]:
                path = f"{folder}/bin:{os.environ['PATH']}"
                script = "\n".join([f"cd {folder}", "set -e", *lines, "wait"])
                return machines.start(machine, "bash", "-c", script, PATH=path, PYTHONPATH=str(PACKAGE.parent), OMP_NUM_THREADS="1")

            box = run("box", on_box)
            machines.wait_for("the tenant's certificate", (folder / "certs/tenant-blue.pem").exists)
            other = [line.replace("--node-rank 0", "--node-rank 1") for line in on_machine]
            jobs = [run("a", on_machine), run("b", other)]
            for job in jobs:
                self.assertEqual(job.wait(200), 0, machines.printed(job)[-3000:] + machines.printed(box)[-3000:])
            told = json.loads(next(line for line in machines.printed(jobs[0]).splitlines() if line.startswith("{")))
            self.assertGreaterEqual(len(told["losses"]), 20)


if __name__ == "__main__":
    unittest.main()
