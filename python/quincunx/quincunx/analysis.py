"""Simulations, model checks and published figures as tables of Arrow, from the `quincunx` command.

    import quincunx

    table = quincunx.sim("all_reduce", fabric="epic-star8", design=["epic-3", "ring"], size="4KiB:16MiB:4")
    table.select(["design", "size", "time_us"]).to_pandas()

Each call runs the command as a process of its own, `quincunx_command` of pip's or the program that the environment names in QUINCUNX_COMMAND:
one with designs of your own (`examples/own-design`) knows them here, too. Keywords are the command's options, as `quincunx sim --help`
lists them, and so are defaults: `early_timeouts=1` is `--early-timeouts 1`, a list is joined by commas, True is a flag, None and False are
nothing, and a dict gives the option again for each pair: `set={"link.rate": "200Gbit/s"}`.

Columns are the keys of the command's rows; `links` and the like are lists of structs. What else the command says (its `version` and
`arguments`, the `machine`, `totals`, `curves`) is JSON in the table's schema: `table.schema.metadata[b"quincunx"]`.

Needs pyarrow: `pip install quincunx[tables]`; and the command: `pip install quincunx[command]`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quincunx import _command, _kept

if TYPE_CHECKING:
    import pyarrow

__all__ = ["check", "cluster", "curves", "jobs", "kept", "plan", "predict", "reproduce", "sim", "sweep"]

Value = str | int | float | bool | PathLike[str] | None
Option = Value | Sequence[Value] | Mapping[str, Value | Sequence[Value]]

METADATA = b"quincunx"

# A sweep that is over by then says nothing of how far it is.
QUIET_SECONDS = 2


def sim(collective: str, **options: Option) -> pyarrow.Table:
    """Simulates a collective: a row for each design and size. `traffic`, `train` and `layer` are simulated by the same name and with the
    options of `quincunx sim traffic` and so on.

        quincunx.sim("all_reduce", fabric="tree-3-4", design=["epic-3", "ring"], size="64KiB:16MiB:4", loss="1%@2", seeds=8)
        quincunx.sim("layer", model="llama-7b", sublayer="L2", design=["cais", "tp-nvls"])

    Of a collective: `size` in bytes, `time_us` in microseconds (a mean with `seeds`, with its `time_stderr_us`), `algbw_GBps`, `busbw_GBps`
    and `netbw_GBps` in 10^9 bytes a second, `wrong` elements (null if only lengths travelled), and for each of the `links` its `name`,
    `bytes`, and `utilisation` from 0 to 1.

    Raises InputError (a ValueError) for what the command refuses, RuntimeError if a result is wrong, FileNotFoundError without a command,
    ImportError without pyarrow, and KeyboardInterrupt.
    """
    return _table("sim", collective, wrong_is_error=True, **options)


def jobs(jobs: str | PathLike[str] | Mapping[str, Any], **options: Option) -> pyarrow.Table:
    """Simulates several collectives and other traffic on one fabric: a row for each job. `jobs` is a file as `quincunx sim jobs` takes it, or
    what is in one:

        quincunx.jobs("examples/jobs/leaf-spine-64.toml", alone=True)
        ring = {"hosts": "0-7", "collective": "all_reduce", "size": "1MiB", "design": "ring"}
        traffic = {"pattern": "uniform", "hosts": "8-63", "load": 0.3}
        quincunx.jobs({"fabric": "leaf-spine-8x4x8", "job": [ring, ring | {"hosts": "8-15", "at": "20us"}], "traffic": [traffic]})

    Of a job: what it is, its `design` or what it fell back to, `time_us` in microseconds (a mean over its `times`), with `alone` also how
    much longer that is than by itself, and `wrong` elements. Traffic and links are in the table's metadata.

    Raises what `sim` raises, and TypeError for a value that TOML has no form for.
    """
    with _file(jobs, "jobs") as named:
        return _table("sim", "jobs", named, wrong_is_error=True, **options)


def cluster(cluster: str | PathLike[str], **options: Option) -> pyarrow.Table:
    """Simulates the jobs of a cluster by flows: a row for each job, policy and size of switch memory. `cluster` is a preset or a file as
    `quincunx sim cluster` takes it:

        quincunx.cluster("epic-128", policy=["ring", "temporal"], memory_units=[4, 8])
        quincunx.cluster("epic-2048", set={"trace.jobs": 200}, seed=7)

    Of a job: `policy`, `units`, `job`, `model`, `gpus`, and in seconds `jct_s`, from its arrival to its end, `wait_s`, `arrived_s`, `began_s` and
    `ended_s`; `in_network` is the share of its collectives that ran in switches; `restarts` and `lost_s` say how often it lost an accelerator and began
    an iteration again, and how long those iterations had run. What jobs came to together is in the table's metadata: `runs`.

    Raises what `sim` raises.
    """
    return _table("sim", "cluster", _command.text(cluster), wrong_is_error=True, **options)


def predict(deployment: str | PathLike[str] | Mapping[str, Any], **options: Option) -> pyarrow.Table:
    """Predicts a step of a language model on a network: a row for each design. `deployment` is a preset or a file as `quincunx predict` takes it,
    or a dict of what is in one; paths in it are relative to the working directory:

        quincunx.predict("scin-llama2", model="llama2-7b", batch=1, prompt=128)
        network = {"fabric": "scin-dgx8", "designs": ["ring", "scin"]}
        step = {"batch": 8, "prompt": 1024}
        quincunx.predict({"model": "./config.json", "gpu": "h200", "split": {"tp": 8}, "network": network, "inference": step})

    Of all: `design`, `model`, and `baseline`, the design that is named first. `exchanges` is a list of structs: `phase`, `what`, `group`,
    `collective`, its `ranks`, its `bytes`, how many `times` a step has it, and `each_us`, microseconds of one.

    Of inference: `batch` in sequences and `prompt` in tokens. `ttft_ms` is the time to the first token and `tpot_ms` from one token to the next,
    both in milliseconds. `ttft_share` and `tpot_share`, from 0 to 1, are the parts of them in which accelerators wait for the network;
    `ttft_speedup` and `tpot_speedup` are the baseline's time over this one's. `tokens_per_second` is of answers, of the whole batch.
    `prefill_computation` and `decode_computation` say what the time of computing is from: "measured", "between measured" or "roofline".

    Of serving: `requests_per_second` that come; in milliseconds medians and 99th percentiles of all requests, `ttft_p50_ms`, `ttft_p99_ms`,
    `tpot_p50_ms` and `tpot_p99_ms`; the baseline's medians over these, `ttft_p50_speedup` and `tpot_p50_speedup`; `share`, from 0 to 1, of the network in
    the time with something to do, and `busy`, its share of all time; the most answers `together`; `tokens_per_second` of answers, and `drained_s`,
    seconds from the last arrival to the last token.

    Of training, in seconds: `iteration_s`, in it `compute_s` of the longest stage, `within_s` of what layers and experts exchange, `bubble_s`
    in which stages wait for each other, and `exposed_s`, the part of `replicas_s` that nothing hides. `share`, from 0 to 1, is the network's part of the iteration, `saved`
    the part of the baseline's iteration that is no longer there; `tokens_per_second` is of the whole batch, and `computation` as above.

    What `sweep={"inference.batch": [1, 8]}` sets has columns of that name, as texts. `quincunx.sweep(quincunx.predict, ...)` does it, too.

    Raises what `sim` raises, and TypeError for a value that TOML has no form for.
    """
    with _file(deployment, "deployment") as named:
        return _table("predict", named, wrong_is_error=True, **options)


def plan(deployment: str | PathLike[str] | Mapping[str, Any] | None = None, **options: Option) -> pyarrow.Table:
    """Whether a design is worth it for a model on a cluster: a row for each design. `deployment` is a preset, a file, or a dict of what is in one;
    without it a cluster is asked what people ask first of a model there:

        quincunx.plan(cluster="epic-star8", model="llama3-8b")

    Of a design: `switches` that take part, by name, their `ports`, `switch_memory_bytes` of the fullest (null if they forward only), and in
    milliseconds the times that are asked for: `ttft_ms` and `tpot_ms`, `median_ttft_ms` and `median_tpot_ms`, `iteration_ms`. The table's
    metadata has `advice`: its `answer`, the `design` and the `baseline`, what is `saved` as shares, at `least`, `expected` and at `most`,
    `changes` that would change the answer, and all of it in `words`.

    Raises what `predict` raises.
    """
    if deployment is None:
        return _table("plan", wrong_is_error=True, **options)
    with _file(deployment, "deployment") as named:
        return _table("plan", named, wrong_is_error=True, **options)


def check(design: str, collective: str, **options: Option) -> pyarrow.Table:
    """Explores every run of a small group: one row.

        quincunx.check("epic-3", "all_reduce", tree="star-2", losses=1)["verdict"]

    `verdict` is correct, wrong, never-mattered (of a rule that `mutate` breaks) or unfinished (`memory` was too little), and no exception
    whichever it is; `fault` and `counterexample`, a list of steps, say what is wrong. `seconds` is what it took, `states` how many were
    visited, `distinct` how many were kept.

    Raises InputError for what the command refuses, FileNotFoundError without a command, ImportError without pyarrow, KeyboardInterrupt.
    """
    return _table("check", design, collective, wrong_is_error=False, **options)


def reproduce(experiment: str | None = None) -> pyarrow.Table:
    """Published figures and ours, a row for each: of `"scin/fig9"`, of all of `"scin"`, or of all papers.

        figures = quincunx.reproduce("epic/table25")
        quincunx.plots.published(figures)

    Times are in microseconds, shares and speedups are ratios. `error` is relative, `verdict` met or missed (which is no exception), and
    `kind` says whether the figure was predicted, or calibrated by; see `quincunx reproduce --help`. `curves` has the figures' points.

    Raises InputError for an experiment that is not there, FileNotFoundError without a command, ImportError without pyarrow, KeyboardInterrupt.
    """
    return _table("reproduce", *[] if experiment is None else [experiment], wrong_is_error=False)


def curves(figures: pyarrow.Table) -> pyarrow.Table:
    """The lines of what `reproduce` returned, a row for each point.

        quincunx.curves(quincunx.reproduce("scin/fig9")).select(["label", "x", "ours", "published"])

    `paper`, `id`, `title` and `source` say which figure; `label`, `design`, `baseline` and `kind` which line; `x` is the value on `axis` (null if
    it is none with an order; `value` is its text), `ours` and `published` (null if it is ours alone) are in the unit of `quantity`. `summary` is what the paper says of the whole line, such as its best.

    Raises ValueError for a table that has come from elsewhere.
    """
    found = _metadata(figures).get("curves")
    if found is None:
        raise ValueError("expected a table of reproduce(), found one without curves; joins and aggregations lose them, so call it before")
    lines = [{key: value for key, value in line.items() if key != "points"} for line in found]
    return table([{**line, **point} for line, of in zip(lines, found) for point in of["points"]])


def sweep(
    function: Callable[..., pyarrow.Table], /, *, executor: Executor | None = None, keep: str | PathLike[str] | None = None, **options: Any
) -> pyarrow.Table:
    """Calls `sim`, `predict`, `check` or a function of yours with every combination of the options that are lists, one call each, and puts
    their rows into one table.

        quincunx.sweep(quincunx.sim, collective="all_reduce", design=["epic-3", "ring"], set={"link.rate": ["100Gbit/s", "400Gbit/s"]})
        quincunx.sweep(quincunx.predict, deployment="scin-llama2", batch=[1, 8, 32], executor=executor, keep="batches")

    A list within `set` is an axis, too. What the rows do not say already gets a column: here `link.rate`. Rows are in the order of
    combinations, the last axis changes fastest, whichever call ends first. A call is a process, and one of one design and size is busy on one
    processor: `concurrent.futures.ThreadPoolExecutor()` uses all of them, and other executors those of other machines. With an executor of
    processes `function` must be picklable.

    `keep` names a folder, in which each point's table is kept as soon as it is done. A call finds what is there and does the rest: after
    Ctrl-C, a kill, or a point that failed. A point is known by the function and its source, its options with what is in files that they name,
    and the bytes of the command; what else decides it (files that those files name, what a function of yours calls) is not seen: name another folder
    when that changes. Workers must have the same command. `kept` reads the folder as one table, and `manifest.jsonl` in it says which file is which point.

    After two seconds a line on standard error says how far it is. Raises what a call raises, with a note that says at which point; calls that
    have not begun are cancelled then. With `keep` the other points are done all the same, and all that failed are raised in an ExceptionGroup.
    Raises ValueError if a list is empty or `keep` is a file, and with `keep` TypeError for options that are neither texts, numbers nor paths.
    """
    axes = {name: value for name, value in options.items() if isinstance(value, (list, tuple))}
    keys = options.get("set")
    if isinstance(keys, Mapping):
        axes.update({key: value for key, value in keys.items() if isinstance(value, (list, tuple))})
    if empty := [name for name, values in axes.items() if not values]:
        raise ValueError(f"expected values of {empty[0]}, found an empty list; give at least one")
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    labels = [dict(zip(axes, values)) for values in itertools.product(*map(_column, axes.values()))]
    calls = [_call(options, point) for point in points]
    folder = None if keep is None else _kept.Folder(keep, function)
    # Of a point that is there twice one call is made, if its table can be kept.
    ids: list[Any] = list(range(len(calls))) if folder is None else list(map(folder.key, calls))
    places = {each: place for place, each in enumerate(ids)}
    tables: dict[Any, pyarrow.Table] = {}
    failed: dict[Any, Exception] = {}
    line, began = _command.Line(), time.monotonic()
    if folder is not None:
        tables = {each: found for each, place in places.items() if (found := folder.read(each, calls[place])) is not None}
    missing = {each: calls[place] for each, place in places.items() if each not in tables}

    def add(each: Any, result: Callable[[], pyarrow.Table]) -> None:
        try:
            found = result()
        except BaseException as error:
            error.add_note("at " + ", ".join(f"{name}={value}" for name, value in points[places[each]].items()))
            # Without executors that work no other point will be done.
            if folder is None or not isinstance(error, Exception) or isinstance(error, (BrokenExecutor, CancelledError)):
                raise
            folder.fail(missing[each], error)
            failed[each] = error
        else:
            if folder is not None:
                folder.write(each, missing[each], found)
            tables[each] = found
        if time.monotonic() - began > QUIET_SECONDS and not _command.quiet.get():
            line.show(f"{len(tables) + len(failed)} of {len(places)} points")

    futures: dict[Future[pyarrow.Table], Any] = {}
    try:
        if executor is None:
            for each, call in missing.items():
                add(each, functools.partial(_quietly, function, call))
        else:
            for each, call in missing.items():
                futures[executor.submit(_quietly, function, call)] = each
            for future in as_completed(futures):
                add(futures[future], future.result)
    except BaseException:
        for future, each in futures.items():
            # What is under way goes on to its end, and what has ended meanwhile is kept, too.
            if not future.cancel() and folder is not None and each not in tables:
                future.add_done_callback(functools.partial(_keep, folder, each, missing[each]))
        raise
    finally:
        line.clear()
    if failed:
        told = f"expected tables of {len(places)} points, found {len(failed)} that failed; the others are kept in {keep}: call again to do these alone"
        raise ExceptionGroup(told, [failed[each] for each in places if each in failed])
    rows = [{**label, **row} for each, label in zip(ids, labels) for row in tables[each].to_pylist()]
    return table(rows)


def kept(folder: str | PathLike[str]) -> pyarrow.Table:
    """All points that sweeps have kept in a folder as one table, in the order in which they were done.

        quincunx.kept("batches").to_pandas()

    Beside what a point's rows say there are columns for its options, a list or a dict as text, `function`, and `build`, a hash of the command:
    of a folder in which several have left points choose one. What is damaged is passed over.

    Raises FileNotFoundError if there are no points.
    """
    _arrow()
    points = _kept.points(folder)
    flat = [_flat(point["options"]) for point, _ in points]
    names = dict.fromkeys(name for options in flat for name in options)
    columns = {name: _column([options.get(name) for options in flat]) for name in names}
    labels = [{name: columns[name][place] for name in options} for place, options in enumerate(flat)]
    said = [{"function": point["function"], "build": point["build"]} for point, _ in points]
    return table([{**which, **label, **row} for which, label, (_, of) in zip(said, labels, points) for row in of.to_pylist()])


def table(rows: Sequence[Mapping[str, Any]], **metadata: Any) -> pyarrow.Table:
    """Rows that may have different keys as a table; what a row lacks is null."""
    arrow = _arrow()
    names: Iterable[str] = dict.fromkeys(name for row in rows for name in row)
    found = arrow.table({name: [row.get(name) for row in rows] for name in names})
    return found.replace_schema_metadata({METADATA: json.dumps(metadata)}) if metadata else found


def _table(*words: str, **options: Any) -> pyarrow.Table:
    _arrow()
    printed = _command.run(*words, **options)
    return table(printed.pop("rows"), **printed)


@contextlib.contextmanager
def _file(given: str | PathLike[str] | Mapping[str, Any], name: str) -> Iterator[str]:
    """What is named, or while this holds a file of what is given."""
    if not isinstance(given, Mapping):
        yield _command.text(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text("\n".join(_toml(given)) + "\n", encoding="utf-8")
        yield str(file)


def _toml(given: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Lines of a document, or of the table whose name is above: values first, then tables and lists of tables."""

    def is_tables(each: Any) -> bool:
        return isinstance(each, (list, tuple)) and len(each) > 0 and all(isinstance(one, Mapping) for one in each)

    tables = {key: each for key, each in given.items() if isinstance(each, Mapping) or is_tables(each)}
    for key, each in given.items():
        if key not in tables:
            yield f"{_toml_text(key)} = {_toml_value(key, each)}"
    for key, each in tables.items():
        name = f"{above}{_toml_text(key)}"
        for one in [each] if isinstance(each, Mapping) else each:
            yield f"[{name}]" if isinstance(each, Mapping) else f"[[{name}]]"
            yield from _toml(one, f"{name}.")


