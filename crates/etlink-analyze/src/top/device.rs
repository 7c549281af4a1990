//! Which op has which device rows.

use super::ranges::{HostRange, RangeSource};
use etlink_model::{Correlation, DeviceTrace, OpIdx, TimeNs};
use rustc_hash::FxHashMap;

/// Ops by the number that calls and device rows name them with.
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
            // 0 and -1 stand for no op.
            .filter(|(id, _)| **id > 0);
        LaunchingOps {
            trace,
            by_id: ids.map(|(id, op)| (*id, op)).collect(),
        }
    }

    /// The op around a call when it was made.
    pub(super) fn of_call(&self, call: usize) -> Option<OpIdx> {
        let calls = &self.trace.calls;
        self.find(calls.external_id[call], calls.correlation[call], || {
            Some(calls.start[call])
        })
    }

    /// Writers before 2023 give what no op made its own correlation id for an `External id`: then
    /// the op has to be around it.
    fn find(
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

/// Per range, the time of the device rows that it launched itself, ns. O(n).
pub(super) fn launched_time(trace: &DeviceTrace, ranges: &[HostRange]) -> Vec<i64> {
    let linked = LaunchingOps::new(trace);
    let mut of_op = vec![0i64; trace.ops.len()];
    let DeviceTrace {
        rows, syncs, calls, ..
    } = trace;
    let call_of: FxHashMap<Correlation, u32> = calls
        .correlation
        .iter()
        .zip(0u32..)
        .map(|(id, call)| (*id, call))
        .collect();
    let made = |id: Correlation| {
        id.get()
            .and_then(|id| call_of.get(&id))
            .map(|call| *call as usize)
    };
    if device_kind(trace).1 {
        for row in 0..rows.len() {
            let correlation = rows.correlation[row];
            let op = linked.find(rows.external_id[row], correlation, || {
                made(correlation).map(|call| calls.start[call])
            });
            // Kineto writes no `External id` on `cuda_sync` rows: the op is found through the call.
            add(&mut of_op, op, rows.duration[row].0);
        }
        for row in 0..syncs.len() {
            add(
                &mut of_op,
                made(syncs.correlation[row]).and_then(|call| linked.of_call(call)),
                syncs.duration[row].0,
            );
        }
    }
    let own = |range: &HostRange| match range.what {
        RangeSource::Op(op) if !range.asynchronous => of_op[op as usize],
        _ => 0,
    };
    ranges.iter().map(own).collect()
}

fn add(of_op: &mut [i64], op: Option<OpIdx>, ns: i64) {
    if let Some(op) = op {
        of_op[op.index()] = of_op[op.index()].saturating_add(ns);
    }
}

/// What PyTorch calls the device, and whether it gives ops the time of their rows: not those of
/// MTIA and HPU.
pub(super) fn device_kind(trace: &DeviceTrace) -> (&'static str, bool) {
    let has = |category: &str| trace.events.keys().any(|key| key.starts_with(category));
    match () {
        () if has("X mtia_") => ("MTIA", false),
        () if has("X hpu_") => ("HPU", false),
        () if has("X xpu_") => ("XPU", true),
        () => ("CUDA", true),
    }
}
