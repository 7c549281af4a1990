//! The member as it is read.

use super::UnmendedList;
use super::tables::ReadTable;
use etlink_model::{Anomalies, AnomalyKind, DeviceHeader, HostHeader, Names};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// How the member is laid out.
#[derive(Deserialize)]
pub(super) struct RecordingVersion {
    pub(super) version: u64,
}

/// The member.
#[derive(Deserialize)]
pub(super) struct RecordingDocument {
    pub(super) header: DeviceHeader,
    pub(super) host: Option<HostPart>,
    /// What is odd about the device trace: the linker is careful with one that is damaged.
    pub(super) anomalies: Vec<AnomalyEntry>,
    pub(super) is_interleaved: bool,
    pub(super) has_captured_ops: bool,
    pub(super) has_kernel_metrics: bool,
    pub(super) threads: Vec<[Label; 2]>,
    pub(super) queues: Vec<[i64; 3]>,
    pub(super) tables: IndexMap<String, ReadTable>,
    pub(super) names: Names,
}

/// Of the host trace.
#[derive(Deserialize)]
pub(super) struct HostPart {
    pub(super) header: HostHeader,
    pub(super) unmended: Vec<UnmendedList>,
    /// What is odd about it. Files of the first etlink that wrote recordings do not say it.
    pub(super) anomalies: Option<Vec<AnomalyEntry>>,
}

/// How often something odd was met, and where first if that is known.
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

/// A process or thread id.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Label {
    Int(i64),
    Text(String),
}
