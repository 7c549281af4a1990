"""The dump of PyTorch's flight recorder: sizes, types and groups of collectives, of which Kineto has the name alone where they are Gloo's."""

import pickle

DUMPS = ("_dump_fr_trace", "_dump_nccl_trace")
"""How PyTorch makes one: of all backends, or, in versions before, of NCCL alone."""


def file_name(rank):
    """Another name than PyTorch's (`nccl_trace_rank_0`): a new recording never replaces a dump of the program's own."""
    return "flight_recorder_{}.pickle".format(rank)


def dump(torch, path):
    """Writes what this process called; whether there was anything."""
    if not torch.distributed.is_available():
        return False
    module = torch._C._distributed_c10d
    found = [getattr(module, name) for name in DUMPS if hasattr(module, name)]
    if not found:
        return False
    content = dump_without_stacks(found[0])
    # of a recorder that is switched off, or saw no call, there is no entry
    if not pickle.loads(content).get("entries"):
        return False
    with open(path, "wb") as file:
        file.write(content)
    return True


def dump_without_stacks(dump):
    try:
        return dump(True, False, False)
    except TypeError:
        # before PyTorch 2.5 it takes no arguments
        return dump()
