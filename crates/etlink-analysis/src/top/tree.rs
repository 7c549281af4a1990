//! Builds the tree of ranges, and computes self times from it.

use super::memory::MemoryEvents;
use super::ranges::{HostRange, RowNames};

const NONE: u32 = u32::MAX;

/// Ranges as trees, one or more per thread.
pub(super) struct RangeTree {
    /// Innermost range around each range.
    pub(super) parent: Vec<u32>,
    children: Vec<u32>,
    /// True if the range is merged with its parent.
    pub(super) merged: Vec<bool>,
}

/// Contribution of a range to its row: times in ns, sizes in bytes, for the host and for devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RangeFigures {
    pub(super) merged: bool,
    pub(super) self_host: i64,
    pub(super) host: i64,
    pub(super) self_device: i64,
    pub(super) device: i64,
    pub(super) bytes: [i64; 2],
    pub(super) self_bytes: [i64; 2],
}

impl RangeTree {
    /// Builds the trees as `_populate_cpu_children` does: a range that extends beyond another is no
    /// child of it, and neither is any later range. O(n).
    pub(super) fn new(ranges: &[HostRange], threads: usize) -> RangeTree {
        let mut open: Vec<Vec<u32>> = vec![vec![]; threads];
        let mut tree = RangeTree {
            parent: vec![NONE; ranges.len()],
            children: vec![0; ranges.len()],
            merged: vec![false; ranges.len()],
        };
        for (at, range) in ranges
            .iter()
            .enumerate()
            .filter(|(_, range)| !range.asynchronous)
        {
            let open = &mut open[range.thread.index()];
            let is_outside = |around: &mut u32| {
                let around = &ranges[*around as usize];
                // Ranges are sorted by start, so a range that does not contain this one takes no
                // more children.
                range.start >= around.end || range.end > around.end
            };
            while open.pop_if(is_outside).is_some() {}
            if let Some(&around) = open.last() {
                tree.parent[at] = around;
                tree.children[around as usize] += 1;
            }
            open.push(at as u32);
        }
        tree
    }

    /// Merges ranges as `_remove_dup_nodes` does: an only child with its parent's name is merged
    /// into it, and its device rows replace the parent's. O(n).
    pub(super) fn merge(&mut self, ranges: &[HostRange], keys: &RowNames, launched: &mut [i64]) {
        for at in 0..ranges.len() {
            let mut parent = self.parent[at];
            if parent == NONE {
                continue;
            }
            // parents come first: a merged one knows its target
            if self.merged[parent as usize] {
                parent = self.parent[parent as usize];
                self.parent[at] = parent;
            }
            let around = parent as usize;
            // An op that dispatches to itself shows twice, with the same name.
            if self.children[around] == 1
                && keys.of(ranges[around].name) == keys.of(ranges[at].name)
            {
                self.merged[at] = true;
                self.children[around] = self.children[at];
                launched[around] = launched[at];
            }
        }
    }

    /// Computes the contribution of each range. O(n).
    pub(super) fn figures(
        &self,
        ranges: &[HostRange],
        launched: &[i64],
        memory: &MemoryEvents,
    ) -> Vec<RangeFigures> {
        let own = |(at, range): (usize, &HostRange)| {
            let (host, bytes) = (
                range.end.saturating_sub(range.start),
                memory.bytes_between(range.start, range.end),
            );
            let self_host = if range.asynchronous { 0 } else { host };
            let self_bytes = if range.asynchronous { [0, 0] } else { bytes };
            RangeFigures {
                merged: self.merged[at],
                self_host,
                host,
                self_device: launched[at],
                device: launched[at],
                bytes,
                self_bytes,
            }
        };
        let mut all: Vec<RangeFigures> = ranges.iter().enumerate().map(own).collect();
        // From the last to the first, children come before
        // their parents: totals are complete when added.
        for at in (0..ranges.len())
            .rev()
            .filter(|at| !self.merged[*at] && self.parent[*at] != NONE)
        {
            let child = all[at];
            let parent = &mut all[self.parent[at] as usize];
            parent.self_host = parent.self_host.saturating_sub(child.host);
            parent.device = parent.device.saturating_add(child.device);
            for side in 0..2 {
                parent.self_bytes[side] = parent.self_bytes[side].saturating_sub(child.bytes[side]);
            }
        }
        all
    }
}
