"""Tables from the command: what is in them, what is an exception, and what a sweep makes of many."""

import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import needs
from package import LIMIT_SECONDS, PACKAGE, Analysed

SMALL = {"fabric": "star-4", "design": ["epic-3", "ring"], "size": "1KiB:16KiB:4"}


@contextlib.contextmanager
def other_command(body: str) -> Iterator[None]:
    """A program in the command's place while this holds."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "quincunx"
        program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, QUINCUNX_COMMAND=str(program)):
            yield


def python(script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that imports the package."""
    environment = dict(os.environ, PYTHONPATH=str(PACKAGE.parent), **more)
    return subprocess.run([sys.executable, "-c", script], env=environment, text=True, capture_output=True, timeout=LIMIT_SECONDS)


class Jobs(Analysed):
    RING = {"hosts": "0-3", "collective": "all_reduce", "size": "64KiB", "design": "ring"}

    def test_a_cluster_has_a_row_for_each_job_policy_and_memory(self) -> None:
        import quincunx

        table = quincunx.cluster("epic-128", policy=["ring", "temporal"], memory_units=[4, 8])
        rows = [row for row in table.to_pylist() if row["job"] == "gpt-3-13b"]
        self.assertEqual([(row["policy"], row["units"]) for row in rows], [("ring", 4), ("temporal", 4), ("ring", 8), ("temporal", 8)])
        self.assertEqual([f"{row['jct_s']:.2f}" for row in rows], ["33.55", "19.10", "33.55", "17.54"])
        self.assertEqual(len(quincunx.analysis._metadata(table)["runs"]), 16)

    def test_a_dict_is_a_file_of_jobs(self) -> None:
        import quincunx

        file = {"fabric": "leaf-spine-2x2x4", "job": [self.RING | {"name": 'a "b"'}, self.RING | {"hosts": "4-7", "at": "1us", "times": 2}]}
        file["traffic"] = [{"pattern": "uniform", "load": 0.1}]
        table = quincunx.jobs(file, alone=True)
        self.assertEqual(table.column("job").to_pylist(), ['a "b"', "job-2"])
        self.assertEqual(table.column("wrong").to_pylist(), [0, 0])
        self.assertTrue(all(time > 0 for time in table.column("time_us").to_pylist()))
        self.assertEqual(len(quincunx.analysis._metadata(table)["traffic"]), 1)

    def test_what_a_file_may_not_say_is_refused_as_the_command_refuses_it(self) -> None:
        import quincunx

        with self.assertRaisesRegex(quincunx.InputError, "jobs.toml:2: expected a `size` of whole elements"):
            quincunx.jobs({"fabric": "star-4", "job": [self.RING | {"size": "6B"}]})
        for wrong in ([self.RING | {"hosts": [0, 1]}], ["all_reduce"]):
            with self.assertRaisesRegex(quincunx.InputError, "^expected TOML in .*jobs.toml, found"):
                quincunx.jobs({"job": wrong}, fabric="star-4")


@needs.modules("hypothesis", "pyarrow")
class Documents(Analysed):
    def test_a_dict_is_the_document_that_toml_reads_back(self) -> None:
        from hypothesis import given, settings
        from hypothesis import strategies as st
        from quincunx import analysis

        texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
        whole = st.integers(-(2**63), 2**63 - 1)
        plain = texts | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False)
        tables = st.dictionaries(texts, st.deferred(lambda: values), max_size=3)
        values = plain | st.lists(plain | st.lists(plain, max_size=2), max_size=3) | tables | st.lists(tables, min_size=1, max_size=3)

        @given(tables)
        @settings(max_examples=200, deadline=None, database=None, derandomize=True)
        def holds(document: dict[str, object]) -> None:
            self.assertEqual(tomllib.loads("\n".join(analysis._toml(document))), document)

        holds()

    def test_what_toml_has_no_form_for_is_refused(self) -> None:
        import quincunx

        for wrong in (float("nan"), float("inf"), None, {1, 2}, [{"tp": 8}, 1]):
            with self.assertRaisesRegex(TypeError, "^expected a text, a number, .* for split, found "):
                quincunx.predict({"split": wrong})


