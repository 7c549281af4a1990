"""Profilers that the program makes itself: all that is theirs stays, and the host trace is recorded beside them.

What is wrapped calls the program's own function in any case, with its arguments, result and error. A trace of
Kineto can be saved once, so the program comes first: what it exports is copied. Only a trace that it can export
no more is exported by us.
"""

import functools
import os
import shutil
import weakref

from . import files, host_cut
from .guard import Failure, attempt, describe, guarded
from .observer_file import ObserverFile
from .process import clear_callbacks, clock
from .signals import deferred
from .waits import Waits
from .window import OWN, add_waits, snapshot_of


def watch(torch, own):
    """Wraps what all profilers of the program do. What was there before: owner, name, function."""
    return wrap_all([*calls_of_profilers(torch), *calls_beside_profilers(torch)], lambda _: [own])


def calls_of_profilers(torch):
    """Methods of profilers, and what is done before and after each."""
    kineto, profile = torch.profiler.profiler._KinetoProfile, torch.profiler.profile
    return [
        (profile, "start", OwnProfilers.note_start, None),
        (profile, "stop", OwnProfilers.note_stop, OwnProfilers.forget_stop),
        (kineto, "prepare_trace", OwnProfilers.take_over, OwnProfilers.prepared),
        (kineto, "start_trace", OwnProfilers.begin, OwnProfilers.begun),
        (kineto, "stop_trace", OwnProfilers.end, OwnProfilers.ended),
        (kineto, "toggle_collection_dynamic", None, OwnProfilers.toggled),
    ]


def calls_beside_profilers(torch):
    """The same of what profilers use."""
    legacy, observer = torch.autograd.profiler.profile, torch.profiler.ExecutionTraceObserver
    return [
        (legacy, "export_chrome_trace", None, OwnProfilers.exported),
        (observer, "register_callback", OwnProfilers.make_way, OwnProfilers.registered),
        (observer, "unregister_callback", None, OwnProfilers.unregistered),
    ]


def wrap_all(calls, owns):
    """Puts wrappers into the classes. What was there before: owner, name, function."""
    # PyTorch 2.5 and older lack `toggle_collection_dynamic`
    present = [call for call in calls if hasattr(call[0], call[1])]
    before = [(owner, name, getattr(owner, name)) for owner, name, _, _ in present]
    for owner, name, first, last in present:
        setattr(owner, name, around(getattr(owner, name), first, last, owns))
    return before


def around(original, first, last, owns):
    """The function with a call before it and one after it; the latter learns whether it raised.

    first, last: methods of `OwnProfilers`, or None
    owns: gives the objects of `OwnProfilers` that these are called with
    """

    @functools.wraps(original)
    def wrapper(self, *arguments, **named):
        if OWN["making"]:
            return original(self, *arguments, **named)
        call_each(owns, first, self)
        try:
            result = original(self, *arguments, **named)
        except BaseException:
            call_each(owns, last, self, arguments, named, True)
            raise
        call_each(owns, last, self, arguments, named, False)
        return result

    return wrapper


def call_each(owns, method, *arguments):
    """Raises what handlers of the program raise, and nothing else: behind it, so that all is done."""
    if method is None:
        return
    with deferred(has_defaults=False):
        for own in attempt(owns, arguments[0]) or ():
            attempt(method, own, *arguments)


