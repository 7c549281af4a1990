//! Records of a process, common to both formats.

use etlink_model::{Anomalies, AnomalyKind, Correlation, DurationNs, NameId, TimeNs};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// API family of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFamily {
    /// HIP and HSA.
    Runtime,
    /// ROCTx.
    Marker,
    /// RCCL.
    Library,
    /// Decoders, page faults and other families.
    Other,
}

impl CallFamily {
    /// Classifies a kind of record by its name (`rocprofiler_buffer_tracing_kind_t`).
    pub(crate) fn of(kind: &str) -> CallFamily {
        if kind.starts_with("HIP_") || kind.starts_with("HSA_") {
            CallFamily::Runtime
        } else if kind.starts_with("MARKER_") {
            CallFamily::Marker
        } else if kind.starts_with("RCCL_") {
            CallFamily::Library
        } else {
            CallFamily::Other
        }
    }
}

/// Name of a record: known at once, or numbers to look up later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordName {
    Known(NameId),
    /// Kind and operation: positions in lists of strings.
    Numbered {
        kind: i64,
        operation: i64,
    },
}

/// Parts that all records share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSpan {
    pub(crate) thread: i64,
    /// Internal correlation id.
    pub(crate) correlation: Correlation,
    pub(crate) start: TimeNs,
    pub(crate) duration: DurationNs,
}

/// A kernel dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmDispatch {
    pub(crate) span: RecordSpan,
    pub(crate) agent: i64,
    pub(crate) queue: i64,
    /// Stream number; 0 for the default stream, or if the stream is unknown.
    pub(crate) stream: i64,
    pub(crate) kernel: i64,
    /// Grid size in work items.
    pub(crate) grid: [u32; 3],
    pub(crate) workgroup: [u32; 3],
}

/// A memory copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmCopy {
    pub(crate) span: RecordSpan,
    pub(crate) name: RecordName,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) stream: i64,
    pub(crate) bytes: u64,
}

/// An API call, or a range of ROCTx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmCall {
    pub(crate) span: RecordSpan,
    pub(crate) family: CallFamily,
    pub(crate) name: RecordName,
    /// Message of a ROCTx range, if the range itself holds it.
    pub(crate) message: Option<NameId>,
}

/// An agent: a processor of the host, or a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RocmAgent {
    pub(crate) is_device: bool,
    /// Number of the agent among agents of its kind.
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) compute_units: u32,
}

/// All records of a process.
#[derive(Debug, Default)]
pub(crate) struct RocmProcess {
    pub(crate) pid: i64,
    pub(crate) host_name: String,
    /// Rank and number of ranks, from the environment.
    pub(crate) rank: Option<i64>,
    pub(crate) world_size: Option<i64>,
    /// Shared by the processes of one part of a database, since a file can claim many of both.
    pub(crate) agents: Arc<FxHashMap<i64, RocmAgent>>,
    pub(crate) kernels: Arc<FxHashMap<i64, NameId>>,
    /// Names of operations, indexed by kind and operation.
    pub(crate) operations: Vec<Vec<NameId>>,
    /// Messages of ROCTx by internal correlation id, if they are in a separate list.
    pub(crate) messages: FxHashMap<i64, NameId>,
    pub(crate) thread_names: Vec<(i64, NameId)>,
    pub(crate) dispatches: Vec<RocmDispatch>,
    pub(crate) copies: Vec<RocmCopy>,
    pub(crate) calls: Vec<RocmCall>,
}

impl RocmProcess {
    /// Returns true if the process has work on devices.
    pub(crate) fn has_device_work(&self) -> bool {
        !self.dispatches.is_empty() || !self.copies.is_empty()
    }

    /// Returns the name of a record, if it is known.
    pub(crate) fn record_name(&self, name: RecordName) -> Option<NameId> {
        match name {
            RecordName::Known(name) => Some(name),
            RecordName::Numbered { kind, operation } => {
                let kind = usize::try_from(kind).ok()?;
                let operation = usize::try_from(operation).ok()?;
                self.operations.get(kind)?.get(operation).copied()
            }
        }
    }
}

/// Returns start and duration of a record; `None`, counted, if it has no start. rocprofv3 writes 0
/// for times that the device did not report.
pub(crate) fn record_times(
    start: Option<u64>,
    end: Option<u64>,
    anomalies: &mut Anomalies,
    place: impl Fn() -> String,
) -> Option<(TimeNs, DurationNs)> {
    let Some(start) = start.filter(|start| *start > 0) else {
        anomalies.note(AnomalyKind::NoTime, place);
        return None;
    };
    let Some(start) = time_in_range(start) else {
        anomalies.note(AnomalyKind::TimeOutOfRange, place);
        return None;
    };
    let Some(end) = end else {
        anomalies.note(AnomalyKind::BadNumber, place);
        return Some((start, DurationNs::ZERO));
    };
    let Some(end) = time_in_range(end) else {
        anomalies.note(AnomalyKind::TimeOutOfRange, place);
        return None;
    };
    if end < start {
        anomalies.note(AnomalyKind::NegativeDuration, place);
    }
    Some((start, end - start))
}

fn time_in_range(ns: u64) -> Option<TimeNs> {
    let time = i64::try_from(ns).ok().map(TimeNs);
    time.filter(|time| time.is_in_range())
}
