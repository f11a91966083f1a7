#!/usr/bin/env python3
"""Plays plans of faults, as `quincunx check cluster` draws them from seeds, with real processes on machines that are network namespaces.

    python3 benches/faults.py QUINCUNX --seed 7
    python3 benches/faults.py QUINCUNX --seeds 0..100 --jobs 2 --keep broken
    python3 benches/faults.py QUINCUNX --plan plan.json

QUINCUNX is target/debug/quincunx, say, with lib_core.so beside it (`cargo build -p quincunx-cli -p quincunx-python --features
quincunx-cli/etcd`). A plan is what `quincunx check cluster --seed N --plan` prints, or what `--write` has written.

What runs is what ships: managers with their store, switches, agents, and jobs of ranks in Python that look at every element of every result. Each
machine of the plan is a namespace. Faults are signals, links that go down, frames that are dropped in one direction, machines without power, a store
that is full or stopped. When they are over, what the simulated cluster promises must hold here, too, as far as one can see it from outside. The README
beside this file says what is played how, and what is not.

A seed takes a minute or less. One that breaks a promise is told with its plan and a folder of all that its processes have said. Nothing is left of a run
when it has ended, however it did. Exit status 1 if a promise was broken.

Needs root, Python 3.11, iproute2, nftables and OpenSSL; for plans with a lease, etcd-server; Linux.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path

import machines
from jobs import AFTERMATH, Job, seconds
from machines import Machines
from processes import ends_with_its_parent
from services import Builds, Services

# Of the simulated cluster: how long each job may take to run a round after the last fault, all to come to their end, each alone to get a group as
# it asks for, and the last group to be forgotten.
WELL_AGAIN, DRAINED, ALONE, FORGOTTEN = 90.0, 70.0, 40.0, 8.0
TURN = 0.02
# Who sleeps longer than asked by so much is on a machine that is a fault of its own.
STALL = 0.5
# What nobody plays: clocks of namespaces are the machine's, and the package asks for no lease.
LEFT_OUT = {
    "clocks": "clocks that go wrong", "lease": "leases of groups", "moment": "moments that faults wait for: they come at their times",
}


class Broken(Exception):
    """A promise that the run cannot go on after."""


class Play:
    """One plan, from its first process to the last."""

    def __init__(self, plan: dict, builds: Builds, folder: Path, asked: argparse.Namespace) -> None:
        self.plan, self.folder, self.patience, self.says = plan, folder, asked.patience, asked.story
        self.chance = random.Random(plan["seed"])
        self.begun = time.monotonic()
        self.story = (folder / "story.txt").open("w")
        self.broken: list[dict] = []
        self.met: Counter[str] = Counter()
        self.left_out: set[str] = set()
        # From when to when, and whose machines; none: everybody's.
        self.disturbances: list[tuple[float, float, set[str] | None]] = []
        others = [f"m{number}" for number in range(plan["managers"])] + ["e0"]
        weather = plan["weather"]
        # Of a plan with one switch that switch's process passes frames on, at its ports.
        has_ports = len(plan["hosts"]) == 1
        self.machines = Machines(plan["hosts"], plan["spines"], others, weather["loss"], weather["corruption"], has_ports)
        self.services = Services(plan, self.machines, builds, folder, self.chance, self.tell_service)
        self.jobs = [
            Job(number, plan, self.services, self.chance, self.tell, self.breaks, self.touched) for number in range(len(plan["jobs"]))
        ]
        self.services.add_all({host: job.plan["tenant"] for job in self.jobs if job.has_agents for host in job.hosts})
        # A round takes at least so long.
        self.longest = max((job["collectives"] * seconds(job["pause"]) for job in plan["jobs"]), default=0.0)
        self.torn: dict | None = None
        self.slow = self.strangers = ()
        if plan["clocks"]:
            self.left_out.add(LEFT_OUT["clocks"])
        if any(job.get("lease") for job in plan["jobs"]):
            self.left_out.add(LEFT_OUT["lease"])
        if any(fault.get("moment") for fault in plan["faults"]):
            self.left_out.add(LEFT_OUT["moment"])
        if plan["store"] == "lease" and not self.services.has_etcd:
            self.left_out.add("etcd is not there: a file that both managers have, by --standby")

    # What is heard.

    def tell(self, what: str) -> None:
        line = f"{time.monotonic() - self.begun:8.3f} {what}"
        print(line, file=self.story, flush=True)
        if self.says:
            print(line, file=sys.stderr, flush=True)

    def tell_service(self, what: str) -> None:
        self.tell(what)
        name = what.split(" ends by itself")[0]
        if name == what:
            return
        now = time.monotonic()
        self.met["a process ends by itself"] += 1
        if not self.touched(None, now - 1, now):
            self.breaks("untouched", f"nothing had befallen anybody, and {what}")
        self.disturbances.append((now, now, None))

    def breaks(self, promise: str, what: str) -> None:
        self.tell(f"BROKEN {promise}: {what}")
        if len(self.broken) < 20:
            self.broken.append({"promise": promise, "at_s": round(time.monotonic() - self.begun, 2), "what": what})

    def touched(self, names: list[str] | None, since: float, now: float, aftermath: float = AFTERMATH) -> bool:
        """Whether something has befallen these machines, a switch, a manager or the store since then, or lately before."""
        own = None if names is None else {*names, *self.machines.switches}
        return any(
            begins <= now and ends + aftermath >= since and (whose is None or own is None or own & whose)
            for begins, ends, whose in self.disturbances
        )

    # Faults.

    def turn(self, number: int, begins: bool) -> None:
        fault = self.plan["faults"][number]
        kind = fault["kind"]
        (name, what), = kind.items() if isinstance(kind, dict) else [(kind, None)]
        self.tell(f"fault {number} {'begins' if begins else 'ends'}: {json.dumps(kind)}")
        if begins:
            self.met[name] += 1
            now = time.monotonic()
            nodes = [what] if isinstance(what, str) else what if isinstance(what, list) else ["m"]
            is_nodes = all(node[0] in "hs" for node in nodes)
            if name != "stranger":
                self.disturbances.append((now, now + seconds(fault["lasts"]), set(nodes) if is_nodes else None))
        getattr(self, name.replace("-", "_"))(what, begins)

    def cut(self, ends: list[str], begins: bool) -> None:
        self.machines.cut(ends, begins)

    def deaf(self, ends: list[str], begins: bool) -> None:
        self.machines.deafen(ends, begins)

    def isolate(self, name: str, begins: bool) -> None:
        self.machines.isolate(name, begins)

    def mute(self, name: str, begins: bool) -> None:
        self.machines.silence(name, begins)

    def part(self, ends: list[str], begins: bool) -> None:
        self.machines.part(ends, begins)

    def kill(self, name: str, begins: bool) -> None:
        self.services.hold_down(name, begins)
        for job in self.jobs:
            job.hold_down(name, begins)

    def upgrade(self, name: str, begins: bool) -> None:
        """Started again, it has this version; without --before it has had that all along."""
        self.services.builds.upgrade(name)
        self.kill(name, begins)

    def power_off(self, name: str, begins: bool) -> None:
        # First the links: what the kernel says of dead processes is heard by nobody.
        self.machines.power(name, begins)
        self.services.power(name, begins)
        for job in self.jobs:
            job.hold_down(name, begins)

    def pause(self, name: str, begins: bool) -> None:
        self.services.pause(name, begins)
        for job in self.jobs:
            job.pause(name, begins)

    def full_store(self, _: None, begins: bool) -> None:
        self.services.fill(begins)

    def slow_store(self, _: None, begins: bool) -> None:
        """etcd is stopped most of the time, never for as long as a lease runs."""
        if not self.services.has_etcd:
            self.left_out.add("a slow store, which a file is not")
            return
        if begins:
            self.slow += (False,)
        else:
            if any(self.slow):
                self.services.pause("e0", False)
            self.slow = ()

    def torn_write(self, what: dict, begins: bool) -> None:
        """The manager is killed at a change: when its file has grown, or etcd has the words but not their answer; or just before."""
        if not begins:
            if self.torn and self.torn["stopped"]:
                self.services.pause("e0", False)
            self.torn = None
            return
        self.torn = {"kept": what["kept"], "asks": self.asks(), "size": self.store_mark(), "due": None, "stopped": False}

    def stranger(self, name: str, begins: bool) -> None:
        if begins:
            sender = self.machines.neighbours(name)[0]
            with self.machines.inside(sender):
                raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self.strangers += ((name, raw),)
        else:
            for target, raw in self.strangers:
                if target == name:
                    raw.close()
            self.strangers = tuple(one for one in self.strangers if one[0] != name)

    def asks(self) -> int:
        """How often a group was asked for."""
        return sum(rank.last["what"] in ("attaches", "splits") for job in self.jobs for rank in job.ranks.values())

    def store_mark(self) -> tuple:
        return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(self.services.kept.glob("groups.sqlite*")))

    def go_on(self, now: float) -> None:
        """What faults do from turn to turn."""
        for number, is_stopped in enumerate(self.slow):
            wants = (now * 2.5) % 1 < 0.75
            if number == 0 and wants != is_stopped:
                self.services.pause("e0", wants)
                self.slow = (wants, *self.slow[1:])
        for target, raw in self.strangers:
            for _ in range(20):
                try:
                    raw.sendto(look_alike(self.machines.address(target), self.chance), (self.machines.address(target), 0))
                except OSError:
                    self.met["a stranger's frame did not leave"] += 1
        if self.torn is not None:
            self.tear(now, self.torn)

    def tear(self, now: float, torn: dict) -> None:
        has_asked = self.asks() > torn["asks"]
        torn["asks"] = self.asks()
        if self.services.has_etcd and torn["kept"]:
            if has_asked and not torn["stopped"]:
                torn["stopped"], torn["due"] = True, now + 0.2
                self.services.pause("e0", True)
        elif self.services.has_etcd or not torn["kept"]:
            if has_asked and torn["due"] is None:
                torn["due"] = now + self.chance.random() * 0.01
        elif self.store_mark() != torn["size"]:
            torn["due"] = now
        if torn["due"] is None or now < torn["due"]:
            return
        manager = self.services.serving()
        if manager is not None:
            self.met["a manager killed at a change"] += 1
            self.tell(f"{manager.name} is killed at a change")
            self.services.end(manager, None)
        if torn["stopped"]:
            self.services.pause("e0", False)
        self.torn = None

    # The run.

    def sleep(self, pause: float) -> None:
        """Where this process does not get its turn, the others do not, either: whatever has a time-out may miss it."""
        begins = time.monotonic()
        time.sleep(pause)
        ends = time.monotonic()
        if ends - begins > pause + STALL:
            self.tell(f"the machine had no turn for {ends - begins:.1f} s")
            self.met["the machine had no turn"] += 1
            self.disturbances.append((begins, ends, None))

    def turns(self, until, limit: float | None = None) -> bool:
        """Until something is so; whether it came to be within the limit."""
        end = None if limit is None else time.monotonic() + limit
        while True:
            now = time.monotonic()
            self.services.step(now)
            for job in self.jobs:
                job.step(now)
            self.go_on(now)
            if until():
                return True
            if end is not None and now > end:
                return False
            self.sleep(0.002 if self.torn is not None else TURN)

    def run(self) -> None:
        faults = self.plan["faults"]
        due = [(seconds(fault["at"]), number, True) for number, fault in enumerate(faults)]
        due += [(seconds(fault["at"]) + seconds(fault["lasts"]), number, False) for number, fault in enumerate(faults)]
        # Processes take longer to start here: faults begin when they have.
        self.turns(lambda: time.monotonic() - self.begun > 2)
        start = time.monotonic()
        for at, number, begins in sorted(due):
            self.turns(lambda at=at: time.monotonic() - start >= at)
            self.turn(number, begins)
        self.turns(lambda: time.monotonic() - start >= seconds(self.plan["calm_at"]))
        self.machines.calm_weather()
        for job in self.jobs:
            job.makes_mistakes = False
        if self.machines.has_ports:
            self.met["plans with ports"] += 1
        self.tell("faults are over")
        try:
            self.end()
        except Broken:
            pass
        for panic in self.services.panics():
            self.breaks("no panic", panic)

    def fail(self, promise: str, what: str) -> None:
        self.breaks(promise, what)
        raise Broken

    def end(self) -> None:
        calm = time.monotonic()
        idle = lambda: [job.number for job in self.jobs if sum(at > calm for at, _ in job.played) < len(job.hosts)]  # noqa: E731
        within = lambda limit: limit * self.patience + self.longest  # noqa: E731
        if not self.turns(lambda: not idle(), within(WELL_AGAIN)):
            waits = "; ".join(job.waits() for job in self.jobs)
            self.fail("well again", f"jobs {idle()} have run no round within {within(WELL_AGAIN):.0f} s after the last fault: {waits}")
        self.tell(f"all jobs have run a round, {time.monotonic() - calm:.1f} s after the last fault")
        self.met["well again after, in ms, at most"] = round((time.monotonic() - calm) * 1e3)
        missing = lambda: sorted(set(self.machines.switches) - self.attached())  # noqa: E731
        if not self.turns(lambda: not missing(), calm + within(WELL_AGAIN) - time.monotonic()):
            self.fail("well again", f"{', '.join(missing())} are not attached within {within(WELL_AGAIN):.0f} s after the last fault")
        for job in self.jobs:
            job.close()
        if not self.turns(lambda: all(job.is_idle() for job in self.jobs), within(DRAINED)):
            self.fail("answered", f"jobs that begin nothing more have not come to their end: {'; '.join(job.waits() for job in self.jobs)}")
        if any(not job.has_left for job in self.jobs):
            self.breaks("well again", f"a job that was asked to end has not ended well: {'; '.join(job.waits() for job in self.jobs if not job.has_left)}")
        for job in self.jobs:
            since = time.monotonic()
            self.tell(f"job {job.number} runs alone")
            job.run_once(since)
            as_asked = lambda: any(at >= since and design == job.plan["design"] for at, design in job.designs)  # noqa: B023, E731
            while not self.turns(job.is_idle, since + within(ALONE) - time.monotonic()) or not as_asked():
                if time.monotonic() > since + within(ALONE):
                    found = sorted({design for at, design in job.designs if at >= since})
                    self.fail("well again", f"job {job.number}, alone, has had no group as it had asked for, found {found}: {job.waits()}")
                job.run_once(time.monotonic())
        if not self.turns(lambda: not self.left(), FORGOTTEN * self.patience):
            left = self.left()
            self.breaks("nothing left", "; ".join(left[:5]) + (f"; and {len(left) - 5} more" if len(left) > 5 else ""))
        for late in self.services.stop():
            self.breaks("nothing left", late)
        stays = self.machines.processes()
        if stays:
            names = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80] for pid in stays]
            self.breaks("nothing left", f"processes: {'; '.join(names)}")

    def attached(self) -> set[str]:
        nodes = self.services.ask("nodes")
        return {node["name"] for node in nodes["nodes"]} if nodes else set()

    def left(self) -> list[str]:
        """What anybody still has of a group, or a connection."""
        groups, nodes = self.services.ask("group", "list"), self.services.ask("nodes")
        if groups is None or nodes is None:
            return ["no manager answers"]
        found = [f"the manager has group {group['group']} ({group['state']})" for group in groups["groups"] if group["state"] != "failed"]
        for node in nodes["nodes"]:
            if node["role"] != "switch":
                found.append(f"{node['name']} is attached")
            if node["endpoints_held"] or node["memory_held_bytes"]:
                found.append(f"groups hold {node['endpoints_held']} queue pairs and {node['memory_held_bytes']} bytes of {node['name']}")
        for name in self.machines.switches:
            page = self.services.page(name)
            held = {key: page.get(f"quincunx_{key}") for key in ("groups_installed", "switch_memory_held_bytes", "queue_pairs_held")}
            if any(value != 0 for value in held.values()):
                found.append(f"{name} has {held}")
        kept = self.services.groups_in_store()
        found += ["the store does not say what it has"] if kept is None else [f"the store has {group}" for group in kept]
        return found + self.services.more_files()

    def close(self) -> None:
        for one in (*self.jobs, self.services):
            one.processes.close()
        for _, raw in self.strangers:
            raw.close()
        for file in self.services.kept.glob("groups.sqlite*"):
            shutil.copy(file, self.folder)
        self.machines.close()
        self.story.close()

    def row(self) -> dict:
        counts = Counter(lives=0, rounds=0, results=0, errors=0)
        for job in self.jobs:
            counts.update(job.counts)
        return {
            "seed": self.plan["seed"], "kept": not self.broken, "broken": self.broken, "seconds": round(time.monotonic() - self.begun, 1),
            **counts, "met": dict(self.met), "left_out": sorted(self.left_out), "plan": self.plan,
        }


def look_alike(to: str, chance: random.Random) -> bytes:
    """A RoCEv2 frame that nobody has sent, right to the last bit of its invariant CRC."""
    payload = b"\xa5" * (4 * chance.randrange(64))
    opcode = chance.choice([0, 1, 4, 7, 8])
    transport = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, chance.randrange(8, 72), chance.randrange(1 << 24))
    length = 8 + len(transport) + len(payload) + 4
    ends = socket.inet_aton("10.9.9.9") + socket.inet_aton(to)
    ip = lambda tos, ttl, checksum: struct.pack(">BBHHHBBH", 0x45, tos, 20 + length, 0, 0x4000, ttl, 17, checksum) + ends  # noqa: E731
    udp = lambda checksum: struct.pack(">HHHH", 4791, 4791, length, checksum)  # noqa: E731
    # What may change on the way is ones.
    masked = b"\xff" * 8 + ip(255, 255, 65535) + udp(65535) + transport[:4] + b"\xff" + transport[5:]
    return ip(0, 64, 0) + udp(0) + transport + payload + struct.pack("<I", zlib.crc32(masked + payload))


def plan_of(program: Path, seed: int) -> dict:
    found = subprocess.run([program, "check", "cluster", "--seed", str(seed), "--plan"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f"expected the plan of seed {seed}, found: {found.stderr.strip()}")
    return json.loads(found.stdout)


def installed(program: Path, folder: Path) -> Path:
    """A folder with the command, and the package with its module as it was built beside the command."""
    package = Path(__file__).resolve().parent.parent / "python" / "quincunx" / "quincunx"
    shutil.copytree(package, folder / "package" / "quincunx", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copyfile(program.parent / "lib_core.so", folder / "package" / "quincunx" / "_core.abi3.so")
    (folder / "quincunx").symlink_to(program)
    return folder


def play(plan: dict, asked: argparse.Namespace) -> dict:
    """One plan; what came of it. A folder stays of one that breaks a promise."""
    ours = Path(tempfile.mkdtemp(prefix=f"quincunx-faults-{plan['seed']}-"))
    folder = ours / "said"
    folder.mkdir()
    # Until it is known that nothing was broken.
    row: dict = {"kept": False}
    try:
        machines.have_own_mounts()
        now, before = installed(asked.program, ours / "now"), asked.before and installed(asked.before, ours / "before")
        (folder / "plan.json").write_text(json.dumps(plan, indent=2))
        played = Play(plan, Builds(plan, now, before), folder, asked)
        try:
            played.run()
        finally:
            played.close()
        row = played.row()
    finally:
        if not row["kept"]:
            kept = asked.keep / f"seed-{plan['seed']}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("store"))
            row["folder"] = str(kept)
        machines.unmount(str(folder / "store"))
        shutil.rmtree(ours, ignore_errors=True)
    return row


def told(row: dict) -> str:
    text = f"seed {row['seed']}: {'kept' if row['kept'] else 'BROKEN'}, {row['seconds']} s, {row['lives']} starts of jobs, {row['rounds']} rounds, {row['results']} results"
    for broken in row["broken"]:
        text += f"\n  {broken['promise']} at {broken['at_s']} s: {broken['what']}"
    if "folder" in row:
        text += f"\n  what was said: {row['folder']}; again: faults.py QUINCUNX --plan {row['folder']}/plan.json"
    return text


def play_many(asked: argparse.Namespace, first: int, last: int) -> list[dict]:
    """Each seed in a process of its own, some at once."""
    seeds, running, rows = list(range(first, last)), {}, []
    try:
        while seeds or running:
            while seeds and len(running) < asked.jobs:
                seed = seeds.pop(0)
                command = [sys.executable, __file__, str(asked.program), "--seed", str(seed), "--json", "--patience", str(asked.patience)]
                command += ["--keep", str(asked.keep), *(["--before", str(asked.before)] if asked.before else [])]
                running[seed] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=ends_with_its_parent)
            for seed, process in list(running.items()):
                if process.poll() is None:
                    continue
                output = process.communicate()[0]
                del running[seed]
                try:
                    row = json.loads(output)
                except json.JSONDecodeError:
                    row = {"seed": seed, "kept": False, "seconds": 0, "lives": 0, "rounds": 0, "results": 0, "met": {}, "left_out": [],
                           "broken": [{"promise": "a run that ends", "at_s": 0, "what": f"status {process.returncode}, see standard error"}]}
                rows.append(row)
                print(told(row), file=sys.stderr if asked.json else sys.stdout, flush=True)
            time.sleep(0.1)
    except KeyboardInterrupt:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            process.wait()
        raise
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the quincunx command")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="the seed of one plan")
    which.add_argument("--seeds", metavar="A..B", help="the seeds of many, the last one not among them")
    which.add_argument("--plan", type=Path, metavar="FILE", help="a plan that was written")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many of --seeds at once [default: 1]")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the words of those that break a promise are kept [default: in the folder for temporary files]", default=Path(tempfile.gettempdir()) / "quincunx-broken")
    parser.add_argument("--before", type=Path, metavar="QUINCUNX", help="the command of another build, also with lib_core.so beside it: what a plan upgrades runs that until then [default: the same build]")
    parser.add_argument("--patience", type=float, default=1.0, metavar="FACTOR", help="so many times the time that promises have, on a busy machine [default: 1]")
    parser.add_argument("--story", action="store_true", help="says line by line what happens, on standard error")
    parser.add_argument("--json", action="store_true", help="prints one JSON object a plan, or a list of them")
    asked = parser.parse_args()
    if lack := machines.lacks():
        sys.exit(lack)
    asked.program, asked.before = asked.program.resolve(), asked.before and asked.before.resolve()
    for program in filter(None, (asked.program, asked.before)):
        if not (program.parent / "lib_core.so").exists():
            sys.exit(f"expected lib_core.so beside {program}, found none; cargo build -p quincunx-python")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        if asked.seeds:
            try:
                first, last = map(int, asked.seeds.split(".."))
            except ValueError:
                parser.error(f'expected --seeds A..B, found "{asked.seeds}"')
            rows = play_many(asked, first, last)
            if asked.json:
                print(json.dumps(rows))
            else:
                print(summary(rows))
        else:
            plan = json.loads(asked.plan.read_text()) if asked.plan else plan_of(asked.program, asked.seed)
            rows = [play(plan, asked)]
            print(json.dumps(rows[0]) if asked.json else told(rows[0]) + "\n" + summary(rows))
    except KeyboardInterrupt:
        print("expected to play all plans, found an interrupt; nothing is left of them", file=sys.stderr)
        return 130
    return 0 if all(row["kept"] for row in rows) else 1


def interrupt(*_: object) -> None:
    """Asked to end, it clears up, and hears no second time."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def summary(rows: list[dict]) -> str:
    met, left_out = Counter(), Counter()
    for row in rows:
        met.update({name: count for name, count in row["met"].items() if "at most" not in name})
        left_out.update(row["left_out"])
    again = [row["met"].get("well again after, in ms, at most", 0) / 1e3 for row in rows]
    bad = [row for row in rows if not row["kept"]]
    lines = [f"{name:<36} {count:>6}" for name, count in sorted(met.items())]
    lines += [f"not played: {what}, in {count} plans" for what, count in sorted(left_out.items())]
    lines.append(f"{len(rows)} plans, {sum(row['results'] for row in rows)} results, {len(bad)} with a promise broken; well again within {max(again):.1f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
