"""PyTorch's own tests of its backends (torch.testing._internal.distributed.distributed_test), run on quincunx:

    quincunx run -n 3 -- python pytorch_suite.py [PART_OF_A_NAME ...]

With `--addresses 127.0.0.77` before the `--` all ranks are behind one address.

Each rank makes a process for each test, in order, so that one that fails spoils no other. Rank 0 prints a line for each and a count. The
exit status is 1 if a test fails that is not in pytorch_suite_known.txt, which has a reason for each. Needs torch, numpy and expecttest.
"""

import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

RANK = int(os.environ["RANK"])
FOLDER = Path(tempfile.gettempdir()) / f"quincunx-pytorch-{os.environ['MASTER_PORT']}"
FOLDER.mkdir(exist_ok=True)
os.environ.update(BACKEND="quincunx", TEMP_DIR=str(FOLDER), OMP_NUM_THREADS="1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

# The suite draws objects as it is imported, which all ranks must have alike.
torch.manual_seed(0)
from torch.testing._internal.common_distributed import TEST_SKIPS, DistTestCases  # noqa: E402

for feature in ("ddp", "subgroup", "gpu"):
    DistTestCases.backend_feature[feature].add("quincunx")

from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402

import quincunx.torch  # noqa: E402, F401

# A test takes a few seconds on an idle machine.
LIMIT_SECONDS = 60
PASSED, FAILED, SKIPPED = 0, 1, 77
# Tests are for backends by name; these we can do as well.
OURS_TOO = re.compile(
    "Only MPI supports|requires backend quincunx to be available|get_future is only supported|GLOO Batch Send Recv CPU|Nccl & Gloo backend support Distr"
)
SKIPS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


class Suite(suite.DistributedTest._DistTestBase, suite.TestDistBackend):
    """As PyTorch derives its own."""


def run(name: str, index: int) -> int:
    """One test in a process of its own."""
    log = FOLDER / f"{name}.{RANK}"
    child = os.fork()
    if child == 0:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os._exit(child_run(name, index))
    end = time.monotonic() + LIMIT_SECONDS
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            with log.open("a") as file:
                file.write(f"\nTimeoutError: no end within {LIMIT_SECONDS} s\n")
            return FAILED
        time.sleep(0.01)


def child_run(name: str, index: int) -> int:
    torch.set_num_threads(1)
    method = getattr(Suite, name)
    if getattr(method, "__unittest_skip__", False) and not OURS_TOO.search(method.__unittest_skip_why__):
        print(method.__unittest_skip_why__, flush=True)
        return SKIPPED
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) % 20_000 + 20_000 + index)
    try:
        folder = FOLDER / f"{name}.files"
        for one in ("barrier", "test_dir"):
            (folder / one).mkdir(parents=True, exist_ok=True)
        os.environ["TEMP_DIR"] = str(folder)
        suite.Barrier.init()
        dist.init_process_group("quincunx")
        test = Suite(name)
        test.rank = RANK
        test.file_name = str(folder / "store")
        dist.barrier()
        getattr(test, name)()
        # Not the group's own barrier: a test may have broken the group.
        suite.Barrier.sync(wait_for=int(os.environ["WORLD_SIZE"]))
        if dist.is_initialized():
            dist.destroy_process_group()
    except SystemExit as error:
        print(f"exit {error.code}: {SKIPS.get(error.code, '')}", flush=True)
        return SKIPPED if error.code in SKIPS else FAILED
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return SKIPPED if type(error).__name__ == "SkipTest" else FAILED
    return PASSED


def main() -> None:
    wanted = sys.argv[1:]
    names = sorted(name for name in dir(Suite) if name.startswith("test_") and (not wanted or any(part in name for part in wanted)))
    lines = (Path(__file__).resolve().with_name("pytorch_suite_known.txt")).read_text().splitlines()
    known = {line.split()[0]: line.partition(" ")[2] for line in lines if line and not line.startswith("#")}
    counted: Counter[str] = Counter()
    unexpected = []
    for index, name in enumerate(names):
        how = {PASSED: "passed", SKIPPED: "skipped"}.get(run(name, index), "failed")
        log = (FOLDER / f"{name}.{RANK}").read_text().strip().splitlines()
        if how == "failed" and name in known:
            how = "does not apply"
        elif how == "failed":
            unexpected.append(name)
        counted[how] += 1
        if RANK == 0:
            reason = known.get(name, "") if how == "does not apply" else "" if how == "passed" or not log else log[-1][:160]
            print(f"{how:15} {name} {reason}", flush=True)
    if RANK == 0:
        print(", ".join(f"{many} {how}" for how, many in counted.most_common()), flush=True)
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
