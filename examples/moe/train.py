"""Trains a small mixture of experts on the ranks of two servers, and counts what crosses between these.

    quincunx run -n 8 -- python examples/moe/train.py

Every rank has a part of the experts, a copy of the gate, and tokens of its own; each token goes to the ranks of its `--top-k` experts and comes
back as a weighted sum. The ranks in a row that make a server are `--server` (four). Trained once by each of `--designs`, from the same start. Rank 0
trains the same model by itself, without a network, and compares the losses: more than `--tolerance` (relative) between them is an error.
Prints the losses, and for each design the bytes that crossed between servers for a dispatch and for a combine.
"""

import argparse
import json
import os
import sys

import torch
from torch import nn

WIDTH, HIDDEN = 32, 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--top-k", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48, help="of a rank in a batch, as many less one for each rank before it")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--server", type=int, default=4, help="ranks of a server")
    parser.add_argument("--designs", default="multiwrite,direct", help="what brings tokens, with commas")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", action="store_true", help="print one object")
    return parser.parse_args()


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(tokens)


def make(count: int) -> tuple[nn.Linear, list[Expert]]:
    """The gate and all experts, the same at all ranks."""
    torch.manual_seed(1)
    return nn.Linear(WIDTH, count), [Expert() for _ in range(count)]


def batch(rank: int, step: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's tokens, and what is to come of them: a function with a bend that no layer has by itself."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(tokens - rank, WIDTH, generator=random)
    return inputs, torch.sin(2 * inputs) + inputs.roll(1, dims=1).abs()


def chosen(gate: nn.Linear, tokens: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The experts of each token, and their weights."""
    best, experts = gate(tokens).topk(top_k, dim=1)
    return experts, best.softmax(dim=1)


def worked(experts: dict[int, Expert], tokens: torch.Tensor, numbers: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The weighted sum of what experts make of each token, of those that are here."""
    sums = torch.zeros_like(tokens)
    for number, expert in experts.items():
        rows, places = (numbers == number).nonzero(as_tuple=True)
        sums = sums.index_add(0, rows, expert(tokens[rows]) * weights[rows, places].unsqueeze(1))
    return sums


def alone(options: argparse.Namespace, ranks: int) -> list[float]:
    """The losses of one process that has all experts and all tokens."""
    gate, experts = make(options.experts)
    parameters = [*gate.parameters(), *(one for expert in experts for one in expert.parameters())]
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    losses = []
    for step in range(options.steps):
        parts = [batch(rank, step, options.tokens) for rank in range(ranks)]
        tokens, wanted = (torch.cat(part) for part in zip(*parts))
        numbers, weights = chosen(gate, tokens, options.top_k)
        loss = (worked(dict(enumerate(experts)), tokens, numbers, weights) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def together(options: argparse.Namespace, design: str) -> tuple[list[float], dict[str, int]]:
    """The losses of all ranks, and what has crossed between servers, all ranks and steps together: tokens that were for another server, times that
    they were for a rank there, and bytes that crossed in forward dispatches and combines."""
    import torch.distributed as dist

    from quincunx.torch import sent_to
    from quincunx.torch.experts import Experts

    rank, ranks = dist.get_rank(), dist.get_world_size()
    gate, every = make(options.experts)
    net = Experts(options.experts, options.top_k, options.tokens, WIDTH, design=design)
    own = {number: every[number] for number in net.own}
    each = options.experts // ranks
    optimizer = torch.optim.SGD([*gate.parameters(), *(one for expert in own.values() for one in expert.parameters())], lr=0.5)
    everybody: list = [None] * ranks
    dist.all_gather_object(everybody, sent_to(own=True))
    servers = [number // options.server for number in range(ranks)]
    far = {address for number, address in enumerate(everybody) if servers[number] != servers[rank]}
    crossed = lambda: sum(sent for address, sent in sent_to().items() if address in far)  # noqa: E731
    count = sum(options.tokens - other for other in range(ranks)) * WIDTH
    losses, bytes_out, bytes_back, to_servers, to_ranks = [], 0, 0, 0, 0
    for step in range(options.steps):
        tokens, wanted = batch(rank, step, options.tokens)
        numbers, weights = chosen(gate, tokens, options.top_k)
        for row in (numbers // each).tolist():
            away = {other for other in row if servers[other] != servers[rank]}
            to_ranks += len(away)
            to_servers += len({servers[other] for other in away})
        # Nobody's frames of a step before are on their way any more.
        dist.barrier()
        before = crossed()
        came = net.dispatch(tokens, numbers, weights)
        dist.barrier()
        between = crossed()
        sums = net.combine(came, worked(own, came.tokens, came.experts, came.weights))
        dist.barrier()
        bytes_out, bytes_back = bytes_out + between - before, bytes_back + crossed() - between
        # Of the mean over all ranks' tokens.
        loss = (sums - wanted).square().sum() / count
        optimizer.zero_grad()
        loss.backward()
        for one in gate.parameters():
            dist.all_reduce(one.grad)
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item())
    counts = torch.tensor([to_servers, to_ranks, bytes_out, bytes_back])
    dist.all_reduce(counts)
    net.close()
    return losses, dict(zip(("to_servers", "to_ranks", "dispatch_bytes", "combine_bytes"), counts.tolist()))


def main() -> None:
    options = arguments()
    os.environ["LOCAL_WORLD_SIZE"] = str(options.server)
    import torch.distributed as dist

    import quincunx.torch  # noqa: F401

    dist.init_process_group("quincunx")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {design: together(options, design) for design in options.designs.split(",")}
    dist.barrier()
    if rank == 0:
        report(options, ranks, found)
    dist.destroy_process_group()


def report(options: argparse.Namespace, ranks: int, found: dict[str, tuple[list[float], dict[str, int]]]) -> None:
    expected = alone(options, ranks)
    apart = {design: max(abs(a - b) / b for a, b in zip(losses, expected)) for design, (losses, _) in found.items()}
    if options.json:
        designs = {design: {"losses": losses, "apart": apart[design], **counts} for design, (losses, counts) in found.items()}
        print(json.dumps({"ranks": ranks, "alone": expected, "designs": designs}))
    else:
        print(f"{ranks} ranks, {options.experts} experts, top {options.top_k}, {options.steps} steps: loss {expected[0]:.4f} to {expected[-1]:.4f}")
        print(f"{'design':12} {'apart':>9} {'tokens to servers':>18} {'to ranks':>9} {'dispatch (bytes)':>17} {'combine (bytes)':>16}")
        for design, (_, counts) in found.items():
            row = (counts["to_servers"], counts["to_ranks"], counts["dispatch_bytes"], counts["combine_bytes"])
            print(f"{design:12} {apart[design]:9.1e} {row[0]:18} {row[1]:9} {row[2]:17} {row[3]:16}")
        if len(found) > 1:
            (first, (_, one)), (second, (_, other)) = list(found.items())[:2]
            factor = other["dispatch_bytes"] / one["dispatch_bytes"]
            print(f"{second} sends {factor:.2f} times the bytes of {first} between servers in a dispatch; tokens alone: {one['to_ranks'] / one['to_servers']:.2f}")
    wrong = {design: value for design, value in apart.items() if not value <= options.tolerance}
    if wrong:
        sys.exit(f"expected losses within {options.tolerance} of those of one process, found {wrong}; report it")


if __name__ == "__main__":
    main()
