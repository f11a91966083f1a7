"""The wall clock, which jumps, decides nothing: who reads it shows a time to people or names something. All deadlines, leases and time-outs are of the
monotonic clock."""

import re
import unittest
from pathlib import Path

import layering

ROOT = Path(__file__).resolve().parent.parent

# Who reads the wall clock, and what for.
SHOWN = {
    "crates/apps/capi/src/lib.rs": "names a job",
    "crates/apps/cli/src/results.rs": "dates results",
    "crates/apps/cli/src/running.rs": "names a run",
    "crates/control/grpc/src/asking.rs": "shows when a call was",
    "crates/control/grpc/src/audit.rs": "shows when something was asked for",
    "crates/control/grpc/src/authority.rs": "dates certificates",
    "crates/control/grpc/src/client.rs": "lets the manager lay clocks of machines over each other, for pictures",
    "crates/control/grpc/src/events.rs": "shows when something happened",
    "crates/processes/runtime/src/calls.rs": "shows when calls were",
    "crates/processes/runtime/src/capture.rs": "dates packets of a capture",
}

WALL_CLOCK = re.compile(r"\bSystemTime\b|\bUtcDateTime::now\b|\bOffsetDateTime::now|CLOCK_REALTIME\b|\bClockId::Realtime\b")


class ClocksTest(unittest.TestCase):
    def test_the_wall_clock_is_read_to_show_times_alone(self) -> None:
        sources = [path for room in layering.members(ROOT) for path in (room / "src").rglob("*.rs")]
        reads = [path for path in sources if WALL_CLOCK.search(path.read_text(encoding="utf-8"))]
        readers = {path.relative_to(ROOT).as_posix() for path in reads}
        self.assertEqual(readers, set(SHOWN), "take times of the monotonic clock for what is decided; say here what a time is shown for")


if __name__ == "__main__":
    unittest.main()
