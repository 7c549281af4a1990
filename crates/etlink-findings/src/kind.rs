//! What kinds of causes there are.

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
    /// The host does something else while the device idles.
    HostWork,
    /// Kernels are shorter than it takes to launch them.
    SmallKernels,
    /// The same inside of an optimizer.
    OptimizerLaunches,
    /// A number is read back from the device: `.item()`.
    ScalarRead,
    /// The size of a result is read back: `nonzero`.
    DynamicShape,
    /// A copy from or to memory that is not pinned.
    PageableCopy,
    /// The program waits for the device by itself.
    ExplicitSync,
    /// The host seems to wait for the device, and no call shows it.
    UnrecordedSync,
    /// Device memory is allocated or freed by the driver.
    AllocatorCalls,
    /// Communication that no computation hides.
    ExposedCommunication,
    /// Copies that nothing hides.
    ExposedCopies,
    /// One kernel takes a fifth of the kernels' time or more.
    DominantKernel,
    /// Long kernels with fewer blocks than the device has multiprocessors.
    LowCoverage,
    /// Elementwise kernels one after the other.
    FusibleChain,
    /// Tensors are copied to another layout or type.
    TensorCopies,
    /// Forward work that is done again in the backward pass.
    Recomputation,
    /// What the process does for the first time.
    FirstCall,
    /// The first step does what the others do not.
    FirstStep,
    /// The profiler's own work.
    ProfilerOverhead,
    /// Launches stand still because the queue of the device is full.
    QueueFull,
    /// Streams of computation wait for each other.
    StreamTurns,
    /// One rank needs longer than the others.
    LateRank,
    /// Ranks take turns in needing longer.
    RankImbalance,
}
