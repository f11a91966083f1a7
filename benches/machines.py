"""Machines that are network namespaces: hosts, leaf and spine switches joined by links, and all of them, with managers and a store, on a control
network. Links are cut, frames dropped in one direction, by `ip` and `nft`.

Namespaces are named in a mount namespace that only this process and its children have, so nothing is left of them when these have ended,
however they did. Switches pass frames on by the kernel's routes, which are laid anew along shortest ways when a link changes. A lone switch can have its
interfaces for ports instead: then its process alone passes frames on.

Needs root, iproute2 and nftables.
"""

import ctypes
import os
import shutil
import subprocess
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

from processes import LIBC

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 0x40000, 2
# Where the bridge of the control network is. A machine's name begins with another letter.
WIRES = "wires"


def lacks() -> str | None:
    """What is missing to make machines, in a line."""
    if os.geteuid() != 0:
        return "expected root, for network namespaces, found another user; run as root"
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            return f"expected {tool}, found none; apt-get install {package}"
    return None


def call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def have_own_mounts() -> None:
    """From here on what this process mounts is seen by nobody but its children, and goes with them."""
    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    os.makedirs("/run/netns", exist_ok=True)
    mount_tmpfs("/run/netns", "1m")


def mount_tmpfs(folder: str, size: str) -> None:
    call("mount", b"none", folder.encode(), b"tmpfs", 0, f"size={size}".encode())


def unmount(folder: str) -> None:
    """At once, whoever is in it still; nothing, if nothing is mounted there."""
    LIBC.umount2(folder.encode(), MNT_DETACH)


def run(command: list[str], text: str) -> None:
    """Commands, a line each, by a tool that reads them."""
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    if found.returncode != 0:
        raise RuntimeError(f"expected {' '.join(command)} to do what it is told, found: {found.stderr.strip()[:500]}")


