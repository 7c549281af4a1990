//! Sorts the tables of a device trace by time.

use crate::{DeviceTrace, DurationNs, EventDetails, OpIdx, RecordedDetails, TimeNs};

impl DeviceTrace {
    /// Sorts all tables by start, longer rows first, then in their previous order: a parent comes
    /// before its children. Row numbers of steps and graph
    /// dependencies follow. Returns `None` if a
    /// table is too long for its row numbers. O(n log n).
    pub fn sort_by_time(&mut self) -> Option<()> {
        // Taken out, so that a table and its details can be borrowed at once.
        let mut details = self.details.take();
        // Details exist for all rows or for none.
        let mut reorder = |table: fn(&mut RecordedDetails) -> &mut EventDetails, order: &[u32]| {
            if let Some(details) = &mut details {
                table(details).reorder(order);
            }
        };
        let order = rows_by_time(&self.ops.start, &self.ops.duration)?;
        self.ops.reorder(&order);
        if let Some(steps) = &mut self.marked_steps {
            let mut place = vec![OpIdx::NONE; order.len()];
            for (new, old) in order.iter().enumerate() {
                place[*old as usize] = OpIdx::new(new);
            }
            for step in steps {
                step.op = place[step.op.index()];
            }
        }
        reorder(|details| &mut details.ops, &order);
        let order = rows_by_time(&self.calls.start, &self.calls.duration)?;
        self.calls.reorder(&order);
        reorder(|details| &mut details.calls, &order);
        let order = rows_by_time(&self.rows.start, &self.rows.duration)?;
        self.keep_rows(&order);
        reorder(|details| &mut details.rows, &order);
        let order = rows_by_time(&self.syncs.start, &self.syncs.duration)?;
        self.syncs.reorder(&order);
        reorder(|details| &mut details.syncs, &order);
        let order = rows_by_time(&self.waits.start, &self.waits.duration)?;
        self.waits.reorder(&order);
        let order = rows_by_time(&self.auxiliary.start, &self.auxiliary.duration)?;
        self.auxiliary.reorder(&order);
        reorder(|details| &mut details.auxiliary, &order);
        let order = rows_by_time(&self.stream_ops.start, &self.stream_ops.duration)?;
        self.stream_ops.reorder(&order);
        let ranges = &self.counter_ranges;
        let order = rows_by_time(&ranges.start, &ranges.duration)?;
        self.counter_ranges.reorder(&order);
        let instants = vec![DurationNs(0); self.memory.len()];
        let order = rows_by_time(&self.memory.time, &instants)?;
        self.memory.reorder(&order);
        reorder(|details| &mut details.memory, &order);
        if let Some(details) = &mut details {
            let order = rows_by_time(&details.others.start, &details.others.duration)?;
            details.others.reorder(&order);
            details.other_details.reorder(&order);
        }
        self.details = details;
        Some(())
    }
}

/// Returns row numbers by start, longer first, then in their previous order.
fn rows_by_time(start: &[TimeNs], duration: &[DurationNs]) -> Option<Vec<u32>> {
    let rows = u32::try_from(start.len())
        .ok()
        .filter(|rows| *rows < u32::MAX)?;
    let mut order: Vec<u32> = (0..rows).collect();
    // The sort is stable: rows with equal times stay in file order at any number of threads.
    order.sort_by_key(|&row| {
        (
            start[row as usize],
            std::cmp::Reverse(duration[row as usize]),
        )
    });
    Some(order)
}
