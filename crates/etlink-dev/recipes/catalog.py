"""The cases: what each one records, with which PyTorch versions, and what to look at in the result.

No torch here: this table is read outside the virtual environment too.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One test recording. `name` is also the name of its program (see programs.py)."""

    name: str
    versions: tuple[str, ...]
    model: str
    shows: str
    ranks: int = 1
    backend: str = ""
    """c10d backend of a multi-rank case: `gloo`, or `commgloo` (gloo plus record_param_comms)."""
    scheduled: bool = True
    """False: plain start and stop, so that the traces have no ProfilerStep."""
    all_threads: bool = False
    """True: the profiler also watches threads that it did not see being started."""
    averages: bool = False
    """True: keep the profiler's own key_averages() beside the traces, with stacks and allocations recorded."""
    flight: bool = False
    """True: keep the dump of the flight recorder of each rank beside the traces."""
    traced: bool = True
    """False: no traces at all, for a program that gets stuck."""
    orphans: bool = False
    """True: some host node must lack its parent, which a range that is still open at the end brings about."""


NEWEST = "2.15.0"

CASES = (
    Case(
        name="mlp",
        versions=(NEWEST, "2.4.1", "2.3.1", "2.1.2"),
        model="Linear 32-64-64-10 with ReLU, cross entropy, SGD with momentum, batch 8",
        shows="the smallest training loop: forward, backward, optimizer, two ProfilerSteps",
    ),
    Case(
        name="conv",
        versions=(NEWEST, "2.1.2"),
        model="two Conv2d + BatchNorm + ReLU, pooling, Linear, SGD, batch 8 of 3x16x16",
        shows="convolution, batch norm and pooling with their backward operators",
    ),
    Case(
        name="transformer",
        versions=(NEWEST, "2.3.1"),
        model="TransformerEncoder, 2 layers, width 32, 4 heads, feed forward 64, Adam, batch 8 x 12",
        shows="attention, layer norm, Adam; deep operator nesting",
    ),
    Case(
        name="loader",
        versions=(NEWEST, "2.3.1"),
        model="the mlp model fed by a DataLoader with 2 persistent worker processes",
        shows="DataLoader ranges; the workers' own operators are in neither trace",
    ),
    Case(
        name="inference",
        versions=(NEWEST,),
        model="the transformer model in eval() under inference_mode(), two calls",
        shows="no ProfilerStep, no backward, no sequence numbers",
        scheduled=False,
    ),
    Case(
        name="open_range",
        versions=(NEWEST,),
        model="the mlp model; a user range opens before backward() and closes in the next step",
        shows="a range across a step boundary, which leaves ProfilerStep#3 under ProfilerStep#2; "
        "a range still open at the end, which only the device trace has, "
        "so that host nodes name a parent that is not there",
        orphans=True,
    ),
    Case(
        name="threads",
        versions=(NEWEST,),
        model="two user threads train one mlp each; the main thread runs torch.jit.fork",
        shows="several forward threads, profile_all_threads on: both traces see all of them",
        all_threads=True,
    ),
    Case(
        name="threads_unprofiled",
        versions=(NEWEST,),
        model="as threads",
        shows="user threads that only the host trace sees: host nodes without device events",
    ),
    Case(
        name="ddp2",
        versions=(NEWEST, "2.4.1"),
        model="the mlp model in DistributedDataParallel",
        shows="gradient all-reduce; record_param_comms with every attribute",
        ranks=2,
        backend="commgloo",
    ),
    Case(
        name="ddp2_gloo",
        versions=(NEWEST, "2.3.1"),
        model="the mlp model in DistributedDataParallel",
        shows="collectives as plain gloo writes them: no record_param_comms, no attributes",
        ranks=2,
        backend="gloo",
    ),
    Case(
        name="tpdp4",
        versions=(NEWEST,),
        model="2 x 2: column and row parallel Linear 32-64-32 in tensor groups {0,1} {2,3}, "
        "gradients averaged in data groups {0,2} {1,3}",
        shows="sub groups (adjacent and strided); all_reduce, all_gather, reduce_scatter, barrier",
        ranks=4,
        backend="commgloo",
    ),
    Case(
        name="pipeline4",
        versions=(NEWEST,),
        model="one Linear 32-32 stage per rank, two micro batches of 4, activations forward, gradients back",
        shows="send and recv; ranks with different node counts",
        ranks=4,
        backend="commgloo",
    ),
    Case(
        name="experts2",
        versions=(NEWEST,),
        model="all_to_all of 8 tokens of width 16 to two experts, uneven splits",
        shows="all_to_all with in_split_size and out_split_size",
        ranks=2,
        backend="commgloo",
    ),
    Case(
        name="fsdp2",
        versions=(NEWEST,),
        model="the mlp model, every Linear sharded with fully_shard, momentum on the shards",
        shows="FSDP: all_gather before forward and backward, reduce_scatter of gradients",
        ranks=2,
        backend="commgloo",
    ),
)


AVERAGES = (
    Case(
        name="transformer",
        versions=(NEWEST, "2.1.2"),
        model="as in pairs",
        shows="names, shapes, stacks and allocations of one thread",
        averages=True,
    ),
    Case(
        name="ddp2_gloo",
        versions=(NEWEST,),
        model="as in pairs",
        shows="ranges that begin on one thread and end on another",
        ranks=2,
        backend="gloo",
        averages=True,
    ),
    Case(
        name="threads",
        versions=(NEWEST,),
        model="as in pairs",
        shows="operators of several threads",
        all_threads=True,
        averages=True,
    ),
    Case(
        name="open_range",
        versions=(NEWEST,),
        model="as in pairs",
        shows="ranges across steps, and one that is open at the end, which no table has",
        orphans=True,
        averages=True,
    ),
)
"""Recordings that also keep the profiler's own table: testdata/averages."""


FLIGHT = (
    Case(
        name="ddp2_gloo",
        versions=(NEWEST,),
        model="as in pairs",
        shows="a plain DDP run on gloo, whose collectives the flight recorder describes",
        ranks=2,
        backend="gloo",
        flight=True,
    ),
    Case(
        name="tpdp4",
        versions=(NEWEST,),
        model="as in pairs",
        shows="groups of a part of the ranks; reduce_scatter, which gloo carries out as all_reduce",
        ranks=4,
        backend="gloo",
        flight=True,
    ),
    Case(
        name="stuck4",
        versions=(NEWEST,),
        model="three all_reduces of all ranks, then one that rank 2 does not call",
        shows="a hang: dumps of the flight recorder alone",
        ranks=4,
        backend="gloo",
        flight=True,
        traced=False,
    ),
)
"""Recordings with the dumps of PyTorch's flight recorder: testdata/flight."""


def versions() -> list[str]:
    """Every PyTorch version that some case asks for, newest first."""
    found = {version for case in CASES for version in case.versions}
    return sorted(found, key=version_key, reverse=True)


def version_key(version: str) -> tuple[int, ...]:
    """`"2.15.0"` as `(2, 15, 0)`, which sorts as versions do."""
    return tuple(int(part) for part in version.split("."))


def has_record_function_id(version: str) -> bool:
    """Kineto writes "Record function id" since PyTorch 2.4."""
    return version_key(version) >= (2, 4)
