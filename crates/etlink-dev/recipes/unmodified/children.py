"""Children that are forked in a recorded step: some are ended at once, one goes on and works. Prints how they ended, and what work costs."""

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
for step in range(8):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    if step == 3:
        fork_children()
    optimizer.step()
