//! Steps that all ranks of a run have: the basis of comparisons between runs.
//!
//! A step of several ranks takes as long as it does on the slowest rank. A rank that lacks a step
//! may have been the slowest one in it. So a step counts only if every rank has it, whole.
//!
//! Steps of different ranks are matched by name. Names of inference steps describe the work of an
//! iteration but do not identify it. For these, and if ranks have no step name in common, steps are
//! matched by position, provided all ranks have equally many.

use crate::analysis::RankAnalysis;
use crate::steps::{StepTime, counted_steps};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::fmt;

/// A step that some ranks of a run lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncompleteStep {
    /// Name of the step.
    pub step: String,
    /// Ranks on which the step is missing, truncated or empty
    /// ([`StepExclusion`](crate::StepExclusion)); `None` for a trace of unknown rank.
    pub ranks: Vec<Option<i64>>,
}

/// Steps of a run's ranks, matched.
#[derive(Debug, Default)]
pub(super) struct CommonSteps<'a> {
    /// Steps that all ranks have, as one record per rank.
    pub(super) steps: Vec<Vec<&'a StepTime>>,
    /// All other steps.
    pub(super) incomplete: Vec<IncompleteStep>,
}

impl<'a> CommonSteps<'a> {
    /// Matches the steps of all ranks. O(steps of all ranks).
    pub(super) fn new(ranks: &[&'a RankAnalysis]) -> CommonSteps<'a> {
        let counted: Vec<Vec<&StepTime>> = ranks
            .iter()
            .map(|rank| counted_steps(&rank.steps).collect())
            .collect();
        let by_name = CommonSteps::by_name(ranks, &counted);
        let is_inference = counted.iter().flatten().any(|step| step.phase.is_some());
        if is_inference || by_name.steps.is_empty() {
            return CommonSteps::by_place(&counted).unwrap_or(by_name);
        }
        by_name
    }

    fn by_name(ranks: &[&RankAnalysis], counted: &[Vec<&'a StepTime>]) -> CommonSteps<'a> {
        // in the order in which ranks have them
        let mut named: IndexMap<&str, Vec<Option<&StepTime>>, FxBuildHasher> = IndexMap::default();
        for (place, steps) in counted.iter().enumerate() {
            for step in steps {
                let of_ranks = named.entry(&step.name);
                of_ranks.or_insert_with(|| vec![None; ranks.len()])[place] = Some(step);
            }
        }
        let mut common = CommonSteps::default();
        for (name, of_ranks) in named {
            if let Some(whole) = of_ranks.iter().copied().collect() {
                common.steps.push(whole);
                continue;
            }
            let lacking = ranks.iter().zip(of_ranks);
            let lacking = lacking.filter(|(_, step)| step.is_none());
            common.incomplete.push(IncompleteStep {
                step: name.to_owned(),
                ranks: lacking.map(|(rank, _)| rank.rank).collect(),
            });
        }
        common
    }

    /// Matches steps by position; `None` if the ranks have different numbers of steps.
    fn by_place(counted: &[Vec<&'a StepTime>]) -> Option<CommonSteps<'a>> {
        let count = counted.first()?.len();
        let is_same = counted.iter().all(|steps| steps.len() == count);
        let of_place = |place: usize| counted.iter().map(|steps| steps[place]).collect();
        is_same.then(|| CommonSteps {
            steps: (0..count).map(of_place).collect(),
            incomplete: vec![],
        })
    }

    /// Duration of each step on its slowest rank, ns.
    pub(super) fn longest(&self) -> impl Iterator<Item = i64> {
        let steps = self.steps.iter();
        steps.filter_map(|ranks| ranks.iter().map(|step| step.duration_ns).max())
    }
}

/// `ProfilerStep#3 is missing, truncated or empty on rank 2`.
impl fmt::Display for IncompleteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lacking_text(&self.step, "is", &self.ranks))
    }
}

/// Describes the steps that ranks lack, one text per set of ranks.
pub(super) fn lacking_texts(steps: &[IncompleteStep]) -> Vec<String> {
    let mut by_ranks: IndexMap<&[Option<i64>], Vec<&str>, FxBuildHasher> = IndexMap::default();
    for one in steps {
        by_ranks.entry(&one.ranks).or_default().push(&one.step);
    }
    let texts = by_ranks.into_iter().map(|(ranks, steps)| match &steps[..] {
        [one] => lacking_text(one, "is", ranks),
        several => {
            let names = first_few(several, SHOWN_STEPS);
            let steps = format!("{} steps ({names})", several.len());
            lacking_text(&steps, "are", ranks)
        }
    });
    texts.collect()
}

/// Maximum number of step names in a line.
const SHOWN_STEPS: usize = 3;

/// Maximum number of ranks in a line.
const SHOWN_RANKS: usize = 8;

fn lacking_text(steps: &str, verb: &str, ranks: &[Option<i64>]) -> String {
    let known: Vec<i64> = ranks.iter().copied().flatten().collect();
    let unknown = ranks.len() - known.len();
    let mut names = vec![];
    if !known.is_empty() {
        let word = if known.len() == 1 { "rank" } else { "ranks" };
        names.push(format!("{word} {}", first_few(&known, SHOWN_RANKS)));
    }
    match unknown {
        0 => {}
        1 => names.push("a trace of unknown rank".to_owned()),
        several => names.push(format!("{several} traces of unknown ranks")),
    }
    format!(
        "{steps} {verb} missing, truncated or empty on {}",
        names.join(" and ")
    )
}

fn first_few<T: ToString>(list: &[T], most: usize) -> String {
    let first: Vec<String> = list.iter().take(most).map(T::to_string).collect();
    let more = if list.len() > most { ", …" } else { "" };
    first.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank with steps of these names; rank number and position give the durations in us.
    fn rank(rank: i64, names: &[&str]) -> RankAnalysis {
        let steps = names.iter().zip(1..).map(|(name, place)| StepTime {
            name: (*name).to_owned(),
            duration_ns: 1_000 * (10 * rank + place),
            ..StepTime::default()
        });
        RankAnalysis {
            rank: Some(rank),
            steps: steps.collect(),
            ..RankAnalysis::default()
        }
    }

    fn lengths(ranks: &[RankAnalysis]) -> (Vec<i64>, Vec<String>) {
        let ranks: Vec<&RankAnalysis> = ranks.iter().collect();
        let common = CommonSteps::new(&ranks);
        let lacking = lacking_texts(&common.incomplete);
        (common.longest().map(|ns| ns / 1_000).collect(), lacking)
    }

    #[test]
    fn a_step_counts_where_every_rank_has_it() {
        let ranks = [
            rank(0, &["s#1", "s#2", "s#3", "s#4"]),
            rank(1, &["s#2", "s#3"]),
            rank(2, &["s#2", "s#3", "s#4", "s#5"]),
        ];
        // in `s#2` and `s#3`, rank 2 is the slowest
        let (longest, lacking) = lengths(&ranks);
        assert_eq!(longest, [21, 22]);
        assert_eq!(
            lacking,
            [
                "s#1 is missing, truncated or empty on ranks 1, 2",
                "s#4 is missing, truncated or empty on rank 1",
                "s#5 is missing, truncated or empty on ranks 0, 1",
            ]
        );
    }

    #[test]
    fn steps_of_the_same_ranks_are_named_together() {
        let (longest, lacking) = lengths(&[rank(0, &["a", "b", "c", "d"]), rank(3, &[])]);
        assert!(longest.is_empty());
        assert_eq!(
            lacking,
            ["4 steps (a, b, c, …) are missing, truncated or empty on rank 3"]
        );
    }

    #[test]
    fn names_that_no_other_rank_has_are_the_same_by_place() {
        let (longest, lacking) = lengths(&[rank(0, &["a", "b"]), rank(1, &["c", "d"])]);
        assert_eq!(longest, [11, 12]);
        assert!(lacking.is_empty());
        // with different numbers of steps, nothing matches
        let (longest, lacking) = lengths(&[rank(0, &["a", "b"]), rank(1, &["c"])]);
        assert!(longest.is_empty());
        assert_eq!(lacking.len(), 2);
    }

    #[test]
    fn iterations_of_inference_are_the_same_by_place() {
        // each rank has its own requests, and one name is equal by chance
        let mut ranks = [rank(0, &["e(1)", "e(2)"]), rank(1, &["e(2)", "e(3)"])];
        for step in ranks.iter_mut().flat_map(|rank| &mut rank.steps) {
            step.phase = Some("decode".to_owned());
        }
        assert_eq!(lengths(&ranks), (vec![11, 12], vec![]));
    }

    #[test]
    fn a_step_that_is_cut_on_a_rank_is_not_whole() {
        let mut ranks = [rank(0, &["a", "b"]), rank(1, &["a", "b"])];
        ranks[1].steps[1].excluded = Some(crate::StepExclusion::Stub);
        ranks[1].rank = None;
        let (longest, lacking) = lengths(&ranks);
        assert_eq!(longest, [11]);
        assert_eq!(
            lacking,
            ["b is missing, truncated or empty on a trace of unknown rank"]
        );
    }
}