class OwnProfilers:
    """Those of one process. One records at a time; of several the traces may wait to be exported."""

    def __init__(self, torch, session):
        self.torch, self.session, self.report = torch, session, session.report
        # whether a profiler of the program was started, and whether one has warmed up or recorded
        self.started, self.taken = False, False
        self.off, self.number = False, 0
        # the cycle that is recorded, and those that lack one of their traces
        self.cycle, self.waiting = None, []
        # whether the program ends the profiler, and not a step of it
        self.is_stopping = False
        # the program's execution trace observer as (weak reference, path): there can be only one
        self.observer = None

    def is_here(self):
        """Not in a forked child."""
        return not self.off and not self.session.closed and os.getpid() == self.report.pid

    def fail(self, why):
        """Gives up the cycle that is recorded. Never raises."""
        cycle, self.cycle = self.cycle, None
        if cycle is not None:
            attempt(cycle.abandon)
        attempt(self.report.note, why)

    def note_start(self, _):
        self.started = True

    @guarded
    def take_over(self, _):
        """From here on the program decides what is recorded: its profiler warms up, or records."""
        if not self.taken and self.is_here():
            self.taken = True
            self.session.yield_to_program()

    def note_stop(self, _):
        self.is_stopping = True

    def forget_stop(self, *_):
        self.is_stopping = False

    @guarded
    def prepared(self, *_):
        """The profiler has dropped what it had recorded before."""
        self.export_dropped()

    @guarded
    def begin(self, profiler):
        """Just before the program's profiler records."""
        self.export_dropped()
        if self.cycle is not None or not self.is_here() or not self.is_recording(profiler):
            return
        # a profiler that collects over several cycles has one object for all
        for cycle in [cycle for cycle in self.waiting if cycle.legacy() is profiler.profiler]:
            self.export(cycle)
        if not self.session.is_to_be_recorded():
            return
        self.find_observer(profiler)
        self.make_room()
        self.number += 1
        self.cycle = OwnCycle(self, profiler, self.number)
        self.cycle.open(self.registered_observer())

    def make_room(self):
        """For the next host trace, beside those of cycles that wait for the program to export them."""
        for cycle in self.waiting:
            cycle.make_room()

    def is_recording(self, profiler):
        """Whether a schedule asks for it: one that ends in the warmup starts and stops for nothing."""
        kinds = self.torch.profiler.ProfilerAction
        action = getattr(profiler, "current_action", kinds.RECORD)
        return action in (kinds.RECORD, kinds.RECORD_AND_SAVE)

    @guarded
    def begun(self, profiler, _, __, has_failed):
        if self.cycle is None or self.cycle.profiler() is not profiler:
            return
        if has_failed:
            self.fail("the program's own profiler could not start")
            return
        self.session.time_own_steps()

    @guarded
    def end(self, profiler):
        """Just before the program's profiler stops."""
        if self.cycle is not None and self.cycle.profiler() is profiler:
            self.session.forget_own_steps()
            self.cycle.stop()

    @guarded
    def ended(self, profiler, _, __, has_failed):
        cycle = self.cycle
        if cycle is None or cycle.profiler() is not profiler:
            return
        if has_failed:
            self.fail("the program's own profiler could not stop")
            return
        cycle.finish(profiler, self.is_stopping)
        self.cycle = None
        self.waiting.append(cycle)

    @guarded
    def exported(self, legacy, arguments, named, has_failed):
        """The program has exported a trace: this is the one to copy."""
        path = arguments[0] if arguments else named.get("path")
        if has_failed or path is None or not self.is_here():
            return
        for cycle in [cycle for cycle in self.waiting if cycle.results is legacy.kineto_results]:
            self.settle(cycle, cycle.copy, path)

    @guarded
    def toggled(self, profiler, arguments, named, has_failed):
        """The program has switched what is collected: the host trace has the same hole."""
        cycle = self.cycle
        if has_failed or cycle is None or cycle.profiler() is not profiler or cycle.observer is None:
            return
        enable, kinds = bound_toggle(*arguments, **named)
        if self.torch.profiler.ProfilerActivity.CPU not in kinds:
            return
        if enable:
            cycle.observer.start()
        else:
            cycle.observer.stop()

    def export_dropped(self):
        """What the program cannot export any more."""
        for cycle in [cycle for cycle in self.waiting if cycle.is_dropped()]:
            self.export(cycle)

    def export(self, cycle):
        self.settle(cycle, cycle.export)

    def settle(self, cycle, make_device_trace, *arguments):
        """Makes the device trace, and puts the pair into place if the host trace is there."""
        try:
            make_device_trace(*arguments)
            self.publish_whole()
        except Exception as error:
            self.lose(cycle, describe(error))

    def lose(self, cycle, why):
        if cycle in self.waiting:
            self.waiting.remove(cycle)
        attempt(cycle.abandon)
        self.report.note(why)

    def publish_whole(self):
        """Puts the pairs into place that have both traces, in order."""
        for cycle in [cycle for cycle in self.waiting if cycle.is_whole()]:
            self.waiting.remove(cycle)
            try:
                self.session.keep_own(cycle)
            except Exception as error:
                attempt(cycle.abandon)
                self.report.note(describe(error))

    def registered_observer(self):
        """The program's own observer, if it is registered."""
        observer = None if self.observer is None else self.observer[0]()
        is_registered = observer is not None and getattr(observer, "_registered", False)
        return observer if is_registered else None

    def find_observer(self, profiler):
        """An observer that the program registered before this recording began, where PyTorch says which file is its."""
        observer = getattr(profiler, "execution_trace_observer", None)
        if self.registered_observer() is not None or not getattr(observer, "_registered", False):
            return
        path = getattr(observer, "output_file_path", None)
        if path:
            self.observer = (weakref.ref(observer), os.path.abspath(path))

    @guarded
    def make_way(self, _):
        """PyTorch has one observer at a time: the program's."""
        if not self.is_here():
            return
        if self.cycle is not None and self.cycle.observer is not None:
            self.fail("the program registered an execution trace observer within a recorded cycle: the cycle is not recorded")
        self.session.give_up_window("the program registered an execution trace observer")

    @guarded
    def registered(self, observer, arguments, named, _):
        path = arguments[0] if arguments else named.get("output_file_path")
        if self.is_here() and path is not None and self.registered_observer() is None:
            self.observer = (weakref.ref(observer), os.path.abspath(path))

    @guarded
    def unregistered(self, observer, *_):
        """The program's host trace is whole: cycles wait for it."""
        if self.observer is None or self.observer[0]() is not observer or not self.is_here():
            return
        path, self.observer = self.observer[1], None
        if self.cycle is not None and self.cycle.observer is None:
            self.fail("the program ended its execution trace observer within a recorded cycle")
        mine = [cycle for cycle in self.waiting if not cycle.has_host]
        try:
            host_cut.share(path, mine, self.report)
        except Exception as error:
            for cycle in mine:
                self.lose(cycle, describe(error))
        self.publish_whole()

    @guarded
    def leave(self):
        """The process ends: the program exports nothing more."""
        if not self.is_here():
            return
        if self.cycle is not None:
            self.fail("the program did not stop its own profiler: the cycle is lost")
        for cycle in [cycle for cycle in self.waiting if not cycle.has_device]:
            self.export(cycle)
        observer = self.registered_observer()
        if observer is not None and self.waiting:
            # as Python does it later, when the object goes
            observer.unregister_callback()
        for cycle in list(self.waiting):
            self.lose(cycle, "the program's own observer did not finish its host trace: the cycle is lost")
        content = self.report.content
        if not content["cycles"] and not content["notes"] and not content["excluded"]:
            self.note_nothing()
        self.off = True

    def note_nothing(self):
        if self.taken:
            self.report.note("nothing was recorded: the program's own profiler recorded no step")
        elif self.started and self.session.settings["schedule"] is None and not self.session.settings.get("armed"):
            self.report.note(
                "nothing was recorded: the program's own profiler never warmed up or recorded; choose the steps with "
                "--wait, --warmup and --active"
            )

    def forked(self):
        """In a forked child, which is not profiled any more, as in a cycle of ours."""
        self.off = True
        cycle, self.cycle = self.cycle, None
        # kept: the files are the parent's, also where the child stops the profiler
        self.detached, self.waiting = [cycle, *self.waiting], []
        if cycle is not None:
            attempt(cycle.detach)
            attempt(clear_callbacks)


