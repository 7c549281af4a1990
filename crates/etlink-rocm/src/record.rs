//! Records of a process as both formats have them.

use etlink_model::{Anomalies, AnomalyKind, Correlation, DurationNs, NameId, TimeNs};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFamily {
    /// HIP and HSA.
    Runtime,
    /// ROCTx.
    Marker,
    /// RCCL.
    Library,
    /// Decoders, page faults and the like.
    Other,
}

impl CallFamily {
    /// By the name of a kind of record (`rocprofiler_buffer_tracing_kind_t`).
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

/// What a record is called: known at once, or by numbers that are explained elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordName {
    Known(NameId),
    /// Kind and operation, the places of lists of strings.
    Numbered {
        kind: i64,
        operation: i64,
    },
}

/// What all records have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSpan {
    pub(crate) thread: i64,
    /// The internal correlation id.
    pub(crate) correlation: Correlation,
    pub(crate) start: TimeNs,
    pub(crate) duration: DurationNs,
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmDispatch {
    pub(crate) span: RecordSpan,
    pub(crate) agent: i64,
    pub(crate) queue: i64,
    /// 0 of the default stream, and where no stream is known.
    pub(crate) stream: i64,
    pub(crate) kernel: i64,
    /// Work items.
    pub(crate) grid: [u32; 3],
    pub(crate) workgroup: [u32; 3],
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmCopy {
    pub(crate) span: RecordSpan,
    pub(crate) name: RecordName,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) stream: i64,
    pub(crate) bytes: u64,
}

/// A call, or a range of ROCTx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RocmCall {
    pub(crate) span: RecordSpan,
    pub(crate) family: CallFamily,
    pub(crate) name: RecordName,
    /// What a range of ROCTx says, where that stands at the range itself.
    pub(crate) message: Option<NameId>,
}

/// An agent: a processor of the host or a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RocmAgent {
    pub(crate) is_device: bool,
    /// Its number among those of its kind.
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) compute_units: u32,
}

/// What was recorded of a process.
#[derive(Debug, Default)]
pub(crate) struct RocmProcess {
    pub(crate) pid: i64,
    pub(crate) host_name: String,
    /// Its rank, and how many there are, by its environment.
    pub(crate) rank: Option<i64>,
    pub(crate) world_size: Option<i64>,
    /// Shared by the processes of one part of a database: a file can claim many of both.
    pub(crate) agents: Arc<FxHashMap<i64, RocmAgent>>,
    pub(crate) kernels: Arc<FxHashMap<i64, NameId>>,
    /// Names of operations, by kind and operation.
    pub(crate) operations: Vec<Vec<NameId>>,
    /// Messages of ROCTx by internal correlation id, where they stand in a list of their own.
    pub(crate) messages: FxHashMap<i64, NameId>,
    pub(crate) thread_names: Vec<(i64, NameId)>,
    pub(crate) dispatches: Vec<RocmDispatch>,
    pub(crate) copies: Vec<RocmCopy>,
    pub(crate) calls: Vec<RocmCall>,
}

impl RocmProcess {
    /// Whether it has work on devices.
    pub(crate) fn has_device_work(&self) -> bool {
        !self.dispatches.is_empty() || !self.copies.is_empty()
    }

    /// The name of a record, if it is known.
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

/// Start and duration of a record; `None`, counted, where it has no start. rocprofv3 writes 0 for
/// times that the device did not give.
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
