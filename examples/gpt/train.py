"""A small GPT on the text that Python's standard library ships, trained data-parallel: what every rank runs.

    quincunx run -n 8 --link netns --rate 500Mbit/s -- python train.py

Rank 0 prints one JSON object: losses to the last bit, seconds of each iteration, seconds of each iteration's communication alone, and
bytes that crossed the busiest link in both directions. The first half of the steps trains as DDP does, communication overlapped with the
backward pass. In the second half the same buckets are exchanged after the backward pass, once all ranks have ended theirs: that alone is
timed as communication. Of that half it also says when buckets were ready, which predict.py starts from. Needs torch; on `--backend gloo`
nothing of quincunx.
"""

import argparse
import hashlib
import json
import statistics
import time
from pathlib import Path
from pydoc_data import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """Attention, then an MLP, each on what is normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.query_key_value(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    """Predicts the next byte."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(tokens) + self.places.weight[: tokens.size(1)]))


def text() -> torch.Tensor:
    """Python's language reference as bytes: 0.7 MB of English."""
    return torch.tensor(list("\n".join(topics.topics[name] for name in sorted(topics.topics)).encode()), dtype=torch.long)


class Apart:
    """`exchange` is a communication hook of DDP that exchanges all buckets after the backward pass, and times that from when all ranks are there.

    Of each iteration, which says when it `began`: seconds until each bucket was `ready` here, and until the last was at all ranks.
    """

    def __init__(self) -> None:
        self.kept: list[tuple[torch.Tensor, torch.futures.Future]] = []
        self.seconds: list[float] = []
        self.began = 0.0
        self.ready: list[list[float]] = [[]]
        self.all_ready: list[float] = []
        self.bytes: list[int] = []

    def exchange(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future: torch.futures.Future = torch.futures.Future()
        self.kept.append((bucket.buffer(), future))
        self.ready[-1].append(time.perf_counter() - self.began)
        if bucket.is_last():
            kept, self.kept = self.kept, []
            self.ready.append([])
            self.bytes = [gradients.nbytes for gradients, _ in kept]
            dist.barrier()
            begun = time.perf_counter()
            self.all_ready.append(begun - self.began)
            works = [dist.all_reduce(gradients, async_op=True) for gradients, _ in kept]
            for work in works:
                work.wait()
            self.seconds.append(time.perf_counter() - begun)
            for gradients, waiting in kept:
                waiting.set_result(gradients.div_(dist.get_world_size()))
        return future


def in_rank_order(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A hook that gathers all ranks' gradients and adds them up in rank order: what a reproducible sum in the network must equal."""
    gradients = bucket.buffer()
    parts = [torch.empty_like(gradients) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, gradients)
    for part in parts[1:]:
        parts[0] += part
    future: torch.futures.Future = torch.futures.Future()
    future.set_result(parts[0].div_(len(parts)))
    return future


def link_bytes() -> torch.Tensor:
    """What this rank's link has carried out and in, by the kernel's counters."""
    found = torch.zeros(2, dtype=torch.int64)
    for link in Path("/sys/class/net").iterdir():
        if link.name != "lo":
            found += torch.tensor([int((link / "statistics" / name).read_text()) for name in ("tx_bytes", "rx_bytes")])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="quincunx", choices=("quincunx", "gloo"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2, help="sequences of each rank")
    parser.add_argument("--bucket-mb", type=float, default=4.0, help="MiB of gradients in a bucket of DDP")
    parser.add_argument("--hook", choices=("fixed_point", "inq", "mxfp8", "nvfp4"), help="exchange gradients by this hook of quincunx.torch.hooks")
    parser.add_argument("--in-rank-order", action="store_true", help="gather gradients and add them up in rank order, to compare bits with")
    options = parser.parse_args()

    torch.set_num_threads(1)
    if options.backend == "quincunx":
        import quincunx.torch.hooks  # noqa: PLC0415: it registers the backend, which gloo does not need
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = GPT(options.width, options.layers, heads=options.width // 32, context=options.context)
    data = text()
    choices = torch.Generator().manual_seed(1 + rank)
    apart = Apart()
    losses: list[float] = []
    iterations: list[float] = []

    def train(ddp: DistributedDataParallel, steps: int) -> None:
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for _ in range(steps):
            begun = apart.began = time.perf_counter()
            starts = torch.randint(len(data) - options.context - 1, (options.batch,), generator=choices)
            sequences = torch.stack([data[start : start + options.context + 1] for start in starts])
            loss = functional.cross_entropy(ddp(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            iterations.append(time.perf_counter() - begun)
            losses.append(loss.item())

    def wrapped() -> DistributedDataParallel:
        return DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb, gradient_as_bucket_view=True)

    hook = in_rank_order if options.in_rank_order else getattr(quincunx.torch.hooks, options.hook) if options.hook else None
    overlapped = wrapped()
    if hook:
        overlapped.register_comm_hook(None, hook)
    # The first step settles which gradients share a bucket.
    train(overlapped, 2)
    before = link_bytes()
    train(overlapped, options.steps // 2)
    crossed = (link_bytes() - before) / (options.steps // 2)
    separate = wrapped()
    separate.register_comm_hook(None, hook or apart.exchange)
    train(separate, options.steps - options.steps // 2)

    # Every rank's losses: gathered, so that one object has the bits of all.
    every = [torch.empty(len(losses), dtype=torch.float64) for _ in range(size)]
    dist.all_gather(every, torch.tensor(losses, dtype=torch.float64))
    dist.all_reduce(crossed, op=dist.ReduceOp.MAX)
    # A bucket is exchanged when the last rank has it.
    ready = torch.tensor([statistics.median(times) for times in zip(*apart.ready[1:-1], strict=True)], dtype=torch.float64)
    if len(ready):
        dist.all_reduce(ready, op=dist.ReduceOp.MAX)
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    if rank == 0:
        half = options.steps // 2
        with_apart = list(zip(iterations[2 + half :], apart.all_ready, apart.seconds))[1:]
        found = {
            "backend": options.backend,
            "design": quincunx.torch.designs()[0] if options.backend == "quincunx" else "ring of gloo",
            "ranks": size,
            "gradient_bytes": 4 * weights.numel(),
            "iteration_s": statistics.median(iterations[2 : 2 + half]),
            "communication_s": statistics.median(apart.seconds[1:]) if len(apart.seconds) > 1 else None,
            "apart_iteration_s": statistics.median(iteration for iteration, _, _ in with_apart) if with_apart else None,
            "all_ready_s": statistics.median(ready for _, ready, _ in with_apart) if with_apart else None,
            "rest_s": statistics.median(iteration - ready - spent for iteration, ready, spent in with_apart) if with_apart else None,
            "bucket_bytes": apart.bytes,
            "bucket_ready_s": ready.tolist(),
            "busiest_link_bytes_out": round(crossed[0].item()),
            "busiest_link_bytes_in": round(crossed[1].item()),
            "losses": [torch.stack(every)[:, step].mean().item() for step in range(len(losses))],
            "bits": hash_of([*every, weights]),
        }
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def hash_of(tensors: list[torch.Tensor]) -> str:
    """A short name for all bits of tensors."""
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(tensor.contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


if __name__ == "__main__":
    main()
