"""One training program for each way in which parts of a program wait for each other: program.py WAY STEPS.

The parts' lengths come from the environment, in ms: a run with one of them changed is the truth that a
prediction from the run before is held to. Parts sleep, so that a busy machine changes little.
"""

import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import nn

torch.set_num_threads(1)
STEPS = int(sys.argv[2])


def seconds(part):
    """A rank can have a length of its own: `FORWARD_1`."""
    rank = os.environ.get("RANK", "0")
    return float(os.environ.get(f"{part}_{rank}", os.environ.get(part, 0))) / 1000


def part(name, forward, backward=None):
    """An op that takes as long as the variables say, and its backward."""

    class Part(torch.autograd.Function):
        @staticmethod
        def forward(context, inputs):
            time.sleep(seconds(forward))
            return inputs.clone()

        @staticmethod
        def backward(context, gradients):
            if backward is not None:
                time.sleep(seconds(backward))
            return gradients.clone()

    return type(name, (Part,), {}).apply


class Trainer:
    def __init__(self, model=None):
        self.model = model or nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)

    def step(self, outputs):
        outputs.sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def ones():
    return torch.ones(2, 8)


def ops():
    trainer = Trainer()
    first, second = part("First", "FORWARD", "BACKWARD"), part("Second", "SECOND")
    for _ in range(STEPS):
        trainer.step(second(first(trainer.model(ones()))))


def hooked():
    """A hook of the model sleeps: no op, but a range of the program's own."""
    trainer = Trainer()
    work = part("Work", "WORK")

    def hook(module, arguments, output):
        with torch.profiler.record_function("hook"):
            time.sleep(seconds("HOOK"))

    trainer.model.register_forward_hook(hook)
    for _ in range(STEPS):
        trainer.step(work(trainer.model(ones())))


def producer():
    trainer, items = Trainer(), queue.Queue(2)
    make, use = part("Make", "MAKE"), part("Use", "USE")

    def produce():
        while True:
            items.put(make(ones()))

    threading.Thread(target=produce, daemon=True).start()
    for _ in range(STEPS):
        trainer.step(use(trainer.model(items.get())))


def future():
    trainer = Trainer()
    aside, own = part("Aside", "ASIDE"), part("Own", "OWN")
    with ThreadPoolExecutor(1) as pool:
        for _ in range(STEPS):
            result = pool.submit(aside, ones())
            outputs = own(trainer.model(ones()))
            trainer.step(outputs + result.result())


def lock():
    trainer, shared, ended = Trainer(), threading.Lock(), threading.Event()
    locked, free = part("Locked", "LOCKED"), part("Free", "FREE")

    def work(inputs):
        with shared:
            outputs = locked(inputs)
        return free(outputs)

    def other():
        while not ended.is_set():
            work(ones())

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(STEPS):
        trainer.step(work(trainer.model(ones())))
    ended.set()
    thread.join()


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS + 16

    def __getitem__(self, index):
        time.sleep(seconds("FETCH"))
        return torch.ones(8)


def loader():
    trainer, use = Trainer(), part("Use", "USE")
    batches = iter(torch.utils.data.DataLoader(Items(), 1, num_workers=2))
    for _ in range(STEPS):
        trainer.step(use(trainer.model(next(batches))))


def stages():
    """A pipeline of threads: each takes from a queue and gives into the next."""
    trainer, queues = Trainer(), [queue.Queue(1) for _ in range(2)]
    first, second, last = part("First", "FIRST"), part("Second", "SECOND"), part("Last", "LAST")

    def run_first():
        while True:
            queues[0].put(first(ones()))

    def run_second():
        while True:
            queues[1].put(second(queues[0].get()))

    for run in (run_first, run_second):
        threading.Thread(target=run, daemon=True).start()
    for _ in range(STEPS):
        trainer.step(last(trainer.model(queues[1].get())))


def join_ranks():
    """Gloo that records its collectives, as NCCL does: what PyTorch's own does not say cannot be joined."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import commgloo  # noqa: F401  registers the backend; compiles it at the first use

    torch.distributed.init_process_group("commgloo")


def ddp():
    join_ranks()
    work, more = part("Work", "FORWARD", "BACKWARD"), part("More", "MORE")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    trainer = Trainer(model)
    for _ in range(STEPS):
        trainer.step(more(model(work(torch.ones(2, 8, requires_grad=True)))))
    torch.distributed.destroy_process_group()


def tensor_parallel():
    """All ranks meet after each of two ops."""
    join_ranks()
    trainer, work, second = Trainer(), part("Work", "FORWARD"), part("Second", "SECOND")
    for _ in range(STEPS):
        outputs = work(trainer.model(ones()))
        torch.distributed.all_reduce(outputs.detach())
        outputs = second(outputs)
        torch.distributed.all_reduce(outputs.detach())
        trainer.step(outputs)
    torch.distributed.destroy_process_group()


def pipeline():
    """A stage per rank: three micro batches go through both, then all ranks meet."""
    join_ranks()
    trainer, work = Trainer(), part("Work", "FORWARD")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    for _ in range(STEPS):
        for _ in range(3):
            inputs = ones()
            if rank > 0:
                torch.distributed.recv(inputs, rank - 1)
            outputs = work(trainer.model(inputs))
            if rank + 1 < ranks:
                torch.distributed.send(outputs.detach(), rank + 1)
        torch.distributed.barrier()
        trainer.step(outputs)
    torch.distributed.destroy_process_group()


globals()[sys.argv[1]]()
sys.stdout.flush()
if sys.argv[1] in ("producer", "stages", "ddp", "tensor_parallel", "pipeline"):
    # Threads of the first two wait for ever; those of Gloo may still want the interpreter's lock.
    os._exit(0)
