//! Whose time without an op is work: a thread that nobody waits for idles.
//!
//! ```text
//! program     step ======|...gap...|==== op ====|   its gaps are work: Python, data loading
//! engine      . . . . . . |= op =|.gap.|= op =| . .  from a handoff to its end: somebody waits
//! pool        . . . |= op =| . . . . . . . . . . .   nobody waits: it idles, or waits for work
//! ```
//! The program's own thread is the one that has the steps of its process. Where nothing marks steps
//! it is the one that launches most of what nobody gave it (without a device: that has most ops),
//! if this is half of all.

use crate::graph::kinds::{EdgeKind, NoLaunch};
use crate::ranks::RankSteps;
use crate::trace::LinkedTrace;
use etlink_model::{ThreadIdx, TimeNs, TrackLabel};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A stretch of a thread in which another thread waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandedWork {
    /// When it was given the work.
    pub start: TimeNs,
    /// When what waits for it could go on.
    pub end: TimeNs,
    /// Who gave it the work.
    pub producer: ThreadIdx,
}

/// Which time of threads is work of the program, though no op shows it.
#[derive(Clone, Debug, Default)]
pub struct ThreadWork {
    /// Per thread, whether the program itself runs on it.
    programs: Vec<bool>,
    /// Per thread, the work that others wait for, in order of time.
    handed: Vec<Vec<HandedWork>>,
}

impl ThreadWork {
    /// O(edges + ops + rows).
    pub fn of_trace(trace: &LinkedTrace) -> ThreadWork {
        let handed = handed_work(trace);
        ThreadWork {
            programs: program_threads(trace, &handed),
            handed,
        }
    }

    /// Whether the program itself runs on a thread.
    pub fn is_program(&self, thread: ThreadIdx) -> bool {
        self.programs.get(thread.index()) == Some(&true)
    }

    /// What a thread was last given by then: the stretch can be over. O(log stretches).
    pub fn last_handed(&self, thread: ThreadIdx, time: TimeNs) -> Option<HandedWork> {
        let all = self.handed.get(thread.index())?;
        let begun = all.partition_point(|work| work.start <= time);
        all.get(begun.checked_sub(1)?).copied()
    }

    /// Whether somebody waits for what a thread does at an instant, or the program runs there.
    pub fn is_awaited(&self, thread: ThreadIdx, time: TimeNs) -> bool {
        let handed = self.last_handed(thread, time);
        self.is_program(thread) || handed.is_some_and(|work| time < work.end)
    }
}

/// What begins or ends the work that a thread was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Another thread gives it work.
    Given(ThreadIdx),
    /// Another thread goes on.
    Returned,
}

/// Per thread, from each handoff to the next time that another thread goes on after it.
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
        // Edges are in order of time: of two threads the first edge gives work, and what leads back
        // returns it.
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
            // What is given on top of other work ends with that.
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

/// The threads of one process that can be the program's.
#[derive(Default)]
struct ProcessThreads {
    has_steps: bool,
    /// Launches of all threads, and of the one that launches most, with that thread.
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
        // Who works for others is no program, however much that is.
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
        // Of a pool of threads that share the work none is the program's.
        if let (most, Some(thread)) = process.most
            && most * 2 >= process.launches
        {
            programs[thread.index()] = true;
        }
    }
    programs
}

/// How much each thread launches; without a device how many ops it has.
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
