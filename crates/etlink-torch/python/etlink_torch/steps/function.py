"""A step is one call of a function of the program, `module:function` or `module:Class.method`."""

import functools
import importlib
import sys
import threading
from importlib.machinery import ModuleSpec

from ..guard import attempt, describe, is_programs
from .calls import StepCalls, announce

CALLS_TRACED = 1_000_000
"""Calls after which the script is no longer watched: about a second."""


class WatchedSpec(ModuleSpec):
    """The spec of a module that is being imported; calls `etlink_then()` once that is whole."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            then = self.etlink_then
            del self.etlink_then
            self.__class__ = ModuleSpec
            # nothing is raised into an import
            attempt(then)


def is_step(arguments, named):
    """Each call is one."""
    return True


class FunctionSteps:
    def __init__(self, torch, session, patches, name, after_import):
        self.session, self.patches, self.name = session, patches, name
        self.after_import = after_import
        self.module_name, _, self.path = name.partition(":")
        self.calls = StepCalls(torch, session, patches)

    def install(self):
        if self.after_import is None and self.module_name != "__main__":
            importlib.import_module(self.module_name)
        module = sys.modules.get(self.module_name)
        if self.module_name == "__main__":
            self.wait_for_script(module)
        elif module is None:
            self.wait_for_import()
        elif getattr(getattr(module, "__spec__", None), "_initializing", False):
            self.wait_until_whole(module)
        else:
            self.wrap_or_report(module)

    def wait_for_import(self):
        finder = self.after_import(self.module_name, self.wrap_or_report)
        sys.meta_path.insert(0, finder)

        def forget():
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)

        self.patches.on_undo(forget)

    def wait_until_whole(self, module):
        """The module is what imports torch."""
        spec = module.__spec__
        spec.etlink_then = functools.partial(self.wrap_or_report, module)
        spec.__class__ = WatchedSpec

    def wrap_or_report(self, module):
        """Nothing is raised into an import."""
        try:
            if not self.patches.active or self.wrap(module):
                return
            self.fail("{} has no {}".format(self.module_name, self.path))
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.fail, describe(error))

    def fail(self, why):
        self.session.fail("--step-on {}: {}".format(self.name, why))

    def wrap(self, module):
        """Whether the function is there."""
        *outer, last = self.path.split(".")
        try:
            owner = functools.reduce(getattr, outer, module)
            function = getattr(owner, last)
        except AttributeError:
            return False
        if not callable(function):
            return False
        descriptor = vars(owner).get(last, function)
        wrapper = self.calls.wrap(getattr(descriptor, "__func__", function), is_step)
        if isinstance(descriptor, (staticmethod, classmethod)):
            wrapper = type(descriptor)(wrapper)
        self.patches.replace(owner, last, wrapper)
        announce(self.session, self.name)
        return True

    def wait_for_script(self, module):
        """Functions of the script itself appear while it runs."""
        if self.wrap(module):
            return
        script = ScriptWatch(self, module)
        if not script.may_define(self.path.partition(".")[0]):
            self.fail("the script has no {} at its top level".format(self.path))
        elif sys.gettrace() is not None:
            self.fail("a debugger traces the script; name a function of another module")
        else:
            script.begin()


class ScriptWatch:
    """Looks for the function after each line of the script's top level, until it is there."""

    def __init__(self, steps, module):
        self.steps, self.module, self.calls_left = steps, module, CALLS_TRACED
        self.frame = self.top_frame()

    def top_frame(self):
        """The frame that runs the script; None before it starts."""
        frame = sys._current_frames().get(threading.main_thread().ident)
        while frame is not None and not self.is_top(frame):
            frame = frame.f_back
        return frame

    def is_top(self, frame):
        return frame.f_code.co_name == "<module>" and frame.f_globals is vars(self.module)

    def may_define(self, name):
        """Whether the script's top level has the name at all."""
        return self.frame is None or name in self.frame.f_code.co_names

    def begin(self):
        if self.frame is not None:
            self.frame.f_trace = self.trace_line
        sys.settrace(self.trace_call)
        self.steps.patches.on_undo(self.end)

    def end(self):
        if sys.gettrace() == self.trace_call:
            sys.settrace(None)
        if self.frame is not None:
            self.frame.f_trace, self.frame = None, None

    def trace_call(self, frame, event, argument):
        """For each function that is called until then; only the script is traced by line.

        What a trace function raises is raised in the frame that it traces.
        """
        try:
            return self.look_at_call(frame)
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.give_up, describe(error))
            return None

    def look_at_call(self, frame):
        self.calls_left -= 1
        if self.calls_left == 0:
            self.give_up("is not defined after {} calls".format(CALLS_TRACED))
        elif self.frame is None and self.is_top(frame):
            self.frame = frame
            return self.trace_line
        return None

    def trace_line(self, frame, event, argument):
        try:
            self.look_at_line(event)
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.give_up, describe(error))
        return self.trace_line if self.frame is not None else None

    def look_at_line(self, event):
        first, _, rest = self.steps.path.partition(".")
        if self.steps.wrap(self.module):
            self.end()
        elif rest and isinstance(vars(self.module).get(first), type):
            self.give_up("is not defined: the class has no {}".format(rest))
        elif event == "return":
            self.give_up("is not defined at the end of the script")

    def give_up(self, why):
        attempt(self.end)
        self.steps.fail("{} {}".format(self.steps.path, why))
