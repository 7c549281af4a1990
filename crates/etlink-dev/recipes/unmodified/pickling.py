"""Pickles what makes locks, and locks by dill where that is installed, into files that are read without us: pickling.py FOLDER."""

import _thread
import collections
import copy
import copyreg
import pathlib
import pickle
import sys
import threading

import torch

# after the import: this is what a program finds
from threading import Lock  # noqa: E402


class Guarded:
    """As a cache of which each worker gets a copy."""

    def __init__(self):
        self.lock, self.reentrant = threading.Lock(), threading.RLock()


folder = pathlib.Path(sys.argv[1])
reentrant = threading.RLock()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    lock = threading.Lock()
    assert isinstance(lock, _thread.LockType) and isinstance(lock, type(threading.Lock())) and isinstance(reentrant, _thread.RLock)
    # each protocol, and the pickler that is written in Python
    for number in range(pickle.HIGHEST_PROTOCOL + 1):
        for which, dumps in (("c", pickle.dumps), ("python", pickle._dumps)):
            content = dumps([Lock, collections.defaultdict(threading.Lock), threading.RLock, type(reentrant)], number)
            (folder / f"{which}_{number}_{step}.pickle").write_bytes(content)
    for name in ("cloudpickle", "dill"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        guarded = Guarded()
        content = [threading.Lock, collections.defaultdict(threading.Lock), threading.RLock]
        if name == "dill":
            with guarded.lock:
                content += [guarded.lock, guarded.reentrant]
                (folder / f"{name}_{step}.pickle").write_bytes(library.dumps(content))
        else:
            (folder / f"{name}_{step}.pickle").write_bytes(library.dumps(content))
    # though dill is there
    for one in (lock, reentrant, threading.RLock()):
        try:
            pickle.dumps(one)
        except TypeError as error:
            print(error)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

# a program can say how locks are pickled and copied, and derive classes of its own
copyreg.pickle(_thread.LockType, lambda lock: (threading.Lock, ()))
assert not pickle.loads(pickle.dumps(lock)).locked() and copy.deepcopy([lock])[0] is not lock
Owned = type("Owned", (type(reentrant),), {})
assert isinstance(Owned(), Owned) and not isinstance(reentrant, Owned) and not issubclass(_thread.RLock, Owned)
assert pickle.loads(pickle.dumps(Owned)) is Owned
