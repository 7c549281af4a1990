"""Where Python threads wait for each other, and what let them go on.

A profiler sees ranges, and takes a thread that waits in `queue.get` for one that works. While a cycle
is recorded, calls that wait are replaced, and their times go into the device trace as events of
category `etlink_wait`: `after` is the number of what ended the wait, `frees` of what its end lets
go on. The numbers say which `put` a `get` belongs to, whether it had to wait for it or not.

Calls of C are left alone, as `queue.SimpleQueue` is: a class of C has no place for a wrapper. Those of
locks are replaced in `locks`.
"""

import functools
import itertools
import sys
import threading
from collections import deque
from threading import get_native_id
from time import time_ns

from . import locks
from .guard import attempt
from .known import Known
from .steps.patches import Patches

MOST_ROWS = 500_000
"""So many waits of a cycle are kept: about 100 MB."""
MOST_STARTS = 200 if sys.version_info >= (3, 13) else sys.maxsize
"""In so many cycles of a process waits are recorded.

From 3.13 on Python calls the methods of a class more slowly, for good, once the class was changed a thousand times
(`MAX_VERSIONS_PER_CLASS` in its typeobject.c). A cycle changes locks, queues and threads twice.
"""
USED_UP = (
    "thread waits are recorded only in the first {} cycles: after more changes to a class, this version of Python "
    "calls its methods more slowly"
)
STARTS = itertools.count(1)
"""Numbers the recorders of waits of this process."""


class Local(threading.local):
    call, idle, depth = None, None, 0
    """The call of this thread that waits now; the end of the last work of a pool's thread; how many
    `_put` or `_get` it is in."""

    def __init__(self):
        # a system call, made once per thread
        self.thread = get_native_id()


class QueueState:
    """The items in a queue by the numbers of their `put`, and its free places by those of their `get`."""

    def __init__(self, fresh):
        # places that were free before anything was recorded
        self.fresh, self.places, self.items = fresh, deque(), {}

    def take_place(self):
        if self.fresh > 0:
            self.fresh -= 1
            return None
        return self.places.popleft() if self.places else None

    def add(self, item, number):
        self.items.setdefault(id(item), deque()).append(number)

    def take(self, item):
        numbers = self.items.get(id(item))
        if not numbers:
            return None
        number = numbers.popleft()
        if not numbers:
            del self.items[id(item)]
        return number


class Call:
    """A call that waits. `moment`: when it went on, where that is before the call's end."""

    __slots__ = ("owner", "start", "moment", "after", "frees")

    def __init__(self, owner):
        self.owner, self.moment, self.after, self.frees = owner, None, None, None
        self.start = time_ns()


