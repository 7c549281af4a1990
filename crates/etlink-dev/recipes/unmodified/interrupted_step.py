"""A handler raises at the end of a recorded step, just before handlers are put off: the step counts all the same."""

import signal
import sys

import torch

# the hook's modules have a name of their own in a program that is recorded
(session,) = [module for name, module in sys.modules.items() if name.endswith(".session") and hasattr(module, "deferred")]


def raise_timeout(number, frame):
    raise TimeoutError("mine")


def interrupted(*arguments, **named):
    """Stands for `deferred` once."""
    session.deferred = deferred
    signal.raise_signal(signal.SIGALRM)


deferred = session.deferred
signal.signal(signal.SIGALRM, raise_timeout)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(8):
    if step == 3:
        session.deferred = interrupted
    try:
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    except TimeoutError:
        print("caught in step", step)
    # an error while a step ends may leave them switched off
    torch.set_grad_enabled(True)
