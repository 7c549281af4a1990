//! The member as it is read.

use super::UnmendedList;
use super::tables::ReadTable;
use etlink_model::{AnomalyKind, DeviceHeader, HostHeader, Names};
use indexmap::IndexMap;
use serde::Deserialize;

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
    pub(super) anomalies: Vec<(AnomalyKind, u64)>,
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
}

/// A process or thread id.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Label {
    Int(i64),
    Text(String),
}