class Waits:
    """Records from `start()` to `stop()`. A row: name, thread, start and end in ns, after, frees."""

    def __init__(self):
        self.rows, self.on, self.local = [], False, Local()
        self.numbers, self.known, self.patches = itertools.count(1), Known(), None
        # what a DataLoader was given and took, by process and number of the batch
        self.given, self.taken = [], []

    def start(self, torch, report):
        if next(STARTS) > MOST_STARTS:
            report.note(USED_UP.format(MOST_STARTS))
            return
        self.patches = Patches()
        try:
            self.replace_queues()
            attempt(self.replace_process_queues)
            self.replace_events()
            self.replace_futures()
            self.replace_threads()
            self.replace_torch(torch)
            attempt(locks.watch, self.patches)
            self.on = True
            locks.RECORDERS.append(self)
        except Exception:
            self.stop()
            raise

    def stop(self):
        """What cannot be taken back passes calls on."""
        self.on = False
        attempt(locks.RECORDERS.remove, self)
        patches, self.patches = self.patches, None
        if patches is not None:
            attempt(patches.undo)
        attempt(self.known.clear)

    def take_rows(self):
        rows, self.rows = self.rows, []
        return rows

    def lock_taken(self, start, thread, time, kind="Lock"):
        """`thread`: which let the lock go at `time`."""
        if self.on:
            number = next(self.numbers)
            self.add(kind + ".release", time, time, None, number, thread)
            self.add(kind + ".acquire", start, time_ns(), number, None)

    # What is recorded.

    def add(self, name, start, end, after, frees, thread=None):
        if len(self.rows) < MOST_ROWS:
            self.rows.append((name, thread or self.local.thread, start, end, after, frees))

    def mark(self, name):
        """Something that others wait for happens now; its number."""
        number, now = next(self.numbers), time_ns()
        self.add(name, now, now, None, number)
        return number

    def begin(self, arguments, entering=None):
        """A call that waits begins; None where one does already, which this is a part of."""
        local = self.local
        if not self.on or not arguments or local.call is not None:
            return None
        if entering is not None:
            entering(arguments[0])
        local.call = call = Call(arguments[0])
        return call

    def end(self, call, name, cause=None, result=None):
        """Of each call that `begin` gave. `cause(object, result)`: the number of what ended the wait."""
        self.local.call = None
        if self.on:
            if cause is not None:
                call.after = cause(call.owner, result)
            end = time_ns() if call.moment is None else call.moment
            self.add(name, call.start, end, call.after, call.frees)

    # How calls are replaced. All take and give what the original does.

    def wrap_wait(self, owner, method, name, cause=None, entering=None):
        """`entering(object)` runs before the call, and `cause` after one that raised nothing."""
        original = vars(owner)[method]
        begin, end = self.begin, self.end

        @functools.wraps(original)
        def wrapper(*arguments, **named):
            call = attempt(begin, arguments, entering)
            if call is None:
                return original(*arguments, **named)
            try:
                result = original(*arguments, **named)
            except BaseException:
                attempt(end, call, name)
                raise
            attempt(end, call, name, cause, result)
            return result

        self.patches.replace(owner, method, wrapper)

    def wrap_release(self, owner, method, before):
        """`before(object)` runs first: who waits may go on before the call has ended."""
        original = vars(owner)[method]

        @functools.wraps(original)
        def wrapper(*arguments, **named):
            if self.on and arguments:
                attempt(before, arguments[0])
            return original(*arguments, **named)

        self.patches.replace(owner, method, wrapper)

    def last_mark(self, thing, result):
        """What ended a wait that did not end by its timeout."""
        return None if result is False else self.known.get(thing) or None

    # `queue.Queue` and what is derived from it.

    def replace_queues(self):
        import queue

        self.wrap_wait(queue.Queue, "put", "queue.put")
        self.wrap_wait(queue.Queue, "get", "queue.get")
        kinds = [queue.Queue]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if "_put" in vars(kind):
                self.wrap_inner(kind, "_put", self.item_put)
            if "_get" in vars(kind):
                self.wrap_inner(kind, "_get", self.item_got)

    def wrap_inner(self, kind, method, happened):
        """`_put` and `_get` run under the queue's lock: there the item changes hands."""
        original, local = vars(kind)[method], self.local

        @functools.wraps(original)
        def wrapper(*arguments, **named):
            # A class of the program's own may call that of its base.
            local.depth += 1
            try:
                result = original(*arguments, **named)
            finally:
                local.depth -= 1
            if self.on and local.depth == 0:
                attempt(self.change_hands, happened, arguments, result)
            return result

        self.patches.replace(kind, method, wrapper)

    def change_hands(self, happened, arguments, result):
        """A call that began before the recording, too, takes a place or an item; it has no row."""
        call = self.local.call
        if call is None or call.owner is not arguments[0] or call.moment is not None:
            call = Call(arguments[0])
        happened(call, arguments, result)

    def state_of(self, queue, before):
        """`before`: how many items were in it."""
        state = self.known.get(queue)
        if state is None:
            state = QueueState(max(queue.maxsize - before, 0))
            self.known.set(queue, state)
        return state

    def item_put(self, call, arguments, result):
        queue, item = arguments[0], arguments[1]
        state = self.state_of(queue, queue._qsize() - 1)
        call.frees = next(self.numbers)
        state.add(item, call.frees)
        if queue.maxsize > 0:
            call.after = state.take_place()
        call.moment = time_ns()

    def item_got(self, call, arguments, item):
        queue = arguments[0]
        state = self.state_of(queue, queue._qsize() + 1)
        call.after = state.take(item)
        if queue.maxsize > 0:
            call.frees = next(self.numbers)
            state.places.append(call.frees)
        call.moment = time_ns()

    # Queues between processes: another process ends the wait, and its number is not known here.

    def replace_process_queues(self):
        queues = sys.modules.get("multiprocessing.queues")
        if queues is None:
            return
        kind, simple = queues.Queue, queues.SimpleQueue
        for owner, method in ((kind, "put"), (kind, "get"), (simple, "get")):
            self.wrap_wait(owner, method, "multiprocessing.Queue." + method)
        self.wrap_unpacking(queues._ForkingPickler, (kind, simple))

    def wrap_unpacking(self, pickler, kinds):
        """An item that has come is unpacked in `get`: that is work."""
        original = vars(pickler)["loads"]

        @functools.wraps(original)
        def loads(*arguments, **named):
            if self.on:
                attempt(self.item_came, kinds)
            return original(*arguments, **named)

        self.patches.replace(pickler, "loads", staticmethod(loads))

    def item_came(self, kinds):
        call = self.local.call
        if call is not None and isinstance(call.owner, kinds) and call.moment is None:
            call.moment = time_ns()

    # `threading.Event` and `Condition`: barriers and semaphores are made of them.

    def replace_events(self):
        self.wrap_wait(threading.Event, "wait", "threading.Event.wait", self.last_mark)
        self.wrap_release(threading.Event, "set", self.event_set)
        condition = threading.Condition
        name = "threading.Condition.wait"
        self.wrap_wait(condition, "wait", name, self.waited, self.wait_begins)
        for method in ("notify", "notify_all"):
            self.wrap_release(condition, method, self.notified)

    def event_set(self, event):
        if not event.is_set():
            self.known.set(event, self.mark("threading.Event.set"))

    def wait_begins(self, condition):
        if self.known.get(condition) is None:
            self.known.set(condition, 0)

    def waited(self, condition, result):
        locks.note_taken_again(condition._lock, self.local.thread)
        return self.last_mark(condition, result)

    def notified(self, condition):
        # The conditions inside of queues, events and futures are not known: the wait for these is
        # recorded as a whole.
        if self.known.get(condition) is not None and condition._waiters:
            self.known.set(condition, self.mark("threading.Condition.notify"))

    # Futures, and the threads of a pool.

    def replace_futures(self):
        from concurrent.futures import Future

        for method in ("result", "exception"):
            self.wrap_wait(Future, method, "Future." + method, self.last_mark)
        for method in ("set_result", "set_exception"):
            self.wrap_release(Future, method, self.future_set)
        from concurrent.futures.thread import _WorkItem

        self.wrap_release(_WorkItem, "__init__", self.submitted)
        self.wrap_run(_WorkItem)

    def future_set(self, future):
        self.known.set(future, self.mark("Future.set_result"))

    def submitted(self, item):
        self.known.set(item, self.mark("Executor.submit"))

    def wrap_run(self, kind):
        original = vars(kind)["run"]

        @functools.wraps(original)
        def run(*arguments, **named):
            if self.on and arguments:
                attempt(self.taken_up, arguments[0])
            try:
                return original(*arguments, **named)
            finally:
                if self.on:
                    attempt(self.rest)

        self.patches.replace(kind, "run", run)

    def taken_up(self, item):
        """A thread of a pool rests from one item to the next, in a queue that C code made."""
        now, local = time_ns(), self.local
        self.add("Executor.idle", local.idle or now, now, self.known.get(item), None)

    def rest(self):
        self.local.idle = time_ns()

    # Threads.

    def replace_threads(self):
        thread = threading.Thread
        self.wrap_release(thread, "start", self.started)
        original = vars(thread)["_bootstrap_inner"]

        @functools.wraps(original)
        def bootstrap(*arguments, **named):
            if self.on and arguments:
                attempt(self.begun, arguments[0])
            try:
                return original(*arguments, **named)
            finally:
                if self.on and arguments:
                    attempt(self.ended, arguments[0])

        self.patches.replace(thread, "_bootstrap_inner", bootstrap)
        self.wrap_wait(thread, "join", "threading.Thread.join", self.joined)

    def started(self, thread):
        self.known.set(thread, (self.mark("threading.Thread.start"), None))

    def begun(self, thread):
        now, state = time_ns(), self.known.get(thread)
        if state is not None:
            self.add("threading.Thread.run", now, now, state[0], None)

    def ended(self, thread):
        self.known.set(thread, (None, self.mark("threading.Thread.run")))

    def joined(self, thread, result):
        state = self.known.get(thread)
        return None if state is None or thread.is_alive() else state[1]

    # PyTorch.

    def replace_torch(self, torch):
        distributed = getattr(torch._C, "_distributed_c10d", None)
        work = getattr(distributed, "Work", None)
        if work is not None and "wait" in vars(work):
            attempt(self.wrap_wait, work, "wait", "Work.wait")
        loader = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
        self.wrap_wait(loader, "_get_data", "DataLoader.get", self.batch_taken)
        self.wrap_indices(loader)

    def batch_taken(self, loader, data):
        batch, number = data[0], next(self.numbers)
        worker = loader._task_info[batch][0]
        self.taken.append((loader._workers[worker].pid, batch, time_ns(), number))
        return number

    def wrap_indices(self, loader):
        original = vars(loader)["_try_put_index"]

        @functools.wraps(original)
        def try_put_index(*arguments, **named):
            before = attempt(self.next_batch, *arguments)
            result = original(*arguments, **named)
            if before is not None:
                attempt(self.batch_given, *before)
            return result

        self.patches.replace(loader, "_try_put_index", try_put_index)

    def next_batch(self, loader):
        return loader, loader._send_idx, time_ns()

    def batch_given(self, loader, batch, start):
        if not self.on or loader._send_idx == batch:
            return
        worker, number = loader._task_info[batch][0], next(self.numbers)
        self.add("DataLoader.put", start, start, None, number)
        self.given.append((loader._workers[worker].pid, batch, start, number))
