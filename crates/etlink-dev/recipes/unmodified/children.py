"""Children that are forked in a recorded step: some are ended at once, one goes on and works. Prints how they ended, and what work costs.

    children.py FOLDER [own]: in a step of a profiler of its own, which a child may stop too
"""

import multiprocessing
import os
import resource
import sys
import time

import torch

context = multiprocessing.get_context("fork")
SMALL = torch.ones(4)


def cost_of_work():
    """Of an op, in us."""
    begin = time.perf_counter()
    for _ in range(4000):
        SMALL.add(1)
    return (time.perf_counter() - begin) / 4000 * 1e6


def work(results):
    # pages of libraries that come with the first ops are no records
    cost_of_work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = cost_of_work()
    results.put((cost, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory))


def open_files(place):
    """As a daemon: nothing of its parent stays open."""
    os.closerange(3, 256)
    files = [open(os.path.join(place, f"own{number}"), "w") for number in range(8)]
    for number, file in enumerate(files):
        cost_of_work()
        file.write(f"hello {number}")
        file.close()
    os._exit(0)


def fork_children():
    ended = []
    for _ in range(20):
        child = context.Process(target=time.sleep, args=(3,))
        child.start()
        child.terminate()
        child.join()
        ended.append(child.exitcode)
    print("ended", sorted(set(ended)))
    results = context.Queue()
    worker = context.Process(target=work, args=(results,))
    worker.start()
    cost, memory = results.get()
    worker.join()
    print("cost", cost, "before", BEFORE, "grown", memory)
    daemon = os.fork()
    if daemon == 0:
        open_files(sys.argv[1])
    os.waitpid(daemon, 0)


BEFORE = cost_of_work()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(steps):
    for step in steps:
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        if step == 3:
            fork_children()
        optimizer.step()


def stop_in_child(profiler):
    """As a child does that leaves the block."""
    child = os.fork()
    if child == 0:
        profiler.stop()
        torch.ones(4).add(1)
        os._exit(7)
    print("left", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if sys.argv[2:]:
    train(range(3))
    with torch.profiler.profile() as profiler:
        train(range(3, 5))
        stop_in_child(profiler)
    profiler.export_chrome_trace(os.path.join(sys.argv[1], "own.json"))
    train(range(5, 8))
else:
    train(range(8))
