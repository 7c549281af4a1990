//! Shared vocabulary of all crates: ids, times, names, the host trace and the device trace as
//! columns, the anomalies found while reading, and diagnostics.
//!
//! ```text
//! HostTrace    PyTorch execution trace: a tree of ops without times, with tensors
//! DeviceTrace  Kineto trace: CPU ops, runtime calls and device rows with times
//! ```
//! A trace is a struct of vectors; an event is a row number with a type of its own
//! ([`HostIdx`], [`OpIdx`], [`CallIdx`], [`RowIdx`]). Strings are interned once
//! ([`Names`]). Times are integer nanoseconds ([`TimeNs`], [`DurationNs`]).

mod advice;
mod anomaly;
mod collective;
mod columns;
mod device;
mod diagnostic;
mod host;
mod host_version;
mod ids;
mod kept;
mod kernel_metrics;
mod names;
mod places;
mod step;
mod tensors;
mod time;

pub use advice::{Failure, Setting, advice, command_only, name_python_arguments};
pub use anomaly::{Anomalies, Anomaly, AnomalyKind, Severity, counted_text};
pub use collective::{
    Collective, CollectiveKind, CollectiveRecords, ProcessGroup, UNIT_BYTES, dtype_bytes,
};
pub use device::assembler::DeviceTraceAssembler;
pub use device::details::{EventDetail, EventDetails, OtherEvent, OtherEvents, RecordedDetails};
pub use device::keep_events::KeepEvents;
pub use device::recorder::TraceRecorder;
pub use device::retime::TimeMap;
pub use device::row_sanity::{ALL_TIME, RowSanity};
pub use device::{
    AuxiliaryEvent, AuxiliaryEvents, AuxiliaryKind, CounterRange, CounterRanges, CpuOp, CpuOps,
    DeviceHeader, DeviceQueue, DeviceRow, DeviceRows, DeviceTrace, GraphDependencies,
    GraphDependency, HostThread, MemoryRow, MemoryRows, OpProducer, OpProducers, RowKind,
    RuntimeCall, RuntimeCalls, StreamOp, StreamOps, SyncRow, SyncRows, ThreadWait, ThreadWaits,
    TrackLabel,
};
pub use diagnostic::{Diagnostic, DiagnosticCode};
pub use host::{HostHeader, HostNode, HostNodes, HostTrace, TextSpan, ValueList};
pub use host_version::HostVersion;
pub use ids::{
    CallIdx, CommIdx, Correlation, EdgeIdx, GlobalRank, GroupIdx, HostIdx, MatchIdx, NameId,
    NodeIdx, OpIdx, QueueIdx, RankIdx, ResourceIdx, RfId, RowIdx, StepIdx, TableIdx, ThreadIdx,
    TrackIdx,
};
pub use kept::{KeptNodes, KeptTime, LaterRow};
pub use kernel_metrics::{
    KernelMetric, KernelMetrics, MetricProfile, ProfiledKernel, ProfiledKernels, ProfiledMetric,
    ProfiledMetrics,
};
pub use names::{Names, RawNameCache};
pub use places::IndexByValue;
pub use step::{MarkedStep, PROFILER_STEP, SlicedStep, StepWork};
pub use tensors::{TensorRef, TensorRefs, TensorUses};
pub use time::{CommonNs, DurationNs, TimeNs, UnixNs, time_text};
