//! Jobs begin in their order, as many at once as a budget holds.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct State {
    next: usize,
    used: u64,
}

struct Gate<'n> {
    needs: &'n [u64],
    budget: u64,
    state: Mutex<State>,
    freed: Condvar,
}

impl Gate<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, when there is room for it.
    fn enter(&self) -> Option<Entered<'_>> {
        let mut state = self.lock();
        loop {
            let at = state.next;
            let need = *self.needs.get(at)?;
            if state.used == 0 || state.used.saturating_add(need) <= self.budget {
                state.next += 1;
                state.used = state.used.saturating_add(need);
                return Some(Entered { gate: self, at });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that has its share of the budget.
struct Entered<'g> {
    gate: &'g Gate<'g>,
    at: usize,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.used = state.used.saturating_sub(self.gate.needs[self.at]);
        self.gate.freed.notify_all();
    }
}

/// How many of these jobs can ever be in work at the same time.
pub fn at_once(needs: &[u64], budget: u64, threads: usize) -> usize {
    let mut smallest = needs.to_vec();
    smallest.sort_unstable();
    let mut sums = smallest.into_iter().scan(0u64, |sum, need| {
        *sum = sum.saturating_add(need);
        Some(*sum)
    });
    let fit = sums.by_ref().take_while(|sum| *sum <= budget).count();
    fit.min(threads).max(1).min(needs.len())
}

/// Does one job per entry of `needs`, in that order, at most `threads` and `budget` at once. Results are in the jobs' order.
///
/// The threads are not those of rayon's pool: a thread there that waits for a part of its job
/// begins another job, and would hold the memory of both.
pub fn in_budget<T: Send>(needs: &[u64], budget: u64, threads: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = Gate { needs, budget, state: Mutex::default(), freed: Condvar::new() };
    let work = || std::iter::from_fn(|| gate.enter()).map(|entered| (entered.at, job(entered.at))).collect::<Vec<_>>();
    let mut results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once(needs, budget, threads)).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.collect::<Vec<_>>()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
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
    fn no_jobs_no_threads() {
        assert!(in_budget(&[], 9, 4, |at| at).is_empty());
    }
}
