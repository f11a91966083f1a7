"""What ships on the machines of a plan of faults: managers, their store, switches and agents, each a process in its machine's namespace that whoever
runs a cluster starts again when it ends. `faults.py` uses it.

A store with a lease is an etcd on a machine of its own, spoken with by TLS. Without etcd it is a file that both managers have, as `--standby` takes one,
on a file system that the machine of the store may fill; what befalls the store's machine then befalls nobody.
"""

import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

from machines import WIRES, Machines, mount_tmpfs
from processes import Processes, asked, groups_in_file, held

# How soon what has ended is started again, in seconds.
SOON = 0.5, 1.5
MANAGER_PORT = 4790
ETCD_PORT = 2379
METRICS_PORT = 9791
# Room for a manager's file, and what fills it up.
STORE_ROOM = "8m"
# etcd takes 64 MB for its log at once.
ETCD_ROOM = "256m"

# Files that a manager has open with nobody attached, a switch or an agent that is attached, and what connections of a job that has just ended may add.
SERVING_FILES, ATTACHED_FILES, FILES_SLACK = 16, 10, 4


class Service:
    """A process that is started again when it ends: `name`, the machine that it is on, and its command."""

    def __init__(self, name: str, machine: str, command: list[str]) -> None:
        self.name, self.machine, self.command = name, machine, command
        self.process: subprocess.Popen[str] | None = None
        # When it is to be started; none while it runs.
        self.starts_at: float | None = None
        # Faults that keep it from running.
        self.downs = 0
        self.pauses = 0
        self.starts = 0
        # Open files when it had settled.
        self.files: int | None = None


class Builds:
    """Folders of what machines run, the command and the package for Python: this version, and another on those that are to be upgraded to it."""

    def __init__(self, plan: dict, now: Path, before: Path | None = None) -> None:
        self.now, self.before = now, before
        upgraded = (fault["kind"].get("upgrade") for fault in plan["faults"] if isinstance(fault["kind"], dict))
        self.behind = {name for name in upgraded if name is not None} if before is not None else set()

    def of(self, machine: str) -> Path:
        return self.before if machine in self.behind else self.now

    def upgrade(self, machine: str) -> None:
        """What is started there from now on is of this version."""
        self.behind.discard(machine)