@needs.modules("pyarrow")
class Predictions(Analysed):
    # One measured layer, one design beside the baseline, a few tokens: a quarter of a second.
    STEP = {"model": "llama2-7b", "gpu": "h200", "profile": "h200", "split": {"tp": 8}, "inference": {"batch": 1, "prompt": 16}}
    NETWORK = {"fabric": "scin-dgx8", "designs": ["nvls", "scin"]}

    def test_a_prediction_has_a_row_for_each_design_and_says_what_its_baseline_is(self) -> None:
        import quincunx

        options = {"model": "llama2-7b", "batch": 1, "prompt": 16, "design": ["nvls", "scin"], "fresh": True}
        nvls, scin = quincunx.predict("scin-llama2", **options).to_pylist()
        self.assertEqual((nvls["design"], nvls["baseline"], nvls["ttft_speedup"]), ("nvls", "nvls", 1.0))
        self.assertEqual((scin["design"], scin["baseline"]), ("scin", "nvls"))
        self.assertAlmostEqual(scin["tpot_speedup"], nvls["tpot_ms"] / scin["tpot_ms"], places=6)
        self.assertAlmostEqual(scin["tokens_per_second"], 1e3 / scin["tpot_ms"], places=6)
        [_, decode] = scin["exchanges"]
        waited_ms = decode["times"] * decode["each_us"] / 1e3
        self.assertAlmostEqual(scin["tpot_share"], waited_ms / scin["tpot_ms"], places=6)

    def test_a_dict_with_tables_in_it_is_a_deployment(self) -> None:
        import quincunx

        [fast, slow] = [
            quincunx.predict(self.STEP | {"network": self.NETWORK | {"set": link}}, fresh=True) for link in ({}, {"link.rate": "10GB/s"})
        ]
        self.assertEqual(fast["design"].to_pylist(), ["nvls", "scin"])
        self.assertGreater(slow["ttft_ms"][1].as_py(), fast["ttft_ms"][1].as_py())

    def test_of_training_there_is_an_iteration_in_seconds(self) -> None:
        import quincunx

        training = {"batch": 8, "sequence": 16, "micro_batch": 1, "overlap": False}
        step = {key: value for key, value in self.STEP.items() if key != "inference"} | {"network": self.NETWORK, "training": training}
        row = quincunx.predict(step, fresh=True).to_pylist()[1]
        self.assertAlmostEqual(row["iteration_s"], row["compute_s"] + row["within_s"] + row["bubble_s"] + row["exposed_s"], places=6)
        self.assertAlmostEqual(row["tokens_per_second"], 8 * 16 / row["iteration_s"], places=3)
        self.assertEqual((row["computation"], "ttft_ms" in row), ("between measured", False))

    def test_of_requests_there_are_medians_and_percentiles(self) -> None:
        import quincunx

        with tempfile.TemporaryDirectory() as folder:
            requests = Path(folder) / "requests.csv"
            requests.write_text("arrival_s,prompt,answer\n" + "".join(f"{number / 10},16,4\n" for number in range(8)))
            serving = {"serving": {"requests": str(requests), "load": 0.5}}
            step = {key: value for key, value in self.STEP.items() if key != "inference"} | {"network": self.NETWORK} | serving
            row = quincunx.predict(step, fresh=True).to_pylist()[1]
        self.assertAlmostEqual(row["requests_per_second"], 5.0, places=6)
        self.assertLessEqual(row["ttft_p50_ms"], row["ttft_p99_ms"])
        self.assertEqual((row["together"], "ttft_ms" in row), (1, False))

    def test_a_plan_says_in_the_tables_metadata_whether_a_design_is_worth_it(self) -> None:
        import quincunx

        table = quincunx.plan(self.STEP | {"network": self.NETWORK | {"designs": ["ring", "scin"]}})
        ring, scin = table.to_pylist()
        self.assertEqual((ring["ports"], scin["ports"]), (None, 32))
        advice = json.loads(table.schema.metadata[b"quincunx"])["advice"]
        self.assertEqual((advice["answer"], advice["design"], advice["baseline"]), ("worth it", "scin", "ring"))
        self.assertAlmostEqual(advice["saved"][1]["expected"], 1 - scin["tpot_ms"] / ring["tpot_ms"], places=6)

    def test_a_plan_without_a_deployment_names_what_it_wants(self) -> None:
        import quincunx

        with self.assertRaisesRegex(quincunx.InputError, "^expected a file, a preset .* or --fabric, found none"):
            quincunx.plan()

    def test_what_a_deployment_may_not_say_is_refused_as_the_command_refuses_it(self) -> None:
        import quincunx

        with self.assertRaisesRegex(quincunx.InputError, "deployment.toml: expected .inference., .serving. or .training., found none"):
            quincunx.predict({key: value for key, value in self.STEP.items() if key != "inference"} | {"network": self.NETWORK})


