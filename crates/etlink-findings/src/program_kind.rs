//! By what a program runs on devices, as its trace shows it.

use crate::candidate::ProgramKind;
use etlink_link::LinkedTrace;
use std::borrow::Cow;

/// How names of PyTorch begin: of its ops, of its communication, of what its profiler adds.
const TORCH_BEGINS: [&str; 4] = ["aten::", "c10d::", "autograd::", "ProfilerStep#"];

/// Where its kernels lie.
const TORCH_KERNELS: &str = "at::native::";

impl ProgramKind {
    /// By the names in a trace. O(names).
    pub(crate) fn of_trace(trace: &LinkedTrace) -> ProgramKind {
        // An execution trace is PyTorch's alone.
        if trace.host.is_some() || trace.device.names.iter().any(is_torch_name) {
            return ProgramKind::Torch;
        }
        let calls = trace.device.calls.name.iter();
        let mut calls = calls.map(|name| trace.device_name(*name));
        // The stub of a graph file has neither: most programs are of CUDA.
        if calls.any(|name| name.starts_with("hip")) {
            ProgramKind::Hip
        } else {
            ProgramKind::Cuda
        }
    }

    /// A remedy in the words of CUDA by the names that the program knows.
    pub(crate) fn in_its_words(self, remedy: &'static str) -> Cow<'static, str> {
        match self {
            // HIP has the same calls under names of its own.
            ProgramKind::Hip => Cow::Owned(remedy.replace("`cuda", "`hip")),
            ProgramKind::Torch | ProgramKind::Cuda => Cow::Borrowed(remedy),
        }
    }
}

fn is_torch_name(name: &str) -> bool {
    TORCH_BEGINS.iter().any(|begin| name.starts_with(begin)) || name.contains(TORCH_KERNELS)
}
