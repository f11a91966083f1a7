#!/usr/bin/env python3
"""Collectives of CUDA tensors on one machine: `gpu_smoke.py QUINCUNX [--ranks N] [--device cuda|cpu] [--bytes B ...]`.

Starts a manager, a switch and ranks on loopback with the program QUINCUNX, all ranks on one GPU; checks all_reduce, reduce_scatter and
all_gather in FP32 and BF16 against what they must give; prints times and the copies' share. With `--device cpu` it runs where no GPU is.
"""

import argparse
import os
import socket
import subprocess
import sys
import time

TYPES = ("float32", "bfloat16")


def rank_main(arguments: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    import quincunx.torch

    dist.init_process_group("quincunx")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device(arguments.device)
    if rank == 0:
        where = torch.cuda.get_device_name(0) if device.type == "cuda" else "CPU"
        print(f"torch {torch.__version__}, {where}, {ranks} ranks, {quincunx.torch.designs()[0]}", flush=True)
        print(f"{'collective':<16}{'type':<10}{'bytes':>12}{'median ms':>12}{'GB/s':>9}{'copies ms':>11}{'share':>8}  wrong", flush=True)
    for size in arguments.bytes:
        for name in TYPES:
            data_type = getattr(torch, name)
            count = size // data_type.itemsize // ranks * ranks
            # Small whole numbers: every type adds them up exactly, in any order.
            mine = ((torch.arange(count, device=device) + 3 * rank) % 16).to(data_type)
            total = sum(((torch.arange(count, device=device) + 3 * other) % 16).to(torch.float32) for other in range(ranks))
            part = count // ranks
            everyone = torch.cat([((torch.arange(part, device=device) + 3 * other) % 16) for other in range(ranks)])
            work = mine.clone()
            piece = torch.empty(part, dtype=data_type, device=device)
            gathered = torch.empty(part * ranks, dtype=data_type, device=device)

            def all_reduce() -> torch.Tensor:
                work.copy_(mine)
                dist.all_reduce(work)
                return work

            def reduce_scatter() -> torch.Tensor:
                dist.reduce_scatter_tensor(piece, mine)
                return piece

            def all_gather() -> torch.Tensor:
                dist.all_gather_into_tensor(gathered, mine[:part])
                return gathered

            expected = {all_reduce: total, reduce_scatter: total[rank * part : (rank + 1) * part], all_gather: everyone}
            for call, right in expected.items():
                got = call()
                wrong = torch.tensor([int((got.to(torch.float32) != right.to(torch.float32)).sum())], dtype=torch.int32)
                times = []
                before = quincunx.torch.counts()
                for _ in range(arguments.iterations):
                    dist.barrier()
                    if device.type == "cuda":
                        torch.cuda.synchronize()
                    begun = time.perf_counter()
                    call()
                    if device.type == "cuda":
                        torch.cuda.synchronize()
                    times.append(time.perf_counter() - begun)
                after = quincunx.torch.counts()
                dist.all_reduce(wrong)
                if rank == 0:
                    median = sorted(times)[len(times) // 2]
                    copies = (after["copy_s"] - before["copy_s"]) / arguments.iterations
                    if device.type == "cpu":
                        copies = (after["host_copy_s"] - before["host_copy_s"]) / arguments.iterations
                    print(
                        f"{call.__name__:<16}{name:<10}{count * data_type.itemsize:>12}{median * 1e3:>12.3f}"
                        f"{count * data_type.itemsize / median / 1e9:>9.3f}{copies * 1e3:>11.3f}{copies / median:>8.1%}  {int(wrong)}",
                        flush=True,
                    )
                if int(wrong):
                    sys.exit(f"expected no wrong elements, found {int(wrong)} in {call.__name__} of {name}")
    # Calls of both kinds, one after the other, in one order at all ranks.
    values = [torch.full((1000,), float(rank + 1), device=place) for place in (device, "cpu") for _ in range(3)]
    pending = [dist.all_reduce(value, async_op=True) for value in values]
    for work in pending:
        work.wait()
    right = ranks * (ranks + 1) / 2
    if not all(bool((value == right).all()) for value in values):
        sys.exit("expected the sums of calls on a GPU and on the host that are under way at once, found others")
    doubled = torch.full((10,), 2.0, dtype=torch.float64, device=device)
    dist.all_reduce(doubled, op=dist.ReduceOp.PRODUCT)
    if not bool((doubled == 2.0**ranks).all()):
        sys.exit("expected a product by ranks, found another value")
    if rank == 0:
        print("all results are right", flush=True)
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", default="quincunx", help="the program quincunx")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--bytes", type=int, nargs="+", default=[64 << 10, 1 << 20, 16 << 20, 64 << 20])
    parser.add_argument("--iterations", type=int, default=5)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        rank_main(arguments)
        return 0
    manager = f"127.0.0.1:{free_port()}"
    block = f"127.{100 + os.getpid() // 250 % 100}.{os.getpid() % 250}"
    processes = [subprocess.Popen([arguments.program, "manager", "--listen", manager, "--log-level", "off"], stdout=subprocess.PIPE)]
    status = 1
    try:
        processes[0].stdout.readline()
        processes.append(
            subprocess.Popen([arguments.program, "switch", "--name", "switch0", "--address", f"{block}.251", "--manager", manager, "--log-level", "off"])
        )
        environment = dict(
            os.environ,
            WORLD_SIZE=str(arguments.ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
            QUINCUNX_MANAGER=manager,
            QUINCUNX_SWITCHES="1",
        )
        ranks = [
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env=dict(environment, RANK=str(rank), LOCAL_RANK="0", QUINCUNX_ADDRESS=f"{block}.{rank + 1}"),
            )
            for rank in range(arguments.ranks)
        ]
        processes += ranks
        limit = time.monotonic() + 480
        while any(rank.poll() is None for rank in ranks) and time.monotonic() < limit:
            if any(rank.poll() for rank in ranks):
                time.sleep(2)
                break
            time.sleep(0.05)
        status = max((1 if rank.poll() is None else rank.returncode != 0) for rank in ranks)
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
