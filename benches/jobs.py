"""The jobs of a plan of faults: ranks that are programs (`rounds.py`), each in its host's namespace, and whoever starts them anew when one has ended.
`faults.py` uses it.

When a rank ends, the others are killed a second later, as launchers do; or, as often, they are left alone, and each must hear of it within
HEARD seconds after all that has befallen the job.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from machines import Machines
from processes import Processes
from services import MANAGER_PORT, SOON, Services

# So long after the last fault that touches a job its ranks have heard that one of them is gone, in seconds.
HEARD = 45.0
# How long after a fault what ends may have ended for it.
AFTERMATH = 45.0
# Half of the calls are what most programs run.
KINDS = ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier"]
OFFERED = re.compile(r"expected a collective that \S+ offers on \S+ \(([a-z_, ]+)\)")
# Small packets and windows, so that short vectors fill them.
SETTINGS = {"group.mtu": 256, "group.message": 2, "group.window": 4}


class Rank:
    """A process of a job, and what it has said."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process, self.log = process, log
        self.facts: list[dict] = []
        self.offset = 0

    def read(self) -> list[dict]:
        """What it has said since it was read the last time."""
        with self.log.open("rb") as log:
            log.seek(self.offset)
            lines = log.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self.offset += len(whole)
        new = [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]
        self.facts += new
        return new

    @property
    def last(self) -> dict:
        return self.facts[-1] if self.facts else {"what": "nothing"}


