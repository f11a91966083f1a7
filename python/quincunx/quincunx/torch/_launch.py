"""What torch.distributed reads of its environment, by what mpirun, mpiexec or srun has set: so one program runs under each of them."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import MutableMapping

# Rank, size and rank on the machine, the innermost starter first; then what names the job.
_STARTERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ("PMI_JOBID", "HYDRA_JOBID")),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")),
)

# Ports for the ranks' meeting, above those that services have and below those that the kernel gives away.
_FIRST_PORT, _PORTS = 20000, 10000


def first_host(nodes: str) -> str:
    """The first of Slurm's list of machines: `a` of `a,b`, `gpu07` of `gpu[07-09,12]`."""
    found = re.match(r"([^,\[]*)(?:\[([^,\-\]]*)[^\]]*\])?", nodes)
    return "" if found is None else found[1] + (found[2] or "")


def fill_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, each unless it is there; nothing where RANK is, or nobody has started ranks.

    Ranks of several machines meet at the first of Slurm's list. Of mpirun's ranks nobody knows where the first is: MASTER_ADDR must be said, unless
    all are on one machine.
    """
    if environ.get("RANK"):
        return
    for rank, world, local, job in _STARTERS:
        if environ.get(rank) and environ.get(world):
            break
    else:
        return
    environ["RANK"], environ["WORLD_SIZE"] = environ[rank], environ[world]
    if environ.get(local):
        environ.setdefault("LOCAL_RANK", environ[local])
    is_one_machine = environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", environ.get("MPI_LOCALNRANKS")) == environ[world]
    if rank == "SLURM_PROCID":
        nodes = environ.get("SLURM_STEP_NODELIST", environ.get("SLURM_JOB_NODELIST", ""))
        if host := first_host(nodes):
            environ.setdefault("MASTER_ADDR", host)
    elif is_one_machine:
        environ.setdefault("MASTER_ADDR", "127.0.0.1")
    name = "-".join(environ.get(word, "") for word in job)
    environ.setdefault("MASTER_PORT", str(_FIRST_PORT + zlib.crc32(name.encode()) % _PORTS))
