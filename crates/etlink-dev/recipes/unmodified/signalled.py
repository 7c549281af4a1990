"""An asyncio program that gets signals while a trace is exported: each reaches its handler once, though one of them raises."""

import asyncio
import os
import signal

import torch

SEEN = []
exported = torch.profiler.profile.export_chrome_trace


def export(profiler, path):
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        os.kill(os.getpid(), number)
    return exported(profiler, path)


def raise_late(number, frame):
    SEEN.append("raises")
    raise TimeoutError


async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, SEEN.append, "loop")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        try:
            optimizer.step()
        except TimeoutError:
            SEEN.append("caught")
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)


torch.profiler.profile.export_chrome_trace = export
signal.signal(signal.SIGUSR2, raise_late)
signal.signal(signal.SIGALRM, lambda number, frame: SEEN.append("plain"))
asyncio.run(main())
print(*sorted(SEEN))
