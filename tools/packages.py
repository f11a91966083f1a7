#!/usr/bin/env python3
"""Installs the packages of the system that some tests need, where apt can: what `make test` begins with if CI=true.

Each wait has an end. A package that cannot be fetched, for there is no apt or the mirror is out of reach, is one without which tests
may be skipped; one that apt refuses for another reason is not, nor is any where this does not run as root. `packages.py hardware`
installs those of the tests in rtl/ alone.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable

# Packages of Debian, and the programs by which to see that they are there; without programs, dpkg is asked.
WANTED: dict[str, tuple[str, ...]] = {
    "iproute2": ("ip", "tc", "rdma"),
    "util-linux": ("unshare", "setpriv"),
    "python3": ("python3",),
    "python3-venv": (),
    # Whose programs run through our switches: openmpi/.
    "openmpi-bin": ("mpirun", "ompi_info"),
    "libopenmpi-dev": ("mpicc",),
    # Tells who it is, beside us.
    "lldpd": ("lldpd", "lldpcli"),
    # Reads our frames.
    "tshark": ("tshark",),
    # The kernel's RoCE as a peer: tools/rxe-guest/README.md.
    "qemu-system-x86": ("qemu-system-x86_64",),
    "ibverbs-utils": ("ibv_rc_pingpong",),
    "ibverbs-providers": (),
    "rdma-core": (),
    "perftest": ("ib_write_bw",),
    "busybox-static": ("busybox",),
    "cpio": ("cpio",),
    "kmod": ("depmod",),
    # TLC, which explores the twins in spec/.
    "default-jre-headless": ("java",),
    "maven": ("mvn",),
    # Shows the manager's dashboard.
    "chromium": ("chromium",),
    # Hardware: simulators, lint, proofs, synthesis.
    "verilator": ("verilator",),
    "g++": ("g++",),
    "make": ("make",),
    "iverilog": ("iverilog",),
    "yosys": ("yosys", "yosys-smtbmc", "yosys-abc"),
    "z3": ("z3",),
    # Keeps groups for managers that stand by.
    "etcd-server": ("etcd",),
    # Runs the units in examples/systemd.
    "systemd": ("systemd-analyze", "systemctl"),
    # Reads the rules in examples/prometheus.
    "prometheus": ("promtool",),
}

# Those of `make test-rtl`.
HARDWARE = ("python3-venv", "verilator", "g++", "make", "iverilog", "yosys", "z3")

# Not installed, for no machine should boot it: the guest's kernel, which apt must know to fetch it.
KERNEL = "linux-image-amd64"

UPDATE_SECONDS = 60
FETCH_SECONDS = 300
# From what is fetched: no network any more.
INSTALL_SECONDS = 600

OUT_OF_REACH = re.compile(r"Failed to fetch|Could not (?:resolve|connect)|Temporary failure|Unable to connect|timed out", re.I)

NETWORK = ["-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10", "-o", "Acquire::Retries=1"]
QUIET = ["-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=60"]


def run(command: list[str], seconds: float) -> tuple[bool, str]:
    """Whether a command succeeds, and what it says last if it does not. Ended after so many seconds, with all that it started."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    process = subprocess.Popen(
        command,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return False, f"`{' '.join(command[:2])}` timed out after {seconds:.0f} s"
    complaints = [line for line in output.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    said = (complaints or output.splitlines() or [f"status {process.returncode}"])[-1]
    # What tells the network's fault from another one may stand before the last line.
    if not OUT_OF_REACH.search(said):
        said = next((line for line in complaints if OUT_OF_REACH.search(line)), said)
    return process.returncode == 0, said.strip()


def find(program: str) -> bool:
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return shutil.which(program, path=path) is not None


def is_there(package: str) -> bool:
    if package == KERNEL:
        return bool(shutil.which("apt-cache")) and run(["apt-cache", "show", KERNEL], UPDATE_SECONDS)[0]
    if package == "python3-venv":
        return importlib.util.find_spec("ensurepip") is not None
    if programs := WANTED[package]:
        return all(find(program) for program in programs)
    if shutil.which("dpkg-query") is None:
        return False
    # "ii": to be installed, and installed.
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}", package]
    return run(query, UPDATE_SECONDS) == (True, "ii")


def install(packages: Iterable[str] | None = None) -> dict[str, str]:
    """Installs what of them, or of all, is not there: which packages are out of reach, and why."""
    wanted = [package for package in packages or (*WANTED, KERNEL) if not is_there(package)]
    if not wanted:
        print("packages: all there")
        return {}
    if shutil.which("apt-get") is None:
        print(f"packages: expected apt-get to install {' '.join(wanted)}, found none; they stay out")
        return dict.fromkeys(wanted, "no apt-get on this machine")
    if os.geteuid() != 0:
        print(f"packages: expected root to install {' '.join(wanted)}, found user {os.geteuid()}; run as root")
        return {}
    done, said = run(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any", *NETWORK], UPDATE_SECONDS)
    # What fails while the mirror answers is the fault of the list above.
    if done:
        programs = [package for package in wanted if package != KERNEL]
        done, said = run(["apt-get", "install", "--download-only", *QUIET, *NETWORK, *programs], FETCH_SECONDS)
        if done:
            done, said = run(["apt-get", "install", *QUIET, "--no-download", *programs], INSTALL_SECONDS)
            if not done:
                print(f"packages: expected apt-get to install {' '.join(programs)}, found \"{said}\"")
                return {}
    out = [package for package in wanted if not is_there(package)]
    if not out:
        print(f"packages: {' '.join(wanted)} installed")
        return {}
    print(f"packages: expected apt-get to fetch {' '.join(out)}, found \"{said}\"")
    return dict.fromkeys(out, said) if OUT_OF_REACH.search(said) else {}


if __name__ == "__main__":
    sys.exit(1 if install(HARDWARE if sys.argv[1:] == ["hardware"] else None) else 0)
