//! Starts jobs in order, as many at a time as a budget holds.
//!
//! ```text
//! sizes of files ──> need of each job ──> ×  scale  ──> may it begin?
//!                                              ^
//!            peak memory of the process, divided by the needs of the jobs that were running
//! ```
//! The need of a job is estimated from its files before it begins. If the budget is not much larger
//! than the estimates, the first job runs alone, and its measured memory scales the needs of the
//! others. If memory is short, a job that reads waits for the jobs before it.

use super::resident::{Resident, resident};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum error factor of the estimates: budgets larger by this factor need no measurements.
const ROOMY: u64 = 12;
/// Memory charged to each other job, in percent of the first job's measured memory: malloc retains
/// a part of the memory that a job freed, and the next job reuses only some of it.
const BESIDE_PERCENT: u64 = 175;
/// Memory charged after later measurements of several jobs, in percent of the measured memory.
const AGAIN_PERCENT: u64 = 110;
/// Usable part of the budget if memory is measured, in percent: it grows between two measurements.
const LOOKED_PERCENT: u64 = 95;
/// Parts of the usable budget, in percent. Above `OTHERS_PERCENT`, only the first running job
/// continues; above `FIRST_PERCENT`, no job does.
const OTHERS_PERCENT: u64 = 80;
const FIRST_PERCENT: u64 = 97;
/// Memory after linking, in percent of the memory after reading; see the bytes per event in
/// ARCHITECTURE.
const LINKED_PERCENT: u64 = 130;
/// Time after which waiting jobs check again.
const PATIENCE: Duration = Duration::from_millis(20);
/// Divisor of scales, which are in thousandths.
const UNIT: u64 = 1000;

#[derive(Default)]
struct GateState {
    next: usize,
    /// Places of running jobs.
    running: BTreeSet<usize>,
    /// Number of jobs that wait until no other job runs.
    waiting: usize,
    /// Running job that waited to run alone; `None` if there is none.
    alone: Option<usize>,
    used: u64,
    /// Bytes kept of finished jobs.
    kept: u64,
    /// Maximum of `used` until now.
    most: u64,
    done: usize,
    /// Number of finished jobs with a typical memory use.
    measured: usize,
    /// Running jobs that need almost no memory, and are no measure for others.
    idle: BTreeSet<usize>,
    /// Peak memory of the process when the first measured job ended.
    after_first: u64,
    /// Factor for needs, in thousandths; `None` before the first measurement.
    scale: Option<u64>,
}

/// Budget of jobs, and the state of the running ones.
pub(crate) struct MemoryGate {
    needs: Vec<u64>,
    /// Bytes available to all jobs together.
    room: u64,
    /// Bytes that the process may add, minus a reserve for growth between two measurements.
    limit: u64,
    /// True if the budget is too small to rely on estimates, and the system reports the memory of
    /// the process.
    is_measured: bool,
    /// Bytes that the process held before its first job.
    before: u64,
    state: Mutex<GateState>,
    freed: Condvar,
}

/// Error of a job whose memory is not available and will not become available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job needs more memory than is available")]
pub(crate) struct OverBudget {
    /// Bytes that the process would add.
    pub(crate) needed: u64,
    /// True if everything was read, so that `needed` is not a partial figure.
    pub(crate) is_read: bool,
}

impl MemoryGate {
    /// Creates a gate for jobs with these needs. `limit` is the memory that the process may add,
    /// and `room` is the part of it for jobs.
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

    /// Measures memory in any case, because some needs are unknown.
    pub(crate) fn of_unknown(self) -> MemoryGate {
        MemoryGate {
            is_measured: resident().is_some(),
            ..self
        }
    }

    /// Creates a gate without measurements.
    #[cfg(test)]
    fn unmeasured(needs: &[u64], room: u64) -> MemoryGate {
        MemoryGate {
            is_measured: false,
            ..MemoryGate::new(needs.to_vec(), room, u64::MAX, 1)
        }
    }

