"""Registers `commgloo`: gloo for CPU tensors that annotates its collectives as ProcessGroupNCCL does.

Plain gloo writes no record_param_comms into the traces, so collectives recorded with it carry no sizes
and no group. Importing this module compiles commgloo.cpp (once per PyTorch version) and registers the
backend with torch.distributed.
"""

import os
from pathlib import Path

os.environ.setdefault("CXX", "g++")

import torch.distributed as dist
from torch.utils.cpp_extension import load

extension = load(
    "commgloo_extension",
    [str(Path(__file__).resolve().parent / "commgloo.cpp")],
    extra_cflags=["-O0", "-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO"],
    with_cuda=False,
)


def create(options, backend_options=None):
    """What torch.distributed calls for every new group; `options` is a DistributedBackendOptions."""
    inner = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
    ranks = list(options.global_ranks_in_group)
    return extension.create(inner, options.group_rank, options.group_size, str(options.group_id), ranks)


dist.Backend.register_backend("commgloo", create, extended_api=True, devices=["cpu"])
