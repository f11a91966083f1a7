"""Sweeps whose points are kept in a folder: nothing that was done is lost, and nothing is done twice."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import needs
from package import LIMIT_SECONDS, PACKAGE, Analysed

# What `work` was called with, in the order of calls, and what becomes of which call.
CALLED: list[tuple[int, str]] = []
FAILS: dict[tuple[int, str], BaseException] = {}


def work(*, number: int, letter: str, **_: object):
    """A point, as a sweep calls one. It counts its calls."""
    from quincunx import analysis

    CALLED.append((number, letter))
    if error := FAILS.get((number, letter)):
        raise error
    return analysis.table([{"here": f"{number}{letter}", "parts": [{"of": number}] * number, "none": None}], at=time.time())


def ends_its_process(*, number: int):
    """A point that not every process survives."""
    if number == 2:
        time.sleep(0.5)
        os._exit(9)
    return work(number=number, letter="a")


POINTS = {"number": [1, 2, 3], "letter": ["a", "b"]}


@contextlib.contextmanager
def threads(count: int = 2) -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ThreadPoolExecutor(count) as executor:
        yield executor


class Kept(Analysed):
    """A folder for each test."""

    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name) / "kept"
        CALLED.clear()
        FAILS.clear()

    SMALL = {"collective": "all_reduce", "fabric": "tree-2-2", "design": ["epic-3", "ring"], "size": ["4KiB", "8KiB"]}

    def hold(self, executor: concurrent.futures.Executor) -> None:
        """A sweep with a point that fails, by an executor; then without that point everything is there already."""
        import quincunx

        with self.assertRaises(ExceptionGroup) as caught:
            quincunx.sweep(quincunx.sim, **self.SMALL | {"size": ["4KiB", "8KiB", "none"]}, executor=executor, keep=self.folder)
        self.assertEqual([error.__notes__[-1] for error in caught.exception.exceptions], ["at design=epic-3, size=none", "at design=ring, size=none"])
        with mock.patch.object(quincunx.analysis, "_quietly", side_effect=AssertionError):
            table = quincunx.sweep(quincunx.sim, **self.SMALL, executor=executor, keep=self.folder)
        self.assertEqual(table.select(["design", "size"]).to_pylist(), [{"design": d, "size": s} for d in ("epic-3", "ring") for s in (4096, 8192)])

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.arrow"))

    def manifest(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.folder / "manifest.jsonl").read_text().splitlines()]

    def sweep(self, **options: object):
        """The points; which of them were called for."""
        import quincunx

        CALLED.clear()
        table = quincunx.sweep(work, keep=self.folder, **{**POINTS, **options})
        return table, sorted(CALLED)


@needs.modules("pyarrow")
class Folders(Kept):
    def test_a_point_that_is_kept_is_not_done_again_and_has_the_same_rows(self) -> None:
        import quincunx

        alone = quincunx.sweep(work, **POINTS)
        first, calls = self.sweep()
        self.assertEqual(len(calls), 6)
        again, calls = self.sweep()
        self.assertEqual(calls, [])
        self.assertEqual(first.to_pylist(), alone.to_pylist())
        self.assertEqual(again.to_pylist(), alone.to_pylist())
        self.assertEqual(len(self.files()), 6)
        self.assertEqual(sorted(self.folder.iterdir()), [*self.files(), self.folder / "manifest.jsonl"])

    def test_a_file_is_there_whole_or_not_at_all(self) -> None:
        with mock.patch("os.replace", side_effect=OSError("full")), self.assertRaisesRegex(OSError, "^full$"):
            self.sweep()
        self.assertEqual((list(self.folder.iterdir()), len(CALLED)), ([], 1))

    def test_a_longer_sweep_does_what_is_new_alone(self) -> None:
        self.sweep()
        table, calls = self.sweep(number=[3, 4, 1])
        self.assertEqual(calls, [(4, "a"), (4, "b")])
        self.assertEqual(table["here"].to_pylist(), ["3a", "3b", "4a", "4b", "1a", "1b"])

    def test_a_point_that_is_there_twice_is_done_once(self) -> None:
        table, calls = self.sweep(number=[2, 1, 2], letter="a")
        self.assertEqual(calls, [(1, "a"), (2, "a")])
        self.assertEqual(table["here"].to_pylist(), ["2a", "1a", "2a"])

    def test_every_option_decides_a_point_as_it_is_written(self) -> None:
        base = {"number": 1, "letter": "a", "third": 1, "set": {"link.rate": "1Gbit/s"}}
        self.assertEqual(len(self.sweep(**base)[1]), 1)
        for other in ({"third": 2}, {"third": "1"}, {"third": True}, {"third": None}, {"fourth": 1}, {"set": {"link.rate": "2Gbit/s"}}, {"set": {}}):
            with self.subTest(other):
                self.assertEqual(len(self.sweep(**base | other)[1]), 1)
        self.assertEqual(self.sweep(**dict(reversed(base.items())))[1], [])

    def test_what_is_in_a_file_that_an_option_names_decides_a_point(self) -> None:
        file = self.folder.parent / "mine.toml"
        for options in ({"fabric": file}, {"set": {"model": str(file)}}, {"deployment": {"a": ["b", str(file)]}}):
            with self.subTest(options):
                file.write_text("one")
                self.assertEqual(len(self.sweep(**options)[1]), 6)
                file.write_text("two")
                self.assertEqual(len(self.sweep(**options)[1]), 6)
                self.assertEqual(len(self.sweep(**options)[1]), 0)

    def test_another_command_does_points_again(self) -> None:
        program = self.folder.parent / "quincunx"
        with mock.patch.dict(os.environ, QUINCUNX_COMMAND=str(program)):
            for content, calls in (("#!/bin/sh\n", 6), ("#!/bin/sh\n\n", 6), ("#!/bin/sh\n", 0)):
                program.write_text(content)
                program.chmod(0o755)
                self.assertEqual(len(self.sweep()[1]), calls)

    def test_another_function_of_the_name_does_points_again(self) -> None:
        import quincunx

        def one():
            def call(*, number: int):
                return work(number=number, letter="a")

            return call

        def other():
            def call(*, number: int):
                return work(number=number, letter="b")

            return call

        for made, here in ((one, "1a"), (other, "1b"), (one, "1a")):
            call = made()
            call.__qualname__ = "call"
            self.assertEqual(quincunx.sweep(call, number=[1], keep=self.folder)["here"].to_pylist(), [here])
        self.assertEqual(len(CALLED), 2)

    def test_what_is_damaged_or_anothers_is_done_again(self) -> None:
        table, _ = self.sweep()
        whole = self.files()
        damages = {
            "cut": lambda file: file.write_bytes(file.read_bytes()[:-20]),
            "empty": lambda file: file.write_bytes(b""),
            "a bit": lambda file: file.write_bytes(bytes([*(content := file.read_bytes())[:700], content[700] ^ 1, *content[701:]])),
            "of another point": lambda file: file.write_bytes(next(other for other in self.files() if other != file).read_bytes()),
            "no file": lambda file: (file.unlink(), file.mkdir()),
            "gone": lambda file: file.unlink(),
        }
        for file, (name, damage) in zip(whole, damages.items(), strict=True):
            damage(file)
        (self.folder / "notes.arrow").write_text("mine")
        again, calls = self.sweep()
        self.assertEqual((len(calls), again.to_pylist()), (6, table.to_pylist()))
        self.assertEqual(self.sweep()[1], [])
        self.assertEqual((self.folder / "notes.arrow").read_text(), "mine")
        # One folder in a file's place, and that one of somebody else.
        self.assertEqual(len([file for file in self.files() if file.is_file()]), 7)

    def test_the_manifest_says_which_file_is_which_point(self) -> None:
        import pyarrow

        self.sweep(fabric=Path("star-4"))
        lines = self.manifest()
        self.assertEqual(sorted(line["file"] for line in lines), [file.name for file in self.files()])
        for line in lines:
            with pyarrow.ipc.open_file(self.folder / line["file"]) as reader:
                [row] = reader.read_all().to_pylist()
            options = line["options"]
            self.assertEqual(row["here"], f"{options['number']}{options['letter']}")
            self.assertEqual((options["fabric"], line["function"], line["rows"]), ("star-4", f"{__name__}.work", 1))

    def test_a_manifest_that_was_broken_off_or_lost_is_mended(self) -> None:
        self.sweep()
        manifest = self.folder / "manifest.jsonl"
        lines = manifest.read_text().splitlines()
        manifest.write_bytes("\n".join(lines[:4]).encode() + b'\n{"file": "\xff')
        self.assertEqual(self.sweep(number=[1, 2, 3, 4])[1], [(4, "a"), (4, "b")])
        lines = manifest.read_bytes().splitlines()
        self.assertEqual(lines[4], b'{"file": "\xff')
        named = [json.loads(line)["file"] for place, line in enumerate(lines) if place != 4]
        self.assertEqual(sorted(named), [file.name for file in self.files()])

    def test_points_that_are_kept_at_once_have_a_whole_line_each(self) -> None:
        from quincunx import _kept, analysis

        folder, table = _kept.Folder(self.folder, work), analysis.table([{"here": "a"}], at=0.0)
        with threads(8) as executor:
            list(executor.map(lambda each: folder.write(f"{each:024}", {"number": each}, table), range(400)))
        self.assertEqual(sorted(line["options"]["number"] for line in self.manifest()), list(range(400)))

    def test_kept_reads_a_folder_as_one_table_in_the_order_in_which_points_were_done(self) -> None:
        import pyarrow
        import quincunx

        self.sweep(letter="b", set={"link.rate": ["1Gbit/s", "2Gbit/s"]}, whole=[{"a": 1}])
        self.sweep(number=[9], letter="a")
        # What cannot be read is passed over, and what another program has written.
        damaged = self.manifest()[0]["file"]
        (self.folder / str(damaged)).write_bytes(b"")
        with pyarrow.ipc.new_file(self.folder / "other", pyarrow.schema([])):
            pass
        content = (self.folder / "other").read_bytes()
        (self.folder / f"{0:024}-{hashlib.sha256(content).hexdigest()[:24]}.arrow").write_bytes(content)
        (self.folder / "ff.arrow").write_bytes(b"")
        table = quincunx.kept(self.folder)
        self.assertEqual(len(table), 6)
        self.assertEqual(table["here"].to_pylist()[-1], "9a")
        expected = {"function": f"{__name__}.work", "number": 9, "letter": "a", "here": "9a", "link.rate": None, "whole": None}
        last = table.to_pylist()[-1]
        self.assertEqual({name: last[name] for name in expected}, expected)
        first = table.to_pylist()[0]
        self.assertIn(first["link.rate"], ("1Gbit/s", "2Gbit/s"))
        self.assertEqual((first["whole"], first["build"]), ('{"a": 1}', last["build"]))
        self.assertNotIn("set", table.column_names)

    def test_points_that_are_done_within_a_tick_of_the_file_system_stay_in_order(self) -> None:
        import quincunx

        self.sweep(number=list(range(40)), letter="a")
        self.assertEqual(quincunx.kept(self.folder)["here"].to_pylist(), [f"{number}a" for number in range(40)])

    def test_kept_without_points_says_what_to_name(self) -> None:
        import quincunx

        self.folder.mkdir()
        for folder in (self.folder, self.folder / "nowhere"):
            with self.assertRaisesRegex(FileNotFoundError, r'^expected points that a sweep has kept, found none in ".*"; name the folder'):
                quincunx.kept(folder)

    def test_what_cannot_be_kept_is_refused_before_a_point_is_done(self) -> None:
        import quincunx

        (self.folder.parent / "file").touch()
        for folder in ("file", "file/within"):
            with self.assertRaisesRegex(ValueError, "^expected a folder to keep points in, found a file at"):
                quincunx.sweep(work, **POINTS, keep=self.folder.parent / folder)
        with self.assertRaisesRegex(TypeError, "^expected a text, a number, .* for third, found set; convert it, or leave out keep$"):
            self.sweep(third={1})
        with self.assertRaisesRegex(ValueError, "^expected a function whose source can be read"):
            quincunx.sweep(dict, **POINTS, keep=self.folder)
        self.assertEqual(CALLED, [])

    def test_a_command_that_ends_badly_is_an_error_of_its_point(self) -> None:
        import quincunx

        options = {"collective": "all_reduce", "fabric": ["star-2", "nowhere"], "design": "ring", "size": "4KiB"}
        with self.assertRaises(ExceptionGroup) as caught:
            quincunx.sweep(quincunx.sim, **options, keep=self.folder)
        [error] = caught.exception.exceptions
        self.assertIsInstance(error, quincunx.InputError)
        self.assertEqual(quincunx.kept(self.folder)["fabric"].to_pylist(), ["star-2"])


@needs.modules("pyarrow")
class Failures(Kept):
    def test_points_that_fail_are_raised_together_when_the_others_are_done(self) -> None:
        for executor in (contextlib.nullcontext(), threads()):
            with self.subTest(executor), executor as by:
                FAILS.update({(3, "b"): ValueError("too long"), (1, "b"): RuntimeError("no luck")})
                with self.assertRaises(ExceptionGroup) as caught:
                    self.sweep(executor=by, third=str(by is None))
                self.assertEqual(len(CALLED), 6)
                found = caught.exception
                self.assertRegex(found.message, "^expected tables of 6 points, found 2 that failed; the others are kept in .*: call again")
                self.assertEqual([(str(error), error.__notes__) for error in found.exceptions], [
                    ("no luck", ["at number=1, letter=b"]),
                    ("too long", ["at number=3, letter=b"]),
                ])
                FAILS.clear()
                table, calls = self.sweep(executor=by, third=str(by is None))
                self.assertEqual(calls, [(1, "b"), (3, "b")])
                self.assertEqual(table["here"].to_pylist(), ["1a", "1b", "2a", "2b", "3a", "3b"])

    def test_the_manifest_lists_what_failed_and_why(self) -> None:
        FAILS[2, "a"] = ValueError("too long")
        with self.assertRaises(ExceptionGroup):
            self.sweep()
        [failed] = [line for line in self.manifest() if line["file"] is None]
        self.assertEqual((failed["error"], failed["options"]), ("ValueError: too long", {"number": 2, "letter": "a"}))

    def test_an_interrupt_ends_a_sweep_at_once_and_loses_nothing(self) -> None:
        FAILS[2, "a"] = KeyboardInterrupt()
        with self.assertRaises(KeyboardInterrupt):
            self.sweep()
        self.assertEqual((len(CALLED), len(self.files())), (3, 2))
        FAILS.clear()
        self.assertEqual(len(self.sweep()[1]), 4)

    def test_what_is_under_way_at_an_interrupt_is_kept_when_it_ends_and_the_rest_is_cancelled(self) -> None:
        import quincunx
        from quincunx import analysis

        begun, may_end = threading.Event(), threading.Event()

        def call(*, number: int):
            CALLED.append((number, ""))
            begun.set()
            may_end.wait(LIMIT_SECONDS)
            return analysis.table([{"here": number}])

        def interrupted(_: object) -> Iterator[object]:
            begun.wait(LIMIT_SECONDS)
            raise KeyboardInterrupt

        with threads(1) as executor:
            with mock.patch.object(analysis, "as_completed", interrupted), self.assertRaises(KeyboardInterrupt):
                quincunx.sweep(call, number=list(range(50)), executor=executor, keep=self.folder)
            self.assertEqual(self.files(), [])
            may_end.set()
        self.assertEqual((len(CALLED), len(self.files())), (1, 1))

    def test_a_process_that_dies_ends_the_sweep_and_loses_nothing(self) -> None:
        import quincunx

        with concurrent.futures.ProcessPoolExecutor(1) as executor, self.assertRaises(concurrent.futures.BrokenExecutor) as caught:
            quincunx.sweep(ends_its_process, number=[1, 2, 3], executor=executor, keep=self.folder)
        self.assertEqual(caught.exception.__notes__[:1], ["at number=2"])
        self.assertEqual(quincunx.kept(self.folder)["here"].to_pylist(), ["1a"])
        self.assertEqual(len(self.manifest()), 1)

    def test_a_program_that_is_interrupted_or_killed_goes_on_where_it_was(self) -> None:
        import quincunx

        asked = self.folder.parent / "asked"
        program = self.folder.parent / "quincunx"
        script = "import quincunx; quincunx.sweep(quincunx.sim, collective='all_reduce', seed=[1, 2, 3], keep=%r)" % str(self.folder)
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "QUINCUNX_COMMAND": str(program)}
        for number, sent in enumerate((signal.SIGINT, signal.SIGKILL)):
            # The second point does not end.
            program.write_text(f"""#!/bin/sh
