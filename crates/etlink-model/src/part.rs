//! Which part of a trace is read, where it is linked window by window.

use crate::{DurationNs, TimeNs};
use std::ops::Range;

/// Which CPU ops of a device trace are kept. All else of the trace is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedOps {
    /// Those that run at any instant from here…
    pub from: TimeNs,
    /// … to here.
    pub until: TimeNs,
    /// And those of such a start and duration, in order.
    pub also: Vec<(TimeNs, DurationNs)>,
}

impl WantedOps {
    /// Whether an op is kept. O(log n).
    pub fn has(&self, start: TimeNs, duration: DurationNs) -> bool {
        let overlaps = start <= self.until && start + duration >= self.from;
        overlaps || self.also.binary_search(&(start, duration)).is_ok()
    }
}

/// Which nodes of a host trace are kept. All else of the trace is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedNodes {
    /// None of them: their ids are listed, and their communication records stay.
    pub only_ids: bool,
    /// Those of such an id.
    pub ids: Range<u64>,
    /// And those of such a record function id, in order.
    pub rf_ids: Vec<u64>,
}

impl WantedNodes {
    /// Whether a node is kept. O(log n).
    pub fn has(&self, id: u64, rf_id: u64) -> bool {
        !self.only_ids && self.ids.contains(&id)
            || rf_id != 0 && self.rf_ids.binary_search(&rf_id).is_ok()
    }
}

/// Numbers of a host node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedNode {
    /// `id`.
    pub id: u64,
    /// `rf_id`, 0 = none.
    pub rf_id: u64,
}
