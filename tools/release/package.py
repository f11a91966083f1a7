"""The Debian package of a machine: what lies where, and who puts it there.

dpkg-deb, the format's own tool, packs it. What the command itself makes (manual pages, completions) is made by the command for this machine,
which has the same for every other.
"""

import gzip
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from build import GLIBC, ROOT, Machine, run, soname

PACK_SECONDS = 600

# Debian wants an address; the project has none, and .invalid says so.
MAINTAINER = "Quincunx contributors <nobody@quincunx.invalid>"
# Has dpkg look for libraries anew.
TRIGGERS = "activate-noawait ldconfig\n"

# What is to be ended, and what systemd is to read, where it runs. A package that is upgraded ends nothing: docs/running/upgrade.md has the order.
RELOAD = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n"
SCRIPTS = {
    "postinst": f"#!/bin/sh\n# Has systemd read the units.\nset -e\n{RELOAD}",
    "prerm": "#!/bin/sh\n# Ends all that runs by the units, if they are to go.\nset -e\n"
    "if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then systemctl stop 'quincunx-*'; fi\n",
    "postrm": "#!/bin/sh\n# Purged, nothing is left: no certificate, store, log, nor what enabled a unit.\nset -e\n"
    "if [ \"$1\" = purge ]; then\n"
    "  rm -rf /etc/quincunx /etc/systemd/system/*.wants/quincunx-*.service /etc/systemd/system/quincunx-*.service.d\n"
    "  rm -rf /var/lib/quincunx /var/lib/private/quincunx /var/log/quincunx /var/log/private/quincunx\n"
    f"fi\n{RELOAD}",
}


@dataclass(frozen=True)
class File:
    """What is installed at a path, below the root."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    # Instead of data: the file beside it that a symbolic link leads to.
    link: str = ""


def packed(data: bytes) -> bytes:
    """Compressed, without a time or a name in it."""
    return gzip.compress(data, 9, mtime=0)


def documentation(command: Path, folder: Path) -> list[File]:
    """Manual pages and completions, by a command that runs on this machine."""
    run(command, "man", folder)
    pages = [File(f"usr/share/man/man1/{page.name}.gz", packed(page.read_bytes())) for page in sorted(folder.iterdir())]
    places = {
        "bash": "usr/share/bash-completion/completions/quincunx",
        "zsh": "usr/share/zsh/vendor-completions/_quincunx",
        "fish": "usr/share/fish/vendor_completions.d/quincunx.fish",
    }
    return pages + [File(place, run(command, "completions", shell).encode()) for shell, place in places.items()]


def contents(machine: Machine, command: bytes, library: bytes, made: list[File], version: str) -> list[File]:
    """All files of the package, by their paths."""
    systemd, capi = ROOT / "examples" / "systemd", ROOT / "crates" / "apps" / "capi"
    libraries = f"usr/lib/{machine.multiarch}"
    described = (capi / "quincunx.pc.in").read_text().replace("@prefix@", "/usr").replace("@version@", version)
    files = [
        File("usr/bin/quincunx", command, 0o755),
        *(File(f"usr/lib/systemd/system/{unit.name}", unit.read_bytes()) for unit in systemd.glob("*.service")),
        *(File(f"usr/share/quincunx/{part.name}", part.read_bytes()) for part in systemd.glob("*.conf")),
        File("etc/quincunx/local.env", (systemd / "local.env").read_bytes()),
        File(f"{libraries}/wireshark/plugins/quincunx.lua", (ROOT / "examples/wireshark/quincunx.lua").read_bytes()),
        File(f"{libraries}/libquincunx.so.{version}", library),
        File(f"{libraries}/{soname(version)}", link=f"libquincunx.so.{version}"),
        File(f"{libraries}/libquincunx.so", link=soname(version)),
        File(f"{libraries}/pkgconfig/quincunx.pc", described.replace("${prefix}/lib", "${prefix}/lib/" + machine.multiarch).encode()),
        File("usr/include/quincunx.h", (capi / "include/quincunx.h").read_bytes()),
        File("usr/share/doc/quincunx/copyright", (ROOT / "LICENSE").read_bytes()),
        File("usr/share/doc/quincunx/changelog.gz", packed((ROOT / "CHANGELOG.md").read_bytes())),
        *made,
    ]
    return sorted(files, key=lambda file: file.path)


def control(machine: Machine, version: str, files: list[File]) -> str:
    """What Debian's tools know of the package."""
    kibibytes = sum(-(-len(file.data) // 1024) for file in files)
    return (
        f"Package: quincunx\nVersion: {version}\nArchitecture: {machine.debian}\nSection: net\nPriority: optional\n"
        f"Maintainer: {MAINTAINER}\nInstalled-Size: {kibibytes}\n"
        f"Depends: libc6 (>= {GLIBC})\nRecommends: iproute2\nSuggests: wireshark-common, systemd\n"
        "Description: Collectives computed inside the network\n"
        " Manager, switches and ranks of collectives that switches compute between hosts,\n"
        " over RoCEv2 frames; a simulator and a model checker of the same protocols.\n"
    )


def configured(files: list[File]) -> str:
    """The files that are a person's once they are installed: an upgrade keeps what was written there."""
    return "".join(f"/{file.path}\n" for file in files if file.path.startswith("etc/"))


def lay(files: list[File], root: Path, when: int) -> None:
    """Writes files below a root, all of one time."""
    for file in files:
        place = root / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            place.symlink_to(file.link)
            continue
        place.write_bytes(file.data)
        place.chmod(file.mode)
    for place in [root, *root.rglob("*")]:
        if place.is_dir():
            place.chmod(0o755)
        os.utime(place, (when, when), follow_symlinks=False)


def build(machine: Machine, version: str, files: list[File], folder: Path, when: int) -> Path:
    """Packs the package into a folder."""
    root = folder / f"root-{machine.debian}"
    shutil.rmtree(root, ignore_errors=True)
    about = [File("DEBIAN/control", control(machine, version, files).encode()), File("DEBIAN/conffiles", configured(files).encode())]
    about += [File("DEBIAN/triggers", TRIGGERS.encode())]
    about += [File(f"DEBIAN/{name}", text.encode(), 0o755) for name, text in SCRIPTS.items()]
    lay([*files, *about], root, when)
    package = folder / f"quincunx_{version}_{machine.debian}.deb"
    # With several threads the bits would depend on how many.
    run(
        "dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build", root, package,
        seconds=PACK_SECONDS, environment={**os.environ, "SOURCE_DATE_EPOCH": str(when)},
    )
    shutil.rmtree(root)
    return package
