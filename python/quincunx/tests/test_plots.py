"""Plots: what is drawn where, in which colour, and with which uncertainty."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import needs
from package import Analysed


def row(design: str, size: int, time: float, **more: object) -> dict[str, object]:
    return {"design": design, "size": size, "time_us": time, "busbw_GBps": size / time / 1e3, **more}


@needs.modules("pyarrow", "matplotlib")
class Plots(Analysed):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        os.environ["MPLBACKEND"] = "agg"

    def tearDown(self) -> None:
        import matplotlib.pyplot

        matplotlib.pyplot.close("all")

    def table(self, *rows: dict[str, object]):
        from quincunx import analysis

        return analysis.table(list(rows))

    def drawn(self, ax) -> dict[str, object]:
        """The lines with their errors by name."""
        handles, names = ax.get_legend_handles_labels()
        return dict(zip(names, handles))

    def test_time_over_size_is_a_line_a_design_on_logarithmic_axes(self) -> None:
        from quincunx import plots

        table = self.table(row("ring", 1 << 20, 200.0), row("mine", 1 << 20, 90.0), row("ring", 4096, 50.0), row("mine", 4096, 2.0))
        ax = plots.time(table)
        self.assertEqual((ax.get_xscale(), ax.get_yscale(), ax.get_ylabel()), ("log", "log", "time (us)"))
        self.assertEqual([label.get_text() for label in ax.get_xticklabels()], ["4 KiB", "1 MiB"])
        lines = self.drawn(ax)
        self.assertEqual(list(lines), ["ring", "mine"])
        self.assertEqual(lines["ring"].lines[0].get_xydata().tolist(), [[4096, 50], [1 << 20, 200]])
        self.assertIsNone(lines["ring"].lines[2] or None)

    def test_a_design_has_one_colour_and_marker_in_all_plots(self) -> None:
        from quincunx import plots

        first = self.drawn(plots.time(self.table(row("ring", 1, 1.0), row("mine", 1, 2.0), row("other", 1, 3.0))))
        second = self.drawn(plots.bandwidth(self.table(row("new", 1, 1.0), row("other", 1, 3.0), row("mine", 1, 2.0))))
        look = {name: (line.lines[0].get_color(), line.lines[0].get_marker()) for name, line in {**first, **second}.items()}
        for name in ("mine", "other"):
            line = first[name].lines[0]
            self.assertEqual(look[name], (line.get_color(), line.get_marker()))
        self.assertEqual(len(set(look.values())), 4)
        bars = plots.speedup(self.table(row("ring", 1, 1.0), row("mine", 1, 2.0)), "ring").containers[0]
        self.assertEqual(bars.patches[0].get_facecolor(), __import__("matplotlib").colors.to_rgba(look["mine"][0]))

    def test_no_two_designs_of_the_table_look_the_same(self) -> None:
        from quincunx import plots

        for number in range(20):
            plots.style(f"design {number}")
        self.assertEqual(len(set(plots.STYLES.values())), len(plots.STYLES))

    def test_seeds_are_a_mean_with_its_standard_error(self) -> None:
        from quincunx import plots

        table = self.table(*(row("ring", 4096, time, seed=seed) for seed, time in enumerate([1.0, 2.0, 3.0])))
        [line] = self.drawn(plots.time(table)).values()
        self.assertEqual(line.lines[0].get_ydata().tolist(), [2.0])
        [[low, high]] = [segment[:, 1].tolist() for segment in line.lines[2][0].get_segments()]
        self.assertAlmostEqual(high - low, 2 * (1.0 / 3) ** 0.5)

    def test_a_bandwidth_is_as_uncertain_as_its_time(self) -> None:
        from quincunx import plots

        [line] = self.drawn(plots.bandwidth(self.table(row("ring", 4000, 2.0, time_stderr_us=0.5)))).values()
        [[low, high]] = [segment[:, 1].tolist() for segment in line.lines[2][0].get_segments()]
        self.assertEqual((low, high), (1.5, 2.5))

    def test_rows_that_differ_in_more_than_the_seed_are_refused(self) -> None:
        from quincunx import plots

        table = self.table(row("ring", 4096, 1.0, loss="0%"), row("ring", 4096, 9.0, loss="5%"))
        with self.assertRaisesRegex(ValueError, "expected rows that differ in seed alone, found 2 of ring, size 4096"):
            plots.time(table)
        ax = plots.lines(table, "time_us", over="loss")
        self.assertEqual([label.get_text() for label in ax.get_xticklabels()], ["0%", "5%"])

    def test_what_cannot_be_drawn_is_refused_in_a_line(self) -> None:
        from quincunx import plots

        table = self.table(row("ring", 4096, 1.0))
        with self.assertRaisesRegex(ValueError, 'expected a column "load", found design, size, time_us, busbw_GBps'):
            plots.lines(table, "time_us", over="load")
        with self.assertRaisesRegex(ValueError, "expected rows, found an empty table"):
            plots.time(table.slice(1))
        with self.assertRaisesRegex(ValueError, 'expected times of "tree", found none for size 4 KiB'):
            plots.speedup(table, "tree")
        with self.assertRaisesRegex(ValueError, 'expected designs beside "ring", found none'):
            plots.speedup(table, "ring")

    def test_speedups_are_the_baselines_time_over_each(self) -> None:
        from quincunx import plots

        table = self.table(row("ring", 4096, 50.0), row("mine", 4096, 2.0), row("ring", 1 << 20, 200.0), row("mine", 1 << 20, 100.0))
        [bars] = plots.speedup(table, "ring").containers
        self.assertEqual([bar.get_height() for bar in bars], [25.0, 2.0])

    def test_any_column_of_times_has_speedups_and_grows_by_factors(self) -> None:
        from quincunx import plots

        table = self.table(*({"design": design, "batch": 1, "tpot_ms": time} for design, time in (("ring", 30.0), ("mine", 3.0))))
        [bars] = plots.speedup(table, "ring", "tpot_ms", over="batch").containers
        self.assertEqual([bar.get_height() for bar in bars], [10.0])
        ax = plots.lines(table, "tpot_ms", over="batch")
        self.assertEqual((ax.get_yscale(), ax.get_ylabel()), ("log", "time of a token (ms)"))

    def test_what_was_published_is_hollow_beside_ours(self) -> None:
        from quincunx import analysis, plots

        line = {"paper": "p", "id": "fig1", "title": "A figure", "design": "ring", "label": "ring", "kind": "predicted", "quantity": "time (us)"}
        points = [{"x": 1.0, "value": "1", "ours": 2.0, "published": 2.5}, {"x": 2.0, "value": "2", "ours": 3.0, "published": None}]
        named = [{**point, "x": None} for point in points]
        curves = [{**line, "axis": "size", "points": points, "summary": None}, {**line, "axis": "model", "points": named, "summary": None}]
        over, beside, *_ = plots.published(analysis.table([{"id": "fig1"}], curves=curves)).axes
        ours, theirs, *_ = over.lines
        self.assertEqual((ours.get_ydata().tolist(), ours.get_fillstyle()), ([2.0, 3.0], "full"))
        self.assertEqual((theirs.get_xydata().tolist(), theirs.get_fillstyle()), ([[1.0, 2.5]], "none"))
        ours, theirs, *_ = beside.containers
        self.assertEqual([[bar.get_height() for bar in bars] for bars in (ours, theirs)], [[2.0, 3.0], [2.5]])
        self.assertEqual((ours[0].get_fill(), theirs[0].get_fill()), (True, False))

    def test_a_first_plot_leaves_matplotlib_as_interactive_as_its_backend_made_it(self) -> None:
        import matplotlib
        from quincunx import plots

        def first_figure(_: object):
            # As a notebook's backend does when it is loaded.
            matplotlib.interactive(True)
            return plots.pyplot.subplots()[1]

        with mock.patch.object(plots, "_axes", first_figure):
            plots.time(self.table(row("ring", 4096, 1.0)))
        self.addCleanup(matplotlib.interactive, False)
        self.assertTrue(matplotlib.is_interactive())

    def test_files_are_what_printers_take(self) -> None:
        from quincunx import plots

        ax = plots.time(self.table(row("ring", 4096, 50.0), row("ring", 8192, 60.0)))
        with tempfile.TemporaryDirectory() as folder:
            for ending, begin in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
                path = Path(folder) / f"plot.{ending}"
                plots.save(ax, path)
                self.assertTrue(path.read_bytes().startswith(begin), ending)
            self.assertNotIn(b"/Type3", (Path(folder) / "plot.pdf").read_bytes())
            self.assertIn(">ring</text>", (Path(folder) / "plot.svg").read_text())

    def test_a_simulation_and_a_reproduction_are_drawn_as_they_come(self) -> None:
        import quincunx
        from quincunx import plots

        table = quincunx.sim("all_reduce", fabric="star-2", design=["epic-3", "ring"], size="1KiB:4KiB:4")
        self.assertEqual(list(self.drawn(plots.bandwidth(table))), ["epic-3", "ring"])
        [panel] = plots.published(quincunx.reproduce("scin/fig9")).axes
        self.assertEqual(panel.get_legend_handles_labels()[1], ["scin (calibrated)", "published"])


if __name__ == "__main__":
    unittest.main()
