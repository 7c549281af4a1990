"""What counts as a step, and which action it has.

The schedule is that of `torch.profiler.schedule`, including `skip_first_wait`, which PyTorch has from 2.6 on.
"""

import functools
import sys
import threading

NONE, WARMUP, RECORD, RECORD_AND_SAVE = "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"


def action(schedule, step):
    """The action of step number `step`, from 0, of a schedule as a dict of its arguments."""
    wait, warmup, active = schedule["wait"], schedule["warmup"], schedule["active"]
    if step < schedule["skip_first"]:
        return NONE
    step -= schedule["skip_first"]
    if schedule["skip_first_wait"]:
        step += wait
    cycle, at = divmod(step, wait + warmup + active)
    if 0 < schedule["repeat"] <= cycle or at < wait:
        return NONE
    if at < wait + warmup:
        return WARMUP
    return RECORD if at < wait + warmup + active - 1 else RECORD_AND_SAVE


class Outermost:
    """Wraps functions so that `begin(key)` and `end(key)` are called around the outermost call of any of them."""

    def __init__(self, torch, begin, end):
        self.begin, self.end, self.here = begin, end, threading.local()
        self.is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)

    def is_inside(self):
        return getattr(self.here, "inside", False)

    def wrap(self, function, key_of):
        is_compiling = self.is_compiling

        @functools.wraps(function)
        def wrapper(*arguments, **named):
            # what is compiled must stay what the program wrote
            if is_compiling() or self.is_inside():
                return function(*arguments, **named)
            key = key_of(arguments)
            self.here.inside = True
            try:
                self.begin(key)
                result = function(*arguments, **named)
            finally:
                self.here.inside = False
            self.end(key)
            return result

        return wrapper


class Leader:
    """Of several optimizers in one loop only one counts: the first, until another steps twice without it."""

    def __init__(self):
        self.leader, self.other = None, None

    def counts(self, key):
        if self.leader is None or key == self.leader or key == self.other:
            self.leader, self.other = key, None
            return True
        self.other = key
        return False


def on_optimizer(torch, session, after_import):
    """A step ends where `optimizer.step()` does; the first begins where the first optimizer is made."""
    leader = Leader()
    outermost = Outermost(torch, lambda key: session.begin(), lambda key: leader.counts(key) and session.step())
    optimizer = torch.optim.Optimizer
    hook_step, patch = optimizer.profile_hook_step, optimizer._patch_step_function

    def profile_hook_step(function):
        return outermost.wrap(hook_step(function), lambda arguments: id(arguments[0]) if arguments else 0)

    def patch_step_function(self):
        patch(self)
        session.begin()

    count_made(torch, session, outermost, leader)
    optimizer.profile_hook_step = staticmethod(profile_hook_step)
    optimizer._patch_step_function = patch_step_function


def count_made(torch, session, outermost, leader):
    """Optimizers that are there already when a script begins to record."""
    kinds, made = [torch.optim.Optimizer], False
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if getattr(vars(kind).get("step"), "hooked", False):
            kind.step, made = outermost.wrap(kind.step, lambda arguments: id(arguments[0]) if arguments else 0), True

    def stepped(optimizer, *_):
        """A scheduler of learning rates has wrapped the step that its optimizer had then: PyTorch's hook tells of its first call."""
        if session.closed or outermost.is_inside() or "step" not in vars(optimizer):
            return
        optimizer.step = outermost.wrap(optimizer.step, lambda arguments: id(optimizer))
        if leader.counts(id(optimizer)):
            session.step()

    if made:
        # torch.optim deletes its submodules' names
        sys.modules[torch.optim.Optimizer.__module__].register_optimizer_step_post_hook(stepped)


def on_forward(torch, session, after_import):
    """A step is one call of the first module that is called from outside of all modules."""
    module = torch.nn.Module
    original = module.__call__

    def call(self, *arguments, **named):
        if not session.recordable():
            return original(self, *arguments, **named)
        module.__call__ = original
        session.begin()
        result = original(self, *arguments, **named)
        self.register_forward_hook(lambda *_: session.step())
        session.step()
        return result

    module.__call__ = call


def on_function(torch, session, after_import, name):
    """A step is one call of `module:function` or `module:Class.method`."""
    module_name, _, path = name.partition(":")
    outermost = Outermost(torch, lambda key: session.begin(), lambda key: session.step())

    def patch(module):
        *outer, last = path.split(".")
        owner = functools.reduce(getattr, outer, module)
        setattr(owner, last, outermost.wrap(getattr(owner, last), lambda arguments: 0))
        session.found = True

    def patch_or_report(module):
        try:
            patch(module)
        except AttributeError as error:
            session.fail("--step-on {}: {}".format(name, error))

    session.found = False
    if module_name == "__main__":
        in_main(path, session, outermost)
    elif module_name in sys.modules:
        patch_or_report(sys.modules[module_name])
    else:
        sys.meta_path.insert(0, after_import(module_name, patch_or_report))


def in_main(path, session, outermost):
    """Functions of the script itself appear while it runs: its first call is watched, the others are wrapped."""
    watched = []

    def watch(frame, event, argument):
        if event == "call" and not watched and frame.f_code.co_name == path and frame.f_globals.get("__name__") == "__main__":
            watched.append(frame)
            function = frame.f_globals.get(path)
            if callable(function):
                frame.f_globals[path] = outermost.wrap(function, lambda arguments: 0)
            session.found = True
            session.begin()
        elif event == "return" and watched and frame is watched[0]:
            sys.setprofile(None)
            watched.clear()
            session.step()

    sys.setprofile(watch)


def count(torch, session, after_import, what):
    """Calls `session.begin()` before the first step and `session.step()` at the end of each."""
    kinds = {"optimizer": on_optimizer, "forward": on_forward}
    if what in kinds:
        kinds[what](torch, session, after_import)
    else:
        on_function(torch, session, after_import, what)
