"""Locks are what Python says they are, before, in and after a recorded cycle. Prints the steps in which something was not."""

import _thread
import copy
import inspect
import pickle
import threading
import time
from unittest.mock import create_autospec

import torch

PLAIN, REENTRANT = _thread.allocate_lock, _thread.RLock


def is_plain():
    lock, reentrant = threading.Lock(), threading.RLock()
    assert type(lock) is _thread.LockType is type(PLAIN()) and type(reentrant) is _thread.RLock is REENTRANT
    assert threading._CRLock is _thread.RLock and threading._allocate_lock is PLAIN
    assert threading.Lock in (PLAIN, _thread.LockType)
    for one, kind in ((lock, _thread.LockType), (reentrant, threading._CRLock)):
        assert kind.acquire(one) and kind.release(one) is None
        assert kind.__enter__(one) and kind.__exit__(one, None, None, None) is None
        assert one.acquire(blocking=True, timeout=1) and one.release() is None
        assert one.acquire(True, 1) and one.release() is None
        assert one.acquire.__name__ == "acquire" and one.acquire.__self__ is one
        for call, *wrong in ((one.acquire, 1, 2, 3), (one.acquire, False, 1), (one.acquire, True, -2), (copy.copy, one), (pickle.dumps, one)):
            try:
                call(*wrong)
            except (TypeError, ValueError):
                continue
            raise AssertionError(call)
    # C calls it there, and no function of Python
    _thread.start_new_thread(lock.acquire, ())
    end = time.monotonic() + 10
    while not lock.locked() and time.monotonic() < end:
        time.sleep(0.001)
    assert lock.locked()
    assert specs() == SPECS


def signature():
    try:
        return str(inspect.signature(threading.Lock))
    except ValueError:
        return None


def specs():
    """What stands in for them in tests."""
    kinds = [type(create_autospec(one)).__name__ for one in (threading.Lock, threading.Lock(), threading.RLock())]
    create_autospec(threading.Lock()).acquire(timeout=1)
    return kinds, signature()


# of plain Python, where this script is run without a recorder
SPECS = (["MagicMock", "NonCallableMagicMock", "NonCallableMagicMock"], None)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
wrong = []
for step in range(6):
    try:
        is_plain()
    except AssertionError as error:
        wrong.append((step, error.__traceback__.tb_next and error.__traceback__.tb_next.tb_lineno))
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print(wrong)
