"""A handler of a signal raises while the main thread takes and leaves locks: none stays locked for ever."""

import random
import signal
import threading

import torch

ROUNDS = 150


class Late(Exception):
    pass


def raise_late(number, frame):
    raise Late


def take(lock):
    """Ends by itself if somebody swallows what the handler raises."""
    for _ in range(50_000):
        with lock:
            pass


def is_free(lock):
    """Whether another thread can have it."""
    taken = []
    thread = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=0.05)))
    thread.start()
    thread.join()
    return taken[0]


def is_interrupted(lock):
    wait = random.uniform(0.0001, 0.0005)
    try:
        signal.setitimer(signal.ITIMER_REAL, wait)
        take(lock)
    except Late:
        return True
    return False


def rounds():
    """How often the handler raised, and how many locks were stuck then."""
    seen = stuck = 0
    for make in (threading.Lock, threading.RLock):
        for _ in range(ROUNDS):
            lock = make()
            seen += is_interrupted(lock)
            stuck += not is_free(lock)
    return seen, stuck


signal.signal(signal.SIGALRM, raise_late)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    print(*rounds())
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
