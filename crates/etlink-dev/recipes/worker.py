"""Record one rank of one case. Started by record.py with the virtual environment's Python, once per rank."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist

import programs
import window


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--backend", default="", help="c10d backend, none for a single process")
    parser.add_argument("--store", default="", help="absolute path of the file the ranks meet at")
    parser.add_argument("--unscheduled", action="store_true", help="plain start and stop, no ProfilerStep")
    parser.add_argument("--all-threads", action="store_true")
    parser.add_argument("--averages", action="store_true", help="stacks and allocations too, and the profiler's table")
    parser.add_argument("--flight", action="store_true", help="the dump of the flight recorder too")
    parser.add_argument("--untraced", action="store_true", help="one step without a profiler")
    parser.add_argument("--out", required=True, help="folder for the two trace files")
    return parser.parse_args()


def dump_flight(rank: int) -> None:
    """What `nccl_trace_rank_<rank>` of a hang has, without stacks: these name folders of this machine."""
    dump = torch._C._distributed_c10d._dump_fr_trace(includeStackTraces=False)
    Path(f"nccl_trace_rank_{rank}").write_bytes(dump)


def main() -> None:
    chosen = arguments()
    os.chdir(chosen.out)
    torch.manual_seed(7)
    torch.set_num_threads(1)
    if chosen.backend == "commgloo":
        import commgloo  # noqa: F401  registers the backend; compiles it at the first use
    if chosen.backend:
        dist.init_process_group(
            chosen.backend, init_method=f"file://{chosen.store}", rank=chosen.rank, world_size=chosen.world
        )
    step = programs.PROGRAMS[chosen.program](chosen.rank, chosen.world)
    if chosen.untraced:
        step()
    else:
        window.record(chosen.rank, step, not chosen.unscheduled, chosen.all_threads, chosen.averages)
    if chosen.flight:
        dump_flight(chosen.rank)
    if chosen.untraced:
        # a rank that is stuck cannot take its leave of the others
        os._exit(0)
    if chosen.backend:
        dist.barrier()
        dist.destroy_process_group()
        # Gloo's threads may still want the interpreter lock; leaving normally then aborts now and then.
        os._exit(0)


if __name__ == "__main__":
    main()
