"""Inference of a small GPT by tensor parallelism, with quincunx and with gloo in turns on the same links: what every rank runs.

    sudo quincunx run -n 4 --link netns --rate 500Mbit/s -- python infer.py

Each rank has its part of the heads and of each MLP, so that a block takes two AllReduces, of one vector a token. TTFT is the time from a
prompt to the first token, TPOT that of each token after it (EPIC 7.3, table 5). Rank 0 prints a table; the exit status is not 0 if the tokens
of either are not those of one process with the whole model. Weights are drawn, not trained. Needs torch.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from train import GPT, Block, text

import quincunx.torch


class Part:
    """One rank's part of a block, with the keys and values of the tokens so far."""

    def __init__(self, whole: Block, rank: int, size: int) -> None:
        width = whole.out.in_features
        self.norms = whole.before_attention, whole.before_mlp
        self.heads = whole.heads // size
        # Rows of the first product, columns of the second; its bias is added once.
        own = [part.chunk(size)[rank] for part in whole.query_key_value.weight.chunk(3)]
        own_bias = [part.chunk(size)[rank] for part in whole.query_key_value.bias.chunk(3)]
        self.query_key_value = torch.cat(own), torch.cat(own_bias)
        self.out = whole.out.weight.chunk(size, dim=1)[rank].contiguous(), whole.out.bias
        self.up = whole.mlp[0].weight.chunk(size)[rank], whole.mlp[0].bias.chunk(size)[rank]
        self.down = whole.mlp[2].weight.chunk(size, dim=1)[rank].contiguous(), whole.mlp[2].bias
        self.before = torch.empty(2, self.heads, 0, width // whole.heads)

    def forward(self, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        """What becomes of new tokens (tokens x width)."""
        split = functional.linear(self.norms[0](x), *self.query_key_value).view(len(x), 3, self.heads, -1)
        query, *new = split.permute(1, 2, 0, 3)
        is_first = self.before.size(2) == 0
        self.before = torch.cat([self.before, torch.stack(new)], dim=2)
        attended = functional.scaled_dot_product_attention(query, *self.before, is_causal=is_first)
        x = x + self.summed(attended.transpose(0, 1).reshape(len(x), -1), self.out, group)
        hidden = functional.gelu(functional.linear(self.norms[1](x), *self.up))
        return x + self.summed(hidden, self.down, group)

    @staticmethod
    def summed(x: torch.Tensor, product: tuple[torch.Tensor, torch.Tensor], group: dist.ProcessGroup) -> torch.Tensor:
        partial = x @ product[0].T
        dist.all_reduce(partial, group=group)
        return partial + product[1]


def generate(model: GPT, prompt: torch.Tensor, count: int, group: dist.ProcessGroup) -> tuple[list[int], list[float]]:
    """The likeliest tokens after a prompt, and the seconds that each took."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [Part(block, rank, size) for block in model.blocks]
    tokens, seconds = [], []
    new, place = prompt, 0
    dist.barrier(group=group)
    for _ in range(count):
        begun = time.perf_counter()
        x = model.tokens(new) + model.places.weight[place : place + len(new)]
        place += len(new)
        for part in parts:
            x = part.forward(x, group)
        new = model.head(x[-1:]).argmax(dim=1)
        tokens.append(int(new))
        seconds.append(time.perf_counter() - begun)
    return tokens, seconds


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=17, help="tokens after it")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, alternating, after one that is not counted")
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("quincunx")
    groups = {"quincunx": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    torch.manual_seed(0)
    model = GPT(options.width, options.layers, heads=8, context=options.prompt + options.tokens)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    prompt = text()[: options.prompt]

    times: dict[str, list[list[float]]] = {key: [] for key in groups}
    found = {}
    for _ in range(1 + options.rounds):
        for key, group in groups.items():
            found[key], seconds = generate(model, prompt, options.tokens, group)
            times[key].append(seconds)
    if dist.get_rank() == 0:
        rows = {"TTFT": lambda run: run[0], "TPOT": lambda run: statistics.median(run[1:])}
        load = os.getloadavg()[0]
        print(f"{dist.get_world_size()} ranks, prompt of {options.prompt} tokens, width {options.width}, {options.layers} layers, load {load:.1f} on {os.cpu_count()} processors")
        print(f"{'ms':10}{quincunx.torch.designs()[0]:>12}{'gloo':>12}{'ratio':>8}")
        for name, of in rows.items():
            ours, theirs = (1e3 * statistics.median(of(run) for run in times[key][1:]) for key in ("quincunx", "gloo"))
            print(f"{name:10}{ours:>12.2f}{theirs:>12.2f}{ours / theirs:>8.3f}", flush=True)
    for key, tokens in found.items():
        logits = model(torch.cat([prompt, torch.tensor(tokens[:-1], dtype=torch.long)])[None])[0]
        alone = logits[options.prompt - 1 :].argmax(dim=1).tolist()
        if tokens != alone:
            raise SystemExit(f"expected the tokens of the whole model, {alone}, found {tokens} by {key}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
