//! Results of restoring an ET+, and errors.

use super::KEY;
use crate::messages::Losses;
use etlink_link::LinkOptions;
use etlink_model::{CollectiveRecords, DeviceTrace, HostNodes, HostTrace};

/// Traces that an ET+ was linked from.
#[derive(Debug, Default)]
pub struct RecordedTraces {
    /// Host trace without tensors; `None` if there was none.
    pub host: Option<HostTrace>,
    /// Device trace, as far as a graph needs it.
    pub device: DeviceTrace,
    /// True if the two traces cover alternating steps.
    pub is_interleaved: bool,
    /// Additional files that were linked, and data that is unknown.
    pub losses: Losses,
}

impl RecordedTraces {
    /// Returns the options the traces were linked with; traces of two runs were accepted then.
    pub fn link_options(&self) -> LinkOptions {
        LinkOptions {
            allow_mismatch: true,
            is_interleaved: self.is_interleaved,
            ..LinkOptions::default()
        }
    }
}

/// Reasons for which the traces of an ET+ cannot be restored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// A newer etlink wrote the recording.
    #[error(
        "its \"{KEY}\" has a layout that this version of etlink does not know ({version}): use the \
        version that wrote it, or link the recording again"
    )]
    UnknownVersion {
        /// Version stated in the file.
        version: u64,
    },
    /// The recording is not in etlink's format.
    #[error("its \"{KEY}\" is damaged ({what}): link the recording again")]
    Damaged {
        /// Description of the damage.
        what: String,
    },
    /// Nodes and recording belong to different files.
    #[error("its nodes were changed after etlink wrote them ({what}): link the recording again")]
    Changed {
        /// Description of the change.
        what: String,
    },
    /// No node has a time.
    #[error("none of its nodes has a time: the host trace was not linked to a device trace")]
    NoTimes,
}

/// Keeps only the records that nodes refer to, in the order of the nodes.
pub(super) fn number_records(nodes: &mut HostNodes, records: &mut CollectiveRecords) {
    let mut order = vec![];
    for record in &mut nodes.collective {
        if *record != u32::MAX {
            order.push(*record);
            *record = u32::try_from(order.len() - 1).unwrap_or(u32::MAX);
        }
    }
    records.reorder(&order);
}
