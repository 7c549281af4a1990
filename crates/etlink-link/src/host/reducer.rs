//! What DDP's reducer waits for without a record of it.
//!
//! ```text
//! thread   |== backward ==|all_reduce|== backward ========|finish|  optimizer
//! worker                      |== gloo:all_reduce ==|
//!
//! thread   |== backward ==|all_reduce|== backward ==| . . . . . |finish|  optimizer
//! worker                      |== gloo:all_reduce ================|~~~~~~|
//! ```
//! The reducer gives its collectives while the backward pass runs. When the pass has ended it takes
//! their futures one after the other, in that order, and copies what each one brought
//! (`Reducer::finalize_backward`, queued by `queue_callback`). No range says so. Where a collective
//! ended before the pass did, the wait was over at once and shows nowhere: it is there all the
//! same, and counts as soon as another rank comes later.
//!
//! Gloo completes the future first, and ends its range then (`AsyncWork::finishWorkGloo`). What it
//! does between the two can need Python's lock, which the woken thread has. So a range can end
//! milliseconds after the thread has gone on: the transfer had ended by then.

use crate::host::Handoff;
use crate::host::scope::is_scope;
use crate::limits::{USUAL_WAKE, WAKE_LATENCY};
use etlink_model::{DeviceTrace, OpIdx, ThreadIdx, TimeNs};

/// The range of every forward of `DistributedDataParallel`.
const DDP_FORWARD: &str = "DistributedDataParallel.forward";
/// How the ranges begin that the autograd engine records around all it runs
/// (`Engine::thread_main`).
const ENGINE: &str = "autograd::engine::evaluate_function";
/// What the reducer runs between its waits: `populate_bucket_views_out`, `finalize_bucket_dense`.
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

/// A time in which a thread does nothing.
pub(crate) type Rest = (TimeNs, TimeNs);

/// A backward pass on one thread.
#[derive(Clone, Copy, Debug)]
struct BackwardPass {
    start: TimeNs,
    end: TimeNs,
    /// Another op has begun behind it.
    is_over: bool,
    /// When what begins behind it is not the reducer's.
    finished: Option<TimeNs>,
}

/// Adds the waits at the ends of backward passes to collectives of which no other wait is known.
/// `rests` tells when a thread did nothing in a stretch of time. O(n log n) where there are some
/// in a trace with DDP, else O(names).
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

/// How far the reducer has come that finishes a backward pass.
struct Finish {
    /// The thread, and the begin of the pass.
    key: (ThreadIdx, TimeNs),
    pass_end: TimeNs,
    /// When it asks for the next collective.
    asks: TimeNs,
    /// When the thread did nothing since the pass ended.
    rests: Vec<Rest>,
    /// In how many of them it is known to have slept.
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
        // A sleep that nothing before explains has ended with this, and so the range ended late.
        // Rests are in order of time and do not overlap: those before the collective are stepped over.
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

    /// The thread slept until the collective had ended.
    fn sleep(&mut self, handoff: &mut Handoff, (from, until): Rest) {
        handoff.set_sleep(from, until);
        self.asks = until;
    }
}

/// The pass in which a thread was at `time`, and the one after it.
fn pass_at(
    passes: &[BackwardPass],
    time: TimeNs,
) -> Option<(&BackwardPass, Option<&BackwardPass>)> {
    let begun = passes.partition_point(|pass| pass.start <= time);
    let pass = passes[..begun].last().filter(|pass| time <= pass.end)?;
    Some((pass, passes.get(begun)))
}

/// Per thread, its backward passes in order.
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
            // Ops inside of the engine's ranges are the pass; a step's range is around it.
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

/// Which names of the trace are so.
fn names_with(device: &DeviceTrace, is_so: impl Fn(&str) -> bool) -> Vec<bool> {
    device.names.iter().map(is_so).collect()
}
