"""Trains the GPT of train.py with gradients added up in FP32, MXFP8 and a format like NVFP4, and prints and draws the losses: `python curve.py`.

One process has all ranks' turns, one after the other, and adds up their gradients in rank order by `quincunx.blocks`, to the bit as a switch does with
`group.reproducible=true`: so a curve needs no network, and has the same bits in every run. `train.py --hook mxfp8` does the same over one. Needs torch and NumPy; the plot,
matplotlib and pyarrow (`pip install quincunx[tables,plots]`).
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
from torch.nn import functional
from train import GPT, text

from quincunx import blocks

# How gradients are added up, by the name in the plot.
FORMATS = {"FP32": None, "MXFP8": "mxfp8", "NVFP4 without a tensor scale": "nvfp4"}


def summed(gradients: list[torch.Tensor], element: str | None) -> torch.Tensor:
    """The sum in rank order; in a block format each rank's are quantised, and each sum."""
    if element is None:
        total = gradients[0].clone()
        for other in gradients[1:]:
            total += other
        return total
    largest = max(one.abs().max().item() for one in gradients)
    factor = blocks.factor(largest, len(gradients)) if element == "nvfp4" else 1.0
    total, *others = (blocks.quantize((one * factor).numpy(), element) for one in gradients)
    for other in others:
        total = blocks.add(total, other)
    return torch.from_numpy(total.dequantize()) / factor


def losses(options: argparse.Namespace, element: str | None) -> list[float]:
    """The mean loss of all ranks at each step."""
    torch.manual_seed(0)
    model = GPT(options.width, options.layers, heads=options.width // 32, context=options.context)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = text()
    choices = [torch.Generator().manual_seed(1 + rank) for rank in range(options.ranks)]
    found = []
    for _ in range(options.steps):
        step, gradients = [], []
        for rank in choices:
            starts = torch.randint(len(data) - options.context - 1, (options.batch,), generator=rank)
            sequences = torch.stack([data[start : start + options.context + 1] for start in starts])
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
            loss.backward()
            step.append(loss.item())
            gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
        mean = summed(gradients, element) / options.ranks
        for parameter, of in zip(model.parameters(), mean.split([parameter.numel() for parameter in model.parameters()])):
            parameter.grad.copy_(of.view_as(parameter))
        optimizer.step()
        found.append(statistics.mean(step))
    return found


def means(found: list[float], every: int) -> list[tuple[int, float]]:
    """The mean of each `every` steps, by the last of them."""
    return [(end, statistics.mean(found[end - every : end])) for end in range(every, len(found) + 1, every)]


def draw(found: dict[str, list[float]], every: int, path: str) -> None:
    import pyarrow  # noqa: PLC0415: training needs neither

    from quincunx import plots  # noqa: PLC0415

    rows = [(name, step, loss) for name, of in found.items() for step, loss in means(of, every)]
    design, step, loss = map(list, zip(*rows))
    ax = plots.lines(pyarrow.table({"design": design, "step": step, "loss": loss}), "loss", over="step")
    ax.set_xlabel("step")
    ax.set_ylabel(f"loss, mean of {every} steps")
    # Of losses no height is zero.
    ax.set_ylim(bottom=min(loss) - 0.1)
    plots.save(ax, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2, help="sequences of each rank")
    parser.add_argument("--every", type=int, default=20, help="steps whose mean is a point")
    parser.add_argument("--json", help="where all losses go")
    parser.add_argument("--again", help="losses of an earlier run, to draw instead of training")
    parser.add_argument("--svg", help="where the plot goes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.again:
        found = json.loads(Path(options.again).read_text())
    else:
        found = {name: losses(options, element) for name, element in FORMATS.items()}
    if options.json:
        Path(options.json).write_text(json.dumps(found))
    print("| mean loss up to step | " + " | ".join(found) + " |")
    print("|---" * (1 + len(found)) + "|")
    for points in zip(*(means(of, options.every) for of in found.values())):
        print(f"| {points[0][0]} | " + " | ".join(f"{loss:.4f}" for _, loss in points) + " |")
    if options.svg:
        draw(found, options.every, options.svg)


if __name__ == "__main__":
    main()