class Machines:
    """`hosts`: hosts below each leaf; `loss` and `corruption`: of a million frames on a link as many are dropped, or have a byte written over;
    `has_ports`: the only switch's interfaces are its process's affair."""

    def __init__(self, hosts: list[int], spines: int, others: list[str], loss: int = 0, corruption: int = 0, has_ports: bool = False) -> None:
        self.has_ports = has_ports
        self.links: dict[frozenset[str], None] = {}
        leaves, host = len(hosts), 0
        for leaf, count in enumerate(hosts):
            for _ in range(count):
                self.links[frozenset({f"h{host}", f"s{leaf}"})] = None
                host += 1
            for spine in range(leaves, leaves + spines):
                self.links[frozenset({f"s{leaf}", f"s{spine}"})] = None
        self.hosts = [f"h{number}" for number in range(host)]
        self.switches = [f"s{number}" for number in range(leaves + spines)]
        self.names = self.hosts + self.switches + others
        self.weather = loss, corruption
        # Each fault gives back what it has taken: how often each link is cut, each direction deaf, each machine without power, unheard or unreached.
        self.cuts: Counter[frozenset[str]] = Counter()
        self.deaf: Counter[tuple[str, str]] = Counter()
        self.off: Counter[str] = Counter()
        self.mute: Counter[str] = Counter()
        self.isolated: Counter[str] = Counter()
        self.parted: Counter[frozenset[str]] = Counter()
        self.build()

    def address(self, name: str) -> str:
        """Of its frames."""
        number = int(name[1:])
        return f"10.77.0.{number + (1 if name[0] == 'h' else 192)}"

    def control_address(self, name: str) -> str:
        return "10.78.0.254" if name == WIRES else f"10.78.0.{self.names.index(name) + 1}"

    def neighbours(self, name: str) -> list[str]:
        return sorted(other for link in self.links if name in link for other in link - {name})

    def port(self, name: str, other: str) -> str:
        """The interface that leads from one machine to another."""
        return "eth0" if name[0] == "h" else f"to-{other}"

    def command(self, name: str, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", name, *command]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Sockets that are opened meanwhile are there."""
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            there = os.open(f"/run/netns/{name}", os.O_RDONLY)
            call("setns", there, CLONE_NEWNET)
            os.close(there)
            yield
        finally:
            call("setns", own, CLONE_NEWNET)
            os.close(own)

    def processes(self) -> list[int]:
        """What runs on the machines."""
        found = []
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True)
            found += map(int, pids.stdout.split())
        return found

    def build(self) -> None:
        run(["ip", "-batch", "-"], "".join(f"netns add {name}\n" for name in [WIRES, *self.names]))
        wires = f"link set lo up\nlink add br0 type bridge\naddr add {self.control_address(WIRES)}/24 dev br0\nlink set br0 up\n"
        for name in self.names:
            wires += f"link add {name} type veth peer name c0 netns {name}\nlink set {name} master br0 up\n"
        run(["ip", "-n", WIRES, "-batch", "-"], wires)
        for link in self.links:
            one, other = sorted(link)
            text = f"link add {self.port(one, other)} mtu 1500 type veth peer name {self.port(other, one)} netns {other}\n"
            run(["ip", "-n", one, "-batch", "-"], text)
        for name in self.names:
            text = f"link set lo up\naddr add {self.control_address(name)}/24 dev c0\nlink set c0 up\n"
            ports = [self.port(name, other) for other in self.neighbours(name)]
            if name in self.hosts:
                text += f"addr add {self.address(name)}/{24 if self.has_ports else 32} dev eth0\n"
            elif name in self.switches and not self.has_ports:
                text += f"addr add {self.address(name)}/32 dev lo\n"
            text += "".join(f"link set {port} up\n" for port in ports)
            if name in self.hosts and not self.has_ports:
                leaf = self.address(self.neighbours(name)[0])
                text += f"route add {leaf}/32 dev eth0 src {self.address(name)}\nroute add 10.77.0.0/24 via {leaf} dev eth0 onlink src {self.address(name)}\n"
            run(["ip", "-n", name, "-batch", "-"], text)
            if name in self.switches and not self.has_ports:
                script = "cd /proc/sys/net/ipv4 && echo 1 > ip_forward && for each in conf/*; do echo 0 > $each/send_redirects; done"
                run(self.command(name, ["sh", "-e"]), script)
        self.lay_routes()
        for name in self.hosts + self.switches:
            ports = [self.port(name, other) for other in self.neighbours(name)]
            # A packet socket at a port takes frames before they are filtered there: they are where they leave.
            hook = "egress" if self.has_ports else "ingress"
            chains = "".join(f'add chain netdev f {port} {{ type filter hook {hook} device "{port}" priority 0; }}\n' for port in ports)
            run(self.command(name, ["nft", "-f", "-"]), f"add table netdev f\n{chains}")
        for one, other in map(sorted, self.links):
            self.filter(one, other)
            self.filter(other, one)
        chains = "".join(
            f'add chain netdev f {way}-{name} {{ type filter hook {hook} device "{name}" priority 0; }}\n'
            for name in self.names for way, hook in (("from", "ingress"), ("to", "egress"))
        )
        run(self.command(WIRES, ["nft", "-f", "-"]), f"add table netdev f\n{chains}")

    def filter(self, sender: str, receiver: str) -> None:
        """What becomes of frames from one machine to a neighbour."""
        at, port = (sender, self.port(sender, receiver)) if self.has_ports else (receiver, self.port(receiver, sender))
        text = f"flush chain netdev f {port}\n"
        if self.deaf[sender, receiver]:
            text += f"add rule netdev f {port} drop\n"
        loss, corruption = self.weather
        if loss:
            text += f"add rule netdev f {port} udp dport 4791 numgen random mod 1000000 < {loss} drop\n"
        if corruption:
            # The byte behind the base transport header.
            text += f"add rule netdev f {port} udp dport 4791 numgen random mod 1000000 < {corruption} @th,160,8 set 90\n"
        run(self.command(at, ["nft", "-f", "-"]), text)

    def calm_weather(self) -> None:
        self.weather = 0, 0
        for receiver in self.hosts + self.switches:
            for sender in self.neighbours(receiver):
                self.filter(sender, receiver)

    def is_up(self, link: frozenset[str]) -> bool:
        return not self.cuts[link]

    def lay_routes(self) -> None:
        """Shortest ways over links that are up, through switches that have power."""
        if self.has_ports:
            return
        steps: dict[str, dict[str, str]] = {name: {} for name in self.switches}
        for goal in self.hosts + self.switches:
            seen, queue = {goal}, deque([goal])
            while queue:
                at = queue.popleft()
                if at != goal and (at in self.hosts or self.off[at]):
                    continue
                for other in self.neighbours(at):
                    if other not in seen and self.is_up(frozenset({at, other})):
                        seen.add(other)
                        queue.append(other)
                        if other in steps:
                            steps[other][goal] = at
        for name, hops in steps.items():
            if self.off[name]:
                continue
            text = ""
            for goal in self.hosts + self.switches:
                hop = hops.get(goal)
                if goal == name:
                    continue
                to = f"route replace {self.address(goal)}/32"
                if hop is None:
                    text += f"route replace unreachable {self.address(goal)}/32\n"
                elif hop == goal:
                    text += f"{to} dev {self.port(name, hop)} src {self.address(name)}\n"
                else:
                    text += f"{to} via {self.address(hop)} dev {self.port(name, hop)} onlink src {self.address(name)}\n"
            run(["ip", "-n", name, "-batch", "-"], text)

    def cut(self, ends: list[str], begins: bool) -> None:
        """The link goes down at both ends."""
        link = frozenset(ends)
        if link not in self.links:
            return
        self.cuts[link] += 1 if begins else -1
        self.show_link(link)
        self.lay_routes()

    def show_link(self, link: frozenset[str]) -> None:
        one, other = sorted(link)
        for end, far in ((one, other), (other, one)):
            is_up = self.is_up(link) and not self.off[end]
            run(["ip", "-n", end, "-batch", "-"], f"link set {self.port(end, far)} {'up' if is_up else 'down'}\n")
            if is_up and end in self.hosts and not self.has_ports:
                # They went with the link.
                mine, leaf = self.address(end), self.address(far)
                routes = f"route replace {leaf}/32 dev eth0 src {mine}\nroute replace 10.77.0.0/24 via {leaf} dev eth0 onlink src {mine}\n"
                run(["ip", "-n", end, "-batch", "-"], routes)

    def deafen(self, ends: list[str], begins: bool) -> None:
        """Frames from the first to the second are lost, and both think that the link is up."""
        if frozenset(ends) in self.links:
            sender, receiver = ends
            self.deaf[sender, receiver] += 1 if begins else -1
            self.filter(sender, receiver)

    def hold_control(self, name: str) -> None:
        text = f"flush chain netdev f from-{name}\nflush chain netdev f to-{name}\n"
        if self.mute[name] or self.isolated[name]:
            text += f"add rule netdev f from-{name} drop\n"
        if self.isolated[name]:
            text += f"add rule netdev f to-{name} drop\n"
        for pair in (pair for pair, count in self.parted.items() if count and name in pair):
            (far,) = pair - {name}
            text += f"add rule netdev f from-{name} ip daddr {self.control_address(far)} drop\n"
        run(self.command(WIRES, ["nft", "-f", "-"]), text)

    def silence(self, name: str, begins: bool) -> None:
        """What it says on the control network is lost; it hears all."""
        self.mute[name] += 1 if begins else -1
        self.hold_control(name)

    def isolate(self, name: str, begins: bool) -> None:
        """The control network does not reach it."""
        self.isolated[name] += 1 if begins else -1
        self.hold_control(name)

    def part(self, ends: list[str], begins: bool) -> None:
        """They do not hear each other on the control network; all others hear both."""
        if set(ends) <= set(self.names):
            self.parted[frozenset(ends)] += 1 if begins else -1
            for name in ends:
                self.hold_control(name)

    def power(self, name: str, is_off: bool) -> None:
        """All of its links go down, and nothing that its kernel still has to say reaches anybody."""
        self.off[name] += 1 if is_off else -1
        state = "down" if self.off[name] else "up"
        run(["ip", "-n", name, "-batch", "-"], f"link set c0 {state}\n")
        for link in self.links:
            if name in link:
                self.show_link(link)
        self.lay_routes()

    def close(self) -> None:
        for name in [*self.names, WIRES]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
