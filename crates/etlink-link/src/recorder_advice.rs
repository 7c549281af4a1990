//! What helps where a device trace lacks something: each recorder has options of its own.

use etlink_model::TraceRecorder;

/// Why a trace has no device rows and no runtime calls.
pub(crate) fn without_device_rows(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "a CPU run, or recorded without ProfilerActivity.CUDA",
        TraceRecorder::Nsight => {
            "a CPU run, or recorded without CUDA's calls: record with `nsys profile -t cuda,nvtx`"
        }
        TraceRecorder::Rocprof => {
            "a CPU run, or recorded without kernels: record with `rocprofv3 --hip-trace --kernel-trace`"
        }
        TraceRecorder::Xla => {
            "a CPU run, or the profile ended before devices worked (`jax.block_until_ready` \
             waits for them)"
        }
    }
}

/// How a trace comes by the ops of PyTorch, to which those of a host trace belong.
pub(crate) fn record_ops(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "record with ProfilerActivity.CPU",
        TraceRecorder::Nsight => {
            "record with `nsys profile -t cuda,nvtx`, and the program within \
             `torch.autograd.profiler.emit_nvtx()`"
        }
        TraceRecorder::Rocprof => {
            "rocprofv3 does not record ops of PyTorch: record both traces with PyTorch's profiler"
        }
        TraceRecorder::Xla => {
            "XLA's profiler does not record ops of PyTorch: record both traces with PyTorch's \
             profiler"
        }
    }
}

/// What to do where few ops of the two traces are the same.
pub(crate) fn give_one_run(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "give the two traces of one run",
        TraceRecorder::Nsight => {
            "give the two traces of one run, recorded with `nsys profile -t cuda,nvtx` and within \
             `torch.autograd.profiler.emit_nvtx()`"
        }
        TraceRecorder::Rocprof | TraceRecorder::Xla => record_ops(recorder),
    }
}

/// What to do where the two traces are of other steps.
pub(crate) fn record_same_steps(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "record both in one profiler",
        _ => "record both over the same steps",
    }
}
