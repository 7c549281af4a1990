"""Records host and device traces of PyTorch programs. Needs only PyTorch 2.1 or newer.

    from etlink_torch import profile

    with profile("traces", wait=2, warmup=1, active=2) as prof:
        for batch in batches:
            train(batch)
            prof.step()

A script that uses `torch.profiler.profile` only changes its import; all arguments stay.

`arm("traces")` records on request, such as by `etlink trigger`. The other modules are the part of
`etlink record` that runs inside the recorded program.
"""

__version__ = "0.1.0"
OF_TORCH = (
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
)
"""Names of `torch.profiler`, for scripts that import all from one place."""
__all__ = ["arm", "profile"]


def __getattr__(name):
    """Imports on first use: each Python process of a recorded program imports this module, even without torch."""
    if name == "profile":
        try:
            from .drop_in import profile
        except ImportError:
            # without torch: it notes this, and the script continues
            from .context import Recording as profile

        return profile
    if name == "arm":
        from .on_demand import arm

        return arm
    if name in OF_TORCH:
        import torch.profiler

        return getattr(torch.profiler, name)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