class Services:
    """Keeps all of them running, but for what faults hold down."""

    def __init__(self, plan: dict, machines: Machines, builds: Builds, folder: Path, chance: random.Random, tell) -> None:
        self.plan, self.machines, self.builds, self.folder, self.chance, self.tell = plan, machines, builds, folder, chance, tell
        self.program = builds.now / "quincunx"
        self.processes = Processes()
        self.services: dict[str, Service] = {}
        self.has_etcd = plan["store"] == "lease" and shutil.which("etcd") is not None
        self.managers = [f"m{number}" for number in range(plan["managers"])]
        self.kept = folder / "store"
        self.kept.mkdir()
        mount_tmpfs(str(self.kept), ETCD_ROOM if self.has_etcd else STORE_ROOM)
        self.certificates = folder / "certificates"
        self.make_certificates()

    def addresses(self) -> str:
        return ",".join(f"{self.machines.control_address(name)}:{MANAGER_PORT}" for name in self.managers)

    def make_certificates(self) -> None:
        tenants = ",".join(job["tenant"] for job in self.plan["jobs"])
        init = [str(self.program), "manager", "init", str(self.certificates), "--node", ",".join(self.machines.switches)]
        init += ["--tenant", tenants] if tenants else []
        subprocess.run(init, check=True, capture_output=True)
        if not self.has_etcd:
            return
        address, ours = self.machines.control_address("e0"), self.certificates
        names = f"subjectAltName=IP:{address}"
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        for command in (
            ["req", "-x509", *key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=store"],
            ["req", *key, "-keyout", "etcd-key.pem", "-out", "etcd.csr", "-subj", "/CN=etcd", "-addext", names],
            ["x509", "-req", "-in", "etcd.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2", "-copy_extensions", "copy",
             "-out", "etcd.pem"],
        ):
            subprocess.run(["openssl", *command], cwd=ours, check=True, capture_output=True)
        parts = [(ours / file).read_text() for file in ("etcd.pem", "etcd-key.pem", "ca.pem")]
        (ours / "store-identity.pem").write_text("".join(parts))

    def add(self, name: str, machine: str, command: list[str], after: float) -> None:
        service = Service(name, machine, command)
        service.starts_at = time.monotonic() + after
        self.services[name] = service

    def add_all(self, agents: dict[str, str]) -> None:
        """`agents`: by host, the tenant for whom one runs there."""
        ours = self.certificates
        if self.has_etcd:
            client = f"https://{self.machines.control_address('e0')}:{ETCD_PORT}"
            tls = ["--cert-file", "etcd.pem", "--key-file", "etcd-key.pem", "--client-cert-auth", "--trusted-ca-file", "ca.pem"]
            tls = [str(ours / word) if word.endswith(".pem") else word for word in tls]
            # Time-outs long enough that a busy machine does not have its only member elect itself anew.
            command = ["etcd", "--data-dir", str(self.kept / "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
                       "--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
                       "--initial-cluster", "default=http://127.0.0.1:2380", *tls]
            self.add("e0", "e0", command, 0)
        for name in self.managers:
            command = ["quincunx", "manager", "--listen", f"{self.machines.control_address(name)}:{MANAGER_PORT}",
                       "--identity", str(ours / "manager.pem")]
            if self.has_etcd:
                command += ["--store", f"etcd://{self.machines.control_address('e0')}:{ETCD_PORT}/fabric", "--store-identity", str(ours / "store-identity.pem")]
            else:
                command += ["--store", str(self.kept / "groups.sqlite")]
            if len(self.managers) > 1:
                command.append("--standby")
            self.add(name, name, command, 0.1 + self.chance.random() * (0.4 if name == "m1" else 0.1))
        unit = ["--memory", self.plan["memory"], "--memory-unit", "64B"]
        weather = self.plan["weather"]
        faults = ["--duplicate", f"{weather['copies'] / 1e4}%", "--reorder", f"{weather['late'] / 1e4}%", "--seed", str(self.plan["seed"])]
        for name in self.machines.switches:
            neighbours = [f"{self.node(other)}@{self.machines.port(name, other)}" for other in self.machines.neighbours(name)]
            links = ["--address", self.machines.address(name), "--neighbours", ",".join(neighbours)]
            if self.machines.has_ports:
                ports = [word for other in self.machines.neighbours(name) for word in ("--port", self.machines.port(name, other))]
                links = ["--address", f"{self.machines.address(name)}/24", *ports]
            command = ["quincunx", "switch", "--name", name, *links, "--manager", self.addresses(),
                       "--identity", str(ours / f"node-{name}.pem"), *unit, *faults, "--metrics", f"127.0.0.1:{METRICS_PORT}"]
            self.add(name, name, command, 0.3 + self.chance.random() * 0.4)
        for host, tenant in agents.items():
            command = ["quincunx", "agent", "--listen", f"127.0.0.1:{MANAGER_PORT}", "--manager", self.addresses(),
                       "--identity", str(ours / f"tenant-{tenant}.pem")]
            # Both ends of a cable say who they are.
            command += ["--port", "eth0", "--name", f"{tenant}/{host}"] if self.machines.has_ports else []
            self.add(f"agent {host}", host, command, 0.3 + self.chance.random() * 0.4)

    def node(self, machine: str) -> str:
        """What the manager calls a machine's node."""
        for number, job in enumerate(self.plan["jobs"]):
            hosts = [f"h{host}" for host in job["hosts"]]
            if machine in hosts:
                return f"{job['tenant']}/j{number}.{hosts.index(machine)}"
        return machine

    # How they run.

    def step(self, now: float) -> None:
        for service in self.services.values():
            if service.process is not None and service.process.poll() is not None:
                self.tell(f"{service.name} ends by itself, status {service.process.returncode}: {self.last_words(service.name)}")
                service.process, service.starts_at = None, now + self.chance.uniform(*SOON)
            is_due = service.process is None and service.starts_at is not None and now >= service.starts_at
            if is_due and service.downs == 0 and not self.machines.off[service.machine]:
                self.start(service, now)
            if service.process is not None and service.files is None and now > service.started + 2 and service.pauses == 0:
                service.files = held(service.process.pid)[1]

    def start(self, service: Service, now: float) -> None:
        service.starts_at, service.files, service.started = None, None, now
        service.starts += 1
        with self.log(service.name).open("a") as log:
            log.write(f"--- start {service.starts}\n")
            log.flush()
            build = self.builds.of(service.machine)
            words = [str(build / word) if word == "quincunx" else word for word in service.command]
            command = self.machines.command(service.machine, words)
            environment = os.environ | {"RUST_BACKTRACE": "1"}
            service.process = self.processes.start(service.name, command, environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if service.pauses:
            service.process.send_signal(signal.SIGSTOP)

    def log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def last_words(self, name: str) -> str:
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1][-300:] if lines else "nothing said"

    def end(self, service: Service, after: float | None) -> None:
        """Kills it, to be started again then, or when what holds it down is over."""
        if service.process is not None:
            service.process.kill()
            service.process.wait()
            service.process = None
            service.starts_at = time.monotonic() + (after if after is not None else self.chance.uniform(*SOON))

    def hold_down(self, name: str, begins: bool) -> None:
        for service in self.of(name):
            service.downs += 1 if begins else -1
            if begins:
                self.end(service, 0)

    def power(self, machine: str, is_off: bool) -> None:
        """All that runs on a machine dies; `machines.power` has taken its links before."""
        for service in self.services.values():
            if service.machine == machine and is_off:
                self.end(service, 0)

    def pause(self, name: str, begins: bool) -> None:
        for service in self.of(name):
            service.pauses += 1 if begins else -1
            if service.process is not None and service.pauses == (1 if begins else 0):
                service.process.send_signal(signal.SIGSTOP if begins else signal.SIGCONT)

    def of(self, name: str) -> list[Service]:
        service = self.services.get(name)
        return [] if service is None else [service]

    # The store.

    def fill(self, is_full: bool) -> None:
        """etcd says by an alarm that it has no space; a file's disk has none."""
        if self.has_etcd:
            self.ask_etcd("maintenance/alarm", {"action": "ACTIVATE" if is_full else "DEACTIVATE", "alarm": "NOSPACE"})
            return
        filler = self.kept / "filler"
        if not is_full:
            filler.unlink(missing_ok=True)
            return
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def ask_etcd(self, path: str, body: dict) -> dict | None:
        ours = self.certificates
        context = ssl.create_default_context(cafile=str(ours / "ca.pem"))
        context.load_cert_chain(ours / "etcd.pem", ours / "etcd-key.pem")
        request = urllib.request.Request(f"https://{self.machines.control_address('e0')}:{ETCD_PORT}/v3/{path}", json.dumps(body).encode())
        try:
            with self.machines.inside(WIRES), urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return json.loads(answer.read())
        except OSError as error:
            self.tell(f"the store does not answer: {error}")
            return None

    def groups_in_store(self) -> list[str] | None:
        """Names of the groups that the store has; none: it does not say."""
        if self.has_etcd:
            import base64

            first, end = (base64.b64encode(key).decode() for key in (b"fabric/groups/", b"fabric/groups0"))
            answer = self.ask_etcd("kv/range", {"key": first, "range_end": end, "keys_only": True})
            return None if answer is None else [base64.b64decode(entry["key"]).decode() for entry in answer.get("kvs", [])]
        return [f"group {number}" for number in groups_in_file(self.kept / "groups.sqlite")]

    # What they say.

    def ask(self, *words: str) -> dict | None:
        """An operator's question to whichever manager serves."""
        identity = ["--identity", str(self.certificates / "operator-admin.pem")]
        return asked(self.machines.command(WIRES, [str(self.program), *words, "--manager", self.addresses(), *identity, "--json"]), timeout=12)

    def page(self, name: str) -> dict[str, float]:
        """A switch's metrics that have no label but its own."""
        try:
            with self.machines.inside(name):
                stream = socket.create_connection(("127.0.0.1", METRICS_PORT), timeout=2)
            with stream:
                stream.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b"".join(iter(lambda: stream.recv(1 << 16), b"")).decode()
        except OSError as error:
            self.tell(f"{name} does not show its metrics: {error}")
            return {}
        found = {}
        for line in text.splitlines():
            if line.startswith("quincunx_") and line.count("=") <= 1:
                found[line.split("{")[0].split(" ")[0]] = float(line.rsplit(" ", 1)[1])
        return found

    def serving(self) -> Service | None:
        """The manager whose log says so last, as far as it lives."""
        found = [service for service in map(self.services.get, self.managers) if service and service.process is not None and "listens at" in self.of_this_start(service)]
        return found[-1] if found else None

    def of_this_start(self, service: Service) -> str:
        return self.log(service.name).read_text(errors="replace").rsplit("--- start", 1)[-1]

    def more_files(self) -> list[str]:
        """Those that hold more files open than when they had begun, and a connection for each node that may be attached."""
        found = []
        for service in self.services.values():
            if service.process is None or service.files is None or service.name == "e0":
                continue
            # It may not have been attached when they were counted.
            files, before = held(service.process.pid)[1], max(service.files, ATTACHED_FILES)
            if self.machines.has_ports:
                before += 2 * len(self.machines.hosts)
            if service.name in self.managers:
                # One that waits for another's store has fewer than one that serves.
                before = max(before, SERVING_FILES) + len(self.machines.switches) + sum(name.startswith("agent") for name in self.services)
            if files > before + FILES_SLACK:
                found.append(f"{service.name} has {files} files open, expected at most {before + FILES_SLACK}")
        return found

    def stop(self) -> list[str]:
        """Asks all to end in order; who does not."""
        late = []
        running = [service for service in self.services.values() if service.process is not None]
        for service in running:
            service.process.send_signal(signal.SIGCONT)
            service.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 15
        for service in running:
            try:
                service.process.wait(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(f"{service.name} does not end when it is asked to")
        return late

    def panics(self) -> list[str]:
        found = []
        for log in self.folder.glob("*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if "panicked at" in line:
                    found.append(f"{log.stem}: {line.strip()[:300]}")
        return found
