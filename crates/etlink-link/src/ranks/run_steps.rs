//! Steps of a run, over its ranks.
//!
//! ```text
//! rank 0   |----- 1 -----|--- 2 ---|
//! rank 1     |-- 1 --|------ 2 -------|
//! run        |---- 1 ----|---- 2 -----|      lengths
//! ```
//! A step of a run begins when the last rank has begun it, and ends when the last rank has ended
//! it, so lengths add up to the time of the steps. Until the last rank begins the first step, the
//! others may have been recorded for longer. The time in which only some ranks are in that step is
//! therefore no part of it.
//!
//! A rank that lacks a step may have been the slowest in it. So a step counts only if every rank
//! has it, whole. Steps of different ranks are matched by name. Names of inference steps describe
//! the work of an iteration but do not identify it. For these, and if ranks have no step name in
//! common, steps are matched by position, provided all ranks have equally many.

use super::arrivals::aligned;
use super::{RankClock, RankSummary, StepSpan};
use etlink_model::{CommonNs, RankIdx};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// A step of a run, by the first rank's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStep {
    /// Name on the first rank that has it.
    pub name: String,
    /// First start on the host of a rank.
    pub first_start_ns: CommonNs,
    /// Last start on the host of a rank.
    pub last_start_ns: CommonNs,
    /// Begin of the step on the last rank.
    pub begin_ns: CommonNs,
    /// End of the step on the last rank.
    pub done_ns: CommonNs,
    /// Ranks on which the step is missing, truncated or empty; empty for a step that counts.
    pub lacking: Vec<RankIdx>,
}

impl RunStep {
    /// Length of the step, ns.
    pub fn length_ns(&self) -> i64 {
        self.done_ns.since(self.begin_ns)
    }

    fn from_ranks(steps: &[Option<&StepSpan>], clocks: &[RankClock]) -> Option<RunStep> {
        let mut run: Option<RunStep> = None;
        let mut lacking = vec![];
        for (rank, step) in (0..).map(RankIdx).zip(steps) {
            if step.is_none_or(|step| step.excluded.is_some()) {
                lacking.push(rank);
            }
            let Some(step) = step else { continue };
            let [start, begin_ns, done_ns] = [step.start_ns, step.begin_ns, step.done_ns]
                .map(|time| aligned(clocks, rank, time));
            let run = run.get_or_insert_with(|| RunStep {
                name: step.name.clone(),
                first_start_ns: start,
                last_start_ns: start,
                begin_ns,
                done_ns,
                lacking: vec![],
            });
            run.first_start_ns = run.first_start_ns.min(start);
            run.last_start_ns = run.last_start_ns.max(start);
            run.begin_ns = run.begin_ns.max(begin_ns);
            run.done_ns = run.done_ns.max(done_ns);
        }
        run.map(|run| RunStep { lacking, ..run })
    }
}

/// Steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSteps {
    /// All steps, in the order in which ranks have them.
    pub all: Vec<RunStep>,
}

impl RunSteps {
    /// Matches the steps of joined ranks. O(steps of all ranks).
    pub fn of_ranks(ranks: &[RankSummary], clocks: &[RankClock]) -> RunSteps {
        let ranks: Vec<&[StepSpan]> = ranks.iter().map(|rank| &rank.steps.all[..]).collect();
        RunSteps::new(&ranks, clocks)
    }

    /// Matches the steps of all ranks. Without `clocks`, those of the machines are taken to agree.
    /// O(steps of all ranks).
    pub fn new(ranks: &[&[StepSpan]], clocks: &[RankClock]) -> RunSteps {
        let by_name = RunSteps {
            all: by_name(ranks, clocks),
        };
        let mut steps = ranks.iter().copied().flatten();
        let is_inference = steps.any(|step| step.work.phase.is_some());
        if is_inference || by_name.counted().next().is_none() {
            return by_place(ranks, clocks).map_or(by_name, |all| RunSteps { all });
        }
        by_name
    }

    /// Returns the steps that count: all ranks have them, whole.
    pub fn counted(&self) -> impl Iterator<Item = &RunStep> + Clone {
        self.all.iter().filter(|step| step.lacking.is_empty())
    }

    /// Returns the lengths of the steps that count, ns.
    pub fn lengths(&self) -> impl Iterator<Item = i64> + Clone {
        self.counted().map(RunStep::length_ns)
    }

    /// Returns the time from the begin of the first step that counts to the end of the last, ns: the
    /// sum of the lengths, if steps follow each other. `None` without any.
    pub fn window_ns(&self) -> Option<i64> {
        let begin = self.counted().map(|step| step.begin_ns).min()?;
        let done = self.counted().map(|step| step.done_ns).max()?;
        Some(done.since(begin))
    }

    /// Returns the mean length of the steps that count, ns; `None` without any.
    pub fn mean_ns(&self) -> Option<i64> {
        let steps = i64::try_from(self.counted().count()).ok()?;
        let total = self.lengths().reduce(i64::saturating_add)?;
        Some(total / steps)
    }

    /// Returns the step of this name.
    pub fn find(&self, name: &str) -> Option<&RunStep> {
        self.all.iter().find(|step| step.name == name)
    }
}

fn by_name(ranks: &[&[StepSpan]], clocks: &[RankClock]) -> Vec<RunStep> {
    let mut named: IndexMap<&str, Vec<Option<&StepSpan>>, FxBuildHasher> = IndexMap::default();
    for (place, steps) in ranks.iter().enumerate() {
        for step in *steps {
            let of_ranks = named.entry(&step.name);
            of_ranks.or_insert_with(|| vec![None; ranks.len()])[place] = Some(step);
        }
    }
    let named = named.into_values();
    named
        .filter_map(|of_ranks| RunStep::from_ranks(&of_ranks, clocks))
        .collect()
}

/// Matches the whole steps by position; `None` if the ranks have different numbers of them.
fn by_place(ranks: &[&[StepSpan]], clocks: &[RankClock]) -> Option<Vec<RunStep>> {
    let whole = ranks.iter().map(|steps| -> Vec<&StepSpan> {
        let steps = steps.iter();
        steps.filter(|step| step.excluded.is_none()).collect()
    });
    let whole: Vec<Vec<&StepSpan>> = whole.collect();
    let count = whole.first()?.len();
    if whole.iter().any(|steps| steps.len() != count) {
        return None;
    }
    let of_place = |place: usize| {
        let steps: Vec<Option<&StepSpan>> = whole.iter().map(|steps| Some(steps[place])).collect();
        RunStep::from_ranks(&steps, clocks)
    };
    (0..count).map(of_place).collect()
}

#[cfg(test)]
mod tests;
