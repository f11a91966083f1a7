"""A machine of namespaces on which systemd runs as its first process, with units and files of a test: gone with the test, however that ends.

Its root is this machine's, or a folder with another system, with all that is written kept in memory. It has processes, network, mounts and
control groups of its own. Of this machine's units it has only those that it is given. Needs root, systemd and iproute2.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

# What the units wait for, as far as it is not theirs; and what is asked for, which no other machine has.
TARGETS = ("sysinit", "basic", "shutdown", "network-online", "multi-user", "quincunx-machine")

# Begins in the control group of the machine. $1 is an empty folder, $2 has what to lay over the root, $3 is the program that is put there, or
# nothing, $4 the root.
INSIDE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$4,upperdir=$1/upper,workdir=$1/work" "$1/root"
root=$1/root
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
hidden="run tmp dev"
# What is this machine's own.
[ "$4" != / ] || hidden="$hidden var/lib var/log etc/systemd/system usr/lib/systemd/system usr/lib/systemd/system-generators"
for folder in $hidden; do mount -t tmpfs tmpfs "$root/$folder"; done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
while read -r name major minor; do mknod -m 666 "$root/dev/$name" c "$major" "$minor"; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
net/tun 10 200
END
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
touch "$root/dev/console"
if [ -n "$3" ]; then
  touch "$root/usr/local/bin/quincunx"
  mount --bind "$3" "$root/usr/local/bin/quincunx"
fi
cp -r "$2/." "$root/"
ip link set lo up
cd "$root"
pivot_root . mnt
umount -l /mnt
# As systemd wants it of whoever has made a container: credentials are mounted in one namespace, and seen in another.
mount --make-rshared /
exec env -i container=quincunx PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=quincunx-machine.target
"""

# Ends with its standard input. $1 is the control group to make, the others are those of INSIDE. Prints the first process's number.
OUTSIDE = r"""
mkdir "$1" || exit 1
bash -c 'echo 0 >"$1/cgroup.procs" && shift && exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup bash -c "$0" inside "$@"' \
  "$INSIDE" "$@" </dev/null >"$3/machine.log" 2>&1 &
while ! inside=$(pgrep -P $!); do kill -0 $! || break; sleep 0.02; done
echo "$inside"
read -r _
# Without a word on how it ends.
exec 2>/dev/null
kill -KILL $!
wait
for _ in $(seq 50); do
  find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null
  [ -d "$1" ] || break
  sleep 0.1
done
rm -rf "$2" "$3"
"""

# Longer than any step takes on a machine that is busy.
PATIENCE_SECONDS = 20


def control_groups() -> Path:
    """Where control groups of version 2 are."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines())
    return next(Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2")


class Machine:
    """One of them, until it is closed. `files` are texts by their paths. Without a program the root may bring one."""

    def __init__(self, program: Path | None, files: dict[str, str], root: Path = Path("/")) -> None:
        empty, laid = (tempfile.mkdtemp(prefix="quincunx-machine-") for _ in range(2))
        units = {f"usr/lib/systemd/system/{name}.target": f"[Unit]\nDescription={name}\nDefaultDependencies=no\n" for name in TARGETS}
        for path, text in {**units, **files}.items():
            file = Path(laid, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.log = Path(laid, "machine.log")
        group = control_groups() / f"quincunx-test-{os.getpid()}"
        self.outside = subprocess.Popen(
            ["bash", "-c", OUTSIDE, "outside", group, empty, laid, program or "", root],
            env={**os.environ, "INSIDE": INSIDE},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.outside.stdout is not None
        self.inside = self.outside.stdout.readline().strip()
        try:
            self.until("systemd runs", lambda: self.run("systemctl", "is-active", "quincunx-machine.target", check=False).returncode == 0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends all that runs there, and waits for it."""
        self.outside.communicate(timeout=PATIENCE_SECONDS)

    def begin(self, *command: str) -> subprocess.Popen:
        """Begins a command there. Whoever calls waits for it, by `end`."""
        return subprocess.Popen(
            ["nsenter", "-t", self.inside, "-m", "-u", "-i", "-n", "-p", "-C", *command],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )

    def end(self, process: subprocess.Popen, check: bool = True) -> subprocess.CompletedProcess:
        """Waits for what has begun. With `check` an end with an error is an AssertionError that has its words."""
        try:
            out, error = process.communicate(timeout=PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        if check and process.returncode != 0:
            raise AssertionError(f"{process.args}: {out}{error}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Runs a command there, as `begin` and `end` do."""
        return self.end(self.begin(*command), check)

    def until(self, what: str, holds) -> None:
        """Waits until something holds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"expected that {what}, found that it does not after {PATIENCE_SECONDS} s: {self.words()}")
            time.sleep(0.05)

    def words(self) -> str:
        """What the machine and its units have said last, for errors."""
        units = self.run("systemctl", "--no-pager", "--all", "status", "quincunx-*", check=False)
        return (self.log.read_text(encoding="utf-8") if self.log.exists() else "")[-2000:] + units.stdout[-6000:]

    def property(self, unit: str, name: str) -> str:
        """A property of a unit's, as systemd has it."""
        return self.run("systemctl", "show", "--value", "--property", name, unit).stdout.strip()
