//! Jobs begin in their order, as many at once as a budget holds.
//!
//! ```text
//! sizes of files ──> need of each job ──> ×  scale  ──> may it begin?
//!                                              ^
//!            what the process held at most, against the needs of the jobs that were at work
//! ```
//! What a job takes is told from files before it begins, which is a guess. Where the budget is not much
//! larger than that, the first job runs alone, and what the process held then is what the others
//! are reckoned with. A job that reads while memory is short waits for those before it.

use super::resident::{Resident, resident};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Guesses are not off by more: where a budget has so many times as much, nothing is measured.
const ROOMY: u64 = 12;
/// What the others are reckoned with, in percent of what the first took alone: malloc keeps a part of
/// what a job gave back, and the next one gets only some of that.
const BESIDE_PERCENT: u64 = 175;
/// The same, of several that were measured together.
const AGAIN_PERCENT: u64 = 110;
/// What is measured is kept below this part of the budget, in percent: between two looks it grows.
const LOOKED_PERCENT: u64 = 95;
/// Parts of that, in percent: beyond the first only the first of the jobs at work goes on,
/// beyond the second not even that.
const OTHERS_PERCENT: u64 = 80;
const FIRST_PERCENT: u64 = 97;
/// What linking comes to, in percent of what was read: the table of bytes per event in ARCHITECTURE.
const LINKED_PERCENT: u64 = 130;
/// Jobs that wait look again after this.
const PATIENCE: Duration = Duration::from_millis(20);
/// A thousandth.
const UNIT: u64 = 1000;

#[derive(Default)]
struct GateState {
    next: usize,
    /// Jobs at work, by their places.
    running: BTreeSet<usize>,
    /// How many wait until nobody else is at work.
    waiting: usize,
    /// The job that waited so, until it is done.
    alone: Option<usize>,
    used: u64,
    /// What stays of jobs that are done.
    kept: u64,
    /// The most that was used until now.
    most: u64,
    done: usize,
    /// Of these, how many took what jobs take.
    measured: usize,
    /// Jobs at work that take next to nothing, and tell nothing of the others.
    idle: BTreeSet<usize>,
    /// What the process held at most when the first measured job was done.
    after_first: u64,
    /// By how much needs are multiplied, in thousandths; none before a job was measured.
    scale: Option<u64>,
}

/// What jobs may take together, and what they take.
pub(crate) struct MemoryGate {
    needs: Vec<u64>,
    /// For all jobs.
    room: u64,
    /// What the process may hold beyond what it held before, without what it may grow by unseen.
    limit: u64,
    /// Whether the budget is so small that a wrong guess would pass it, and the system says what the
    /// process holds.
    is_measured: bool,
    /// What the process held before its first job.
    before: u64,
    state: Mutex<GateState>,
    freed: Condvar,
}

/// What the process holds beyond what it held before, now and at most.
#[derive(Clone, Copy)]
struct Held {
    now: u64,
    most: u64,
}

/// A job's memory is not to be had, nor will it be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes more memory than there is")]
pub(crate) struct OverBudget {
    /// What the process would hold beyond what it held before, bytes.
    pub(crate) needed: u64,
    /// All was read, so that what it takes is known.
    pub(crate) is_read: bool,
}

