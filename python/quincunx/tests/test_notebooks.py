"""The notebooks in examples/notebooks run from top to bottom; cells with `assert` hold what their prose says."""

import os
import unittest

import needs
from package import LIMIT_SECONDS, PACKAGE, ROOT, Analysed

FOLDER = ROOT / "examples" / "notebooks"


@needs.modules("pyarrow", "matplotlib", "pandas", "nbclient", "ipykernel")
class Notebooks(Analysed):
    def run_through(self, name: str) -> None:
        """Runs a notebook. Each cell that draws must have left a picture."""
        import nbclient
        import nbformat

        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE.parent))
        environment.pop("MPLBACKEND", None)
        nbclient.NotebookClient(notebook, timeout=LIMIT_SECONDS, resources={"metadata": {"path": FOLDER}}).execute(env=environment)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell in code:
            if "plots." in cell.source:
                self.assertIn("image/png", str(cell.outputs), cell.source)
        self.assertGreaterEqual(sum("assert " in cell.source for cell in code), 3)

    def test_what_would_it_buy(self) -> None:
        self.run_through("what_would_it_buy")

    def test_which_design(self) -> None:
        self.run_through("which_design")

    def test_a_published_figure(self) -> None:
        self.run_through("a_published_figure")

    def test_from_config_to_decision(self) -> None:
        self.run_through("from_config_to_decision")

    def test_they_are_kept_without_what_they_printed(self) -> None:
        import nbformat

        found = sorted(FOLDER.glob("*.ipynb"))
        self.assertEqual([path.stem for path in found], ["a_published_figure", "from_config_to_decision", "what_would_it_buy", "which_design"])
        for path in found:
            for cell in nbformat.read(path, as_version=4).cells:
                self.assertFalse(cell.get("outputs") or cell.get("execution_count"), f"{path.name}: clear all outputs before you save it")


if __name__ == "__main__":
    unittest.main()
