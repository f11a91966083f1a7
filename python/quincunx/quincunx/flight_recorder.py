"""What ranks have called lately, as files that PyTorch's analyser of flight recorders reads.

    quincunx group calls train --json | python3 -m quincunx.flight_recorder FOLDER
    python3 -m torch.distributed.flight_recorder.fr_trace FOLDER

The folder gets a file for each rank that answers, `rank_0` and so on: a pickle of `version`, `pg_config` and `entries` as that analyser has them. It knows
operations by the names that they have for NCCL (`nccl:all_reduce`); messages between two ranks are not recorded.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from pathlib import Path
from typing import Any

# The layout of the entries.
VERSION = "2.4"

# A type's bytes, and what PyTorch calls it.
_TYPES = {
    "i8": (1, "Char"), "u8": (1, "Byte"), "i16": (2, "Short"), "i32": (4, "Int"), "u32": (4, "UInt32"), "i64": (8, "Long"),
    "u64": (8, "UInt64"), "f16": (2, "Half"), "bf16": (2, "BFloat16"), "f32": (4, "Float"), "f64": (8, "Double"),
    "e4m3": (1, "Float8_e4m3fn"), "e5m2": (1, "Float8_e5m2"), "mxfp8": (1, "Byte"), "nvfp4": (1, "Byte"),
}  # fmt: skip

# What the analyser calls a collective, and how many ranks' parts its input and its output are: 0 is all of them.
_NAMES = {
    "all_reduce": ("all_reduce", 1, 1),
    "reduce": ("reduce", 1, 1),
    "broadcast": ("broadcast", 1, 1),
    "barrier": ("barrier", 1, 1),
    "all_gather": ("_all_gather_base", 1, 0),
    "reduce_scatter": ("_reduce_scatter_base", 0, 1),
}


def entries(rank: dict[str, Any], size: int, group: tuple[str, str]) -> list[dict[str, Any]]:
    """The calls of a rank of `quincunx group calls --json`, in a group of `size` with that name and description."""
    found = []
    for call in rank["calls"]:
        if call["collective"] not in _NAMES:
            continue
        name, given, room = _NAMES[call["collective"]]
        width, element = _TYPES.get(call["type"] or "u8", (1, "Byte"))
        count = call["bytes"] // width
        begun, ended = call["begun_ns"], call["ended_ns"]
        frames = [{"name": "?", "filename": call["file"], "line": call["line"]}] if call["file"] else []
        found.append(
            {
                "frames": frames,
                "record_id": len(found),
                "pg_id": 0,
                "process_group": group,
                "collective_seq_id": call["number"],
                "p2p_seq_id": 0,
                "op_id": call["number"],
                "profiling_name": f"nccl:{name}",
                "time_created_ns": call["called_ns"],
                "time_discovered_started_ns": begun,
                "time_discovered_completed_ns": ended,
                "input_sizes": [[count * (given or size)]],
                "input_dtypes": [element],
                "output_sizes": [[count * (room or size)]],
                "output_dtypes": [element],
                "state": "started" if ended is None else "completed",
                "timeout_ms": 0,
                "is_p2p": False,
                "retired": ended is not None,
            }
        )
    return found


def dumps(calls: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """What each rank that answers has in its file, by rank; `calls` is what `quincunx group calls --json` prints."""
    group, ranks = calls["calls"]["group"], calls["calls"]["ranks"]
    name, description = str(group["group"]), group["name"] or "undefined"
    members = str([rank["rank"] for rank in ranks])
    config = {name: {"name": name, "desc": description, "ranks": members}}
    return {
        rank["rank"]: {"version": VERSION, "pg_config": config, "entries": entries(rank, len(ranks), (name, description))}
        for rank in ranks
        if rank["answers"]
    }


def write(calls: dict[str, Any], folder: Path) -> list[Path]:
    """Writes a file for each rank that answers, and returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for rank, dump in dumps(calls).items():
        path = folder / f"rank_{rank}"
        path.write_bytes(pickle.dumps(dump))
        written.append(path)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m quincunx.flight_recorder", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--calls", type=Path, help="what `quincunx group calls --json` has printed [default: standard input]")
    options = parser.parse_args()
    text = options.calls.read_text() if options.calls else sys.stdin.read()
    try:
        written = write(json.loads(text), options.folder)
    except (ValueError, KeyError, TypeError) as error:
        print(f"error: expected what `quincunx group calls --json` prints, found none ({error}); pass it", file=sys.stderr)
        return 2
    print(f"{len(written)} ranks in {options.folder}; read by python3 -m torch.distributed.flight_recorder.fr_trace {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