class Job:
    """`tell` hears what happens, `broken` a promise that is not kept, `touched` says whether something has befallen these machines since then."""

    def __init__(self, number: int, plan: dict, services: Services, chance: random.Random, tell, broken, touched) -> None:
        self.number, self.plan, self.services, self.chance = number, plan["jobs"][number], services, chance
        self.machines: Machines = services.machines
        self.seed = plan["seed"]
        self.tell, self.broken, self.touched = tell, broken, touched
        self.hosts = [f"h{host}" for host in self.plan["hosts"]]
        # Half of the jobs speak by way of their machines' agents, the others show their certificate themselves.
        self.has_agents = number % 2 == 0 or self.machines.has_ports
        kinds = offered(services.program, self.plan["design"])
        self.kinds = ["all_reduce"] * len(kinds) + kinds
        self.processes = Processes()
        self.ranks: dict[str, Rank] = {}
        self.said: list[tuple[float, bool, str, Rank, dict]] = []
        self.life = 0
        self.started: float | None = None
        self.starts_at: float | None = time.monotonic() + 0.5 + chance.random()
        self.downs: dict[str, int] = dict.fromkeys(self.hosts, 0)
        self.pauses: dict[str, int] = dict.fromkeys(self.hosts, 0)
        # When the first rank ended, and when the others are killed for it; none: they are left to hear of it.
        self.fell: float | None = None
        self.kills_at: float | None = None
        self.rounds: int | None = None
        self.is_closing = False
        # A rank may call something else than the others, and the round and the collective at which it has, in this life.
        self.makes_mistakes, self.mistaken = True, None
        self.has_left = False
        self.played: list[tuple[float, int]] = []
        self.designs: list[tuple[float, str]] = []
        self.counts = {"lives": 0, "rounds": 0, "results": 0, "errors": 0, "mistakes": 0}

    def read(self, now: float, until: float) -> None:
        """Hears what ranks have said up to then, in the order in which it happened: one's mistake comes before what others hear of it."""
        self.said += [(fact["at"], fact["what"] != "mistaken", host, rank, fact) for host, rank in self.ranks.items() for fact in rank.read()]
        self.said.sort(key=lambda said: said[:2])
        while self.said and self.said[0][0] <= until:
            _, _, host, rank, fact = self.said.pop(0)
            self.hear(now, host, rank, fact)

    def step(self, now: float) -> None:
        # What is said takes a moment to be there.
        self.read(now, time.monotonic() - 0.05)
        if self.starts_at is not None:
            if now >= self.starts_at:
                self.start(now)
            return
        for host in self.hosts:
            if host not in self.ranks and self.fell is None and self.may_run(host):
                self.start_rank(host)
        ended = [(host, rank) for host, rank in self.ranks.items() if rank.process.poll() is not None]
        if self.fell is None and any(rank.process.returncode != 0 for _, rank in ended):
            self.fall(now, ended)
        # Of a job that falls no further rank begins.
        if len(ended) == len(self.hosts if self.fell is None else self.ranks):
            self.all_ended(now)
        elif self.kills_at is not None and now >= self.kills_at:
            self.kill_all()
        elif self.fell is not None and self.kills_at is None:
            self.wait_for_word(now)

    def may_run(self, host: str) -> bool:
        return self.downs[host] == 0 and not self.machines.off[host]

    def start(self, now: float) -> None:
        self.starts_at, self.fell, self.kills_at, self.has_left, self.mistaken = None, None, None, False, None
        self.life += 1
        self.counts["lives"] += 1
        self.started, self.ranks = now, {}
        self.tell(f"job {self.number} starts, life {self.life}")

    def start_rank(self, host: str) -> None:
        rank = self.hosts.index(host)
        plan = self.plan
        told = {
            "seed": f"{self.seed}/{self.number}", "kinds": self.kinds, "elements": plan["elements"], "collectives": plan["collectives"], "rounds": self.rounds,
            **{key: seconds(plan[key]) for key in ("pause", "think", "rest")}, "mistake": plan.get("mistake") if self.makes_mistakes else None,
        }
        environment = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": str(len(self.hosts)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "ROUNDS_LIFE": str(self.life),
            "QUINCUNX_JOB": f"{plan['tenant']}/j{self.number}.", "QUINCUNX_ADDRESS": self.machines.address(host),
            "QUINCUNX_DESIGN": plan["design"], "QUINCUNX_SET": settings_of(plan), "PYTHONPATH": str(self.services.builds.of(host) / "package"), "PYTHONUNBUFFERED": "1",
        }
        if self.has_agents:
            environment["QUINCUNX_MANAGER"] = f"127.0.0.1:{MANAGER_PORT}"
        else:
            environment["QUINCUNX_MANAGER"] = self.services.addresses()
            environment["QUINCUNX_IDENTITY"] = str(self.services.certificates / f"tenant-{plan['tenant']}.pem")
        log = self.services.folder / f"job{self.number}-life{self.life}-rank{rank}.log"
        command = self.machines.command(host, [sys.executable, str(Path(__file__).with_name("rounds.py")), json.dumps(told)])
        with log.open("w") as out:
            process = self.processes.start(f"{self.life}/{rank}", command, environment, stdout=out, stderr=out, stdin=subprocess.PIPE)
        self.ranks[host] = Rank(process, log)
        if self.is_closing and self.rounds is None:
            self.say_close(host)
        if self.pauses[host]:
            process.send_signal(signal.SIGSTOP)

    def hear(self, now: float, host: str, rank: Rank, fact: dict) -> None:
        what = fact["what"]
        if what == "result":
            self.counts["results"] += 1
            if self.mistaken is not None and (fact["round"], fact["collective"]) >= self.mistaken:
                self.broken("right results", f"{host}, job {self.number}: a result of collective {fact['collective']} of round {fact['round']}, where ranks call different ones at {self.mistaken}")
            before = [one for one in rank.facts[: rank.facts.index(fact)] if one["what"] == "result" and one["round"] == fact["round"]]
            if fact["wrong"]:
                self.broken("right results", f"{host}, job {self.number}: {fact['wrong']} elements of collective {fact['collective']} of round {fact['round']} ({fact['kind']}) are wrong")
            if len(before) != fact["collective"]:
                self.broken("in order", f"{host}, job {self.number}: the result of collective {fact['collective']} comes after {len(before)} of them")
        elif what == "mistaken":
            self.counts["mistakes"] += 1
            self.mistaken = fact["round"], fact["collective"]
            self.tell(f"job {self.number}, {host} calls something else: {fact}")
        elif what in ("joined", "round"):
            self.designs.append((now, fact["design"]))
        elif what == "played":
            self.played.append((now, self.life))
            if host == self.hosts[0]:
                self.counts["rounds"] += 1
        elif what in ("ended", "failed"):
            self.counts["errors"] += 1
            self.tell(f"job {self.number}, {host} ends: {fact['error'][:300]}")
            says_so = "to call the same collective" in fact["error"]
            if says_so and self.mistaken is None:
                self.broken("right results", f"ranks call the same, and {host} hears otherwise: {fact['error']}")
            # Who is not let in asks again, as where the job begins before its switches.
            was_in = any(one["what"] == "joined" for one in rank.facts)
            if was_in and not (says_so and self.mistaken) and not self.touched(self.hosts, self.started or now, now):
                self.broken("untouched", f"job {self.number} ends at {host}, and nothing had befallen it: {fact['error']}")

    def fall(self, now: float, ended: list[tuple[str, Rank]]) -> None:
        self.fell = now
        for host, rank in ended:
            if rank.process.returncode not in (3, 4) and rank.process.returncode >= 0 and rank.process.returncode != 0:
                self.broken("no panic", f"job {self.number}, {host} ends with status {rank.process.returncode}: {last_line(rank.log)}")
        if self.chance.random() < 0.5:
            self.kills_at = now + self.chance.uniform(*SOON)

    def wait_for_word(self, now: float) -> None:
        if not self.touched(self.hosts, max(self.fell, now - HEARD), now, aftermath=0) and now > self.fell + HEARD:
            late = [f"{host} is at {rank.last}" for host, rank in self.ranks.items() if rank.process.poll() is None]
            self.broken("answered", f"job {self.number} has lost a rank, and {HEARD:.0f} s later {'; '.join(late) or 'a rank has not begun'}")
            self.kill_all()

    def kill_all(self) -> None:
        for host in self.hosts:
            self.kill_rank(host)

    def kill_rank(self, host: str) -> None:
        rank = self.ranks.get(host)
        if rank is not None and rank.process.poll() is None:
            rank.process.kill()
            rank.process.wait()

    def all_ended(self, now: float) -> None:
        self.read(now, float("inf"))
        for rank in self.ranks.values():
            if rank.process.stdin:
                rank.process.stdin.close()
        self.has_left = all(rank.process.returncode == 0 for rank in self.ranks.values())
        self.tell(f"job {self.number} is over, {'all have left' if self.has_left else [rank.process.returncode for rank in self.ranks.values()]}")
        done = self.is_closing and (self.has_left or self.rounds is None)
        self.starts_at = float("inf") if done else now + self.chance.uniform(0.05, 0.5)
        self.ranks = {} if not done else self.ranks

    # What befalls it.

    def hold_down(self, host: str, begins: bool) -> None:
        if host in self.downs:
            self.downs[host] += 1 if begins else -1
            if begins:
                self.kill_rank(host)

    def pause(self, host: str, begins: bool) -> None:
        if host not in self.pauses:
            return
        self.pauses[host] += 1 if begins else -1
        rank = self.ranks.get(host)
        if rank is not None and rank.process.poll() is None and self.pauses[host] == (1 if begins else 0):
            rank.process.send_signal(signal.SIGSTOP if begins else signal.SIGCONT)

    # How it ends.

    def close(self) -> None:
        """It begins no further round."""
        self.is_closing = True
        if self.hosts[0] in self.ranks:
            self.say_close(self.hosts[0])

    def say_close(self, host: str) -> None:
        stdin = self.ranks[host].process.stdin
        if stdin and not stdin.closed:
            stdin.close()

    def is_idle(self) -> bool:
        return self.starts_at == float("inf")

    def run_once(self, now: float) -> None:
        """Alone: a single round, and again until it ends well."""
        self.rounds, self.starts_at, self.is_closing = 1, now, True

    def waits(self) -> str:
        """What each rank does at the moment."""
        if self.is_idle():
            return f"job {self.number} is over"
        return f"job {self.number}, life {self.life}: " + "; ".join(f"{host} {rank.process.poll()} {rank.last}" for host, rank in self.ranks.items())


def settings_of(plan: dict) -> str:
    """What a job's groups set, as `QUINCUNX_SET` has it."""
    def text(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    return ",".join(f"{key}={text(value)}" for key, value in (SETTINGS | plan.get("settings", {})).items())


def offered(program: Path, design: str) -> list[str]:
    """Collectives that a design offers, as the command says when it is asked for one that it does not."""
    for kind in KINDS[1:-1]:
        question = [str(program), "sim", kind, "--design", design, "--fabric", "star-2", "--sizes", "64B"]
        found = OFFERED.search(subprocess.run(question, capture_output=True, text=True, check=False).stderr)
        if found:
            return [one for one in KINDS if one in found[1].split(", ")]
    return KINDS


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1][-300:] if lines else "nothing said"


def seconds(text: str) -> float:
    """A time as plans have it: 12.05s, 665ms."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    scale = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "min": 60, "m": 60, "h": 3600}
    return round(float(number) * scale[text[len(number):]], 12)
