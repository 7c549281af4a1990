"""This process: its rank, its clocks, and its end."""

import ctypes
import os
import re
import sys
import time

from .masking import masked_text

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")
WORLD_VARIABLES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

TAKEN_PREFIXES = ("NCCL_", "RCCL_", "GLOO_", "TORCH_", "PYTORCH_", "CUDA_", "HIP_", "ROCR_")
TAKEN = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "KINETO_LOG_LEVEL",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NODEID",
    "SLURM_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
)
"""What the manifest has of the environment: these variables and those that begin so, no others."""
SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
"""Names of variables that the manifest has in no case."""
VALUE_LENGTH = 1000


def environment():
    """The variables of this process that change how PyTorch runs, and the ids of its job."""
    return {
        # what is no text in the environment would make the report none
        name: masked_text(value)[:VALUE_LENGTH].encode("utf-8", "replace").decode()
        for name, value in sorted(os.environ.items())
        if (name in TAKEN or name.startswith(TAKEN_PREFIXES)) and not SECRET.search(name)
    }


def rank_and_world(torch):
    """The rank, and the number of ranks where something says it."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank = first_number(RANK_VARIABLES)
    return (0, None) if rank is None else (rank, first_number(WORLD_VARIABLES))


def first_number(variables):
    for name in variables:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def local_world():
    """Number of ranks that the launcher (torchrun) started on this machine."""
    return first_number(["LOCAL_WORLD_SIZE"])


def hide_from_children(hook):
    """Processes that this one starts from here on see nothing of the recording.

    A rank's own children are helpers: loaders, compilers, evaluations. They would load the hook for
    nothing, and must not count for the rank.
    """
    os.environ.pop("ETLINK_RECORD", None)
    take_folder_off("PYTHONPATH", hook)
    # the programs that put the hook's folder back, for scripts that set PYTHONPATH anew
    take_folder_off("PATH", os.path.join(hook, "bin"))


def take_folder_off(variable, folder):
    """Leaves a list of folders as it would be without this one; without any the variable goes."""
    folders = os.environ.get(variable, "").split(os.pathsep)
    if folder not in folders:
        return
    others = [other for other in folders if other != folder]
    if others:
        os.environ[variable] = os.pathsep.join(others)
    else:
        del os.environ[variable]


def clock():
    """The two clocks of this machine at one moment, in ns."""
    return {"unix_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}


def clear_callbacks():
    """In a forked child: the profiler and the observer are still called for each op, which makes it slow, and keep what they see.

    PyTorch forgets all callbacks of `RecordFunction` (`at::clearCallbacks`). To end the two would wait for threads
    that a child does not have.
    """
    torch = sys.modules["torch"]
    torch._C._autograd._clear_callbacks()


def end_without_destructors():
    """Lets this forked child leave by `_exit` when it ends normally.

    Kineto's static `ConfigLoader` joins a thread in its destructor. A forked child has no such thread
    and would wait for ever. glibc calls `on_exit` functions in reverse order, before the destructors
    of what was loaded earlier: the C streams are flushed, then the process leaves with its status.
    """
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    libc.on_exit(libc.fcloseall, None)
