//! Detects a program's platform on devices from its trace.

use crate::findings::candidate::ProgramKind;
use etlink_link::LinkedTrace;
use std::borrow::Cow;

/// Prefixes of PyTorch's names: of its ops, its communication, its backward pass, and its profiler.
const TORCH_BEGINS: [&str; 4] = ["aten::", "c10d::", "autograd::", "ProfilerStep#"];

/// Namespace of PyTorch's kernels.
const TORCH_KERNELS: &str = "at::native::";

impl ProgramKind {
    /// Detects the platform from the names in a trace. O(names).
    pub(crate) fn of_trace(trace: &LinkedTrace) -> ProgramKind {
        // Only PyTorch writes execution traces.
        if trace.host.is_some() || trace.device.names.iter().any(is_torch_name) {
            return ProgramKind::Torch;
        }
        let calls = trace.device.calls.name.iter();
        let mut calls = calls.map(|name| trace.device_name(*name));
        // A written graph has neither; assume CUDA, as for most programs.
        if calls.any(|name| name.starts_with("hip")) {
            ProgramKind::Hip
        } else {
            ProgramKind::Cuda
        }
    }

    /// Adapts a remedy in terms of CUDA to the names of the program's platform.
    pub(crate) fn in_its_words(self, remedy: &'static str) -> Cow<'static, str> {
        match self {
            // HIP has the same calls, with its own prefix.
            ProgramKind::Hip => Cow::Owned(remedy.replace("`cuda", "`hip")),
            ProgramKind::Torch | ProgramKind::Cuda => Cow::Borrowed(remedy),
        }
    }
}

fn is_torch_name(name: &str) -> bool {
    TORCH_BEGINS.iter().any(|begin| name.starts_with(begin)) || name.contains(TORCH_KERNELS)
}
