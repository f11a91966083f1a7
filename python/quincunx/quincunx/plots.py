"""Plots of tables that `quincunx.sim`, `sweep` and `reproduce` return, as a paper could print them.

    from quincunx import plots

    table = quincunx.sim("all_reduce", design=["epic-3", "ring"], size="4KiB:16MiB:4")
    plots.save(plots.bandwidth(table), "bandwidth.pdf")

Tables are those of pyarrow, pandas or polars. `ax` is where to draw; without it there is a new figure. A design has the same colour and marker
in all plots: those in `STYLES`, and others the next that is free. Needs matplotlib: `pip install quincunx[plots]`.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from quincunx import analysis

try:
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
except ImportError:
    raise ImportError("expected matplotlib for plots, found none; pip install quincunx[plots]") from None

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")

__all__ = ["STYLES", "bandwidth", "lines", "published", "save", "speedup", "time"]

# Colour and marker of a design. Colours are told apart by whoever sees fewer of them, too (Okabe and Ito); kin are shades of one.
STYLES: dict[str, tuple[str, str]] = {
    "epic-1": ("#56B4E9", "v"),
    "epic-2": ("#0072B2", "s"),
    "epic-3": ("#003A6B", "o"),
    "epic-mixed": ("#9AD0F5", "^"),
    "netreduce": ("#009E73", "P"),
    "multiwrite": ("#CC79A7", "*"),
    "unicast-multipath": ("#7A3B62", "X"),
    "writes": ("#E8B4D0", "p"),
    "scin": ("#009E73", "o"),
    "scin-inq": ("#6BCFA8", "s"),
    "nvls": ("#E69F00", "^"),
    "cais": ("#0072B2", "D"),
    "ring": ("#D55E00", "D"),
    "ring-rq": ("#F4A582", "d"),
    "tree": ("#B8860B", "<"),
    "double-tree": ("#8B5A00", ">"),
    "halving-doubling": ("#CC6677", "P"),
    "direct": ("#7F7F7F", "X"),
}
_FREE_COLOURS = ("#332288", "#AA4499", "#117733", "#882255", "#999933", "#44AA99", "#661100", "#88CCEE")
_FREE_MARKERS = ("h", ">", "8", "H", "p", "d", "<", "P")

_LOOK: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E1E1E1",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "legend.frameon": False,
}

# What an axis of a column is called.
_NAMES = {
    "time_us": "time (us)",
    "algbw_GBps": "algbw (GB/s)",
    "busbw_GBps": "busbw (GB/s)",
    "netbw_GBps": "netbw (GB/s)",
    "ttft_ms": "time to the first token (ms)",
    "tpot_ms": "time of a token (ms)",
    "ttft_share": "the network's share of the first token",
    "tpot_share": "the network's share of a token",
    "tokens_per_second": "tokens a second",
    "iteration_s": "iteration (s)",
}

# How what was published is drawn: a mark around ours, an outline of a bar.
_HOLLOW: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 9, "fillstyle": "none"}
_OUTLINE: dict[str, Any] = {"fill": False, "edgecolor": "black", "linestyle": (0, (3, 2))}

# From such a ratio of the greatest to the least on, an axis is logarithmic.
_WIDE = 8


def _in_our_look(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    @functools.wraps(draw)
    def drawn(*arguments: Given.args, **options: Given.kwargs) -> Drawn:
        with matplotlib.rc_context(_LOOK):
            result = draw(*arguments, **options)
            # The first figure makes a notebook show all of them; what the context puts back must not undo that.
            is_interactive = matplotlib.is_interactive()
        matplotlib.interactive(is_interactive)
        return result

    return drawn


def time(table: Any, *, over: str = "size", ax: Axes | None = None) -> Axes:
    """Time in microseconds over size, on logarithmic axes: a line a design, with standard errors where there are several seeds."""
    return lines(table, "time_us", over=over, ax=ax)


def bandwidth(table: Any, quantity: str = "busbw_GBps", *, over: str = "size", ax: Axes | None = None) -> Axes:
    """Bandwidth over size: a line a design. `quantity` is `algbw_GBps`, `busbw_GBps` or `netbw_GBps`, in 10^9 bytes a second."""
    return lines(table, quantity, over=over, ax=ax)


@_in_our_look
def lines(table: Any, quantity: str, *, over: str = "size", ax: Axes | None = None) -> Axes:
    """Any column over another, a line a design.

        plots.lines(quincunx.sweep(quincunx.sim, collective="all_reduce", design=["epic-3", "ring"], loss=["0%", "1%", "5%"]), "time_us", over="loss")

    Rows of one design and one value that differ in `seed` are one point, their mean, with its standard error; so is a row of a run with `seeds`.
    Raises ValueError for rows that differ in more, or without these columns.
    """
    points = _points(_rows(table, "design", over, quantity), quantity, over)
    ax = _axes(ax)
    order = _order(x for of in points.values() for x in of)
    for design, of in points.items():
        xs = sorted(of, key=order.index)
        means, errors = zip(*(of[x] for x in xs))
        colour, marker = style(design)
        bars = errors if any(errors) else None
        at = [order.index(x) for x in xs] if _is_text(order) else xs
        ax.errorbar(at, means, yerr=bars, label=design, color=colour, marker=marker, capsize=2)
    _scale(ax, order, over)
    _scale_values(ax, [mean for of in points.values() for mean, _ in of.values()], is_time=quantity.endswith(("_us", "_ms", "_s")))
    ax.set_ylabel(_NAMES.get(quantity, quantity))
    ax.legend()
    return ax


@_in_our_look
def speedup(table: Any, baseline: str, quantity: str = "time_us", *, over: str = "size", ax: Axes | None = None) -> Axes:
    """Bars: how many times as fast as `baseline` each design is, for each value of `over`. `quantity` is a column of times, such as `tpot_ms`.

    Raises ValueError if a value has no time of the baseline, or there is nothing else.
    """
    points = _points(_rows(table, "design", over, quantity), quantity, over)
    order = _order(x for of in points.values() for x in of)
    others = [design for design in points if design != baseline]
    if not others:
        raise ValueError(f'expected designs beside "{baseline}", found none; simulate another one')
    if missing := [x for x in order if x not in points.get(baseline, {})]:
        raise ValueError(f'expected times of "{baseline}", found none for {over} {_spoken(missing[0], over)}; name another baseline')
    ax = _axes(ax)
    width = 0.8 / len(others)
    for place, design in enumerate(others):
        xs = [x for x in order if x in points[design]]
        at = [order.index(x) + (place - (len(others) - 1) / 2) * width for x in xs]
        heights = [points[baseline][x][0] / points[design][x][0] for x in xs]
        ax.bar(at, heights, width=width * 0.92, label=design, color=style(design)[0])
    ax.axhline(1, color="black", linewidth=0.8)
    _name_places(ax, [_spoken(x, over) for x in order])
    ax.set_xlabel(over)
    ax.set_ylabel(f"speedup over {baseline}")
    ax.legend()
    return ax


@_in_our_look
def published(figures: Any) -> Figure:
    """What `quincunx.reproduce` returned: ours as lines or full bars, what was published as hollow marks or bars, a panel for each figure and
    quantity. Calibrated lines say so. Raises ValueError for a table that has come from elsewhere."""
    panels: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for point in analysis.curves(figures).to_pylist():
        panels.setdefault((point["paper"], point["id"], point["quantity"], point["axis"]), []).append(point)
    columns = min(len(panels), 2)
    rows = -(-len(panels) // max(columns, 1))
    figure, grid = pyplot.subplots(rows, columns, figsize=(5.4 * columns, 3.6 * rows), layout="constrained", squeeze=False)
    for ax in grid.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, ((paper, name, quantity, axis), points) in zip(grid.flat, panels.items()):
        _panel(ax, points, axis)
        ax.set_title(f"{paper}/{name}: {points[0]['title']}", fontsize=9, wrap=True)
        ax.set_xlabel(axis)
        ax.set_ylabel(quantity)
    return figure


def save(drawn: Axes | Figure, path: str | PathLike[str]) -> None:
    """Writes a plot as PDF, SVG or PNG, as the name ends. Fonts are embedded as TrueType, which publishers ask for; text in SVG stays text."""
    with matplotlib.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}):
        # Of axes the figure, or the part of one that they are in; of either the whole.
        drawn.figure.figure.savefig(path, dpi=200)


def style(design: str) -> tuple[str, str]:
    """Colour and marker of a design."""
    if design not in STYLES:
        taken = {found for found in STYLES.values()}
        pairs = ((colour, _FREE_MARKERS[(place + turn) % 8]) for turn in range(8) for place, colour in enumerate(_FREE_COLOURS))
        STYLES[design] = next((pair for pair in pairs if pair not in taken), ("#000000", "."))
    return STYLES[design]


def _axes(ax: Axes | None) -> Axes:
    return ax or pyplot.subplots(figsize=(5.4, 3.6), layout="constrained")[1]


def _rows(table: Any, *columns: str) -> list[dict[str, Any]]:
    arrow = analysis._arrow()
    found = table if isinstance(table, arrow.Table) else arrow.table(table)
    if missing := [name for name in columns if name not in found.column_names]:
        raise ValueError(f'expected a column "{missing[0]}", found {", ".join(found.column_names)}; name one of these, or add it')
    if not found.num_rows:
        raise ValueError("expected rows, found an empty table; filter less")
    return found.to_pylist()


def _points(rows: Iterable[Mapping[str, Any]], quantity: str, over: str) -> dict[str, dict[Any, tuple[float, float]]]:
    """By design and value: mean and standard error."""
    groups: dict[str, dict[Any, list[Mapping[str, Any]]]] = {}
    for row in rows:
        groups.setdefault(row["design"], {}).setdefault(row[over], []).append(row)
    return {design: {x: _mean(of, quantity, f"{design}, {over} {x}") for x, of in values.items()} for design, values in groups.items()}


def _mean(rows: list[Mapping[str, Any]], quantity: str, where: str) -> tuple[float, float]:
    if len({row.get("seed") for row in rows}) < len(rows):
        raise ValueError(f"expected rows that differ in seed alone, found {len(rows)} of {where}; filter the table, or plot over what they differ in")
    values = [float(row[quantity]) for row in rows]
    if len(values) > 1:
        return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    # A bandwidth is as uncertain as its time.
    [row] = rows
    return values[0], values[0] * (row.get("time_stderr_us") or 0.0) / row["time_us"] if row.get("time_us") else 0.0


def _order(values: Iterable[Any]) -> list[Any]:
    """Numbers by size, texts as they come."""
    found = list(dict.fromkeys(values))
    return found if _is_text(found) else sorted(found)


def _is_text(values: Iterable[Any]) -> bool:
    return not all(isinstance(value, (int, float)) for value in values)


def _scale(ax: Axes, order: list[Any], over: str) -> None:
    """The axis of values: sizes and what grows by factors logarithmic, texts one beside the other."""
    if _is_text(order):
        _name_places(ax, [_spoken(x, over) for x in order])
    elif order[0] > 0 and order[-1] / order[0] >= _WIDE:
        ax.set_xscale("log", base=2)
        step = -(-len(order) // 8)
        ax.xaxis.set_major_locator(FixedLocator(order[::step]))
        ax.xaxis.set_major_formatter(FixedFormatter([_spoken(x, over) for x in order[::step]]))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(_NAMES.get(over, over))


def _scale_values(ax: Axes, values: list[float], *, is_time: bool) -> None:
    """The other axis: times that grow by factors logarithmic, everything else from zero."""
    if is_time and min(values) > 0 and max(values) / min(values) >= _WIDE:
        ax.set_yscale("log")
    else:
        ax.set_ylim(min(0, 1.08 * min(values)), 1.08 * max(0, *values))


def _name_places(ax: Axes, names: list[str]) -> None:
    is_long = sum(map(len, names)) > 60
    ax.set_xticks(range(len(names)), names, rotation=25 if is_long else 0, ha="right" if is_long else "center")
    ax.set_xlim(-0.75, len(names) - 0.25)
    ax.grid(visible=False, axis="x")


def _spoken(value: Any, of: str) -> str:
    """A value as a label: sizes in binary units."""
    if of != "size" or not isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    for unit, bytes_of in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= bytes_of:
            return f"{value / bytes_of:g} {unit}"
    return f"{value:g} B"


def _panel(ax: Axes, points: list[dict[str, Any]], axis: str) -> None:
    """Ours and what was published, of one figure and quantity. Lines of one design have its colour, and differ in how they are drawn."""
    curves: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point in points:
        curves.setdefault((point["label"], point["design"]), []).append(point)
    order = list(dict.fromkeys(point["value"] for point in points))
    are_lines = len(order) > 1 and all(point["x"] is not None for point in points)
    width = 0.8 / len(curves)
    designs: list[str] = []
    for place, ((label, design), of) in enumerate(curves.items()):
        (colour, marker), nth = style(design), designs.count(design) % 4
        designs.append(design)
        name = label.strip(" ,:") or design
        name += " (calibrated)" if of[0]["kind"] == "calibrated" else ""
        theirs = [point for point in of if point["published"] is not None]
        if are_lines:
            xs = [point["x"] for point in of]
            ax.plot(xs, [point["ours"] for point in of], color=colour, marker=marker, linestyle=("-", "--", ":", "-.")[nth], label=name)
            ax.plot([point["x"] for point in theirs], [point["published"] for point in theirs], color=colour, **_HOLLOW)
        else:
            at = {value: order.index(value) + (place - (len(curves) - 1) / 2) * width for value in order}
            heights = [point["ours"] for point in of]
            hatch = ("", "///", "...", "xxx")[nth]
            ax.bar([at[point["value"]] for point in of], heights, width=width * 0.9, color=colour, hatch=hatch, edgecolor="white", label=name)
            ax.bar([at[point["value"]] for point in theirs], [point["published"] for point in theirs], width=width * 0.9, **_OUTLINE)
        if (summary := of[0]["summary"]) and summary["published"] is not None:
            ax.axhline(summary["published"], color=colour, linestyle=(0, (4, 3)), linewidth=1, label=f"published: {summary['pick']}")
    if are_lines:
        _scale(ax, sorted({point["x"] for point in points}), axis)
    else:
        _name_places(ax, order)
    if any(point["published"] is not None for point in points):
        ax.plot([], [], color="black", label="published", **_HOLLOW) if are_lines else ax.bar([0], [0], label="published", **_OUTLINE)
    values = [point[whose] for point in points for whose in ("ours", "published") if point[whose] is not None]
    if are_lines:
        _scale_values(ax, values, is_time=points[0]["quantity"].startswith("time"))
    else:
        # Room for the legend.
        ax.set_ylim(min(0, 1.1 * min(values)), 1.35 * max(0, *values))
    ax.legend(fontsize=8)
