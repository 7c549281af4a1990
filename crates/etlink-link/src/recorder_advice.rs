//! Advice on incomplete device traces, by recorder: each has options of its own.

use etlink_model::TraceRecorder;

/// Explains why a trace has no device rows and no runtime calls.
pub(crate) fn without_device_rows(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "a CPU run, or recorded without ProfilerActivity.CUDA",
        TraceRecorder::Nsight => {
            "a CPU run, or recorded without CUDA calls: record with `nsys profile -t cuda,nvtx`"
        }
        TraceRecorder::Rocprof => {
            "a CPU run, or recorded without kernels: record with `rocprofv3 --hip-trace --kernel-trace`"
        }
        TraceRecorder::Xla => {
            "a CPU run, or the profile ended before the device work (wait for it with \
             `jax.block_until_ready`)"
        }
    }
}

/// Advises how to record PyTorch's ops, which the ops of a host trace match.
pub(crate) fn record_ops(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "record with ProfilerActivity.CPU",
        TraceRecorder::Nsight => {
            "record with `nsys profile -t cuda,nvtx`, and run the program within \
             `torch.autograd.profiler.emit_nvtx()`"
        }
        TraceRecorder::Rocprof => {
            "rocprofv3 does not record PyTorch ops: record both traces with PyTorch's profiler"
        }
        TraceRecorder::Xla => {
            "XLA's profiler does not record PyTorch ops: record both traces with PyTorch's \
             profiler"
        }
    }
}

/// Advises what to do if few ops of the two traces match.
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

/// Advises what to do if the two traces are of different steps.
pub(crate) fn record_same_steps(recorder: TraceRecorder) -> &'static str {
    match recorder {
        TraceRecorder::Kineto => "record both traces in one profiler",
        _ => "record both traces over the same steps",
    }
}
