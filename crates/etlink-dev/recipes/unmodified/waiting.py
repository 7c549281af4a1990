"""Threads that wait for each other in all ways that are recorded, and what must stay as it is meanwhile."""

import copy
import multiprocessing
import pickle
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler

import torch
from torch import nn


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(8)


class OwnQueue(queue.Queue):
    """Equal to all others and without a hash."""

    def __eq__(self, other):
        return True

    def _put(self, item):
        super()._put(item)


def raises(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind:
        return
    raise AssertionError(f"{call} raised no {kind}")


def semantics():
    """What programs may rely on."""
    lock, reentrant = threading.Lock(), threading.RLock()
    for one in (lock, threading.Lock()):
        assert one.acquire() and one.locked() and not one.acquire(False)
        assert not one.acquire(timeout=0.001)
        one.release()
        raises(RuntimeError, one.release)
        raises(TypeError, pickle.dumps, one)
        raises(TypeError, copy.copy, one)
    with lock, reentrant:
        assert lock.locked()
    for one in (reentrant, threading.RLock()):
        assert isinstance(one, type(threading.RLock())) and one.acquire(timeout=1) and one.acquire(False)
        one.release()
        with one, ThreadPoolExecutor(1) as pool:
            assert not pool.submit(one.acquire, timeout=0.001).result()
            raises(RuntimeError, pool.submit(one.release).result)
        one.release()
        raises(RuntimeError, one.release)
        raises(TypeError, pickle.dumps, one)
        raises(TypeError, copy.copy, one)
        raises(ValueError, one.acquire, False, 1)
    # what makes one goes by its name
    assert pickle.loads(pickle.dumps(threading.RLock)) is threading.RLock
    waiting = threading.Condition(reentrant)
    with reentrant, waiting:
        assert not waiting.wait(0.001) and waiting.notify() is None
    between, simple = multiprocessing.Queue(1), multiprocessing.SimpleQueue()
    between.put([1])
    raises(queue.Full, between.put, 2, timeout=0.001)
    simple.put(torch.ones)
    assert between.get(timeout=10) == [1] and simple.get() is torch.ones
    raises(queue.Empty, between.get, True, 0.001)
    raises(queue.Empty, between.get_nowait)
    between.close()
    raises(ValueError, between.put, 3)
    condition = threading.Condition(lock)
    with condition:
        assert not condition.wait(0.001)
    assert condition.acquire() and condition.notify_all() is None and condition.release() is None
    for kind in (queue.Queue, queue.LifoQueue, queue.PriorityQueue, OwnQueue):
        items = kind(2)
        assert isinstance(items, queue.Queue)
        items.put(2)
        items.put(item=1, block=False)
        raises(queue.Full, items.put, 3, timeout=0.001)
        raises(queue.Full, items.put_nowait, 3)
        first = items.get()
        taken = sorted([first, items.get(timeout=1)])
        assert taken == [1, 2] and (first == 2) == (kind in (queue.Queue, OwnQueue))
        raises(queue.Empty, items.get_nowait)
        raises(queue.Empty, items.get, True, 0.001)
        raises(TypeError, items.put)
    event = threading.Event()
    assert not event.wait(0.001) and event.set() is None and event.wait() and event.is_set()
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(lambda: 3).result() == 3
        raises(ZeroDivisionError, pool.submit(lambda: 1 / 0).result)
        slow = pool.submit(time.sleep, 0.02)
        raises(TimeoutError, slow.result, timeout=0.001) if sys.version_info >= (3, 11) else None
        assert not wait([slow]).not_done and list(pool.map(abs, [-1, -2])) == [1, 2]
    thread = threading.Thread(target=event.wait)
    thread.start()
    assert thread.join() is None and not thread.is_alive()


torch.manual_seed(7)
torch.set_num_threads(1)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
items, lock, reentrant = queue.Queue(2), threading.Lock(), threading.RLock()
ended = threading.Event()


def produce():
    while not ended.is_set():
        with lock:
            batch = torch.ones(2, 8)
        with reentrant, reentrant:
            batch *= 2
        try:
            items.put(batch, timeout=1)
        except queue.Full:
            pass


producer = threading.Thread(target=produce)
producer.start()
loader = iter(torch.utils.data.DataLoader(Numbers(), 2, num_workers=2))
with ThreadPoolExecutor(1) as pool:
    for _ in range(12):
        future = pool.submit(torch.ones, 2, 8)
        semantics()
        with lock:
            batch = items.get() + next(loader)
        with reentrant:
            time.sleep(0.002)
            loss = model(batch + future.result()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
ended.set()
producer.join()
# after the recording all is as it was
for function in (queue.Queue.put, queue.Queue._get, threading.Event.wait, threading.Condition.notify):
    assert not hasattr(function, "__wrapped__"), function
assert Queue.get.__module__ == "multiprocessing.queues" and not hasattr(Queue.get, "__wrapped__")
assert ForkingPickler.loads is pickle.loads
assert type(reentrant).acquire is type(reentrant).__mro__[-2].acquire
print(f"loss {loss.item():.3f}")
