//! What DDP's reducer waits for without a record of it.
//!
//! ```text
//! thread   |== backward ==|all_reduce|== backward ========|finish|  optimizer
//! worker                      |== gloo:all_reduce ==|
//! ```
//! The reducer gives its collectives while the backward pass runs, and waits for the futures of all
//! of them when the pass has ended (`Reducer::finalize_backward`, queued by `queue_callback`). No
//! range says so. Where a collective ended before the pass did, the wait was over at once and shows
//! nowhere: it is there all the same, and counts as soon as another rank comes later.

use crate::host::Handoff;
use crate::host::scope::is_scope;
use etlink_model::{DeviceTrace, OpIdx, ThreadIdx, TimeNs};

/// The range of every forward of `DistributedDataParallel`.
const DDP_FORWARD: &str = "DistributedDataParallel.forward";
/// How the ranges begin that the autograd engine records around all it runs
/// (`Engine::thread_main`).
const ENGINE: &str = "autograd::engine::evaluate_function";

/// A backward pass on one thread.
#[derive(Clone, Copy, Debug)]
struct BackwardPass {
    start: TimeNs,
    end: TimeNs,
    /// Another op has begun behind it.
    is_over: bool,
}

/// Adds the waits at the ends of backward passes to collectives of which no other wait is known.
/// `rest_around` tells when a thread did nothing around a time. O(ops) where there are some in a
/// trace with DDP, else O(names).
pub(crate) fn add_reducer_waits(
    device: &DeviceTrace,
    handoffs: &mut [Handoff],
    rest_around: impl Fn(ThreadIdx, TimeNs) -> Option<(TimeNs, TimeNs)>,
) {
    let has_unknown = handoffs.iter().any(|handoff| handoff.wait.is_none());
    if !has_unknown || device.names.find(DDP_FORWARD).is_none() {
        return;
    }
    let passes = backward_passes(device);
    for handoff in handoffs.iter_mut().filter(|handoff| handoff.wait.is_none()) {
        let passes = &passes[handoff.producer.index()];
        let Some(pass_end) = pass_end(passes, handoff.given) else {
            continue;
        };
        // A range that outlasts the pass must have held the thread up, however late that woke.
        let rest = rest_around(handoff.producer, handoff.end);
        let held = rest.filter(|(from, _)| *from <= pass_end);
        match held {
            _ if handoff.end <= pass_end => handoff.wait = Some(pass_end),
            Some((_, until)) => handoff.set_sleep(pass_end, until),
            None => {}
        }
    }
}

/// The end of the pass in which a thread was at `time`.
fn pass_end(passes: &[BackwardPass], time: TimeNs) -> Option<TimeNs> {
    let begun = passes.partition_point(|pass| pass.start <= time);
    let pass = passes[..begun].last()?;
    (time <= pass.end).then_some(pass.end)
}

/// Per thread, its backward passes in order.
fn backward_passes(device: &DeviceTrace) -> Vec<Vec<BackwardPass>> {
    let ops = &device.ops;
    let names = device.names.iter();
    let is_engine: Vec<bool> = names.map(|name| name.starts_with(ENGINE)).collect();
    let mut passes: Vec<Vec<BackwardPass>> = vec![vec![]; device.threads.len()];
    for op in 0..ops.len() {
        let of_thread = &mut passes[ops.thread[op].index()];
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        let last = of_thread.last_mut();
        if !is_engine[ops.name[op].index()] {
            // Ops inside of the engine's ranges are the pass; a step's range is around it.
            if let Some(last) = last
                && last.end <= start
                && !is_scope(device, OpIdx::new(op))
            {
                last.is_over = true;
            }
            continue;
        }
        match last.filter(|last| !last.is_over) {
            Some(last) => last.end = last.end.max(end),
            None => of_thread.push(BackwardPass {
                start,
                end,
                is_over: false,
            }),
        }
    }
    passes
}
