"""A step is one call of the model.

The model is the outermost module with parameters, or a module of a class that was chosen. Its class
gets a `__call__` of its own. Hooks would not do: `Module.compile()` compiles them, `torch.jit.trace`
traces them, and TorchScript modules have none.
"""

import functools
import sys
import weakref
from threading import get_ident

from ..guard import attempt, describe, is_programs
from .calls import Leader, StepCalls, announce

WRAPPERS = ("module", "_orig_mod")
"""The names that parallel modules and `torch.compile` have for the module that they wrap."""

SETTLED = 4
"""So many steps that one model leads in end the search for it, whatever else is called in between."""

CAPTURED = (
    ("torch._dynamo.utils", "unpatched_nn_module_call"),
    ("torch._dynamo.variables.nn_module", "unpatched_nn_module_call"),
    ("torch.fx._symbolic_trace", "_orig_module_call"),
)
"""Where PyTorch keeps the `Module.__call__` that was there when these were imported."""


def innermost(module):
    """The program's own module."""
    children = vars(module).get("_modules", {})
    if len(children) == 1:
        for name in WRAPPERS:
            if children.get(name) is not None:
                return innermost(children[name])
    return module


class ForwardCalls(StepCalls):
    """Calls of modules that may be the model; `search` is the search for it, while there is one."""

    def __init__(self, torch, session, patches):
        super().__init__(torch, session, patches)
        self.torch, self.search = torch, None
        self.script = torch.jit.ScriptModule
        self.tracing_state = torch._C._get_tracing_state
        self.models = {}

    def begin(self, arguments):
        module = arguments[0]
        known = self.models.get(id(module)) or self.look_at(module)
        # transforms and loss functions are not the model; a call that torch.jit.trace makes is
        # part of no step
        if not known[1] or self.tracing_state() is not None:
            return False
        if self.thread != get_ident() and not self.take_thread():
            return False
        self.inside = True
        if self.search is not None:
            self.search.pause(module)
        return True

    def leave(self):
        self.inside = False
        if self.search is not None:
            attempt(self.search.resume)

    def give_up(self, error):
        search, self.search = self.search, None
        if search is not None:
            attempt(search.resume)
        super().give_up(error)

    def look_at(self, module):
        """Of a module: a reference, whether it may be the model, and the number of the program's own
        module, which a parallel one may wrap."""
        number, models = id(module), self.models
        is_model = self.may_be_model(module)
        # the number of a module that is gone becomes another's
        reference = weakref.ref(module, lambda _: models.pop(number, None))
        models[number] = reference, is_model, id(innermost(module))
        return models[number]

    def may_be_model(self, module):
        try:
            return self.has_parameters(module)
        except Exception as error:
            if is_programs(error):
                raise
            # methods of the program's own may raise; where that is the model, no step is counted
            kind = type(module).__name__
            self.session.report.note("calls of {} do not count as steps: {}".format(kind, describe(error)))
            return False

    def has_parameters(self, module):
        # freezing and quantization make something else of parameters
        return (
            next(module.parameters(), None) is not None
            or isinstance(module, self.script)
            or any(hasattr(part, "_packed_params") for part in module.modules())
        )


class ForwardSteps:
    """`chosen`: name of a class, with or without that of its Python module."""

    def __init__(self, torch, session, patches, chosen=None):
        self.session, self.patches, self.chosen = session, patches, chosen
        self.base = torch.nn.Module
        self.leader, self.led = Leader(session), 0
        self.calls = ForwardCalls(torch, session, patches)
        self.adopted = set()

    def install(self):
        if self.chosen is None:
            self.calls.search = Search(self)
            self.calls.search.begin()
        else:
            self.choose()

    def counts(self, arguments, named):
        module, leader = arguments[0], self.leader
        number = self.calls.models[id(module)][2]
        if number == leader.quick and self.calls.search is None:
            # by far the most calls
            return True
        before, model = leader.key, innermost(module)
        counts = leader.counts(number, model)
        if leader.key != before:
            # a TorchScript module has the name of what it was made of
            announce(self.session, getattr(model, "original_name", type(model).__name__))
            self.led = 0
        self.led += counts
        if self.led == SETTLED:
            self.calls.search = None
        return counts

    def adopt(self, kind):
        """Gives a class a `__call__` that counts."""
        if kind in self.adopted:
            return
        self.adopted.add(kind)
        own = vars(kind).get("__call__") or self.inherited_call(kind)
        self.patches.replace(kind, "__call__", self.calls.wrap(own, self.counts))

    def inherited_call(self, kind):
        """Looked up at each call: torch.fx replaces `Module.__call__` while it traces."""

        def call(module, *arguments, **named):
            return super(kind, module).__call__(*arguments, **named)

        self.calls.dynamo.skip(call)
        return functools.update_wrapper(call, self.base.__call__)

    def choose(self):
        """The classes of the name that are there, and those that come."""
        kinds = [self.base]
        for kind in kinds:
            kinds += kind.__subclasses__()
            self.adopt_chosen(kind)
        base = self.base

        def init_subclass(kind, **named):
            super(base, kind).__init_subclass__(**named)
            if self.patches.active:
                attempt(self.adopt_new, kind)

        self.patches.replace(base, "__init_subclass__", classmethod(init_subclass))

    def adopt_new(self, kind):
        """Nothing is raised into the definition of a class."""
        try:
            self.adopt_chosen(kind)
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.session.fail, describe(error))

    def adopt_chosen(self, kind):
        if self.chosen in (kind.__name__, "{}.{}".format(kind.__module__, kind.__qualname__)):
            self.adopt(kind)


class Search:
    """Watches `Module.__call__` until the model is known; not while a module is called.

    So compilers and tracers, and the profiler's stacks, see PyTorch's own.
    """

    def __init__(self, steps):
        self.steps, self.base, self.is_paused = steps, steps.base, False
        self.original = vars(self.base)["__call__"]
        self.watch = steps.calls.wrap(self.original, steps.counts)

    def begin(self):
        self.steps.patches.replace(self.base, "__call__", self.watch)

    def pause(self, module):
        self.steps.adopt(type(module))
        # somebody else's patch over ours stays
        if vars(self.base)["__call__"] is self.watch:
            self.base.__call__ = self.original
            self.is_paused = True
        for name, attribute in CAPTURED:
            holder = sys.modules.get(name)
            if getattr(holder, attribute, None) is self.watch:
                setattr(holder, attribute, self.original)

    def resume(self):
        if self.is_paused and vars(self.base)["__call__"] is self.original:
            self.base.__call__ = self.watch
        self.is_paused = False
