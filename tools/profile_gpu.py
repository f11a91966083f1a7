#!/usr/bin/env python3
"""Measures on one GPU what the models of accelerators assume, and writes it as JSON, a row a line: data/profiles/README.md says what a row holds.

usage: tools/profile_gpu.py OUT.json [--seconds 480] [--phase cais,cais-layer] [--quick]

A time is the median of thirty replays of a CUDA graph, in microseconds, on random inputs: of one kernel in `kernels`, which has a graph's
own floor of some 10 us, and in `layer` a layer's ten launches, a quarter of a graph of four layers. Needs PyTorch with CUDA; with --quick a CPU
runs each kernel once on small matrices, which says that the script works and nothing about a GPU. What does not fit into --seconds, or
what a kernel refuses, is told in `errors`; the rest is written.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F

REPLAYS = 30
# A GPU that has idled is slow for its first moments: what is measured then is measured too long.
WARM_UP_SECONDS = 2
# Layers of a graph that measures a whole layer, each with weights of its own, which is what keeps them out of the cache.
GRAPH_LAYERS = 4
# A layer of LLaMA as an engine launches it: ten kernels, the norm and the sum twice.
LAUNCHES = ("norm", "qkv", "attention", "out", "add", "norm", "gate_up", "activation", "down", "add")
PHASES = ("prefill", "decode", "cais", "cais-layer")


@dataclass(frozen=True)
class Llama:
    """A LLaMA-2 model, or one of its shape."""

    hidden: int
    ffn: int
    heads: int
    kv_heads: int


@dataclass(frozen=True)
class Table1:
    """A model of CAIS, table I."""

    hidden: int
    ffn: int
    heads: int
    sequence: int
    batch: int


LLAMA = {
    "llama2-7b": Llama(4096, 11008, 32, 32),
    "llama2-13b": Llama(5120, 13824, 40, 40),
    "llama2-70b": Llama(8192, 28672, 64, 8),
}
TABLE_1 = {
    "mega-gpt-4b": Table1(2048, 8192, 24, 1024, 16),
    "mega-gpt-8b": Table1(3072, 12288, 32, 1024, 12),
    "llama-7b": Table1(4096, 11264, 32, 3072, 3),
}
# Sequences and tokens of each.
PREFILL = [(1, 128), (1, 512), (1, 1024), (1, 2048), (1, 4096), (8, 512), (8, 1024), (8, 2048), (16, 1024), (32, 512)]
DECODE = [(batch, context) for batch in (1, 4, 16, 64, 128) for context in (128, 512, 1024, 2048, 4096)]
# GPUs that share a model; the papers' own number first, should time run out.
LLAMA_SPLITS = (8, 4, 2, 1)
PRODUCT_SPLITS = (8, 16, 32)
LAYER_SPLITS = (8, 4, 16)


def median_time(run, device):
    """What `run()` takes, in microseconds."""
    if device == "cpu":
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e6
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


class Matrices:
    """Random FP16 tensors of a device, and products of them."""

    def __init__(self, device):
        self.device = device

    def random(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=torch.float16)

    def product(self, m, k, n, kind="fp16"):
        """Multiplies [m, k] by [k, n], in FP16, or in FP8 (e4m3) with a result in FP16."""
        x, w = self.random(m, k), self.random(n, k) / k**0.5
        if kind == "fp16":
            return lambda: F.linear(x, w)
        scale = torch.ones((), device=self.device)
        rows = F.pad(x, (0, 0, 0, -m % 16)).to(torch.float8_e4m3fn)
        weights = w.to(torch.float8_e4m3fn)
        return lambda: torch._scaled_mm(rows, weights.t(), scale_a=scale, scale_b=scale, out_dtype=torch.float16)

    def gradients(self, m, k, n):
        """The product of [m, k] and [k, n], and the two products of its backward pass."""
        x, w, gradient = self.random(m, k), self.random(n, k), self.random(m, n)
        return {
            "": lambda: F.linear(x, w),
            "_input_gradient": lambda: gradient @ w,
            "_weight_gradient": lambda: gradient.t() @ x,
        }


def llama_kernels(matrices, model, split, batch, length, phase, kind):
    """The kernels of a layer on one of `split` GPUs: names and functions."""
    dim = model.hidden // model.heads
    heads, kv_heads, ffn = model.heads // split, max(model.kv_heads // split, 1), model.ffn // split
    rows = length if phase == "prefill" else 1
    tokens = batch * rows
    x = matrices.random(tokens, model.hidden)
    weight = torch.ones(model.hidden, device=matrices.device, dtype=torch.float16)
    query = matrices.random(batch, heads, rows, dim)
    keys = matrices.random(batch, heads if phase == "prefill" else kv_heads, length, dim)
    values = torch.randn_like(keys)
    gate, up = (matrices.random(tokens, ffn) for _ in range(2))
    grouped = {} if keys.shape[1] == heads else {"enable_gqa": True}
    return {
        "norm": lambda: F.rms_norm(x, (model.hidden,), weight),
        "qkv": matrices.product(tokens, model.hidden, (heads + 2 * kv_heads) * dim, kind),
        "attention": lambda: F.scaled_dot_product_attention(
            query, keys, values, is_causal=phase == "prefill", **grouped
        ),
        "out": matrices.product(tokens, heads * dim, model.hidden, kind),
        "gate_up": matrices.product(tokens, model.hidden, 2 * ffn, kind),
        "activation": lambda: F.silu(gate) * up,
        "down": matrices.product(tokens, ffn, model.hidden, kind),
        "add": lambda: x + x,
    }


def layer_time(make, device):
    """What a layer's launches take in a graph of several layers, in microseconds a layer."""
    layers = [make() for _ in range(GRAPH_LAYERS)]

    def run():
        for kernels in layers:
            for name in LAUNCHES:
                kernels[name]()

    return median_time(run, device) / GRAPH_LAYERS