class Arguments(Analysed):
    def test_keywords_are_the_commands_options(self) -> None:
        from quincunx import _command

        given = {"early_timeouts": 2, "design": ["ring", "tree"], "full": True, "slow": False, "tree": None, "load": (0.5, 1)}
        self.assertEqual(_command.arguments(given), ["--early-timeouts=2", "--design=ring,tree", "--full", "--load=0.5,1"])

    def test_a_dict_gives_the_option_again_for_each_pair(self) -> None:
        from quincunx import _command

        given = {"set": {"link.rate": "1Gbit/s", "group.selective": True, "group.window": 4, "tokens": None}}
        self.assertEqual(_command.arguments(given), ["--set=link.rate=1Gbit/s", "--set=group.selective=true", "--set=group.window=4"])

    def test_what_has_no_text_is_refused(self) -> None:
        from quincunx import _command

        with self.assertRaisesRegex(TypeError, "expected a text, a number, .*found set"):
            _command.arguments({"design": {"ring"}})

    def test_the_command_beside_the_interpreter_comes_before_those_on_the_path(self) -> None:
        from quincunx import _command

        with other_command(""):
            named = Path(os.environ.pop("QUINCUNX_COMMAND"))
            with mock.patch("sysconfig.get_path", return_value=str(named.parent)):
                self.assertEqual(_command.command(), named)
            with mock.patch("sysconfig.get_path", return_value="/nowhere"), mock.patch.dict(os.environ, PATH=str(named.parent)):
                self.assertEqual(_command.command(), named)

    def test_without_a_command_one_line_says_where_to_get_it(self) -> None:
        import quincunx

        with mock.patch.dict(os.environ, PATH="/nowhere"), mock.patch("sysconfig.get_path", return_value="/nowhere"):
            with self.assertRaisesRegex(FileNotFoundError, 'found none at "/nowhere/q" in QUINCUNX_COMMAND; correct'):
                with mock.patch.dict(os.environ, QUINCUNX_COMMAND="/nowhere/q"):
                    quincunx._command.command()
            del os.environ["QUINCUNX_COMMAND"]
            with self.assertRaisesRegex(FileNotFoundError, "found none in /nowhere or on the PATH; pip install quincunx.command"):
                quincunx._command.command()

    def test_importing_the_package_needs_neither_tables_nor_plots(self) -> None:
        found = python("import sys, quincunx; print({'pyarrow', 'matplotlib', 'numpy'} & set(sys.modules))")
        self.assertEqual((found.stdout, found.stderr), ("set()\n", ""))

    def test_without_pyarrow_or_matplotlib_one_line_says_which_extra_has_it(self) -> None:
        found = python("import sys; sys.modules['pyarrow'] = None; import quincunx; quincunx.sim('all_reduce')")
        self.assertIn("\nImportError: expected pyarrow for tables, found none; pip install quincunx[tables]\n", found.stderr)
        found = python("import sys; sys.modules['matplotlib'] = None; import quincunx.plots")
        self.assertIn("\nImportError: expected matplotlib for plots, found none; pip install quincunx[plots]\n", found.stderr)


