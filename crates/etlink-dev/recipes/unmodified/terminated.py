"""Forks while a trace is exported; the child gets SIGTERM at once, before any other code that a fork runs. Prints how it ended."""

import os
import signal

FORKED = []


def terminate():
    if FORKED:
        os.kill(os.getpid(), signal.SIGTERM)


# before all others that are registered
os.register_at_fork(after_in_child=terminate)

import torch  # noqa: E402

exported = torch.profiler.profile.export_chrome_trace


def export(profiler, path):
    FORKED.append(True)
    child = os.fork()
    if child == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    FORKED.clear()
    return exported(profiler, path)


torch.profiler.profile.export_chrome_trace = export
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
