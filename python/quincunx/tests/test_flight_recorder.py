"""What `group calls --json` prints, as PyTorch's flight recorders have it."""

import contextlib
import io
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from package import Analysed


def call(number: int, collective: str, **more: object) -> dict[str, object]:
    usual = {"number": number, "collective": collective, "root": None, "op": "sum", "type": "f32", "bytes": 4000, "file": "train.py"}
    return usual | {"line": 88, "called_ns": 10, "begun_ns": 20, "ended_ns": 30} | more


def printed(*calls: dict[str, object]) -> dict[str, object]:
    """Of three ranks, of which the last does not answer."""
    ranks = [{"rank": rank, "answers": rank < 2, "calls": list(calls) if rank < 2 else []} for rank in range(3)]
    return {"calls": {"group": {"group": 7, "name": "train"}, "ranks": ranks}}


@contextlib.contextmanager
def hushed(told: io.StringIO) -> Iterator[None]:
    """What is printed goes there."""
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        yield


class FlightRecorder(Analysed):
    def dumps(self, *calls: dict[str, object]) -> dict[int, dict[str, object]]:
        from quincunx import flight_recorder

        return flight_recorder.dumps(printed(*calls))

    def test_each_rank_that_answers_has_entries_with_line_times_and_state(self) -> None:
        dumps = self.dumps(call(1, "all_reduce"), call(2, "barrier", type=None, op=None, bytes=0, ended_ns=None, file=None))
        self.assertEqual(list(dumps), [0, 1])
        self.assertEqual(dumps[0]["pg_config"], {"7": {"name": "7", "desc": "train", "ranks": "[0, 1, 2]"}})
        first, second = dumps[0]["entries"]
        self.assertEqual((first["profiling_name"], first["state"], first["process_group"]), ("nccl:all_reduce", "completed", ("7", "train")))
        self.assertEqual((first["input_sizes"], first["output_dtypes"]), ([[1000]], ["Float"]))
        self.assertEqual(first["frames"], [{"name": "?", "filename": "train.py", "line": 88}])
        self.assertEqual((second["state"], second["frames"], second["time_discovered_completed_ns"]), ("started", [], None))

    def test_gathered_and_scattered_vectors_have_all_ranks_parts_on_one_side(self) -> None:
        sizes = lambda entry: (entry["input_sizes"], entry["output_sizes"])  # noqa: E731
        gathered, scattered = self.dumps(call(1, "all_gather"), call(2, "reduce_scatter", type="f64"))[1]["entries"]
        self.assertEqual(sizes(gathered), ([[1000]], [[3000]]))
        self.assertEqual(sizes(scattered), ([[1500]], [[500]]))

    def test_the_command_writes_a_file_for_each_rank_and_refuses_what_is_none_of_it(self) -> None:
        from quincunx import flight_recorder

        told = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", ["flight_recorder", folder]), hushed(told):
            with mock.patch.object(sys, "stdin", io.StringIO(json.dumps(printed(call(1, "all_reduce"))))):
                self.assertEqual(flight_recorder.main(), 0)
            files = sorted(Path(folder).iterdir())
            self.assertEqual([file.name for file in files], ["rank_0", "rank_1"])
            self.assertEqual(pickle.loads(files[0].read_bytes())["entries"][0]["collective_seq_id"], 1)
            for text in ("nothing", "[]", "{}"):
                with self.subTest(text), mock.patch.object(sys, "stdin", io.StringIO(text)):
                    self.assertEqual(flight_recorder.main(), 2)
        self.assertIn("2 ranks in ", told.getvalue())
        self.assertEqual(told.getvalue().count("error: expected what `quincunx group calls --json` prints"), 3)