# {number}
echo "$*" >> {asked}
test -e {asked}.go || case "$*" in *seed=2*) echo $$ > {asked}.process; exec sleep {LIMIT_SECONDS};; esac
echo '{{"rows": [{{"asked": "'"$*"'"}}]}}'
""")
            program.chmod(0o755)
            for left in ("", ".go", ".process"):
                Path(f"{asked}{left}").unlink(missing_ok=True)
            with subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL) as process:
                limit = time.monotonic() + LIMIT_SECONDS
                while not Path(f"{asked}.process").exists() and process.poll() is None and time.monotonic() < limit:
                    time.sleep(0.01)
                process.send_signal(sent)
            if sent == signal.SIGKILL:
                os.kill(int(Path(f"{asked}.process").read_text()), sent)
            Path(f"{asked}.go").touch()
            with mock.patch.dict(os.environ, QUINCUNX_COMMAND=str(program)):
                table = quincunx.sweep(quincunx.sim, collective="all_reduce", seed=[1, 2, 3], keep=self.folder)
            self.assertEqual(table["seed"].to_pylist(), [1, 2, 3])
            self.assertEqual([line.split("seed=")[1][0] for line in asked.read_text().splitlines()], ["1", "2", "2", "3"])


@needs.modules("pyarrow", "hypothesis")
class Properties(Kept):
    def test_whatever_fails_or_is_lost_the_same_call_again_gives_the_whole_and_does_what_is_missing(self) -> None:
        import quincunx
        from hypothesis import given, settings
        from hypothesis import strategies as st

        everything = [(number, letter) for number in POINTS["number"] for letter in POINTS["letter"]]
        undisturbed = quincunx.sweep(work, **POINTS).to_pylist()
        subsets = st.sets(st.sampled_from(everything))

        @given(subsets, st.none() | st.sampled_from(everything), subsets, st.integers(0, 3), st.booleans(), st.randoms(use_true_random=False))
        @settings(max_examples=60, deadline=None, database=None, derandomize=True)
        def holds(fails: set, interrupted: tuple | None, lost: set, workers: int, cut: bool, random) -> None:
            with tempfile.TemporaryDirectory() as made:
                self.folder = Path(made) / "kept"
                FAILS.clear()
                FAILS.update({each: ValueError(str(each)) for each in fails})
                if interrupted:
                    FAILS[interrupted] = KeyboardInterrupt()
                with threads(workers) if workers else contextlib.nullcontext() as executor:
                    with contextlib.suppress(KeyboardInterrupt, ExceptionGroup):
                        self.sweep(executor=executor)
                called = set(CALLED)
                there = {}
                for line in self.manifest() if self.files() else []:
                    if line["file"]:
                        there[line["options"]["number"], line["options"]["letter"]] = self.folder / line["file"]
                # What was called for and ended well is there, whatever became of the others.
                self.assertEqual(set(there), called - set(FAILS))
                for each in lost & set(there):
                    file = there.pop(each)
                    file.write_bytes(file.read_bytes()[: random.randrange(file.stat().st_size)]) if cut else file.unlink()
                FAILS.clear()
                again, calls = self.sweep()
                self.assertEqual(again.to_pylist(), undisturbed)
                self.assertEqual(calls, sorted(set(everything) - set(there)))
                self.assertEqual(self.sweep()[1], [])

        # Its bytes are read for each sweep: a small one.
        with mock.patch.dict(os.environ, QUINCUNX_COMMAND="true"):
            holds()


@needs.modules("pyarrow")
class Executors(Kept):
    def test_threads_do_points(self) -> None:
        with threads() as executor:
            self.hold(executor)

    def test_processes_do_points(self) -> None:
        with concurrent.futures.ProcessPoolExecutor(2) as executor:
            self.hold(executor)


@needs.modules("pyarrow", "distributed", "psutil")
class Dask(Kept):
    def test_workers_of_dask_do_points(self) -> None:
        import dask
        import psutil
        from distributed import Client, LocalCluster

        before = set(psutil.Process().children(recursive=True))
        with tempfile.TemporaryDirectory() as scratch, dask.config.set({"temporary-directory": scratch}):
            alone = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
            with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **alone) as cluster, Client(cluster) as client:
                listening = [worker["host"] for worker in client.scheduler_info()["workers"].values()]
                self.assertEqual(listening, ["127.0.0.1"] * 2)
                self.hold(client.get_executor())
            self.assertEqual(list(Path(scratch).rglob("*.arrow")), [])
        left = [process.cmdline() for process in set(psutil.Process().children(recursive=True)) - before]
        self.assertEqual([line for line in left if "resource_tracker" not in " ".join(line)], [])


if __name__ == "__main__":
    unittest.main()
