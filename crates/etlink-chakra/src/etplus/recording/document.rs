//! The recording in the form in which it is read.

use super::UnmendedList;
use super::tables::ReadTable;
use etlink_model::{Anomalies, AnomalyKind, DeviceHeader, HostHeader, Names};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Version of the recording's layout.
#[derive(Deserialize)]
pub(super) struct RecordingVersion {
    pub(super) version: u64,
}

/// Contents of the recording.
#[derive(Deserialize)]
pub(super) struct RecordingDocument {
    pub(super) header: DeviceHeader,
    pub(super) host: Option<HostPart>,
    /// Anomalies of the device trace: the linker treats a damaged trace with care.
    pub(super) anomalies: Vec<AnomalyEntry>,
    pub(super) is_interleaved: bool,
    pub(super) has_captured_ops: bool,
    pub(super) has_kernel_metrics: bool,
    pub(super) threads: Vec<[Label<'static>; 2]>,
    pub(super) queues: Vec<[i64; 3]>,
    pub(super) tables: IndexMap<String, ReadTable>,
    pub(super) names: Names,
}

/// Data of a host trace that its nodes do not contain.
#[derive(Serialize, Deserialize)]
pub(super) struct HostPart {
    pub(super) header: HostHeader,
    pub(super) unmended: Vec<UnmendedList>,
    /// Anomalies of the host trace.
    pub(super) anomalies: Vec<AnomalyEntry>,
}

/// Count of an anomaly, and its first place if known.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum AnomalyEntry {
    Placed(AnomalyKind, u64, String),
    Counted(AnomalyKind, u64),
}

impl AnomalyEntry {
    pub(super) fn list(anomalies: &Anomalies) -> Vec<AnomalyEntry> {
        let all = anomalies.iter();
        all.map(|(kind, anomaly)| match &anomaly.first {
            Some(first) => AnomalyEntry::Placed(kind, anomaly.count, first.clone()),
            None => AnomalyEntry::Counted(kind, anomaly.count),
        })
        .collect()
    }

    pub(super) fn anomalies(list: Vec<AnomalyEntry>) -> Anomalies {
        let mut anomalies = Anomalies::default();
        for entry in list {
            match entry {
                AnomalyEntry::Placed(kind, count, first) => anomalies.add(kind, count, Some(first)),
                AnomalyEntry::Counted(kind, count) => anomalies.add(kind, count, None),
            }
        }
        anomalies
    }
}

/// Id of a process or thread.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Label<'t> {
    Int(i64),
    Text(Cow<'t, str>),
}
