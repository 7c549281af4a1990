"""Loops of many kinds inside of `profile`: steps.py NAME... prints what was counted, as JSON."""

import gc
import json
import sys
import tempfile
import time

import torch
from torch import nn

from etlink_torch import profile

INPUTS, LABELS = torch.randn(8, 32), torch.randint(0, 10, (8,))
LOOPS = {}


def loop(step_on):
    """A loop, made ready outside of `profile` by a function that gives the iteration."""

    def add(prepare):
        LOOPS[prepare.__name__] = (step_on, prepare)
        return prepare

    return add


def model(width=10):
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, width))


def backward(net):
    nn.functional.cross_entropy(net(INPUTS), LABELS).backward()


def count(name, iterations=6):
    step_on, prepare = LOOPS[name]
    with tempfile.TemporaryDirectory() as folder:
        with profile(folder, step_on=step_on, wait=1000) as prof:
            result = prepare()
            iteration = result if callable(result) else None
            for _ in range(iterations if iteration else 0):
                iteration()
        content = prof.session.report.content
        kept = {"steps": prof.session.made, "counted": content.get("counted")}
        notes = [note for note in prof.notes if "nothing was recorded" not in note]
        return {**kept, "notes": notes, "result": None if iteration else result}


@loop("optimizer")
def accumulation():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())

    def iteration():
        for _ in range(3):
            backward(net)
        optimizer.step()
        optimizer.zero_grad()

    return iteration


@loop("optimizer")
def adversaries():
    """Each has its own backward, the second one only in every other iteration."""
    first, second = model(), model()
    optimizers = [torch.optim.Adam(net.parameters()) for net in (first, second)]
    calls = [0]

    def iteration():
        calls[0] += 1
        backward(first)
        optimizers[0].step()
        if calls[0] % 2:
            backward(second)
            optimizers[1].step()

    return iteration


@loop("optimizer")
def one_backward_two_optimizers():
    net = model()
    optimizers = [torch.optim.SGD(net[0].parameters(), 0.1), torch.optim.Adam(net[2].parameters())]

    def iteration():
        backward(net)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    return iteration


@loop("optimizer")
def closures():
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(INPUTS), LABELS)
        loss.backward()
        return loss

    return lambda: optimizer.step(closure)


@loop("optimizer")
def schedulers():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def iteration():
        backward(net)
        optimizer.step()
        scheduler.step()

    return iteration


EARLY = model()
EARLY_OPTIMIZER = torch.optim.SGD(EARLY.parameters(), 0.1)
EARLY_SCHEDULER = torch.optim.lr_scheduler.StepLR(EARLY_OPTIMIZER, 2)


@loop("optimizer")
def schedulers_made_before():
    def iteration():
        backward(EARLY)
        EARLY_OPTIMIZER.step()
        EARLY_SCHEDULER.step()

    return iteration


class Own(torch.optim.SGD):
    """Overrides `step` and calls that of its base."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.clamp_(-1, 1)
        return super().step(closure)


class Bare(torch.optim.Optimizer):
    """Does not call `Optimizer.__init__`, as that of accelerate."""

    def __init__(self, inner):
        self.inner, self.param_groups = inner, inner.param_groups

    def step(self, closure=None):
        self.inner.step()


@loop("optimizer")
def subclasses():
    net = model()
    optimizer = Bare(Own(net.parameters(), 0.1))

    def iteration():
        backward(net)
        optimizer.step()

    return iteration


@loop("optimizer")
def scaler_that_skips():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    kind = getattr(getattr(torch, "amp", None), "GradScaler", None)
    scaler = kind("cpu") if kind else torch.cuda.amp.GradScaler()
    calls = [0]

    def iteration():
        calls[0] += 1
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(INPUTS), LABELS)
        scaler.scale(loss).backward()
        if calls[0] % 3 == 0:
            net[0].weight.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()

    return iteration


@loop("optimizer")
def zero_like():
    """As DeepSpeed: `step()` once to make the state, then for one group after another."""
    net = model()
    groups = [{"params": [parameter]} for parameter in net.parameters()]
    optimizer = torch.optim.Adam(groups)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()

    def iteration():
        backward(net)
        every = optimizer.param_groups
        for group in every:
            optimizer.param_groups = [group]
            optimizer.step()
        optimizer.param_groups = every

    return iteration


@loop("optimizer")
def zero_like_swapping_parameters():
    """As DeepSpeed's third stage: the groups have parameters only while it is their turn."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    parameters = list(net.parameters())

    def iteration():
        backward(net)
        for parameter in parameters:
            optimizer.param_groups[0]["params"] = [parameter]
            optimizer.step()
            optimizer.param_groups[0]["params"] = []

    return iteration


@loop("optimizer")
def in_backward():
    """An optimizer for each parameter, called as soon as its gradient is there."""
    net = model()
    optimizers = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in net.parameters()}
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: optimizers[parameter].step())
    return lambda: backward(net)


def train(net, optimizer, steps=3):
    for _ in range(steps):
        backward(net)
        optimizer.step()


