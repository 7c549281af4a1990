//! Finds the op that made a call or a device row.

use etlink_model::{Correlation, DeviceTrace, OpIdx, TimeNs};
use rustc_hash::FxHashMap;

/// Ops by the id with which calls and device rows refer to them.
pub(super) struct LaunchingOps<'t> {
    trace: &'t DeviceTrace,
    by_id: FxHashMap<i64, u32>,
}

impl<'t> LaunchingOps<'t> {
    pub(super) fn new(trace: &'t DeviceTrace) -> Self {
        let ids = trace
            .ops
            .external_id
            .iter()
            .zip(0u32..)
            // 0 and -1 mean no op.
            .filter(|(id, _)| **id > 0);
        LaunchingOps {
            trace,
            by_id: ids.map(|(id, op)| (*id, op)).collect(),
        }
    }

    /// Returns the op around a call when it was made.
    pub(super) fn of_call(&self, call: usize) -> Option<OpIdx> {
        let calls = &self.trace.calls;
        self.find_op(calls.external_id[call], calls.correlation[call], || {
            Some(calls.start[call])
        })
    }

    /// Returns the op with this id. Writers before 2023 use a call's own correlation id as its
    /// `External id` if no op made it. If both are equal, the op must be open at the time that
    /// `made` returns.
    pub(super) fn find_op(
        &self,
        id: i64,
        correlation: Correlation,
        made: impl FnOnce() -> Option<TimeNs>,
    ) -> Option<OpIdx> {
        let op = *self.by_id.get(&id)?;
        let (start, duration) = (
            self.trace.ops.start[op as usize],
            self.trace.ops.duration[op as usize],
        );
        // An op's id and a call's correlation can be equal by chance too, so the times decide.
        let doubtful = correlation == Correlation(id);
        let is_around = || made().is_some_and(|made| start <= made && made <= start + duration);
        (!doubtful || is_around()).then_some(OpIdx(op))
    }
}
