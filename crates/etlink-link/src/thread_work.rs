//! Separates work from idle time on threads: a thread that nobody waits for idles.
//!
//! ```text
//! program     step ======|...gap...|==== op ====|   its gaps are work: Python, data loading
//! engine      . . . . . . |= op =|.gap.|= op =| . .  from a handoff to its end: somebody waits
//! pool        . . . |= op =| . . . . . . . . . . .   nobody waits: it idles, or waits for work
//! ```
//! The program's own thread is the one that has the steps of its process. If nothing marks steps,
//! it is the one with most launches among threads that were given no work (without a device: with
//! most ops), provided it has at least half of all.

use crate::graph::kinds::{EdgeKind, NoLaunch};
use crate::ranks::RankSteps;
use crate::trace::LinkedTrace;
use etlink_model::{ThreadIdx, TimeNs, TrackLabel};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A period of a thread in which another thread waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandedWork {
    /// Time at which the thread received the work.
    pub start: TimeNs,
    /// Time at which the waiting thread or row could continue.
    pub end: TimeNs,
    /// Thread that handed over the work.
    pub producer: ThreadIdx,
}

/// Time of threads that is work of the program, even without an op.
#[derive(Clone, Debug, Default)]
pub struct ThreadWork {
    /// Per thread, true if the program itself runs on it.
    programs: Vec<bool>,
    /// Per thread, the work that others wait for, sorted by time.
    handed: Vec<Vec<HandedWork>>,
}

impl ThreadWork {
    /// Finds the program's threads and the handed-over work. O(edges + ops + rows).
    pub fn of_trace(trace: &LinkedTrace) -> ThreadWork {
        let handed = handed_work(trace);
        ThreadWork {
            programs: program_threads(trace, &handed),
            handed,
        }
    }

    /// True if the program itself runs on a thread.
    pub fn is_program(&self, thread: ThreadIdx) -> bool {
        self.programs.get(thread.index()) == Some(&true)
    }

    /// Returns the last work a thread received by `time`, which may be over. O(log handed work).
    pub fn last_handed(&self, thread: ThreadIdx, time: TimeNs) -> Option<HandedWork> {
        let all = self.handed.get(thread.index())?;
        let begun = all.partition_point(|work| work.start <= time);
        all.get(begun.checked_sub(1)?).copied()
    }

    /// True if somebody waits for a thread's work at `time`, or the program runs there.
    pub fn is_awaited(&self, thread: ThreadIdx, time: TimeNs) -> bool {
        let handed = self.last_handed(thread, time);
        self.is_program(thread) || handed.is_some_and(|work| time < work.end)
    }
}

/// Start or end of work that a thread received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Another thread hands over work.
    Given(ThreadIdx),
    /// Another thread continues.
    Returned,
}

/// Returns, per thread, the periods from each handoff to the next time that another thread
/// continues after it.
fn handed_work(trace: &LinkedTrace) -> Vec<Vec<HandedWork>> {
    let nodes = &trace.nodes;
    let mut changes: Vec<Vec<(TimeNs, Change)>> = vec![vec![]; trace.device.threads.len()];
    let mut givers: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for edge in trace.edges.iter() {
        let (from, to) = (edge.from.index(), edge.to.index());
        let is_between = edge.kind == EdgeKind::Handoff && nodes.track[from] != nodes.track[to];
        if !is_between || nodes.on_device[from] || nodes.on_device[to] {
            continue;
        }
        let (before, after) = (nodes.track[from].index(), nodes.track[to].index());
        // Edges are sorted by time: the first edge between two threads hands over work, and an edge
        // in the other direction returns it.
        let pair = (before.min(after), before.max(after));
        let giver = *givers.entry(pair).or_insert(before);
        if giver == before {
            let given = Change::Given(ThreadIdx::new(giver));
            changes[after].push((nodes.start[to], given));
        } else {
            changes[before].push((nodes.end(edge.from), Change::Returned))
        }
    }
    changes.into_iter().map(stretches).collect()
}

fn stretches(mut changes: Vec<(TimeNs, Change)>) -> Vec<HandedWork> {
    changes.sort_unstable();
    let mut found = vec![];
    let mut given: Option<(TimeNs, ThreadIdx)> = None;
    for (time, change) in changes {
        match change {
            // Work received on top of other work ends with that.
            Change::Given(producer) => given = given.or(Some((time, producer))),
            Change::Returned => {
                if let Some((start, producer)) = given.take() {
                    found.push(HandedWork {
                        start,
                        end: time,
                        producer,
                    });
                }
            }
        }
    }
    found
}

/// Threads of one process that may be the program's.
#[derive(Default)]
struct ProcessThreads {
    has_steps: bool,
    /// Launches of all threads, and of the thread with most launches.
    launches: u64,
    most: (u64, Option<ThreadIdx>),
}

fn program_threads(trace: &LinkedTrace, handed: &[Vec<HandedWork>]) -> Vec<bool> {
    let threads = &trace.device.threads;
    let mut programs = vec![false; threads.len()];
    let mut processes: BTreeMap<TrackLabel, ProcessThreads> = BTreeMap::new();
    for thread in RankSteps::threads_of(&trace.device) {
        let Some(label) = threads.get(thread.index()) else {
            continue;
        };
        programs[thread.index()] = true;
        processes.entry(label.pid).or_default().has_steps = true;
    }
    for (thread, launches) in (0..).map(ThreadIdx).zip(launches_of_threads(trace)) {
        // A thread that works for others is no program, however many launches it has.
        if launches == 0 || !handed[thread.index()].is_empty() {
            continue;
        }
        let process = processes.entry(threads[thread.index()].pid).or_default();
        process.launches += launches;
        if launches > process.most.0 {
            process.most = (launches, Some(thread));
        }
    }
    for process in processes.values().filter(|process| !process.has_steps) {
        // In a pool of threads that share the work, none is the program's.
        if let (most, Some(thread)) = process.most
            && most * 2 >= process.launches
        {
            programs[thread.index()] = true;
        }
    }
    programs
}

/// Counts the launches per thread; without a device, the ops.
fn launches_of_threads(trace: &LinkedTrace) -> Vec<u64> {
    let device = &trace.device;
    let mut launches = vec![0; device.threads.len()];
    for (call, no_launch) in trace.row_call.iter().zip(&trace.row_no_launch) {
        if *no_launch == NoLaunch::Launched
            && let Some(call) = call.get()
        {
            launches[device.calls.thread[call.index()].index()] += 1;
        }
    }
    if launches.iter().all(|launches| *launches == 0) {
        for thread in &device.ops.thread {
            launches[thread.index()] += 1;
        }
    }
    launches
}
