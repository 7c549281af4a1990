//! Work that one thread gives to another and waits for: the autograd engine. For collectives see [`crate::queued`].
//!
//! ```text
//! giver    forward  ____A   . . . . . . . . .  B____ optimizer
//! worker                 |== backward ops ==|
//! ```
//! The giver's gap is cut where the worker begins and ends; between the two it waits. That the worker's ops are the
//! giver's shows in their `Fwd thread id` and `Sequence number`, which the forward ops have too; else in their
//! names, where a single thread has a gap around them. Both times, the giver must begin and end nothing meanwhile.
//! O(n log n).

use crate::nest::is_scope;
use crate::queued::queued;
use crate::search::{Groups, seek};
use etlink_model::{DeviceTrace, DurationNs, TimeNs, TrackLabel};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// A thread that goes on this soon after a work that it gave had ended was waiting for it. In recordings of DDP on CPUs with
/// more threads than cores 8 to 50 us.
const WAKE_LATENCY: DurationNs = DurationNs(100_000);

/// One time that a worker worked for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    pub(crate) giver: u32,
    pub(crate) worker: u32,
    /// When the worker began, and ended.
    pub(crate) start: TimeNs,
    pub(crate) end: TimeNs,
    /// The end of what the worker did before, if it did anything.
    pub(crate) idle: Option<TimeNs>,
    /// When the giver gave it, which may go on then.
    pub(crate) given: TimeNs,
    /// When the giver began to wait for its end, if it does: that may be past then.
    pub(crate) wait: Option<TimeNs>,
    /// By the names of the ops only.
    pub(crate) inferred: bool,
}

impl Handoff {
    /// When the giver goes on.
    pub(crate) fn back(&self) -> Option<TimeNs> {
        self.wait.map(|from| from.max(self.end))
    }
}

/// Finds them all, by worker and time.
pub(crate) fn handoffs(device: &DeviceTrace) -> Vec<Handoff> {
    let evidence = evidence(device);
    let mut works: Vec<Handoff> = queued(device)
        .into_iter()
        .map(|work| work.handoff)
        .collect();
    let mut lines: FxHashMap<u32, Line> = FxHashMap::default();
    if !evidence.is_empty() || works.iter().any(|work| work.wait.is_none()) {
        let threads = device.threads.len();
        let ops = Groups::new(
            device.ops.thread.iter().map(|thread| thread.index()),
            threads,
        );
        let calls = Groups::new(
            device.calls.thread.iter().map(|thread| thread.index()),
            threads,
        );
        let line = |thread| {
            (
                thread as u32,
                Line::new(device, ops.of(thread), calls.of(thread)),
            )
        };
        lines = (0..threads)
            .into_par_iter()
            .map(line)
            .collect::<Vec<_>>()
            .into_iter()
            .collect();
    }
    let mut found: Vec<Handoff> = vec![];
    for Evidence { op, giver } in evidence {
        let (start, end) = (
            device.ops.start[op],
            device.ops.start[op] + device.ops.duration[op],
        );
        let worker = device.ops.thread[op].0;
        if found
            .iter()
            .rev()
            .take(8)
            .any(|known| known.worker == worker && known.start <= start && end <= known.end)
        {
            continue;
        }
        let around = |giver: u32| {
            lines[&giver]
                .quiet_around(start, end)
                .map(|quiet| (giver, quiet))
        };
        let quiet = match giver {
            Some(giver) => around(giver),
            None => {
                let same_process = |other: &u32| {
                    device.threads[*other as usize].pid == device.threads[worker as usize].pid
                };
                let mut quiet = (0..device.threads.len() as u32)
                    .filter(|other| *other != worker)
                    .filter(same_process)
                    .filter_map(around);
                quiet.next().filter(|_| quiet.next().is_none())
            }
        };
        let busy =
            quiet.and_then(|(thread, quiet)| Some((thread, lines[&worker].busy_within(quiet)?)));
        if let Some((thread, (start, end, idle))) = busy.filter(|(_, (start, end, _))| start < end)
        {
            let inferred = giver.is_none();
            found.push(Handoff {
                giver: thread,
                worker,
                start,
                end,
                idle,
                given: start,
                wait: Some(start),
                inferred,
            });
        }
    }
    infer_waits(&mut works, &lines);
    found.extend(works);
    found.sort_by_key(|handoff| (handoff.worker, handoff.start, handoff.end));
    found.dedup_by_key(|handoff| (handoff.worker, handoff.start));
    found
}

/// A giver whose wait is not recorded waited for what ended while it rested, if it went on soon after the last of that.
fn infer_waits(works: &mut [Handoff], lines: &FxHashMap<u32, Line>) {
    let rest = |work: &Handoff| {
        lines
            .get(&work.giver)?
            .rest_at(work.end)
            .filter(|_| work.wait.is_none())
    };
    let ends_it = |work: &Handoff| {
        rest(work)
            .filter(|(_, until)| *until - work.end <= WAKE_LATENCY)
            .map(|(from, _)| (work.giver, from))
    };
    let waits: FxHashSet<(u32, TimeNs)> = works.iter().filter_map(ends_it).collect();
    for work in works {
        work.wait = work.wait.or(rest(work)
            .map(|(from, _)| from)
            .filter(|from| waits.contains(&(work.giver, *from))));
    }
}

