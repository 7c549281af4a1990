//! Detectors of causes in the trace of one rank, by subject.

pub(crate) mod communication;
pub(crate) mod device;
pub(crate) mod host;
pub(crate) mod host_waits;
pub(crate) mod launches;
pub(crate) mod names;
pub(crate) mod profiler;
pub(crate) mod recomputation;
pub(crate) mod spans;
pub(crate) mod start_up;
pub(crate) mod steps;
pub(crate) mod syncs;