def _toml_value(key: str, value: Any) -> str:
    if isinstance(value, (str, PathLike)):
        return _toml_text(_command.text(value))
    # Numbers and truth are written as JSON has them, but for what is no number.
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml_value(key, each) for each in value)}]"
    raise TypeError(f"expected a text, a number, True or False, or a list or a dict of them for {key}, found {value!r}; convert it")


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, but for halves of characters, which it need not write, and for one character, which it does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _metadata(of: pyarrow.Table) -> dict[str, Any]:
    return json.loads((of.schema.metadata or {}).get(METADATA, b"{}"))


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("expected pyarrow for tables, found none; pip install quincunx[tables]") from None
    return pyarrow


def _call(options: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """The options with one value of each axis."""

    def chosen(name: str, value: Any) -> Any:
        if name == "set" and isinstance(value, Mapping):
            return {key: point.get(key, each) for key, each in value.items()}
        return point.get(name, value)

    return {name: chosen(name, value) for name, value in options.items()}


def _quietly(function: Callable[..., pyarrow.Table], call: Mapping[str, Any]) -> pyarrow.Table:
    """One point, in whichever thread or process: the sweep says how far it is, and its calls do not."""
    token = _command.quiet.set(True)
    try:
        return function(**call)
    finally:
        _command.quiet.reset(token)


def _keep(folder: _kept.Folder, each: str, call: Mapping[str, Any], future: Future[pyarrow.Table]) -> None:
    """Keeps what a call came to that nobody waits for any more."""
    if not future.cancelled() and future.exception() is None:
        folder.write(each, call, future.result())


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a point, and those of its `set`, as values of columns."""
    keys = options.get("set")
    found = {**options, **keys} if isinstance(keys, Mapping) else dict(options)
    if isinstance(keys, Mapping):
        del found["set"]
    return found


def _column(values: Sequence[Any]) -> list[Any]:
    """Values of an axis as a column: as they are if all are numbers or all are texts, otherwise as the command got them, and dicts as JSON."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in present) or all(isinstance(value, (int, float)) for value in present):
        return list(values)
    texts = [json.dumps(value, default=_command.text) if isinstance(value, Mapping) else _command.text(value) for value in present]
    return [None if value is None else texts.pop(0) for value in values]