/// An op that runs for another thread: which, if its numbers say so.
struct Evidence {
    op: usize,
    giver: Option<u32>,
}

fn evidence(device: &DeviceTrace) -> Vec<Evidence> {
    let ops = &device.ops;
    let backward = |op: usize| ops.fwd_thread[op] != 0 && ops.seq_id[op] >= 0;
    let numbered = (0..ops.len()).any(backward);
    // each process counts by itself
    let number = |op: usize| (device.threads[ops.thread[op].index()].pid, ops.seq_id[op]);
    let mut forward: FxHashMap<(TrackLabel, i64), u32> = FxHashMap::default();
    if numbered {
        let ops_forward =
            (0..ops.len()).filter(|op| ops.fwd_thread[*op] == 0 && ops.seq_id[*op] >= 0);
        for op in ops_forward {
            forward.entry(number(op)).or_insert(ops.thread[op].0);
        }
    }
    let mut engine = vec![None; device.names.count()];
    let mut by_engine = |op: usize| {
        let name = ops.name[op];
        *engine[name.index()].get_or_insert_with(|| {
            device
                .names
                .get(name)
                .starts_with("autograd::engine::evaluate_function")
        })
    };
    let mut found = vec![];
    for op in 0..ops.len() {
        if backward(op) {
            let giver = forward
                .get(&number(op))
                .copied()
                .filter(|giver| *giver != ops.thread[op].0);
            found.extend(giver.map(|giver| Evidence {
                op,
                giver: Some(giver),
            }));
        } else if !numbered && by_engine(op) {
            found.push(Evidence { op, giver: None });
        }
    }
    found
}

/// When something begins or ends on a thread, and when, scopes aside, nothing went on last: the number of that time.
struct Line {
    time: Vec<TimeNs>,
    idle: Vec<Option<usize>>,
}

impl Line {
    fn new(device: &DeviceTrace, ops: &[u32], calls: &[u32]) -> Line {
        let mut ends: Vec<(TimeNs, bool, i32)> = vec![];
        let mut add = |start: TimeNs, end: TimeNs, counts: i32| {
            ends.extend([(start, true, counts), (end, false, -counts)])
        };
        for op in ops.iter().map(|op| *op as usize) {
            add(
                device.ops.start[op],
                device.ops.start[op] + device.ops.duration[op],
                i32::from(!is_scope(device, op)),
            );
        }
        for call in calls.iter().map(|call| *call as usize) {
            add(
                device.calls.start[call],
                device.calls.start[call] + device.calls.duration[call],
                1,
            );
        }
        // what ends comes before what begins then
        ends.par_sort_unstable();
        let mut line = Line {
            time: Vec::with_capacity(ends.len()),
            idle: Vec::with_capacity(ends.len()),
        };
        let (mut depth, mut idle) = (0i32, None);
        for (time, _, change) in ends {
            depth += change;
            if depth <= 0 {
                idle = Some(line.time.len());
            }
            line.time.push(time);
            line.idle.push(idle);
        }
        line
    }

    /// The time around `start..end` in which nothing begins or ends; there must be something before and after.
    fn quiet_around(&self, start: TimeNs, end: TimeNs) -> Option<(TimeNs, TimeNs)> {
        let after = self.time.partition_point(|time| *time <= start);
        let before = self.time[after.checked_sub(1)?];
        self.time
            .get(after)
            .filter(|next| end <= **next)
            .map(|next| (before, *next))
    }

    /// The time around `at` in which the thread, scopes aside, does nothing.
    fn rest_at(&self, at: TimeNs) -> Option<(TimeNs, TimeNs)> {
        let before = self
            .time
            .partition_point(|time| *time <= at)
            .checked_sub(1)?;
        Some((self.time[before], *self.time.get(before + 1)?))
            .filter(|_| self.idle[before] == Some(before))
    }

    /// When the thread begins to work in a stretch of time and when it is done, and when it was done before that.
    /// It must not work at the stretch's begin.
    fn busy_within(
        &self,
        (from, until): (TimeNs, TimeNs),
    ) -> Option<(TimeNs, TimeNs, Option<TimeNs>)> {
        let first = self.time.partition_point(|time| *time < from);
        let last = self.idle[seek(&self.time, first, |time| *time <= until).checked_sub(1)?]?;
        let before = first.checked_sub(1);
        let idle = before.is_none_or(|before| self.idle[before] == Some(before));
        (idle && last > first).then(|| {
            (
                self.time[first],
                self.time[last],
                before.map(|before| self.time[before]),
            )
        })
    }
}
