"""Uses what `torch.profiler.profile` has: drop_in.py CASE; prints what the script itself found out."""

import gc
import gzip
import inspect
import json
import os
import sys

import torch
from torch import nn

from etlink_torch import ProfilerAction, ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

torch.manual_seed(7)
CPU = [ProfilerActivity.CPU]
# PyTorch has the argument from 2.5 on
COLLECTS = {"acc_events": True} if "acc_events" in inspect.signature(torch.profiler.profile).parameters else {}
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def steps(number, profiler=None):
    for _ in range(number):
        optimizer.zero_grad()
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()
        if profiler is not None:
            profiler.step()


def ops(path):
    with (gzip.open if path.endswith(".gz") else open)(path) as file:
        return sum(event.get("cat") == "cpu_op" for event in json.load(file)["traceEvents"])


def plain():
    with profile() as profiler:
        steps(1)
    assert len(profiler.key_averages()) > 5 and profiler.events()


def kinds():
    profiler = profile(activities=CPU)

    class Mine(profile):
        def __init__(self, label):
            super().__init__(activities=CPU, with_stack=True)
            self.label = label

    with Mine("mine") as mine:
        steps(1)
    theirs = torch.profiler.profile
    return isinstance(profiler, theirs), issubclass(profile, theirs), len(mine.events()) > 5, hasattr(profiler, "session")


def handlers():
    paths = ["packed.json.gz", "plain.json"]
    exports = [lambda profiler, path=path: profiler.export_chrome_trace(path) for path in paths]
    with profile(
        activities=CPU,
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=[tensorboard_trace_handler("board"), *exports],
    ) as profiler:
        steps(5, profiler)
    (board,) = os.listdir("board")
    counts = [ops(path) for path in ("board/" + board, *paths)]
    assert len(set(counts)) == 1, counts
    for export, path in zip(exports, paths):
        # to the file that is there already, and is the one that would be copied
        with profile(activities=CPU, output="again", overwrite=True, on_trace_ready=[export, export]):
            steps(1)
        assert ops(path) > 5
    return json.dumps(counts)


def raises():
    said = []

    def handler(profiler):
        raise KeyError("mine {}".format(len(said) + 1))

    for number, plan in ((3, schedule(wait=0, warmup=0, active=1)), (1, None)):
        try:
            with profile(activities=CPU, schedule=plan, on_trace_ready=handler) as profiler:
                steps(number, profiler if plan else None)
        except (KeyError, RuntimeError) as error:
            said.append(error.args[0])
    return ", ".join(said)


def callable():
    actions = {1: ProfilerAction.RECORD_AND_SAVE, 4: ProfilerAction.RECORD, 5: ProfilerAction.RECORD_AND_SAVE}
    profiler = profile(activities=CPU, schedule=lambda step: actions.get(step, ProfilerAction.NONE), **COLLECTS)
    profiler.start()
    steps(8, profiler)
    profiler.stop()
    assert profiler.step_num == 8 and len({event.id for event in profiler.events()}) > 30
    profiler = profile(activities=CPU, with_stack=True, experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True))
    profiler.start()
    steps(1)
    profiler.stop()
    profiler.export_stacks("stacks.txt", "self_cpu_time_total")
    assert os.path.getsize("stacks.txt") > 100


def toggle():
    with profile(activities=CPU) as profiler:
        for name, enable in (("before", False), ("hidden", True), ("after", None)):
            with record_function(name):
                steps(1)
            if enable is not None:
                profiler.toggle_collection_dynamic(enable, CPU)
    assert "hidden" not in {event.name for event in profiler.events()}


def metadata():
    ids = iter(["id 1"])
    profiler = profile(activities=CPU, custom_trace_id_callback=lambda: next(ids))
    profiler.preset_metadata_json("early", '{"preset": 2}')
    with profiler:
        steps(1)
        profiler.add_metadata("text", "mine")
        profiler.add_metadata_json("json", "[1]")
    profiler.export_chrome_trace("mine.json")
    with open("mine.json") as file:
        trace = json.load(file)
    added = [trace[key] for key in ("text", "json", "early", "trace_id")]
    return added, sorted(name for name in os.listdir("etlink_traces") if name[0] != "."), profiler.notes


def named(**more):
    for _ in range(2):
        with profile(output="named", activities=CPU, gzip=True, **more):
            steps(1)


def named_again():
    said = refused(output="named", activities=CPU)
    named(overwrite=True)
    return said


def many():
    """Recordings that have ended hold no file and no replaced function."""
    before = len(os.listdir("/proc/self/fd"))
    made, wrapped = 0, set()
    for number in range(40):
        with profile(output="many/{}".format(number), activities=["cpu"]):
            model(torch.randn(8, 32))
        wrapped.add(torch.profiler.ExecutionTraceObserver.register_callback)
    gc.collect()
    profile(activities=CPU)
    made = sum(os.path.exists("many/{}/etlink.json".format(number)) for number in range(40))
    return made, len(os.listdir("/proc/self/fd")) < before + 10, len(wrapped) == 1


def rank(number, store):
    # made before anything tells the rank
    profiler = profile(activities=CPU)
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=number, world_size=2)
    with profiler:
        torch.distributed.all_reduce(torch.ones(4))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def forked():
    """Twice: the second recording replaces the first."""
    context = torch.multiprocessing.get_context("fork")
    for turn in range(2):
        store = os.path.abspath("store{}".format(turn))
        ranks = [context.Process(target=rank, args=(number, store)) for number in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        assert [process.exitcode for process in ranks] == [0, 0]


def notes():
    with profile(activities=CPU) as profiler:
        steps(1)
    return " ".join([*profiler.notes, "table", str(len(profiler.key_averages()) > 5)])


def refused(**arguments):
    try:
        profile(**arguments)
    except Exception as error:
        return "{}: {}".format(type(error).__name__, error)


def wrong():
    plan = schedule(wait=0, warmup=0, active=1)
    return refused(wait=1, schedule=plan), refused(with_stacks=True), refused(ranks=["one"])


result = globals()[sys.argv[1]]()
print(*result if isinstance(result, tuple) else (result,))