@needs.modules("pyarrow")
class Tables(Analysed):
    def test_a_table_has_the_rows_of_the_command_with_all_that_is_in_them(self) -> None:
        import quincunx

        table = quincunx.sim("all_reduce", **SMALL)
        options = ["--fabric", "star-4", "--design", "epic-3,ring", "--size", "1KiB:16KiB:4", "--json"]
        printed = subprocess.run([os.environ["QUINCUNX_COMMAND"], "sim", "all_reduce", *options], capture_output=True, check=True).stdout
        self.assertEqual(table.to_pylist(), json.loads(printed)["rows"])
        self.assertEqual(len(table), 6)
        self.assertEqual(set(table["links"][0][0].as_py()), {"bytes", "name", "utilisation"})

    def test_what_else_the_command_says_is_in_the_schema(self) -> None:
        import quincunx

        told = json.loads(quincunx.reproduce("scin/fig9").schema.metadata[b"quincunx"])
        self.assertEqual((told["command"], told["arguments"]), ("reproduce", ["reproduce", "scin/fig9", "--json"]))
        self.assertEqual(told["totals"]["calibrated"], {"met": 1, "missed": 0, "independent": 1})

    def test_what_has_options_of_its_own_is_simulated_by_its_name(self) -> None:
        import quincunx

        table = quincunx.sim("traffic", fabric="star-4", pattern=["uniform", "neighbor"], load=[0.2, 0.5], packets=100)
        self.assertEqual(table.select(["pattern", "load"]).to_pylist()[1:3], [{"pattern": "uniform", "load": 0.5}, {"pattern": "neighbor", "load": 0.2}])

    def test_rows_need_not_have_the_same_keys(self) -> None:
        from quincunx import analysis

        rows = [{"a": 1}, {"a": None, "b": [{"c": 1}]}, {"b": []}]
        expected = [{"a": 1, "b": None}, {"a": None, "b": [{"c": 1}]}, {"a": None, "b": []}]
        self.assertEqual(analysis.table(rows).to_pylist(), expected)

    def test_what_the_command_refuses_is_an_error_with_its_line(self) -> None:
        import quincunx

        with self.assertRaises(quincunx.InputError) as caught:
            quincunx.sim("all_reduce", fabric="nowhere")
        self.assertIsInstance(caught.exception, ValueError)
        self.assertRegex(str(caught.exception), r'^expected a (?:preset|fabric).*"?nowhere"?[^\n]*$')
        with self.assertRaisesRegex(quincunx.InputError, "^unexpected argument '--fabrik' found"):
            quincunx.sim("all_reduce", fabrik="star-4")

    def test_a_check_that_finds_a_fault_has_it_in_its_table(self) -> None:
        import quincunx

        checked = {"tree": "star-2", "packets": 1}
        [right] = quincunx.check("epic-3", "all_reduce", **checked).to_pylist()
        [wrong] = quincunx.check("switchml-rules", "all_reduce", rule="one-pool").to_pylist()
        self.assertEqual((right["verdict"], right["counterexample"]), ("correct", None))
        self.assertEqual(wrong["verdict"], "wrong")
        self.assertGreater(len(wrong["counterexample"]), 3)

    def test_a_figure_that_is_missed_is_a_verdict_and_a_wrong_result_an_exception(self) -> None:
        import quincunx

        rows = [{"verdict": "missed", "wrong": 3}]
        body = f"print('''{json.dumps({'schema': 1, 'rows': rows})}''')\nprint('error: expected right results, found 3 wrong', file=sys.stderr)\nsys.exit(1)"
        with other_command(body):
            self.assertEqual(quincunx.reproduce("epic").to_pylist(), rows)
            with self.assertRaisesRegex(RuntimeError, "^expected right results, found 3 wrong$"):
                quincunx.sim("all_reduce")

    def test_a_wrong_result_without_rows_is_an_exception(self) -> None:
        import quincunx

        with other_command("print('error: out of luck', file=sys.stderr)\nsys.exit(1)"), self.assertRaisesRegex(RuntimeError, "^out of luck$"):
            quincunx.check("epic-3", "all_reduce")

    def test_an_interrupt_of_the_command_is_one_here(self) -> None:
        import quincunx

        with other_command("print('{\"rows\": []}')\nsys.exit(130)"), self.assertRaises(KeyboardInterrupt):
            quincunx.sim("all_reduce")

    def test_a_command_that_breaks_down_is_an_exception_with_what_it_said(self) -> None:
        import quincunx

        with other_command("print('panicked at src', file=sys.stderr)\nsys.exit(101)"):
            with self.assertRaisesRegex(RuntimeError, "found status 101: panicked at src"):
                quincunx.sim("all_reduce")

    def test_what_a_command_that_ends_well_says_beside_its_rows_is_a_warning(self) -> None:
        import quincunx

        with other_command("print('{\"rows\": []}')\nprint('not written', file=sys.stderr)"), self.assertWarnsRegex(UserWarning, "^not written$"):
            quincunx.check("epic-3", "all_reduce")

    def test_text_in_place_of_rows_is_refused(self) -> None:
        import quincunx

        with self.assertRaisesRegex(quincunx.InputError, "expected options with which the command prints rows"):
            quincunx.sim("all_reduce", help=True)

    def test_a_long_run_says_how_far_it_is_and_an_interrupt_ends_it_and_its_process(self) -> None:
        # An hour of simulation.
        script = "import quincunx; quincunx.sim('all_reduce', size='8GiB')"
        command = [sys.executable, "-c", script]
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE.parent))
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            told = b""
            while b"s  epic-3 8GiB: at " not in told:
                read = os.read(process.stderr.fileno(), 1000)
                self.assertTrue(read, told)
                told += read
            [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            process.send_signal(2)
            _, rest = process.communicate(timeout=LIMIT_SECONDS)
        self.assertTrue(told.startswith(b"\r0 of 1, "), told)
        self.assertIn(b"KeyboardInterrupt", rest)
        self.assertFalse(Path(f"/proc/{child}").exists())

    def test_curves_have_a_row_for_each_point(self) -> None:
        import quincunx

        [point] = quincunx.curves(quincunx.reproduce("scin/fig9")).to_pylist()
        expected = {"paper": "scin", "id": "fig9", "axis": "size", "x": 4096.0, "value": "4KiB", "published": 2.62, "quantity": "time (us)"}
        self.assertEqual({name: point[name] for name in expected}, expected)
        self.assertAlmostEqual(point["ours"], 2.65, places=2)

    def test_curves_of_another_table_are_refused(self) -> None:
        import pyarrow
        import quincunx

        with self.assertRaisesRegex(ValueError, r"expected a table of reproduce\(\), found one without curves"):
            quincunx.curves(pyarrow.table({"a": [1]}))


@needs.modules("pyarrow", "pandas")
class Pandas(Analysed):
    def test_pandas_reads_a_table(self) -> None:
        import quincunx

        frame = quincunx.sim("all_reduce", **SMALL).to_pandas()
        self.assertEqual(list(frame[frame.design == "ring"]["size"]), [1024, 4096, 16384])
        self.assertGreater(frame.links[0][0]["bytes"], 1024)


@needs.modules("pyarrow", "polars")
class Polars(Analysed):
    def test_polars_reads_a_table(self) -> None:
        import polars
        import quincunx

        frame = polars.from_arrow(quincunx.sim("all_reduce", **SMALL))
        self.assertEqual(frame.filter(polars.col("design") == "ring")["size"].to_list(), [1024, 4096, 16384])
        self.assertGreater(frame["links"][0][0]["bytes"], 1024)


def point(*, first: int, second: str, **_: object):
    """What a sweep calls in place of a simulation: combinations begun first end last."""
    from quincunx import analysis

    time.sleep(0.05 * (3 - first))
    if second == "bad":
        raise ValueError("no such thing")
    return analysis.table([{"first": first * 10, "here": f"{first}{second}"}])


@needs.modules("pyarrow")
class Sweeps(Analysed):
    def test_every_combination_is_a_call_and_what_rows_lack_is_a_column(self) -> None:
        import quincunx

        calls = {"collective": "all_reduce", "fabric": ["star-2", "star-4"], "size": ["1KiB", "4KiB"], "set": {"link.rate": ["1Gbit/s", "2Gbit/s"]}}
        table = quincunx.sweep(quincunx.sim, **calls, design="epic-3")
        rows = table.select(["fabric", "size", "link.rate"]).to_pylist()
        expected = [{"fabric": f, "size": s, "link.rate": r} for f in ("star-2", "star-4") for s in (1024, 4096) for r in ("1Gbit/s", "2Gbit/s")]
        self.assertEqual(rows, expected)
        times = table["time_us"].to_pylist()
        self.assertGreater(times[2], times[3])

    def test_rows_are_in_the_order_of_combinations_whichever_call_ends_first(self) -> None:
        import quincunx

        with concurrent.futures.ThreadPoolExecutor(6) as executor:
            table = quincunx.sweep(point, first=[1, 2, 3], second=["a", "b"], third="c", executor=executor)
        self.assertEqual(table["here"].to_pylist(), ["1a", "1b", "2a", "2b", "3a", "3b"])
        self.assertEqual(table.column_names, ["first", "second", "here"])
        self.assertEqual(table["first"].to_pylist(), [10, 10, 20, 20, 30, 30])

    def test_processes_can_share_the_calls(self) -> None:
        import quincunx

        calls = {"collective": "all_reduce", "fabric": "star-2", "design": ["ring", "tree"], "size": "1KiB"}
        with concurrent.futures.ProcessPoolExecutor(2) as executor:
            table = quincunx.sweep(quincunx.sim, **calls, executor=executor)
        self.assertEqual(table["design"].to_pylist(), ["ring", "tree"])

    def test_an_error_says_at_which_point_and_cancels_the_rest(self) -> None:
        import quincunx

        begun = []

        def call(*, number: int):
            begun.append(number)
            return point(first=3, second="bad")

        for executor in (None, concurrent.futures.ThreadPoolExecutor(1)):
            begun.clear()
            with self.assertRaisesRegex(ValueError, "^no such thing$") as caught:
                quincunx.sweep(call, number=list(range(100)), executor=executor)
            self.assertEqual(caught.exception.__notes__, ["at number=0"])
            if executor:
                executor.shutdown()
            self.assertLess(len(begun), 50)

    def test_values_of_several_kinds_are_a_column_of_texts(self) -> None:
        import quincunx
        from quincunx import analysis

        table = quincunx.sweep(lambda **_: analysis.table([{"here": 1}]), loss=[None, 0.5, "1%@2"], seed=[1], full=[False])
        self.assertEqual(table["loss"].to_pylist(), [None, "0.5", "1%@2"])
        self.assertEqual((table["seed"].to_pylist(), table["full"].to_pylist()), ([1] * 3, [False] * 3))

    def test_an_axis_may_be_of_dicts(self) -> None:
        import quincunx
        from quincunx import analysis

        table = quincunx.sweep(lambda deployment: analysis.table([{"here": deployment["tp"]}]), deployment=[{"tp": 1}, {"tp": 2}])
        self.assertEqual(table.to_pylist(), [{"deployment": '{"tp": 1}', "here": 1}, {"deployment": '{"tp": 2}', "here": 2}])

    def test_a_value_that_has_no_text_is_refused_before_a_call(self) -> None:
        import quincunx

        with mock.patch.object(quincunx.analysis, "_quietly", side_effect=AssertionError), self.assertRaisesRegex(TypeError, "found set; convert it"):
            quincunx.sweep(quincunx.sim, collective="all_reduce", seed=[1, {2}])

    def test_an_axis_without_values_is_refused(self) -> None:
        import quincunx

        with self.assertRaisesRegex(ValueError, "expected values of link.rate, found an empty list"):
            quincunx.sweep(quincunx.sim, collective="all_reduce", set={"link.rate": []})

    def test_a_long_sweep_says_how_many_points_are_done_and_its_calls_say_nothing(self) -> None:
        import io

        import quincunx
        from quincunx import _command, analysis

        quiet = []

        def call(**_: object):
            quiet.append(_command.quiet.get())
            return analysis.table([{"here": threading.get_ident()}])

        told = io.StringIO()
        with mock.patch("sys.stderr", told), mock.patch.object(analysis, "QUIET_SECONDS", 0):
            quincunx.sweep(call, first=[1, 2])
        self.assertEqual(told.getvalue().replace("\r", "|").rstrip(" |"), "|1 of 2 points|2 of 2 points")
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            quincunx.sweep(call, first=3, executor=executor)
        self.assertEqual(quiet, [True, True, True])


if __name__ == "__main__":
    unittest.main()
