//! Device time of each range, and the kind of device.

use super::launching_ops::LaunchingOps;
use super::ranges::{HostRange, RangeSource};
use etlink_model::{Correlation, DeviceTrace, OpIdx};
use rustc_hash::FxHashMap;

/// Computes, per range, the time of the device rows that it launched itself, ns. O(n). Rows of
/// waits count if `with_waits` is set, as in PyTorch's table.
pub(super) fn launched_time(
    trace: &DeviceTrace,
    ranges: &[HostRange],
    with_waits: bool,
) -> Vec<i64> {
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
            let op = linked.find_op(rows.external_id[row], correlation, || {
                made(correlation).map(|call| calls.start[call])
            });
            // Kineto writes no `External id` on `cuda_sync` rows: the op is found through the call.
            add(&mut of_op, op, rows.duration[row].0);
        }
        let waits = if with_waits { syncs.len() } else { 0 };
        for row in 0..waits {
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

/// Returns PyTorch's name for the device, and true if PyTorch gives ops the time of their rows: it
/// does not for MTIA and HPU.
pub(super) fn device_kind(trace: &DeviceTrace) -> (&'static str, bool) {
    match () {
        () if has_category(trace, "X mtia_") => ("MTIA", false),
        () if has_category(trace, "X hpu_") => ("HPU", false),
        () if has_category(trace, "X xpu_") => ("XPU", true),
        () => ("CUDA", true),
    }
}

fn has_category(trace: &DeviceTrace, prefix: &str) -> bool {
    trace.events.keys().any(|key| key.starts_with(prefix))
}