    /// Returns the memory added since the gate was made, without memory of a surrounding program.
    fn held(&self) -> Option<Resident> {
        let Resident { now, most } = resident()?;
        Some(Resident {
            now: now.saturating_sub(self.before),
            most: most.saturating_sub(self.before),
        })
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over with all jobs, keeping the measured scale.
    fn begin_pass(&self) {
        let mut state = self.lock();
        let scale = state.scale;
        *state = GateState {
            scale,
            ..GateState::default()
        };
    }

    /// Waits for room, and starts the next job; `None` if no job is left or kept results fill it.
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
                // the first job runs alone, because it is measured
                true => state.running.is_empty(),
                false => all <= self.room,
            };
            let room = self.room_left(&state, need, jobs);
            // a job may always run alone: impossible ones were refused before
            let may_begin = match room {
                RoomLeft::Enough => taken == 0 || fits,
                RoomLeft::ForOne => state.running.is_empty(),
                RoomLeft::None => false,
            };
            // jobs that wait to run alone come first, and stay alone
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
            // no running job could free memory: waiting would never end
            if state.running.is_empty() && state.waiting == 0 {
                return None;
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the room for a job, from the measured memory.
    fn room_left(&self, state: &GateState, need: u64, jobs: Jobs) -> RoomLeft {
        let held = if self.is_measured && state.measured > 0 {
            self.held()
        } else {
            None
        };
        let Some(Resident { now, most }) = held else {
            return RoomLeft::Enough;
        };
        let grown = most.saturating_add(self.grown_each(state, most));
        if jobs == Jobs::Keep && grown > self.limit {
            RoomLeft::None
        } else if now.saturating_add(scaled(need, state.scale)) > self.limit {
            // freed but retained memory also counts as held: a single job can reuse it
            RoomLeft::ForOne
        } else {
            RoomLeft::Enough
        }
    }

    /// Returns the average growth of the peak memory per job.
    fn grown_each(&self, state: &GateState, most: u64) -> u64 {
        let after = state.measured.saturating_sub(1).max(1) as u64;
        most.saturating_sub(state.after_first) / after
    }

    /// Updates the scale from the peak memory.
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

    /// Returns the number of jobs that can ever run at the same time, from their needs.
    pub(crate) fn at_once(&self, threads: usize) -> usize {
        at_once(&self.needs, self.room, threads)
    }

    /// Waits until a job that is reading may continue.
    ///
    /// # Errors
    /// Fails if it never may: the process holds nearly the whole budget, although no earlier job is
    /// running.
    pub(crate) fn check_reading(&self, at: usize) -> Result<(), OverBudget> {
        if !self.is_measured {
            return Ok(());
        }
        let mut state = self.lock();
        loop {
            let Some(Resident { now, .. }) = self.held() else {
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

    /// Checks that a job that has been read, and takes `takes` bytes until its end, fits alone.
    /// A later check decides if it fits next to others.
    ///
    /// # Errors
    /// Fails if it does not fit.
    pub(crate) fn check_read(&self, takes: u64) -> Result<(), OverBudget> {
        if !self.is_measured {
            return Ok(());
        }
        let is_first = {
            let state = self.lock();
            state.measured == 0 && state.running.len() < 2
        };
        // the memory after reading is more precise than an estimate; after another job, part of it
        // is free
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

    /// Waits until the job is alone, and keeps others out until it is done; for a job that could
    /// not continue next to others and has freed its memory. Returns false if it was already alone.
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

    /// Marks a job as needing almost no memory, because its result was cached.
    pub(crate) fn mark_idle(&self, at: usize) {
        self.lock().idle.insert(at);
    }

    /// Returns true if optional data may be kept: the two largest jobs would still fit.
    pub(crate) fn may_keep(&self) -> bool {
        let scale = self.lock().scale;
        let largest = self.needs.iter().copied().max().unwrap_or(0);
        let next = scaled(largest, scale).saturating_mul(2);
        self.held()
            .is_none_or(|held| held.now.saturating_add(next) <= self.limit)
    }

    /// Estimates the memory to hold the kept results of all jobs, from the finished jobs.
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

/// Kind of jobs, by the memory that they leave behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Jobs {
    /// Jobs that leave little: all of them can run.
    GiveBack,
    /// Jobs that keep results, which may exceed the budget.
    Keep,
}

/// Room for jobs next to kept results.
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

/// Returns the limit with which a process that holds `bytes` passes the measurements.
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

/// A running job with its share of the budget.
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

/// Returns the number of jobs that can ever run at the same time.
fn at_once(needs: &[u64], budget: u64, threads: usize) -> usize {
    // the smallest ones together are the most that can run
    let mut smallest = needs.to_vec();
    smallest.sort_unstable();
    let mut sums = smallest.into_iter().scan(0u64, |sum, need| {
        *sum = sum.saturating_add(need);
        Some(*sum)
    });
    let fit = sums.by_ref().take_while(|sum| *sum <= budget).count();
    fit.min(threads).max(1).min(needs.len())
}

/// Calls `job` for each need, in order, on at most `threads` threads, as many at a time as the
/// budget holds. Results are in the same order.
pub(crate) fn in_budget<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let (results, _) = all_results(gate, threads, Jobs::GiveBack, |at| (job(at), 0));
    results.unwrap_or_default()
}

/// Like `in_budget`, for jobs that also return how many bytes of their results are kept.
///
/// Uses its own threads: a thread of rayon's pool that waits for a part of its job would begin
/// another job, and hold the memory of both.
///
/// # Errors
/// Fails if the kept results exceed the budget, or leave no room for the next job, with the bytes
/// that the process would add.
pub(crate) fn keeping<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    job: impl Fn(usize) -> (T, u64) + Sync,
) -> Result<Vec<T>, u64> {
    let (results, fits) = all_results(gate, threads, Jobs::Keep, job);
    match results {
        Some(results) if fits => Ok(results),
        _ => Err(gate.needed_for_kept()),
    }
}

/// Returns the results if all jobs were started, and true if the kept bytes fit.
fn all_results<T: Send>(
    gate: &MemoryGate,
    threads: usize,
    jobs: Jobs,
    job: impl Fn(usize) -> (T, u64) + Sync,
) -> (Option<Vec<T>>, bool) {
    gate.begin_pass();
    // Each result goes to its place at once: lists per thread would hold all results twice.
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
    // too large estimates must not prevent threads: measurements decide later
    let most = if gate.is_measured {
        threads.max(1).min(gate.needs.len())
    } else {
        gate.at_once(threads)
    };
    std::thread::scope(|scope| {
        let spawned = (0..most).map(|_| std::thread::Builder::new().spawn_scoped(scope, work));
        // if the process may not start more threads, fewer do the work, or only this one
        let workers: Vec<_> = spawned.map_while(Result::ok).collect();
        if workers.is_empty() {
            work();
        }
        for worker in workers {
            // a job's panic continues in the caller, as if the job had run there
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let kept = gate.lock().kept;
    let fits = kept == 0 || kept <= gate.room;
    // a job that was not started has no result
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
        // estimates that are far too small: they would let all jobs run at once
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
            // already alone: no wait
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