impl MemoryGate {
    /// A gate for jobs with these needs. `limit` is what the process may hold beyond what it holds
    /// now, `room` the part of it that is for jobs.
    pub(crate) fn new(needs: Vec<u64>, room: u64, limit: u64, threads: usize) -> MemoryGate {
        let most_at_once = {
            let mut largest = needs.clone();
            largest.sort_unstable_by(|a, b| b.cmp(a));
            largest.iter().take(threads.max(1)).fold(0, sum)
        };
        let is_roomy = most_at_once.saturating_mul(ROOMY) <= room;
        let held = resident();
        MemoryGate {
            needs,
            room,
            limit: part_of(limit, LOOKED_PERCENT),
            is_measured: held.is_some() && !is_roomy,
            before: held.map_or(0, |held| held.now),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// The same where some needs are not known, so that what the process holds has to be looked at.
    pub(crate) fn of_unknown(self) -> MemoryGate {
        MemoryGate {
            is_measured: resident().is_some(),
            ..self
        }
    }

    /// A gate that nothing waits at.
    #[cfg(test)]
    fn unmeasured(needs: &[u64], room: u64) -> MemoryGate {
        MemoryGate {
            needs: needs.to_vec(),
            room,
            limit: u64::MAX,
            is_measured: false,
            before: 0,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// What the process holds beyond what it held before: that of a program around us is not ours.
    fn held(&self) -> Option<Held> {
        let Resident { now, most } = resident()?;
        Some(Held {
            now: now.saturating_sub(self.before),
            most: most.saturating_sub(self.before),
        })
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All jobs once more, with what was learned.
    fn begin_pass(&self) {
        let mut state = self.lock();
        let scale = state.scale;
        *state = GateState {
            scale,
            ..GateState::default()
        };
    }

    /// The next job, when there is room for it; none when what is kept leaves no room.
    fn enter(&self, jobs: Jobs) -> Option<Entered<'_>> {
        let mut state = self.lock();
        loop {
            let at = state.next;
            let need = *self.needs.get(at)?;
            let taken = state.used.saturating_add(state.kept);
            let used = state.used.saturating_add(need);
            let all = scaled(used, state.scale).saturating_add(state.kept);
            let is_unknown = self.is_measured && state.scale.is_none();
            let fits = match is_unknown {
                // the first one is measured, and so runs alone
                true => state.running.is_empty(),
                false => all <= self.room,
            };
            let room = self.room_left(&state, need, jobs);
            // alone every job may run: what can never fit was refused before
            let may_begin = match room {
                RoomLeft::Enough => taken == 0 || fits,
                RoomLeft::ForOne => state.running.is_empty(),
                RoomLeft::None => false,
            };
            // who waits to be alone comes first, and stays alone
            if may_begin && state.waiting == 0 && state.alone.is_none() {
                state.next += 1;
                state.used = used;
                state.most = state.most.max(used);
                state.running.insert(at);
                return Some(Entered {
                    gate: self,
                    at,
                    kept: 0,
                });
            }
            // nobody is at work who could give memory back: waiting would never end
            if state.running.is_empty() && state.waiting == 0 {
                return None;
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is left for a job, by what the process holds.
    fn room_left(&self, state: &GateState, need: u64, jobs: Jobs) -> RoomLeft {
        let held = if self.is_measured && state.measured > 0 {
            self.held()
        } else {
            None
        };
        let Some(Held { now, most }) = held else {
            return RoomLeft::Enough;
        };
        let grown = most.saturating_add(self.grown_each(state, most));
        if jobs == Jobs::Keep && grown > self.limit {
            RoomLeft::None
        } else if now.saturating_add(scaled(need, state.scale)) > self.limit {
            // what was given back and not taken again is held, too: one job alone makes do with that
            RoomLeft::ForOne
        } else {
            RoomLeft::Enough
        }
    }

    /// By how much the most that the process held has grown with each job.
    fn grown_each(&self, state: &GateState, most: u64) -> u64 {
        let after = state.measured.saturating_sub(1).max(1) as u64;
        most.saturating_sub(state.after_first) / after
    }

    /// Takes in what the process held until now.
    fn learn(&self, state: &mut GateState) {
        if !self.is_measured || state.most == 0 {
            return;
        }
        let Some(held) = self.held() else { return };
        if state.measured == 0 {
            state.after_first = held.most;
        }
        let taken = held.most.saturating_sub(state.kept);
        let ratio = taken.saturating_mul(UNIT) / state.most;
        let percent = match state.scale {
            None => BESIDE_PERCENT,
            Some(_) => AGAIN_PERCENT,
        };
        let learned = ratio.saturating_mul(percent) / 100;
        state.scale = Some(state.scale.unwrap_or(0).max(learned));
    }

    /// How many of these jobs can ever be in work at the same time, by their needs.
    pub(crate) fn at_once(&self, threads: usize) -> usize {
        at_once(&self.needs, self.room, threads)
    }

    /// Looks whether a job that reads may go on, and waits until it may.
    ///
    /// # Errors
    /// It never may: what the process holds is nearly all there is, though no job before this one is
    /// at work.
    pub(crate) fn check_reading(&self, at: usize) -> Result<(), OverBudget> {
        if !self.is_measured {
            return Ok(());
        }
        let mut state = self.lock();
        loop {
            let Some(Held { now, .. }) = self.held() else {
                return Ok(());
            };
            if now <= part_of(self.limit, OTHERS_PERCENT) {
                return Ok(());
            }
            if state.running.first().is_none_or(|first| *first >= at) {
                return if now <= part_of(self.limit, FIRST_PERCENT) {
                    Ok(())
                } else {
                    Err(OverBudget {
                        needed: now,
                        is_read: false,
                    })
                };
            }
            state = self
                .freed
                .wait_timeout(state, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Looks whether a job that is read, and takes so much until its end, can go on. What it takes by
    /// itself is then known; whether it can beside others, a later look tells.
    ///
    /// # Errors
    /// It never can.
    pub(crate) fn check_read(&self, takes: u64) -> Result<(), OverBudget> {
        if !self.is_measured {
            return Ok(());
        }
        let is_first = {
            let state = self.lock();
            state.measured == 0 && state.running.len() < 2
        };
        // what was read says more than a guess; behind another job a part of it is free
        let needed = match self.held() {
            Some(held) if is_first => takes.max(part_of(held.now, LINKED_PERCENT)),
            _ => takes,
        };
        if needed <= self.limit {
            Ok(())
        } else {
            Err(OverBudget {
                needed,
                is_read: true,
            })
        }
    }

    /// For a job that could not go on beside others and has given back what it had: waits until it is
    /// alone, and keeps others out until it is done. False where it was alone already.
    pub(crate) fn wait_alone(&self, at: usize) -> bool {
        let mut state = self.lock();
        if !state.running.iter().any(|other| *other != at) {
            return false;
        }
        state.running.remove(&at);
        state.waiting += 1;
        self.freed.notify_all();
        while !state.running.is_empty() {
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.alone = Some(at);
        state.running.insert(at);
        true
    }

    /// Says that a job takes next to nothing: its result was at hand.
    pub(crate) fn mark_idle(&self, at: usize) {
        self.lock().idle.insert(at);
    }

    /// Whether something that need not stay may: there is still room for two of the largest jobs.
    pub(crate) fn may_keep(&self) -> bool {
        let scale = self.lock().scale;
        let largest = self.needs.iter().copied().max().unwrap_or(0);
        let next = scaled(largest, scale).saturating_mul(2);
        self.held()
            .is_none_or(|held| held.now.saturating_add(next) <= self.limit)
    }

    /// What the process would need to hold what stays of all jobs, when that of some is known.
    fn needed_for_kept(&self) -> u64 {
        let state = self.lock();
        let (done, all) = (state.done.max(1) as u64, self.needs.len() as u64);
        let kept = state.kept.saturating_mul(all) / done;
        let largest = self.needs.iter().copied().max().unwrap_or(0);
        let by_needs = scaled(largest, state.scale).saturating_add(kept);
        if !self.is_measured {
            return by_needs;
        }
        let Some(held) = self.held() else {
            return by_needs;
        };
        let grown = self.grown_each(&state, held.most).saturating_mul(all);
        by_needs.max(state.after_first.saturating_add(grown))
    }
}

/// What jobs leave behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Jobs {
    /// Little: all goes on until each was done.
    GiveBack,
    /// Something that stays: there can be too much of it.
    Keep,
}

/// How many jobs there is room for beside what stays.
enum RoomLeft {
    Enough,
    ForOne,
    None,
}

fn sum(sum: u64, next: &u64) -> u64 {
    sum.saturating_add(*next)
}

fn part_of(total: u64, percent: u64) -> u64 {
    total / 100 * percent
}

/// For how much a process has to be let in that holds so much, as it is looked at.
pub(crate) fn limit_for(bytes: u64) -> u64 {
    (bytes / LOOKED_PERCENT)
        .saturating_mul(100)
        .saturating_add(2 * 100)
}

fn scaled(bytes: u64, scale: Option<u64>) -> u64 {
    match scale {
        Some(scale) => (bytes / UNIT).saturating_mul(scale),
        None => bytes,
    }
}

/// A job that has its share of the budget.
struct Entered<'g> {
    gate: &'g MemoryGate,
    at: usize,
    kept: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        if !state.idle.remove(&self.at) {
            self.gate.learn(&mut state);
            state.measured += 1;
        }
        state.running.remove(&self.at);
        if state.alone == Some(self.at) {
            state.alone = None;
        }
        state.used = state.used.saturating_sub(self.gate.needs[self.at]);
        state.kept = state.kept.saturating_add(self.kept);
        state.done += 1;
        self.gate.freed.notify_all();
    }
}

/// How many of these jobs can ever be in work at the same time.
fn at_once(needs: &[u64], budget: u64, threads: usize) -> usize {
    // the smallest together are the most that can ever be at work
    let mut smallest = needs.to_vec();
    smallest.sort_unstable();
    let mut sums = smallest.into_iter().scan(0u64, |sum, need| {
        *sum = sum.saturating_add(need);
        Some(*sum)
    });
    let fit = sums.by_ref().take_while(|sum| *sum <= budget).count();
    fit.min(threads).max(1).min(needs.len())
}

/// What is kept of jobs does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptTooMuch {
    /// What the process would hold beyond what it held before, bytes.
    pub(crate) needed: u64,
}

/// Does one job per need, in their order, at most `threads` and as many as the budget holds at once.
/// Results are in the jobs' order.
pub(crate) fn in_budget<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let (results, _) = all_results(gate, threads, Jobs::GiveBack, |at| (job(at), 0));
    results.unwrap_or_default()
}

/// The same for jobs that say how many bytes of them stay.
///
/// The threads are not those of rayon's pool: a thread there that waits for a part of its job
/// begins another job, and would hold the memory of both.
///
/// # Errors
/// What stays comes to more than the budget, or leaves no room for the next job.
pub(crate) fn keeping<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    job: impl Fn(usize) -> (T, u64) + Sync,
) -> Result<Vec<T>, KeptTooMuch> {
    let (results, fits) = all_results(gate, threads, Jobs::Keep, job);
    match results {
        Some(results) if fits => Ok(results),
        _ => Err(KeptTooMuch {
            needed: gate.needed_for_kept(),
        }),
    }
}

/// The results of all jobs, if each was let in, and whether what stays fits.
fn all_results<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    jobs: Jobs,
    job: impl Fn(usize) -> (T, u64) + Sync,
) -> (Option<Vec<T>>, bool) {
    gate.begin_pass();
    // Each result goes to its place at once: a list per thread would hold all of them twice.
    let results: Vec<Option<T>> = gate.needs.iter().map(|_| None).collect();
    let results = Mutex::new(results);
    let work = || {
        while let Some(mut entered) = gate.enter(jobs) {
            let (result, kept) = job(entered.at);
            entered.kept = kept;
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results[entered.at] = Some(result);
        }
    };
    // a guess that is too large shall not keep threads away: what is measured decides later
    let most = if gate.is_measured {
        threads.max(1).min(gate.needs.len())
    } else {
        gate.at_once(threads)
    };
    std::thread::scope(|scope| {
        let spawned = (0..most).map(|_| std::thread::Builder::new().spawn_scoped(scope, work));
        // a limit of the process: fewer do the same, or this one
        let workers: Vec<_> = spawned.map_while(Result::ok).collect();
        if workers.is_empty() {
            work();
        }
        for worker in workers {
            // a panic of a job is its caller's, as if the job had run on this thread
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let kept = gate.lock().kept;
    let fits = kept == 0 || kept <= gate.room;
    // a job that was not let in has left no result
    (results.into_iter().collect(), fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn never_more_than_the_budget_and_all_in_order() {
        let needs: Vec<u64> = (0..40).map(|at| at % 7).collect();
        let gate = MemoryGate::unmeasured(&needs, 9);
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let results = in_budget(&gate, 4, |at| {
            most.fetch_max(used.fetch_add(needs[at], SeqCst) + needs[at], SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            used.fetch_sub(needs[at], SeqCst);
            at
        });
        assert_eq!(results, (0..40).collect::<Vec<_>>());
        assert!((7..=9).contains(&most.load(SeqCst)), "{most:?}");
    }

    #[test]
    fn what_is_kept_leaves_less_for_the_next() {
        let run = |budget, kept| {
            let gate = MemoryGate::unmeasured(&[4; 10], budget);
            keeping(&gate, 3, |at| (at, kept)).ok()
        };
        assert_eq!(
            run(24, 2),
            Some((0..10).collect()),
            "18 bytes are kept when the last comes"
        );
        assert_eq!(run(21, 2), None, "no room for the last");
        assert_eq!(run(10, 11), None, "one alone keeps too much");
        assert_eq!(
            run(1, 0),
            Some((0..10).collect()),
            "what is too large by itself was let in before"
        );
    }

    #[test]
    fn no_jobs_no_threads() {
        let gate = MemoryGate::unmeasured(&[], 9);
        assert!(in_budget(&gate, 4, |at| at).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_first_takes_is_what_the_others_are_reckoned_with() {
        const TAKEN: usize = 48 << 20;
        // a guess that is far too small: by it all could be at work at once
        let gate = MemoryGate::new(vec![20 << 20; 6], 200 << 20, 220 << 20, 6);
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        in_budget(&gate, 6, |_| {
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            let block = std::hint::black_box(vec![1u8; TAKEN]);
            std::thread::sleep(Duration::from_millis(30));
            drop(block);
            running.fetch_sub(1, SeqCst);
        });
        assert!((1..=3).contains(&most.load(SeqCst)), "{most:?}");
    }

    #[test]
    fn who_needs_all_memory_waits_until_it_is_alone() {
        let gate = MemoryGate::unmeasured(&[1; 12], 100);
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let is_alone = in_budget(&gate, 4, |at| {
            running.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            running.fetch_sub(1, SeqCst);
            if at % 3 > 0 {
                return true;
            }
            gate.wait_alone(at);
            most.fetch_max(running.load(SeqCst), SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            most.fetch_max(running.load(SeqCst), SeqCst);
            // nobody is there to wait for
            !gate.wait_alone(at)
        });
        assert_eq!(is_alone, vec![true; 12]);
        assert_eq!(most.load(SeqCst), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_job_that_can_never_go_on_is_told_so() {
        let gate = MemoryGate::new(vec![1 << 20], 1 << 20, 16 << 20, 1);
        assert_eq!(gate.check_read(8 << 20), Ok(()));
        assert!(gate.check_read(20 << 20).is_err());
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let over = gate.check_reading(0).expect_err("twice as much is held");
        assert!(over.needed >= block.len() as u64 / 2);
        let plenty = MemoryGate::new(vec![1 << 10], 1 << 30, 1 << 40, 1);
        assert_eq!(plenty.check_reading(0), Ok(()));
        assert!(plenty.may_keep());
    }
}
