//! Who recorded a device trace.

use serde::{Deserialize, Serialize};

/// Who recorded a device trace: what helps where it lacks something differs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TraceRecorder {
    /// PyTorch's profiler, or a program that writes as it does.
    #[default]
    Kineto,
    /// NVIDIA Nsight Systems.
    Nsight,
    /// ROCm's rocprofv3.
    Rocprof,
    /// The profiler of XLA, which JAX uses.
    Xla,
}
