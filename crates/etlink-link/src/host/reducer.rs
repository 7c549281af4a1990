//! Unrecorded waits of DDP's reducer.
//!
//! ```text
//! thread   |== backward ==|all_reduce|== backward ========|finish|  optimizer
//! worker                      |== gloo:all_reduce ==|
//!
//! thread   |== backward ==|all_reduce|== backward ==| . . . . . |finish|  optimizer
//! worker                      |== gloo:all_reduce ================|~~~~~~|
//! ```
//! The reducer hands over its collectives during the backward pass. After the pass, it takes their
//! futures one by one, in that order, and copies each result (`Reducer::finalize_backward`, queued
//! by `queue_callback`). No range shows this. If a collective ended before the pass, the wait was
//! over at once and is invisible, but it still exists, and matters as soon as another rank is
//! later.
//!
//! Gloo first completes the future, then ends its range (`AsyncWork::finishWorkGloo`). In between
//! it may need Python's lock, which the woken thread holds. So a range can end milliseconds after
//! the thread has continued: the transfer had ended by then.

use crate::host::Handoff;
use crate::host::scope::is_scope;
use crate::limits::{USUAL_WAKE, WAKE_LATENCY};
use etlink_model::{DeviceTrace, OpIdx, ThreadIdx, TimeNs};

/// Range of each forward of `DistributedDataParallel`.
const DDP_FORWARD: &str = "DistributedDataParallel.forward";
/// Prefix of the ranges that the autograd engine records around its work (`Engine::thread_main`).
const ENGINE: &str = "autograd::engine::evaluate_function";
/// Ops that the reducer runs between its waits: `populate_bucket_views_out`,
/// `finalize_bucket_dense`.
const FINISHING: [&str; 8] = [
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    "aten::as_strided",
    "aten::copy_",
    "aten::detach",
    "aten::narrow",
    "aten::reshape",
    "aten::slice",
    "aten::view",
];

/// An interval in which a thread does nothing.
pub(crate) type Rest = (TimeNs, TimeNs);

/// A backward pass on one thread.
#[derive(Clone, Copy, Debug)]
struct BackwardPass {
    start: TimeNs,
    end: TimeNs,
    /// True if another op has begun after it.
    is_over: bool,
    /// Start of the first work after it that is not the reducer's.
    finished: Option<TimeNs>,
}

/// Adds waits at the ends of backward passes for collectives without any other known wait. `rests`
/// returns the idle intervals of a thread within an interval. O(n log n) if a trace with DDP has
/// such collectives, else O(names).
pub(crate) fn add_reducer_waits(
    device: &DeviceTrace,
    handoffs: &mut [Handoff],
    rests: impl Fn(ThreadIdx, TimeNs, TimeNs) -> Vec<Rest>,
) {
    let has_unknown = handoffs.iter().any(|handoff| handoff.wait.is_none());
    if !has_unknown || device.names.find(DDP_FORWARD).is_none() {
        return;
    }
    let passes = backward_passes(device);
    let mut given: Vec<&mut Handoff> = handoffs.iter_mut().collect();
    given.retain(|handoff| handoff.wait.is_none());
    given.sort_by_key(|handoff| (handoff.producer, handoff.given));
    let mut finish: Option<Finish> = None;
    for handoff in given {
        let passes = &passes[handoff.producer.index()];
        let Some((pass, next)) = pass_at(passes, handoff.given) else {
            continue;
        };
        let key = (handoff.producer, pass.start);
        let current = finish.take().filter(|finish| finish.key == key);
        let current = finish.insert(current.unwrap_or_else(|| {
            let until = pass.finished.unwrap_or(TimeNs(i64::MAX));
            let until = next.map_or(until, |next| until.min(next.start));
            Finish::new(key, pass.end, rests(handoff.producer, pass.end, until))
        }));
        current.wait_for(handoff);
    }
}

/// Progress of the reducer that finishes a backward pass.
struct Finish {
    /// Thread, and start of the pass.
    key: (ThreadIdx, TimeNs),
    pass_end: TimeNs,
    /// Time at which the reducer asks for the next collective.
    asks: TimeNs,
    /// Idle intervals of the thread since the pass ended.
    rests: Vec<Rest>,
    /// Number of intervals in which it is known to have slept.
    slept: usize,
}

