//! Jobs begin in their order, as many at once as a budget holds.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct GateState {
    next: usize,
    used: u64,
    /// What stays of jobs that are done.
    kept: u64,
}

struct Gate<'n> {
    needs: &'n [u64],
    budget: u64,
    state: Mutex<GateState>,
    freed: Condvar,
}

impl Gate<'_> {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, when there is room for it; none when what is kept leaves no room.
    fn enter(&self) -> Option<Entered<'_>> {
        let mut state = self.lock();
        loop {
            let at = state.next;
            let need = *self.needs.get(at)?;
            let taken = state.used.saturating_add(state.kept);
            // alone every job may run: what can never fit was refused before
            if taken == 0 || taken.saturating_add(need) <= self.budget {
                state.next += 1;
                state.used = state.used.saturating_add(need);
                return Some(Entered {
                    gate: self,
                    at,
                    kept: 0,
                });
            }
            // nobody is at work who could give memory back: waiting would never end
            if state.used == 0 {
                return None;
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that has its share of the budget.
struct Entered<'g> {
    gate: &'g Gate<'g>,
    at: usize,
    kept: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.used = state.used.saturating_sub(self.gate.needs[self.at]);
        state.kept = state.kept.saturating_add(self.kept);
        self.gate.freed.notify_all();
    }
}

/// How many of these jobs can ever be in work at the same time.
pub fn at_once(needs: &[u64], budget: u64, threads: usize) -> usize {
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

/// Does one job per entry of `needs`, in that order, at most `threads` and `budget` at once.
/// Results are in the jobs' order.
pub fn in_budget<T: Send>(
    needs: &[u64],
    budget: u64,
    threads: usize,
    job: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    keeping(needs, budget, threads, |at| (job(at), 0)).unwrap_or_default()
}

/// The same for jobs that say how many bytes of them stay. `None` if these come to more than the
/// budget, or leave no room for the next job.
///
/// The threads are not those of rayon's pool: a thread there that waits for a part of its job
/// begins another job, and would hold the memory of both.
pub fn keeping<T: Send>(
    needs: &[u64],
    budget: u64,
    threads: usize,
    job: impl Fn(usize) -> (T, u64) + Sync,
) -> Option<Vec<T>> {
    let gate = Gate {
        needs,
        budget,
        state: Mutex::default(),
        freed: Condvar::new(),
    };
    // Each result goes to its place at once: a list per thread would hold all of them twice.
    let results: Vec<Option<T>> = needs.iter().map(|_| None).collect();
    let results = Mutex::new(results);
    let work = || {
        while let Some(mut entered) = gate.enter() {
            let (result, kept) = job(entered.at);
            entered.kept = kept;
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results[entered.at] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        let threads = 0..at_once(needs, budget, threads);
        let spawned = threads.map(|_| std::thread::Builder::new().spawn_scoped(scope, work));
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
    let fits = kept == 0 || kept <= budget;
    // a job that was not let in has left no result
    results
        .into_iter()
        .collect::<Option<Vec<T>>>()
        .filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn never_more_than_the_budget_and_all_in_order() {
        let needs: Vec<u64> = (0..40).map(|at| at % 7).collect();
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let results = in_budget(&needs, 9, 4, |at| {
            most.fetch_max(used.fetch_add(needs[at], SeqCst) + needs[at], SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(1));
            used.fetch_sub(needs[at], SeqCst);
            at
        });
        assert_eq!(results, (0..40).collect::<Vec<_>>());
        assert!((7..=9).contains(&most.load(SeqCst)), "{most:?}");
    }

    #[test]
    fn what_is_kept_leaves_less_for_the_next() {
        let run = |budget, kept| keeping(&[4; 10], budget, 3, |at| (at, kept));
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
        assert!(in_budget(&[], 9, 4, |at| at).is_empty());
    }
}