class OwnCycle:
    """What one profiler of the program records at once, and the host trace of the same steps."""

    def __init__(self, own, profiler, number):
        self.own, self.report, self.torch = own, own.report, own.torch
        self.profiler = weakref.ref(profiler)
        self.first = self.last = getattr(profiler, "step_num", 0)
        self.is_scheduled = bool(getattr(profiler, "record_steps", False))
        self.host = self.report.path("host.json")
        self.device = self.report.path("own_{}.device".format(number))
        self.has_host, self.has_device, self.whole = False, False, True
        self.observer, self.results, self.legacy = None, None, lambda: None
        self.observer_file = None
        self.begin, self.end, self.phase = None, None, None
        self.lost = []
        self.waits = Waits() if own.session.settings["options"]["thread_waits"] else None
        self.snapshot = snapshot_of(self.torch, own.session.settings, self.report, "own_{}.memory".format(number))
        self.number = number

    def open(self, theirs):
        """Starts our observer, unless the program has one."""
        if self.waits is not None:
            attempt(self.waits.start, self.torch, self.report)
        if theirs is not None:
            self.host = self.report.path("own_{}.host".format(self.number))
        else:
            self.register()
        if self.snapshot is not None:
            self.snapshot.start()
        self.begin = clock()
        if self.observer is not None:
            self.observer.start()

    def register(self):
        observer = self.torch.profiler.ExecutionTraceObserver()
        file = ObserverFile(observer, self.host)
        with_own(file.register)
        if not os.path.exists(self.host):
            # PyTorch has one observer and says nothing: what is done with this one would be done to the other
            observer._registered = False
            raise Failure("the program has its own execution trace observer: the cycle is not recorded")
        self.observer, self.observer_file = observer, file

    def make_room(self):
        """The next cycle writes its host trace under the name that is looked for when a process dies."""
        place = self.report.path("own_{}.host".format(self.number))
        if self.has_host and self.host != place:
            os.rename(self.host, place)
            self.host = place

    def stop(self):
        if self.observer is not None:
            self.observer.stop()

    def finish(self, profiler, is_stopping):
        """The program's profiler has stopped."""
        self.end = clock()
        self.stop_waits()
        if self.snapshot is not None:
            self.snapshot.take()
        if self.observer is not None:
            self.observer_file.check()
            self.unregister()
            self.has_host = True
        self.last = getattr(profiler, "step_num", 0)
        if is_stopping:
            self.whole = not self.is_scheduled
        elif self.is_scheduled:
            self.last -= 1
        legacy = profiler.profiler
        self.results, self.legacy = legacy.kineto_results, weakref.ref(legacy, self.dropped)

    def dropped(self, _):
        """The trace is exported at the next chance: here any code of the program may run."""
        self.own.session.idle_until = 0

    def is_dropped(self):
        """Whether the program has no way left to export the trace."""
        return not self.has_device and self.results is not None and self.legacy() is None

    def copy(self, path):
        """A copy of what the program has exported, if that is Kineto's own text."""
        if self.has_device:
            return
        files.copy_plain(path, self.device)
        if not files.is_whole(self.device):
            # written by another exporter than Kineto's: that one can still be asked
            os.remove(self.device)
            return
        self.has_device, self.results = True, None

    def export(self):
        results, self.results = self.results, None
        results.save(self.device)
        self.has_device = True

    def is_whole(self):
        return self.has_host and self.has_device

    def recorded(self):
        """First and last step; waits are added, which may fail without harm."""
        attempt(add_waits, self)
        return self.first, self.last

    def host_steps(self):
        """The same as those of the device trace."""

    def stop_waits(self):
        if self.waits is not None:
            attempt(self.waits.stop)

    def unregister(self):
        observer, self.observer = self.observer, None
        if observer is not None:
            with_own(self.observer_file.unregister)

    def abandon(self):
        self.results = None
        self.stop_waits()
        if self.snapshot is not None:
            attempt(self.snapshot.stop)
        attempt(self.unregister) or attempt(self.unregister)
        attempt(self.discard)

    def discard(self):
        for path in (self.host, self.device):
            files.remove_trace(path)
        if self.snapshot is not None:
            self.snapshot.discard()

    def detach(self):
        """In a forked child."""
        self.stop_waits()
        if self.observer_file is not None:
            self.observer_file.release()
        files.detach(self.host)


def bound_toggle(enable, activities):
    """The arguments of `toggle_collection_dynamic`, however they are given; what is no list may be read only once."""
    return enable, activities if isinstance(activities, (list, tuple, set, frozenset)) else ()


def with_own(function, *arguments):
    """A call of ours of what is wrapped."""
    before, OWN["making"] = OWN["making"], True
    try:
        return function(*arguments)
    finally:
        OWN["making"] = before
