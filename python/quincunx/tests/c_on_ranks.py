"""What every rank runs for a test of C: a program that makes communicators and destroys them, and says when; then what the manager has."""

import subprocess
import sys

from package import expect_groups_at_the_manager

if __name__ == "__main__":
    program = subprocess.Popen(sys.argv[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = program.stdout.readline()
    if not said.endswith("destroyed\n"):
        sys.exit(f"expected a word that parts are destroyed, found {said!r}")
    expect_groups_at_the_manager(2)
    print("only the first is left", flush=True)
    program.communicate("\n")
    sys.exit(program.returncode)
