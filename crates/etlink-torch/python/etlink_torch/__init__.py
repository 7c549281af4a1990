"""Records host and device trace of PyTorch programs. Needs nothing but PyTorch, 2.1 or newer.

    from etlink_torch import profile

    with profile("traces", wait=2, warmup=1, active=2) as prof:
        for batch in batches:
            train(batch)
            prof.step()

The other modules are the part of `etlink record` that runs inside the recorded program.
"""

__version__ = "0.1.0"
__all__ = ["profile"]


def __getattr__(name):
    """Not at once: each Python process of a recorded program comes by here."""
    if name == "profile":
        from .context import profile

        return profile
    raise AttributeError(name)
