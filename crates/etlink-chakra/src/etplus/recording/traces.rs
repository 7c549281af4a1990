//! What comes out of an ET+, and why nothing does.

use super::KEY;
use crate::messages::Losses;
use etlink_link::LinkOptions;
use etlink_model::{CollectiveRecords, DeviceTrace, HostNodes, HostTrace};

/// What was linked to an ET+.
#[derive(Debug, Default)]
pub struct RecordedTraces {
    /// The host trace, without tensors; `None` where there was none.
    pub host: Option<HostTrace>,
    /// The device trace: what a graph needs of it.
    pub device: DeviceTrace,
    /// The two are of steps in turn.
    pub is_interleaved: bool,
    /// What there was beside them, or is not known of them.
    pub losses: Losses,
}

impl RecordedTraces {
    /// How they were linked: those of two runs were let pass then.
    pub fn link_options(&self) -> LinkOptions {
        LinkOptions {
            allow_mismatch: true,
            is_interleaved: self.is_interleaved,
            ..LinkOptions::default()
        }
    }
}

/// Why the traces of an ET+ cannot be made again.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// A newer etlink wrote it.
    #[error(
        "its \"{KEY}\" is laid out in a way that this etlink does not know ({version}): read it \
        with the etlink that wrote it, or link the recording again"
    )]
    UnknownVersion {
        /// What the file says.
        version: u64,
    },
    /// The member is not what etlink writes.
    #[error("its \"{KEY}\" is damaged ({what}): link the recording again")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// Nodes and member are of two files.
    #[error(
        "its nodes were changed after etlink had written it ({what}): link the recording again"
    )]
    Changed {
        /// What is other than it was.
        what: String,
    },
    /// No node has a time.
    #[error("none of its nodes has a time: it was linked to no device trace")]
    NoTimes,
}

/// Leaves the records that nodes name, in the order of these.
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