@loop("optimizer")
def a_pretraining_and_two_in_turn():
    first, second, third = model(), model(), model()
    pretraining, *optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (first, second, third)]
    train(first, pretraining)

    def iteration():
        train(second, optimizers[0], 1)
        train(third, optimizers[1], 1)

    return iteration


@loop("optimizer")
def phases_by_turns():
    """Each optimizer has three steps, then it is the other's turn."""
    nets = [model(), model()]
    optimizers = [torch.optim.Adam(net.parameters()) for net in nets]

    def iteration():
        for net, optimizer in zip(nets, optimizers):
            train(net, optimizer)

    return iteration


@loop("optimizer")
def a_critic_of_many_steps():
    """After a training of the generator alone."""
    critic, generator = model(), model()
    optimizers = [torch.optim.Adam(net.parameters()) for net in (critic, generator)]
    train(generator, optimizers[1])

    def iteration():
        train(critic, optimizers[0], 5)
        train(generator, optimizers[1], 1)

    return iteration


@loop("optimizer")
def trials():
    """Each iteration is a trial of three steps."""

    def iteration():
        net = model()
        train(net, torch.optim.SGD(net.parameters(), 0.1))

    return iteration


@loop("optimizer")
def trials_that_are_kept():
    """A scheduler of the learning rate keeps its optimizer alive."""
    kept = []

    def iteration():
        net = model()
        optimizer = torch.optim.Adam(net.parameters())
        kept.append(torch.optim.lr_scheduler.StepLR(optimizer, 2))
        train(net, optimizer)

    return iteration


@loop("optimizer")
def trials_of_adversaries():
    def iteration():
        pair = [model(), model()]
        optimizers = [torch.optim.Adam(net.parameters()) for net in pair]
        for _ in range(3):
            for net, optimizer in zip(pair, optimizers):
                train(net, optimizer, 1)

    return iteration


def meta_learning(inner_steps, tasks):
    """New inner optimizers beside an outer one."""
    net = model()
    outer = torch.optim.Adam(net.parameters())

    def iteration():
        for _ in range(tasks):
            copy = model()
            train(copy, torch.optim.SGD(copy.parameters(), 0.1), inner_steps)
        train(net, outer, 1)

    return iteration


@loop("optimizer")
def meta_learning_of_one_step():
    return meta_learning(1, 1)


@loop("optimizer")
def meta_learning_of_two_steps():
    return meta_learning(2, 1)


@loop("optimizer")
def meta_learning_of_tasks():
    return meta_learning(3, 4)


@loop("optimizer")
def meta_learning_that_keeps_its_last():
    net, kept = model(), []
    outer = torch.optim.Adam(net.parameters())

    def iteration():
        copy = model()
        inner = torch.optim.SGD(copy.parameters(), 0.1)
        kept[:] = [inner]
        train(copy, inner, 2)
        train(net, outer, 1)

    return iteration


@loop("optimizer")
def gradients_without_autograd():
    """The first call cannot be told from one that makes the state."""
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], 0.1)

    def iteration():
        weight.grad = torch.ones(4)
        optimizer.step()

    return iteration


@loop("optimizer")
def compiled_model():
    net = torch.compile(model(), backend="eager")
    optimizer = torch.optim.AdamW(net.parameters())

    def iteration():
        backward(net)
        optimizer.step()

    return iteration


@loop("optimizer")
def compiled_after_the_optimizer():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    compiled = torch.compile(net, backend="eager", fullgraph=True)

    def iteration():
        backward(compiled)
        optimizer.step()

    return iteration


@loop("optimizer")
def compiled_step():
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    step = torch.compile(optimizer.step, backend="eager")

    def iteration():
        backward(net)
        step()

    return iteration


