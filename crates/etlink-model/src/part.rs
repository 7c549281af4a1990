//! Which part of a trace is kept while it is read.

use crate::{DurationNs, TimeNs};
use std::ops::Range;

/// Which CPU ops of a device trace are kept. All else of the trace is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedOps {
    /// Those that run at any instant from here…
    pub from: TimeNs,
    /// … to here.
    pub until: TimeNs,
}

impl WantedOps {
    /// Whether an op is kept.
    pub fn has(&self, start: TimeNs, duration: DurationNs) -> bool {
        start <= self.until && start + duration >= self.from
    }
}

/// Which nodes of a host trace are kept. All else of the trace is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNodes {
    /// Those of such an id.
    pub ids: Range<u64>,
    /// And those of such a record function id, in order.
    pub rf_ids: Vec<u64>,
}

impl WantedNodes {
    /// Whether a node is kept. O(log n).
    pub fn has(&self, id: u64, rf_id: u64) -> bool {
        self.ids.contains(&id) || rf_id != 0 && self.rf_ids.binary_search(&rf_id).is_ok()
    }
}
