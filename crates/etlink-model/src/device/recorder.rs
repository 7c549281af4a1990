//! Recorder of a device trace.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};

/// Recorder of a device trace. Remedies for missing data differ by recorder.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    BorshSerialize,
    BorshDeserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TraceRecorder {
    /// PyTorch's profiler, or a program that writes the same format.
    #[default]
    Kineto,
    /// NVIDIA Nsight Systems.
    Nsight,
    /// ROCm's rocprofv3.
    Rocprof,
    /// XLA's profiler, which JAX uses.
    Xla,
}