impl Finish {
    fn new(key: (ThreadIdx, TimeNs), pass_end: TimeNs, rests: Vec<Rest>) -> Finish {
        Finish {
            key,
            pass_end,
            asks: pass_end,
            rests,
            slept: 0,
        }
    }

    fn wait_for(&mut self, handoff: &mut Handoff) {
        if handoff.end <= self.pass_end {
            handoff.wait = Some(self.asks);
            return;
        }
        let next = self.rests.get(self.slept..).unwrap_or_default();
        // An otherwise unexplained sleep ended with this collective, so the range ended late. Rests
        // are sorted and do not overlap: those before the collective are skipped.
        let first = next.partition_point(|rest| rest.1 <= handoff.start);
        let mut during = next[first..]
            .iter()
            .take_while(|rest| rest.1 <= handoff.end);
        let overslept = during.position(|rest| rest.1 - rest.0 > WAKE_LATENCY);
        if let Some(place) = overslept.map(|place| first + place) {
            let rest = next[place];
            self.slept += place + 1;
            handoff.end_early(rest.1.shifted(-USUAL_WAKE.0));
            self.sleep(handoff, rest);
            return;
        }
        // Two collectives can end in one sleep.
        let known = self.slept.saturating_sub(1);
        let place = self.rests.partition_point(|rest| rest.1 <= handoff.end);
        let held = self.rests.get(place).copied();
        let held = held.filter(|rest| place >= known && rest.0 <= handoff.end);
        if let Some(rest) = held {
            self.slept = place + 1;
            self.sleep(handoff, rest);
        } else if handoff.start < self.asks {
            handoff.end_early(self.asks);
            handoff.wait = Some(self.asks);
        }
    }

    /// Records that the thread slept until the collective had ended.
    fn sleep(&mut self, handoff: &mut Handoff, (from, until): Rest) {
        handoff.set_sleep(from, until);
        self.asks = until;
    }
}

/// Returns the pass that a thread was in at `time`, and the one after it.
fn pass_at(
    passes: &[BackwardPass],
    time: TimeNs,
) -> Option<(&BackwardPass, Option<&BackwardPass>)> {
    let begun = passes.partition_point(|pass| pass.start <= time);
    let pass = passes[..begun].last().filter(|pass| time <= pass.end)?;
    Some((pass, passes.get(begun)))
}

/// Lists the backward passes of each thread, in order.
fn backward_passes(device: &DeviceTrace) -> Vec<Vec<BackwardPass>> {
    let ops = &device.ops;
    let is_engine = names_with(device, |name| name.starts_with(ENGINE));
    let is_finishing = names_with(device, |name| FINISHING.contains(&name));
    let mut passes: Vec<Vec<BackwardPass>> = vec![vec![]; device.threads.len()];
    for op in 0..ops.len() {
        let of_thread = &mut passes[ops.thread[op].index()];
        let (start, end) = (ops.start[op], ops.start[op] + ops.duration[op]);
        let last = of_thread.last_mut();
        if !is_engine[ops.name[op].index()] {
            // Ops inside the engine's ranges are the pass; a step's range surrounds it.
            if let Some(last) = last
                && last.end <= start
            {
                last.is_over |= !is_scope(device, OpIdx::new(op));
                if !is_finishing[ops.name[op].index()] {
                    last.finished = last.finished.or(Some(start));
                }
            }
            continue;
        }
        match last.filter(|last| !last.is_over) {
            Some(last) => {
                last.end = last.end.max(end);
                last.finished = None;
            }
            None => of_thread.push(BackwardPass {
                start,
                end,
                is_over: false,
                finished: None,
            }),
        }
    }
    passes
}

/// Marks the names of the trace that satisfy `is_so`.
fn names_with(device: &DeviceTrace, is_so: impl Fn(&str) -> bool) -> Vec<bool> {
    device.names.iter().map(is_so).collect()
}
