//! The kinds of causes.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// A kind of cause.
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
    Serialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The host waits for the next batch.
    #[default]
    InputPipeline,
    /// The host does other work while the device is idle.
    HostWork,
    /// Kernels are shorter than their launches.
    SmallKernels,
    /// Kernels within an optimizer are shorter than their launches.
    OptimizerLaunches,
    /// The host reads a number back from the device: `.item()`.
    ScalarRead,
    /// The host reads the size of a result back: `nonzero`.
    DynamicShape,
    /// A copy from or to pageable memory blocks the host.
    PageableCopy,
    /// The program waits for the device explicitly.
    ExplicitSync,
    /// The host seems to wait for the device, although no call shows it.
    UnrecordedSync,
    /// The driver allocates or frees device memory.
    AllocatorCalls,
    /// Communication is not hidden by computation.
    ExposedCommunication,
    /// Copies are not hidden by other work.
    ExposedCopies,
    /// One kernel takes at least a fifth of all kernel time.
    DominantKernel,
    /// Long kernels have fewer blocks than the device has multiprocessors.
    LowCoverage,
    /// Elementwise kernels run one after another.
    FusibleChain,
    /// Tensors are copied to another layout or type.
    TensorCopies,
    /// The backward pass repeats forward work.
    Recomputation,
    /// The process does one-time work.
    FirstCall,
    /// The first step does work that the others do not.
    FirstStep,
    /// The profiler itself takes time.
    ProfilerOverhead,
    /// Launches block because the device's queue is full.
    QueueFull,
    /// Computing streams wait for each other.
    StreamTurns,
    /// One rank takes longer than the others.
    LateRank,
    /// Ranks take turns at being slower.
    RankImbalance,
}
