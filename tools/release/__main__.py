"""Makes all that a release hands out, in target/release-VERSION: `make release`, or with `twice` as its argument `make release-twice`.

For each machine a static command, a Debian package, wheels, a container image and a bill of materials; SHA256SUMS of it all. `twice` makes them
again in a clone at another place, and compares.
"""

import hashlib
import platform
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import bill
import build
import image
import package
from build import MACHINES, ROOT, Machine, say

TARGET = ROOT / "target" / "release-build"


def version() -> str:
    """That of all crates."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def sums(folder: Path) -> str:
    """The hash of each file in a folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def release(machines: list[Machine], when: int) -> Path:
    """Makes everything for these machines; the folder with it."""
    number = version()
    out = ROOT / "target" / f"release-{number}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    where = build.environment(TARGET, when)
    say("crates and standard libraries")
    build.prepare(machines)
    # What this machine runs makes the pages for all.
    here = MACHINES[platform.machine()]
    made: list[package.File] = []
    for machine in sorted(machines, key=lambda each: each != here):
        say(f"{machine.rust}: command")
        command = build.command(machine, where)
        say(f"{machine.rust}: library")
        library = build.library(machine, where, number)
        if not made:
            with tempfile.TemporaryDirectory() as folder:
                made = package.documentation(command, Path(folder))
        shutil.copy(command, out / f"quincunx-{number}-{machine.rust}")
        say(f"{machine.rust}: wheels")
        build.wheels(machine, where, out)
        say(f"{machine.rust}: Debian package, image, bill of materials")
        files = package.contents(machine, command.read_bytes(), library.read_bytes(), made, number)
        package.build(machine, number, files, out, when)
        (out / f"quincunx-{number}-{machine.rust}.oci.tar").write_bytes(image.image(machine, command.read_bytes(), number, when))
        (out / f"quincunx-{number}-{machine.rust}.cdx.json").write_text(bill.of_command(machine, when))
    (out / "SHA256SUMS").write_text(sums(out))
    say(f"done: {out}")
    return out


def twice() -> None:
    """Makes a release here and in a clone at a longer path; ends with what differs."""
    if changed := build.run("git", "status", "--porcelain"):
        sys.exit(f"expected a tree without changes, for a clone has none of them, found {changed.splitlines()[0].strip()}; commit or stash it")
    ours = sums(release(list(MACHINES.values()), build.epoch()))
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="a-clone-at-a-longer-path-") as folder:
        clone = Path(folder, "clone")
        build.run("git", "clone", "--quiet", ROOT, clone)
        say(f"the same in {clone}")
        build.run(sys.executable, clone / "tools" / "release", seconds=build.BUILD_SECONDS, folder=clone)
        theirs = (clone / "target" / f"release-{version()}" / "SHA256SUMS").read_text()
    if differing := sorted({line.split()[-1] for line in set(ours.splitlines()) ^ set(theirs.splitlines())}):
        sys.exit(f"expected the same bits of both, found others in {', '.join(differing)}; compare them with diffoscope")
    print(f"{len(ours.splitlines())} files are the same to the bit, made in two folders")


def main() -> None:
    if sys.argv[1:] == ["twice"]:
        return twice()
    release(list(MACHINES.values()), build.epoch())


if __name__ == "__main__":
    main()