class Frames:
    """A compiler that counts the graphs it is given."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return graph.forward


@loop("forward")
def forwards():
    net = model()
    return lambda: net(INPUTS)


@loop("forward")
def transforms_and_losses():
    net, normalize, loss = model(), nn.Sequential(nn.Softmax(-1), nn.Tanh()), nn.CrossEntropyLoss()
    return lambda: loss(net(normalize(INPUTS)), LABELS).backward()


class Student(nn.Linear):
    pass


@loop("forward")
def a_probe_first():
    probe, net = model(), Student(32, 10)
    probe(INPUTS)
    return lambda: net(INPUTS)


@loop("forward")
def teacher_and_student():
    teacher, student = model(), Student(32, 10)
    return lambda: (teacher(INPUTS), student(INPUTS))


@loop("forward")
def a_probe_that_stays_and_two_in_turn():
    probe, teacher, student = Student(32, 10), model(), model()
    probe(INPUTS)
    return lambda: (teacher(INPUTS), student(INPUTS), len(list(probe.parameters())))


@loop("forward:Student")
def a_class_that_is_chosen():
    teacher, student = model(), Student(32, 10)
    return lambda: (teacher(INPUTS), teacher(INPUTS), student(INPUTS))


@loop("forward:LateStudent")
def a_class_that_comes_later():
    class LateStudent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 10)

        def forward(self, inputs):
            return self.layer(inputs)

    net = nn.Sequential(LateStudent(), nn.ReLU())
    return lambda: net(INPUTS)


@loop("forward")
def torchscript():
    net = torch.jit.script(model())
    return lambda: net(INPUTS)


@loop("forward")
def torchscript_frozen():
    net = torch.jit.freeze(torch.jit.script(model().eval()))
    return lambda: net(INPUTS)


@loop("forward")
def traced_by_torchscript():
    net = model()
    net(INPUTS)
    traced = torch.jit.trace(net, (INPUTS,))
    assert torch.allclose(traced(INPUTS), net(INPUTS))
    return 3


@loop("forward")
def traced_by_torchscript_first():
    traced = torch.jit.trace(model(), (INPUTS,))
    return lambda: traced(INPUTS)


@loop("forward")
def traced_by_fx():
    net = model()
    net(INPUTS)
    graph = torch.fx.symbolic_trace(net)
    # the module itself is in a cycle: that it is gone is known when Python has collected it
    del net
    gc.collect()
    names = [node.op for node in graph.graph.nodes]
    assert names == ["placeholder", "call_module", "call_module", "call_module", "output"], names
    return lambda: graph(INPUTS)


@loop("forward")
def compiled_in_place():
    net, frames = model(), Frames()
    net.compile(fullgraph=True, backend=frames)
    for _ in range(6):
        net(INPUTS)
    return frames.graphs


@loop("forward")
def compiled_in_place_after_the_search():
    net, frames = model(), Frames()
    for _ in range(6):
        net(INPUTS)
    net.compile(fullgraph=True, backend=frames)
    for _ in range(6):
        net(INPUTS)
    return frames.graphs


@loop("forward")
def compiled_from_outside():
    net, frames = model(), Frames()
    compiled = torch.compile(net, fullgraph=True, backend=frames)
    for _ in range(6):
        compiled(INPUTS)
    return frames.graphs


@loop("forward")
def compiled_inside_of_another():
    """Modules of the class that counts, in a graph."""
    net, frames = nn.Sequential(model(), model(32)[:1]), Frames()
    net = nn.Sequential(model(32), model())
    for _ in range(6):
        net(INPUTS)
    net.compile(fullgraph=True, backend=frames)
    for _ in range(6):
        net(INPUTS)
    return frames.graphs


@loop("forward")
def hooks_of_the_program():
    net = model()
    net.register_forward_hook(lambda *_: None)
    net(INPUTS)
    return len(net._forward_hooks)


@loop("forward")
def parallel_and_bare():
    """Evaluation calls the module itself: the same model."""
    net = model()
    parallel = nn.DataParallel(net)
    return lambda: (parallel(INPUTS), net(INPUTS))


def uses(number):
    """`optimizer.step()` before and after, in ns, and whether all is as it was before."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    backward(net)

    def nanoseconds():
        times = []
        for _ in range(200):
            begin = time.perf_counter_ns()
            optimizer.step()
            times.append(time.perf_counter_ns() - begin)
        return sorted(times)[20]

    def state():
        kinds = (
            torch.optim.SGD,
            torch.optim.Optimizer,
            torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else nn.Module,
        )
        calls = nn.Module.__call__, nn.Sequential.__call__, nn.Linear.__call__
        hooks = len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks)
        watches = sys.getprofile(), sys.gettrace(), len(sys.meta_path)
        return [dict(vars(kind)) for kind in kinds], calls, hooks, watches, list(vars(nn.Module))

    before, first = nanoseconds(), state()
    optimizer.step()
    for number in range(number):
        for step_on in ("optimizer", "forward", "__main__:backward", "forward:Sequential"):
            with tempfile.TemporaryDirectory() as folder, profile(
                folder, step_on=step_on, wait=1000
            ) as prof:
                backward(net)
                optimizer.step()
        assert prof.session.made == 1, prof.session.made
    return {"before": before, "after": nanoseconds(), "same": first == state()}


def turns():
    """What a call of a tiny module takes in ns, where one is called and where two are by turns."""

    class One(nn.Linear):
        pass

    class Other(nn.Linear):
        pass

    def nanoseconds(*modules):
        batch, times = torch.ones(1, 2), []
        with tempfile.TemporaryDirectory() as folder, profile(folder, step_on="forward", wait=100_000):
            for _ in range(500):
                begin = time.perf_counter_ns()
                for module in modules:
                    module(batch)
                times.append((time.perf_counter_ns() - begin) // len(modules))
        return sorted(times[20:])[len(times) // 2]

    return {"one": nanoseconds(One(2, 2)), "two": nanoseconds(One(2, 2), Other(2, 2))}


if __name__ == "__main__":
    names = sys.argv[1:] or list(LOOPS)
    counted = {}
    for name in names:
        if name.startswith("uses="):
            counted["uses"] = uses(int(name[5:]))
            continue
        if name == "turns":
            counted["turns"] = turns()
            continue
        try:
            counted[name] = count(name)
        except Exception as error:
            counted[name] = "{}: {}".format(type(error).__name__, error)
    json.dump(counted, sys.stdout, indent=1)