def products(model, split):
    """The products of a layer on one of `split` GPUs: rows, inner dimension, columns."""
    rows, hidden, ffn = model.batch * model.sequence, model.hidden, model.ffn // split
    return {
        "qkv": (rows, hidden, 3 * hidden // split),
        "out": (rows, hidden // split, hidden),
        "up": (rows, hidden, ffn),
        "down": (rows, ffn, hidden),
    }


def norms(matrices, rows, hidden):
    """LayerNorm, its gradient, and a sum, of so many rows."""
    x, gradient = matrices.random(rows, hidden), matrices.random(rows, hidden)
    weight, bias = torch.ones_like(x[0]), torch.zeros_like(x[0])
    forward, backward = torch.ops.aten.native_layer_norm, torch.ops.aten.native_layer_norm_backward
    _, mean, deviation = forward(x, [hidden], weight, bias, 1e-5)
    every = [True, True, True]
    return {
        "norm": lambda: F.layer_norm(x, (hidden,), weight, bias),
        "norm_backward": lambda: backward(gradient, x, [hidden], mean, deviation, weight, bias, every),
        "add": lambda: x + gradient,
    }


def layer_kernels(matrices, model, split):
    """All kernels of a layer of CAIS's table I on one of `split` GPUs, forward and backward: names and functions."""
    rows = model.batch * model.sequence
    kernels = {}
    for name, count in (("all", rows), ("share", rows // split)):
        kernels |= {f"{kernel}_{name}": run for kernel, run in norms(matrices, count, model.hidden).items()}
    inner = matrices.random(rows, model.ffn // split)
    gradient = torch.randn_like(inner)
    kernels["gelu"] = lambda: F.gelu(inner)
    kernels["gelu_backward"] = lambda: torch.ops.aten.gelu_backward(gradient, inner)
    # Heads whole, of a width that kernels take.
    dim = max(model.hidden // model.heads // 8 * 8, 8)
    heads = max(model.heads // split, 1)
    query, keys, values = (matrices.random(model.batch, heads, model.sequence, dim) for _ in range(3))
    kernels["attention"] = lambda: F.scaled_dot_product_attention(query, keys, values, is_causal=True)
    for name, shape in products(model, split).items():
        kernels |= {name + suffix: run for suffix, run in matrices.gradients(*shape).items()}
    return kernels


def rows_to_measure(matrices, quick):
    """Each row without its times, and a function that makes its kernels, in the order in which they are measured."""
    llama, table_1 = LLAMA, TABLE_1
    prefill, decode, llama_splits, kinds = PREFILL, DECODE, LLAMA_SPLITS, ("fp16", "fp8")
    product_splits, layer_splits = PRODUCT_SPLITS, LAYER_SPLITS
    if quick:
        llama, table_1 = {"tiny": Llama(64, 160, 4, 2)}, {"tiny": Table1(64, 128, 4, 16, 2)}
        prefill, decode, llama_splits, kinds = [(1, 16)], [(2, 16)], (2,), ("fp16",)
        product_splits = layer_splits = (2,)

    def row(name, split, phase, batch, length, kind):
        return {"model": name, "tp": split, "phase": phase, "batch": batch, "length": length, "gemm": kind}

    for name, model in table_1.items():
        for split in product_splits:
            shapes = products(model, split).items()
            make = lambda shapes=shapes: {kernel: matrices.product(*shape) for kernel, shape in shapes}
            yield row(name, split, "cais", model.batch, model.sequence, "fp16"), make
        for split in layer_splits:
            make = lambda model=model, split=split: layer_kernels(matrices, model, split)
            yield row(name, split, "cais-layer", model.batch, model.sequence, "fp16"), make
    for split in llama_splits:
        for kind in kinds:
            for phase, shapes in (("prefill", prefill), ("decode", decode)):
                for name, model in llama.items():
                    for batch, length in shapes:
                        of = (model, split, batch, length, phase, kind)
                        yield row(name, split, phase, batch, length, kind), lambda of=of: llama_kernels(matrices, *of)


def ceilings(matrices, quick):
    """The rate of a large product and of a large copy, which no kernel is expected to exceed."""
    side, elements = (64, 2**10) if quick else (8192, 2**30)
    a, b = matrices.random(side, side), matrices.random(side, side)
    block = torch.randn(elements, device=matrices.device)
    target = torch.empty_like(block)
    return {
        "matmul_tflops": 2 * side**3 / median_time(lambda: a @ b, matrices.device) / 1e6,
        "copy_gbps": 2 * block.nbytes / median_time(lambda: target.copy_(block), matrices.device) / 1e3,
    }


def warm_up(matrices):
    """Keeps the device busy until its clock has risen."""
    a, b = matrices.random(4096, 4096), matrices.random(4096, 4096)
    stop = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < stop:
        for _ in range(100):
            a @ b
        torch.cuda.synchronize()


def measure(args, device):
    """The whole profile."""
    matrices = Matrices(device)
    if device == "cuda":
        warm_up(matrices)
    profile = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "unit": "us",
        "sms": torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 0,
        **ceilings(matrices, args.quick),
        "rows": [],
        "errors": [],
    }
    stop = time.monotonic() + args.seconds
    for row, make in rows_to_measure(matrices, args.quick):
        if row["phase"] not in args.phase:
            continue
        if time.monotonic() > stop:
            profile["errors"].append(f"stopped after {args.seconds:g} s with {len(profile['rows'])} rows")
            break
        row["kernels"] = {}
        try:
            for kernel, run in make().items():
                row["kernels"][kernel] = round(median_time(run, device), 2)
            if set(LAUNCHES) <= set(row["kernels"]):
                row["layer"] = round(layer_time(make, device), 2)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            # One shape that a kernel refuses does not cost the rest; half a row would look like a whole one.
            profile["errors"].append(f"{row}: {type(error).__name__}: {str(error)[:160]}")
        else:
            profile["rows"].append(row)
        if device == "cuda":
            torch.cuda.empty_cache()
    return profile


def text_of(profile):
    """The profile as JSON, a row a line."""
    head = {key: value for key, value in profile.items() if key not in ("rows", "errors")}
    rows = ",\n ".join(json.dumps(row) for row in profile["rows"])
    return f'{json.dumps(head)[:-1]}, "rows": [\n {rows}\n], "errors": {json.dumps(profile["errors"])}}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="the file to write: data/profiles/NAME.json")
    parser.add_argument("--seconds", type=float, default=480, help="begin no row after so long (default: 480)")
    parser.add_argument("--phase", type=lambda text: text.split(","), default=PHASES, help=f"of {', '.join(PHASES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small matrices, on a CPU if there is no GPU")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not args.quick:
        parser.error("expected a GPU, found none; --quick checks the script on a CPU")
    if unknown := sorted(set(args.phase) - set(PHASES)):
        parser.error(f"expected phases of {', '.join(PHASES)}, found {', '.join(unknown)}")
    profile = measure(args, device)
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(text_of(profile))
    print(
        f"{profile['device']}: {profile['matmul_tflops']:.0f} TFLOP/s, copy {profile['copy_gbps']:.0f} GB/s,"
        f" {len(profile['rows'])} rows, {len(profile['errors'])} errors"
    )
    for error in profile["errors"][:5]:
        print(error)


if __name__ == "__main__":
    main()
