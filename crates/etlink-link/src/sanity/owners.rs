//! Compares calls with the ops that they name: a call runs inside its op, on the same thread.
//!
//! Old versions of Kineto number the ops of calls separately. Most calls then contradict the ops with
//! their numbers, and show nothing. O(n log n).

use super::lost::is_loss;
use crate::device::call_end;
use crate::limits::ROUNDING;
use etlink_model::{Anomaly, AnomalyKind, CallIdx, DeviceTrace, OpIdx, TableIdx};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Counts calls outside their op, and missing ops that calls name, if their process has ops with lower
/// and with higher numbers.
pub(super) fn note_owners(device: &mut DeviceTrace) {
    let (ops, calls) = (&device.ops, &device.calls);
    let numbered = ops.thread.iter().zip(&ops.external_id);
    let numbered = numbered.zip(0..).filter(|((_, id), _)| **id > 0);
    let ids = numbered.map(|((thread, id), op)| ((device.threads[thread.index()].pid, *id), op));
    let by_id: BTreeMap<_, u32> = ids.collect();
    let mut inside = 0;
    let (mut outside, mut lost) = (Anomaly::default(), Anomaly::default());
    let mut missing = FxHashSet::default();
    for call in (0..calls.len()).map(CallIdx::from_index) {
        let pid = device.threads[calls.thread[call.index()].index()].pid;
        let id = (pid, calls.external_id[call.index()]);
        let is_own =
            |other: Option<(&(_, i64), &u32)>| other.is_some_and(|((own, _), _)| *own == pid);
        let found = match by_id.get(&id) {
            Some(op) if is_inside(device, call, OpIdx(*op)) => {
                inside += 1;
                continue;
            }
            Some(_) => &mut outside,
            None if is_own(by_id.range(..id).next_back()) && is_own(by_id.range(id..).next()) => {
                if !missing.insert(id) {
                    continue;
                }
                &mut lost
            }
            None => continue,
        };
        found.count += 1;
        let name = device.names.get(calls.name[call.index()]);
        let place = || format!("{name}, start {} ns", calls.start[call.index()]);
        found.first.get_or_insert_with(place);
    }
    if !is_loss(lost.count as i64, ops.len() as i64) {
        lost.count = 0;
    }
    if outside.count < inside {
        let all = &mut device.anomalies;
        all.add_all(AnomalyKind::HostTimeImpossible, outside);
        all.add_all(AnomalyKind::OpLost, lost);
    }
}

fn is_inside(device: &DeviceTrace, call: CallIdx, op: OpIdx) -> bool {
    let begin = device.ops.start[op.index()];
    let ends_later =
        || call_end(device, call) <= begin + device.ops.duration[op.index()] + ROUNDING;
    device.ops.thread[op.index()] == device.calls.thread[call.index()]
        && begin <= device.calls.start[call.index()] + ROUNDING
        && (device.ops.unfinished[op.index()] || ends_later())
}
