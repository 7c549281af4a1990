"""A step ends where `optimizer.step()` does; the first begins where the first optimizer is made."""

import sys
import weakref

from ..guard import attempt, describe, is_programs
from .calls import KEYS, Leader, StepCalls, announce


def optimizer_key(optimizer):
    """The first parameter: DeepSpeed steps one group of parameters after another."""
    try:
        return id(optimizer.param_groups[0]["params"][0])
    except (AttributeError, IndexError):
        groups = getattr(optimizer, "param_groups", ())
        filled = (group["params"] for group in groups if group["params"])
        return id(next(filled, [optimizer])[0])


class GraphActivity:
    """Whether autograd made a node since an optimizer's last step.

    DeepSpeed and `torch.distributed.checkpoint` call `step()` once on gradients of zero: it makes
    the state. Gradients may also come without autograd, from a CUDA graph or a formula: then all
    calls count but the first. The counter is that of `Node` in torch/csrc/autograd/function.h, one
    per thread.
    """

    def __init__(self, torch):
        self.sequence_number = torch.autograd._get_sequence_nr
        self.origin = self.sequence_number()
        self.last, self.idle = {}, set()

    def is_step(self, key, number):
        """`number`: that of the node that autograd would make next."""
        last = self.last
        if number != last.get(key, self.origin):
            if len(last) > KEYS:
                last.clear()
            last[key] = number
            self.idle.discard(key)
            return True
        if key in self.idle:
            return True
        self.idle.add(key)
        return False


class OptimizerSteps:
    def __init__(self, torch, session, patches):
        self.torch, self.session, self.patches = torch, session, patches
        self.leader, self.activity = Leader(session), GraphActivity(torch)
        self.calls = StepCalls(torch, session, patches)
        # those that were made, as weak references, until the leader knows of them
        self.wrappers, self.made = {}, []

    def install(self):
        optimizer = self.torch.optim.Optimizer
        original = optimizer._patch_step_function

        def patch_step_function(made):
            original(made)
            if self.patches.active:
                attempt(self.adopt_new, made)

        self.patches.replace(optimizer, "_patch_step_function", patch_step_function)
        self.adopt_scalers()
        self.adopt_existing()

    def counts_step(self, arguments, named):
        """Of `Optimizer.step(self, ...)`."""
        return self.counts(arguments[0])

    def counts_scaler(self, arguments, named):
        """Of `GradScaler.step(self, optimizer, ...)`."""
        return self.counts(named["optimizer"] if "optimizer" in named else arguments[1])

    def counts(self, optimizer):
        key, leader, activity = optimizer_key(optimizer), self.leader, self.activity
        number = activity.sequence_number()
        if key == leader.quick and not activity.idle and number != activity.last.get(key):
            # by far the most calls
            activity.last[key] = number
            return True
        if not activity.is_step(key, number):
            return False
        self.tell_leader()
        before = leader.key
        counts = leader.counts(key, optimizer)
        if leader.key != before:
            announce(self.session, type(optimizer).__name__)
        return counts

    def tell_leader(self):
        """Of those that were made: their parameters came after that."""
        while self.made:
            optimizer = self.made.pop()()
            if optimizer is not None:
                self.leader.add(optimizer_key(optimizer))

    def adopt_new(self, optimizer):
        """Nothing is raised into the making of an optimizer."""
        try:
            self.adopt(type(optimizer))
            # one that gets a state has its parameters already
            if "param_groups" not in vars(optimizer):
                self.leader.quick = None
                del self.made[:-KEYS]
                self.made.append(weakref.ref(optimizer))
            self.session.begin()
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.session.fail, describe(error))

    def adopt(self, kind):
        """Wraps `step` where the class has it from."""
        owner = next((base for base in kind.__mro__ if "step" in vars(base)), None)
        if owner is None or vars(owner)["step"] is self.wrappers.get(owner):
            return
        step = vars(owner)["step"]
        wrapper = self.calls.wrap(step, self.counts_step)
        self.wrappers[owner] = wrapper
        bare = getattr(step, "__wrapped__", None)
        if getattr(step, "hooked", False) and bare is not None:
            self.adopt_bare(owner, wrapper, bare)
        self.patches.replace(owner, "step", wrapper)

    def adopt_bare(self, owner, wrapper, bare):
        """Up to PyTorch 2.4 `torch.compile` puts `step.__wrapped__` in the place of `step`.

        It wants to be rid of PyTorch's own wrapper (`TorchPatcher` in torch/_dynamo/eval_frame.py).
        """
        wrapper.__wrapped__ = self.calls.wrap(bare, self.counts_step)

        def restore():
            if vars(owner).get("step") is wrapper.__wrapped__:
                bare.hooked = True
                owner.step = bare

        self.patches.on_undo(restore)

    def adopt_scalers(self):
        """GradScaler does not call `step()` where a gradient is not finite: a step all the same."""
        for module in (getattr(self.torch, "amp", None), self.torch.cuda.amp):
            scaler = getattr(module, "GradScaler", None)
            if scaler is not None and "step" in vars(scaler):
                step = self.calls.wrap(vars(scaler)["step"], self.counts_scaler)
                self.patches.replace(scaler, "step", step)

    def adopt_existing(self):
        """Optimizers that are there already when a script begins to record."""
        kinds = [self.torch.optim.Optimizer]
        for kind in kinds:
            kinds += kind.__subclasses__()
            if getattr(vars(kind).get("step"), "hooked", False):
                self.adopt(kind)
        if self.wrappers:
            # torch.optim deletes its submodules' names
            module = sys.modules[self.torch.optim.Optimizer.__module__]
            handle = module.register_optimizer_step_post_hook(self.stepped)
            self.patches.on_undo(handle.remove)

    def stepped(self, optimizer, arguments, named):
        """A step that the program took from the class before, as schedulers of learning rates do."""
        try:
            if self.calls.inside or not self.calls.begin((optimizer,)):
                return
            self.calls.leave()
            if "step" in vars(optimizer):
                self.adopt_instance(optimizer)
            if self.counts(optimizer):
                self.session.end_step()
        except Exception as error:
            if is_programs(error):
                raise
            attempt(self.calls.give_up, error)

    def adopt_instance(self, optimizer):
        """Keeps no optimizer alive that the program has dropped."""
        made, step = weakref.ref(optimizer), vars(optimizer)["step"]
        wrapper = self.calls.wrap(step, lambda arguments, named: self.counts(made()))
        optimizer.step = wrapper

        def restore():
            optimizer = made()
            if optimizer is not None and vars(optimizer).get("step") is wrapper:
                optimizer.step = step

        self.patches.on_undo(restore)
