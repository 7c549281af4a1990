//! Finds time whose calls and rows a recorder lost together, as if it dropped a buffer.
//!
//! Each call of an API takes the next correlation id, so lost calls leave a gap in the ids. Recorders
//! also skip calls, such as `cudaGetDevice`, so a gap alone is no damage. It is, if ops run in it that
//! launch device work everywhere else. O(n log n).

use super::launches::LaunchCalls;
use crate::device::call_end;
use crate::limits::{LEAST_LOST, LEAST_SILENT_NAMES, LOST_PART};
use etlink_model::{
    CallIdx, Correlation, DeviceTrace, NameId, OpIdx, TableIdx, TimeNs, TrackLabel,
};
use rustc_hash::FxHashMap;

/// Time between two calls that lacks calls and their rows.
pub(super) struct LostCalls {
    /// End of the last call before, and start of the first call after.
    pub(super) span: (TimeNs, TimeNs),
    /// Ops that launch device work everywhere else; at least one.
    pub(super) ops: Vec<OpIdx>,
}

/// Returns the time without calls, ascending.
pub(super) fn lost_calls(device: &DeviceTrace, calls: &LaunchCalls) -> Vec<LostCalls> {
    let ops = InnerOps::new(device, calls);
    let mut lost = vec![];
    for [(process, before, last), (other, after, next)] in neighbours(device) {
        let ids = after.0.saturating_sub(before.0).saturating_sub(1);
        let span = (call_end(device, last), device.calls.start[next.index()]);
        if process != other || ids < LEAST_LOST || span.0 >= span.1 {
            continue;
        }
        let silent = ops.silent_in(device, process, span);
        if silent.len() as i64 >= LEAST_LOST && silent.len() as i64 <= ids {
            lost.push(LostCalls { span, ops: silent });
        }
    }
    lost.sort_by_key(|one| one.span);
    lost
}

/// Returns the calls of each process with the call of the next id.
fn neighbours(device: &DeviceTrace) -> Vec<[(TrackLabel, Correlation, CallIdx); 2]> {
    let calls = (0..).map(CallIdx).zip(&device.calls.correlation);
    let calls = calls.filter_map(|(call, id)| Some((call, id.get()?)));
    let mut calls: Vec<_> = calls
        .map(|(call, id)| {
            let thread = device.calls.thread[call.index()];
            (device.threads[thread.index()].pid, id, call)
        })
        .collect();
    calls.sort_unstable();
    let pairs = calls.windows(2);
    pairs.filter_map(|pair| pair.try_into().ok()).collect()
}

/// Ops without ops inside them.
struct InnerOps {
    /// Ops with true if a launch is inside, by start.
    ops: Vec<(OpIdx, bool)>,
    /// Number of ops with and without a launch, by name.
    by_name: FxHashMap<NameId, [i64; 2]>,
}

impl InnerOps {
    fn new(device: &DeviceTrace, calls: &LaunchCalls) -> InnerOps {
        let mut launches: Vec<Vec<TimeNs>> = vec![vec![]; device.threads.len()];
        for launch in &calls.launches {
            let thread = device.calls.thread[launch.call.index()];
            launches[thread.index()].push(device.calls.start[launch.call.index()]);
        }
        let end = |op: OpIdx| device.ops.start[op.index()] + device.ops.duration[op.index()];
        let mut last_of = vec![None; device.threads.len()];
        let mut inner = vec![];
        for op in (0..device.ops.len()).map(OpIdx::from_index) {
            let last = &mut last_of[device.ops.thread[op.index()].index()];
            inner.extend(last.filter(|last| end(*last) <= device.ops.start[op.index()]));
            *last = Some(op);
        }
        inner.extend(last_of.into_iter().flatten());
        inner.retain(|op| !device.ops.annotation[op.index()]);
        inner.sort_unstable();
        let mut by_name: FxHashMap<NameId, [i64; 2]> = FxHashMap::default();
        let launching = |op: OpIdx| {
            let starts = &launches[device.ops.thread[op.index()].index()];
            let begun = starts.partition_point(|start| *start < device.ops.start[op.index()]);
            starts.get(begun).is_some_and(|start| *start < end(op))
        };
        let ops = inner.into_iter().map(|op| (op, launching(op)));
        let ops: Vec<(OpIdx, bool)> = ops.collect();
        for (op, launches) in &ops {
            let counts = by_name.entry(device.ops.name[op.index()]).or_default();
            counts[usize::from(!launches)] += 1;
        }
        InnerOps { ops, by_name }
    }

    /// Returns the ops of a process without a launch in a span, which launch device work everywhere
    /// else; none if they have few names: ops of one name may work on the host.
    fn silent_in(
        &self,
        device: &DeviceTrace,
        process: TrackLabel,
        span: (TimeNs, TimeNs),
    ) -> Vec<OpIdx> {
        let begins_before = |time: TimeNs| {
            self.ops
                .partition_point(|(op, _)| device.ops.start[op.index()] < time)
        };
        let inside = &self.ops[begins_before(span.0)..begins_before(span.1)];
        let is_own =
            |op: OpIdx| device.threads[device.ops.thread[op.index()].index()].pid == process;
        let mut silent: FxHashMap<NameId, Vec<OpIdx>> = FxHashMap::default();
        for (op, launches) in inside {
            if !launches && is_own(*op) {
                let of_name = silent.entry(device.ops.name[op.index()]);
                of_name.or_default().push(*op);
            }
        }
        silent.retain(|name, ops| {
            let [with, without] = self.by_name.get(name).copied().unwrap_or_default();
            let elsewhere = without - ops.len() as i64;
            with > 0 && elsewhere * (LOST_PART - 1) <= with
        });
        if silent.len() < LEAST_SILENT_NAMES {
            return vec![];
        }
        let mut ops: Vec<OpIdx> = silent.into_values().flatten().collect();
        ops.sort_unstable();
        ops
    }
}
